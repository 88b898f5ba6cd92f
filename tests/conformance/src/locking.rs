use std::fmt::Debug;
use std::panic::Location;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::{Error, ErrorKind, Lock, LockGuard, LossReason, Release, Result};
use tokio::time::Instant;

use crate::failure::{Evidence, ensure, fail, too_slow};

/// An answer that takes longer is late: a tenth of the time that a client gives a call by default.
const OVERDUE: Duration = Duration::from_millis(500);

/// The case's line that a failure is reported at.
type At = &'static Location<'static>;

/// The verbs of cases on the client, as [`Contender`](crate::Contender) has those of cases on the trait: each makes one call
/// and fails the case unless it ends as the verb says.
pub(crate) trait Locking {
    /// Gets the lock, within the time that the lock is set to wait.
    fn acquires(&self) -> impl Future<Output = LockGuard> + Send;

    /// Gets the lock, within the time that the lock is set to wait, and gives it back.
    fn can_be_had(&self) -> impl Future<Output = ()> + Send;

    /// Tries, and is told that somebody else has the lock.
    fn is_refused(&self) -> impl Future<Output = ()> + Send;

    /// Waits for so long, and is told that the time is over. A service that gave no answer in that time proves nothing.
    fn times_out_after(&self, wait: Duration) -> impl Future<Output = ()> + Send;
}

impl Locking for Lock {
    #[track_caller]
    fn acquires(&self) -> impl Future<Output = LockGuard> + Send {
        acquires(self, Location::caller())
    }

    #[track_caller]
    fn can_be_had(&self) -> impl Future<Output = ()> + Send {
        let at = Location::caller();
        async move { releases(&acquires(self, at).await, at).await }
    }

    #[track_caller]
    fn is_refused(&self) -> impl Future<Output = ()> + Send {
        let at = Location::caller();
        async move {
            match self.try_acquire().await {
                Ok(None) => {}
                other => wrong(at, "None from try_acquire", &other),
            }
        }
    }

    #[track_caller]
    fn times_out_after(&self, wait: Duration) -> impl Future<Output = ()> + Send {
        let at = Location::caller();
        let lock = self.clone().wait(wait);
        async move {
            match lock.acquire().await {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                other => wrong(at, "a timeout from acquire", &other),
            }
        }
    }
}

/// The verbs of a guard.
pub(crate) trait Holding {
    /// Looks, and holds the lock. A lease that ran out proves nothing, unless it does so with any ttl.
    fn still_holds(&self);

    /// Holds the lock still, and a try of somebody else is refused.
    fn excludes(&self, rival: &Lock) -> impl Future<Output = ()> + Send;

    /// Extends the lease to `ttl`. A service that gave no answer in time proves nothing.
    fn extends_to(&self, ttl: Duration) -> impl Future<Output = ()> + Send;

    /// Releases, and is told that this ended its grant.
    fn releases(&self) -> impl Future<Output = ()> + Send;

    /// Releases, and is told that it held nothing.
    fn has_nothing_to_release(&self) -> impl Future<Output = ()> + Send;

    /// Extends, and is told that the lock is lost.
    fn has_lost(&self) -> impl Future<Output = ()> + Send;
}

impl Holding for LockGuard {
    #[track_caller]
    fn still_holds(&self) {
        if has_run_out(self) {
            too_slow(format_args!("a lease ran out: {self:?}"));
        }
        ensure!(self.is_held(), "a lock that is extended was lost: {self:?}");
    }

    #[track_caller]
    fn excludes(&self, rival: &Lock) -> impl Future<Output = ()> + Send {
        let (at, rival) = (Location::caller(), rival.clone());
        async move {
            let tried = rival.try_acquire().await;
            self.still_holds();
            if !matches!(tried, Ok(None)) {
                wrong(at, "None from try_acquire of a lock that is held", &tried);
            }
        }
    }

    #[track_caller]
    fn extends_to(&self, ttl: Duration) -> impl Future<Output = ()> + Send {
        let at = Location::caller();
        async move {
            match self.extend(ttl).await {
                Ok(()) => {}
                Err(error) if has_run_out(self) => too_slow(error),
                failed => wrong(at, "an extension", &failed),
            }
        }
    }

    #[track_caller]
    fn releases(&self) -> impl Future<Output = ()> + Send {
        releases(self, Location::caller())
    }

    #[track_caller]
    fn has_nothing_to_release(&self) -> impl Future<Output = ()> + Send {
        let at = Location::caller();
        async move {
            match self.release().await {
                Ok(Release::NotHeld) => {}
                other => wrong(at, "NotHeld from a release after the end", &other),
            }
        }
    }

    #[track_caller]
    fn has_lost(&self) -> impl Future<Output = ()> + Send {
        let at = Location::caller();
        async move {
            match self.extend(self.ttl()).await {
                Err(error) if error.kind() == ErrorKind::Lost => {}
                other => wrong(at, "Lost from an extension after the end", &other),
            }
        }
    }
}

async fn acquires(lock: &Lock, at: At) -> LockGuard {
    match lock.acquire().await {
        Ok(guard) => guard,
        Err(error) if error.kind() == ErrorKind::Timeout => {
            fail(at, Evidence::Silence, format!("expected a guard from acquire; came none: {error}"))
        }
        // The lease was over before anybody came to take it.
        Err(error) if error.kind() == ErrorKind::Lost => too_slow(error),
        failed => wrong(at, "a guard from acquire", &failed),
    }
}

/// Whether it was lost because its time was over: on a slow machine it may be.
fn has_run_out(guard: &LockGuard) -> bool {
    let told = pin!(guard.lost()).poll(&mut Context::from_waker(Waker::noop()));
    told == Poll::Ready(LossReason::Expired)
}

async fn releases(guard: &LockGuard, at: At) {
    let (begin, left) = (Instant::now(), guard.remaining());
    match guard.release().await {
        Ok(Release::Released) => {}
        // Late, or after an extension that had no answer: what that did is not known.
        Ok(Release::NotHeld) if has_run_out(guard) || begin.elapsed() >= left.min(OVERDUE) => {
            too_slow("a lease ran out before its release, or was not released in ordinary time")
        }
        other => wrong(at, "Released from the release of a held lock", &other),
    }
}

/// What a case expects of any other call.
pub(crate) trait Ending<T> {
    /// It succeeds.
    fn succeeds(self) -> T;

    /// It fails with this kind of error.
    fn fails_as(self, kind: ErrorKind) -> Error;
}

impl<T: Debug> Ending<T> for Result<T> {
    #[track_caller]
    fn succeeds(self) -> T {
        match self {
            Ok(value) => value,
            failed @ Err(_) => wrong(Location::caller(), "success", &failed),
        }
    }

    #[track_caller]
    fn fails_as(self, kind: ErrorKind) -> Error {
        match self {
            Err(error) if error.kind() == kind => error,
            other => wrong(Location::caller(), &format!("an error of kind {kind:?}"), &other),
        }
    }
}

fn wrong<T: Debug>(at: At, expected: &str, came: &Result<T>) -> ! {
    let came = match came {
        Ok(value) => format!("{value:?}"),
        // It proves nothing as long as the machine may have been too slow for an answer.
        Err(error) if error.kind() == ErrorKind::Unavailable => too_slow(error),
        Err(error) => format!("error {:?}: {error}", error.kind()),
    };
    fail(at, Evidence::Answer, format!("expected {expected}; came {came}"))
}
