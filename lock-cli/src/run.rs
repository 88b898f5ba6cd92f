use std::io;
use std::time::Duration;

use lock_config::Schemes;
use lock_core::{LockClient, LockGuard, LossReason, Release};
use rustix::process::{Signal, getpgrp, kill_process_group};
use tokio::time::Instant;

use crate::acquire::{Acquired, acquire};
use crate::args::RunArgs;
use crate::command::GuardedCommand;
use crate::exit::{Failure, Status, say};
use crate::link::{Ended, FromGuard, ToGuard};
use crate::plan::GIVE_UP_AFTER;
use crate::service;
use crate::signals::{HANDED_ON, Signals};
use crate::terminal::Terminal;

/// How long lockctl stays to give back what it has at the service: long enough for a service that is restarting, and short
/// for whoever pressed Ctrl-C. What is left ends by its ttl.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// How often to look whether this process has come to the terminal's foreground, while the command waits for that: nobody
/// tells. Shells don't say anything to a job that was running in the background.
const FOREGROUND_POLL: Duration = Duration::from_millis(200);

/// Runs a command under a lock.
pub(crate) async fn run(args: &RunArgs, schemes: &Schemes) -> Result<Status, Failure> {
    let mut signals = Signals::catch(&HANDED_ON).map_err(|error| Failure::system("can't catch signals", &error))?;
    let terminal = Terminal::open();
    let locks = tokio::select! {
        biased;
        locks = service::connect(&args.service, schemes) => locks?,
        signal = signals.next_ending() => return Ok(Status::of_signal(signal.as_raw())),
    };
    let done = run_with(args, &locks, &mut signals, &terminal).await;
    let left = locks.close(CLOSE_WITHIN).await;
    if !left.is_empty() {
        let (name, ttl) = (&args.name, humantime::format_duration(args.ttl));
        say(format_args!("lock {name:?} could not be given back; it ends by itself after at most {ttl}"));
    }
    if done.as_ref().is_ok_and(|status| *status == Status::of_signal(Signal::INT.as_raw())) {
        terminal.end_by_interrupt();
    }
    done
}

async fn run_with(
    args: &RunArgs,
    locks: &LockClient,
    signals: &mut Signals,
    terminal: &Terminal,
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
    let status = Run::follow(args, &guard, signals, terminal).await.and_then(|run| run.verdict(args))?;
    match guard.release().await {
        // The lease was valid until now, and yet the service says so: the lock was taken away too late to be noticed.
        Ok(Release::NotHeld) => Err(lost(args, "at its end the service said that the grant is gone")),
        // Without an answer the client goes on trying, and `close` tells whether in vain.
        _ => Ok(status),
    }
}

fn lost(args: &RunArgs, why: impl std::fmt::Display) -> Failure {
    Failure::new(Status::LOST, format!("lock {:?} was lost while the command ran: {why}", args.name))
}

/// What has become of a command under a lock.
#[derive(Debug, Default)]
struct Run {
    not_started: Option<io::Error>,
    lost: Option<LossReason>,
    cut_short: bool,
    ended: Option<Ended>,
    left: bool,
}

impl Run {
    /// Starts the command and follows it to its end.
    async fn follow(
        args: &RunArgs,
        guard: &LockGuard,
        signals: &mut Signals,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let variables = [
            ("LOCK_NAME", guard.name().to_string()),
            ("LOCK_TOKEN", guard.token().to_string()),
            ("LOCK_OWNER", guard.owner().to_string()),
        ];
        let cant_start = |error| Failure::system("can't start the guard process", &error);
        let mut command = GuardedCommand::new(&args.command, variables).map_err(cant_start)?;
        let (mut run, lease, mut loss) = (Self::default(), guard.lease(), guard.lost());
        let mut deadline = lease.deadline();
        let mut give_up = Instant::now();
        let (mut in_foreground, mut wants_terminal) = (false, false);
        command.tell(ToGuard::Until { deadline, ttl: lease.ttl() }).await;
        loop {
            tokio::select! {
                biased;
                report = command.report() => match report {
                    Some(FromGuard::Started(group)) => in_foreground = terminal.give_to(group),
                    Some(FromGuard::WantsTerminal) => wants_terminal = true,
                    Some(FromGuard::NotStarted(errno)) => run.not_started = Some(io::Error::from_raw_os_error(errno)),
                    Some(FromGuard::CutShort) => run.cut_short = true,
                    Some(FromGuard::Ended(ended)) => run.ended = Some(ended),
                    Some(FromGuard::Left) => run.left = true,
                    None => break,
                },
                reason = &mut loss, if run.lost.is_none() => {
                    run.lost = Some(reason);
                    command.tell(ToGuard::Lost).await;
                    give_up = Instant::now() + 2 * GIVE_UP_AFTER;
                }
                () = lease.deadline_moved(deadline), if run.lost.is_none() => {
                    deadline = lease.deadline();
                    command.tell(ToGuard::Until { deadline, ttl: lease.ttl() }).await;
                }
                signal = signals.next() => command.tell(ToGuard::Signal(signal)).await,
                () = tokio::time::sleep(FOREGROUND_POLL), if wants_terminal => {
                    if let Some(group) = command.group() && terminal.give_to(group) {
                        (in_foreground, wants_terminal) = (true, false);
                    }
                }
                // Somebody has stopped the guard process.
                () = tokio::time::sleep_until(give_up), if run.lost.is_some() => break,
            }
        }
        if run.ended.is_none() && run.not_started.is_none() {
            run.left = !command.kill().await;
        }
        if let Some(group) = command.group() {
            in_foreground &= terminal.take_from(group);
        }
        if in_foreground && run.ended == Some(Ended::Killed(Signal::INT.as_raw())) {
            // The Ctrl-C was meant for everybody in the foreground, and was kept from them.
            let _ = kill_process_group(getpgrp(), Signal::INT);
        }
        Ok(run)
    }

    /// The exit status, or why it is not the command's own.
    fn verdict(self, args: &RunArgs) -> Result<Status, Failure> {
        if let Some(error) = self.not_started {
            let program = args.command[0].to_string_lossy();
            return Err(Failure::new(Status::of_start(&error), format!("can't run {program:?}: {error}")));
        }
        if self.left {
            let message = "what the command has started can't be ended, and may run on without the lock";
            return Err(Failure::new(Status::LOST, message));
        }
        match (self.lost, self.ended) {
            (Some(reason), _) => Err(lost(args, reason)),
            (None, _) if self.cut_short => Err(lost(args, "it was not extended in time, and the command was ended")),
            (None, Some(ended)) => Ok(ended.into()),
            (None, None) => Err(lost(args, "the guard process died, and the command was killed")),
        }
    }
}
