use std::time::Duration;

use lock_core::{Lock, LockGuard};
use rustix::process::Signal;

use crate::args::RunArgs;
use crate::exit::{Failure, Status, say};
use crate::holder;
use crate::signals::Signals;

/// After how long whoever waits is told for whom. A short wait needs no explanation.
const FIRST_NOTICE: Duration = Duration::from_secs(3);

/// How often it is told again: often enough to see that it is alive, seldom enough for a log.
const NEXT_NOTICE: Duration = Duration::from_secs(60);

/// The lock, or the signal that ended the waiting.
pub(crate) enum Acquired {
    Lock(LockGuard),
    Interrupted(Signal),
}

/// Takes the lock, as long as the arguments say and no signal comes.
///
/// Whatever was asked of the service when a signal came is cleaned up by the client, which the caller closes.
pub(crate) async fn acquire(args: &RunArgs, lock: &Lock, signals: &mut Signals) -> Result<Acquired, Failure> {
    let asking = async {
        if args.no_wait {
            let contended =
                || Failure::new(Status::CONTENDED, format!("lock {:?} is held by somebody else", args.name));
            lock.try_acquire().await?.ok_or_else(contended)
        } else {
            Ok(lock.acquire().await?)
        }
    };
    tokio::select! {
        biased;
        held = asking => held.map(Acquired::Lock),
        signal = signals.next_ending() => Ok(Acquired::Interrupted(signal)),
        guard = tell_of_waiting(args, lock) => Ok(Acquired::Lock(guard)),
    }
}

/// Says now and then who has the lock. Where nobody has it, one more try tells why it is not granted, or gets it.
async fn tell_of_waiting(args: &RunArgs, lock: &Lock) -> LockGuard {
    let mut pause = FIRST_NOTICE;
    loop {
        tokio::time::sleep(pause).await;
        pause = NEXT_NOTICE;
        let name = &args.name;
        match lock.inspect().await {
            Ok(Some(found)) => say(format_args!("waiting for lock {name:?}, held by {}", holder::describe(&found))),
            Ok(None) => match lock.try_acquire().await {
                Ok(Some(guard)) => return guard,
                Ok(None) => say(format_args!("waiting for lock {name:?}, which was free a moment ago")),
                Err(error) => say(format_args!("waiting although nobody has the lock: {error}")),
            },
            Err(error) => say(format_args!("waiting for lock {name:?}: {error}")),
        }
    }
}
