use std::time::Duration;

use lock_config::Schemes;
use lock_core::{Clock, LockClient, Release};
use rustix::process::Signal;

use crate::acquire::{Acquired, acquire};
use crate::args::RunArgs;
use crate::course::{Course, lost};
use crate::descendants::check_proc;
use crate::exit::{Failure, Status, say};
use crate::service;
use crate::signals::{HANDED_ON, Signals};
use crate::terminal::Terminal;

/// How long lockctl stays to give back what it has at the service: long enough for a service that is restarting, and short
/// for whoever pressed Ctrl-C. What is left ends by its ttl.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// Runs a command under a lock.
pub(crate) async fn run(args: &RunArgs, schemes: &Schemes) -> Result<Status, Failure> {
    check_proc().map_err(|error| Failure::system("can't use /proc", &error))?;
    let mut signals = Signals::catch(&HANDED_ON).map_err(|error| Failure::system("can't catch signals", &error))?;
    let mut terminal = Terminal::open();
    let done = run_connected(args, schemes, &mut signals, &mut terminal).await;
    if done.as_ref().is_ok_and(|status| *status == Status::of_signal(Signal::INT.as_raw())) {
        terminal.end_by_interrupt();
    }
    done
}

async fn run_connected(
    args: &RunArgs,
    schemes: &Schemes,
    signals: &mut Signals,
    terminal: &mut Terminal,
) -> Result<Status, Failure> {
    let locks = tokio::select! {
        biased;
        locks = service::connect(&args.service, schemes) => locks?,
        signal = signals.next_ending() => return Ok(Status::of_signal(signal.as_raw())),
    };
    let done = run_locked(args, &locks, signals, terminal).await;
    let left = locks.close(CLOSE_WITHIN).await;
    if !left.is_empty() {
        let (name, ttl) = (&args.name, humantime::format_duration(args.ttl));
        say(format_args!(
            "the service may still keep something of lock {name:?}; it ends by itself after at most {ttl}"
        ));
    }
    done
}

async fn run_locked(
    args: &RunArgs,
    locks: &LockClient,
    signals: &mut Signals,
    terminal: &mut Terminal,
) -> Result<Status, Failure> {
    let mut lock = locks.lock(args.name.as_str()).ttl(args.ttl);
    if let Some(wait) = args.wait {
        lock = lock.wait(wait);
    }
    if let Some(label) = &args.label {
        lock = lock.label(label);
    }
    let guard = match acquire(args, &lock, signals).await? {
        Acquired::Lock(guard) => guard,
        Acquired::Interrupted(signal) => return Ok(Status::of_signal(signal.as_raw())),
    };
    let status = Course::follow(&args.command, &guard, signals, terminal).await?.verdict(&args.command, &args.name)?;
    let deadline = guard.lease().deadline();
    match guard.release().await {
        // The lease would still be valid, and yet the service says so: the lock was taken away too late to be noticed. After
        // the deadline it says nothing of the time before.
        Ok(Release::NotHeld) if Clock::system().now() < deadline => {
            Err(lost(&args.name, "at its end the service said that the grant is gone"))
        }
        // Without an answer the client goes on trying, and `close` tells whether in vain.
        _ => Ok(status),
    }
}
