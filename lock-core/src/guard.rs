use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::hold::{Command, Hold};
use crate::record::End;
use crate::{
    Error, ErrorKind, FencingToken, Lease, LeaseState, LockClient, LockName, Lost, OwnerId, Release, Result, TtlChange,
};

/// A held lock. Dropping it gives the lock back, in the background.
///
/// While it lives, the client extends the lease at a third of its ttl, unless
/// [`auto_extend(false)`](crate::Lock::auto_extend) was asked for. That does not make it certain: look at
/// [`is_held`](Self::is_held) before what matters, stop when [`lost`](Self::lost) resolves, and hand the
/// [token](Self::token) to the resource.
///
/// A guard may be dropped anywhere: outside a runtime, while panicking, on another thread. A guard that is leaked is held
/// until the process ends, or until [`max_hold`](crate::Lock::max_hold).
#[must_use = "dropping the guard gives the lock back"]
pub struct LockGuard {
    hold: Hold,
    client: LockClient,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold, client: LockClient) -> Self {
        hold.record.take();
        Self { hold, client }
    }

    /// What is locked.
    pub fn name(&self) -> &LockName {
        self.hold.record.name()
    }

    /// The id of this acquisition.
    pub fn owner(&self) -> OwnerId {
        self.hold.record.owner()
    }

    /// The fencing token of this grant. It does not change while the lock is held.
    pub fn token(&self) -> FencingToken {
        self.hold.record.token()
    }

    /// The ttl that the service granted last. It may differ from what was asked for.
    pub fn ttl(&self) -> Duration {
        self.hold.record.ttl()
    }

    /// The time for which the lock is certainly held if nothing more is heard of the service; zero once it is not held.
    pub fn remaining(&self) -> Duration {
        self.hold.record.remaining()
    }

    /// Whether the lock is held at this moment, by the clock and without asking anybody.
    pub fn is_held(&self) -> bool {
        self.hold.record.is_held()
    }

    /// How it stands at this moment, by the clock and without asking anybody.
    pub fn state(&self) -> LeaseState {
        self.hold.record.state()
    }

    /// Resolves when the lock is lost, at once if it already is, and never after a release.
    pub fn lost(&self) -> Lost {
        self.lease().lost()
    }

    /// A view of the lease for whoever works under the lock. It does not keep the lock.
    pub fn lease(&self) -> Lease {
        Lease::new(Arc::clone(&self.hold.record))
    }

    /// Lets the lease live for `ttl` from now, and asks for this ttl in every extension from now on.
    ///
    /// It does not add to what is left, and it never shortens: `ttl` must not be below [`remaining`](Self::remaining). A
    /// failed extension shortens nothing either.
    ///
    /// With [`max_hold`](crate::Lock::max_hold) the hold ends by then all the same.
    ///
    /// # Errors
    ///
    /// Lost when the lease has ended, also when the answer came too late; Unavailable when the service gave no answer;
    /// Denied when it refused; InvalidConfig when `ttl` is out of the backend's bounds or shorter than what is left;
    /// Unsupported when the backend's ttl is fixed at the grant and `ttl` is longer; Unexpected; Closed in a fork.
    ///
    /// # Cancel safety
    ///
    /// The extension happens, or is tried, also when the future is dropped after its first poll.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        self.client.check_here()?;
        self.client.check_ttl(ttl)?;
        let (record, name) = (&self.hold.record, self.name());
        if !record.is_held() {
            return Err(record.ended_error());
        }
        let left = record.remaining();
        if ttl < left {
            let message = format!("lock {name:?}: an extension to {ttl:?} is shorter than the {left:?} that are left");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        if self.client.capabilities().ttl_change == TtlChange::Fixed && ttl > record.ttl() {
            let fixed = record.ttl();
            let message =
                format!("lock {name:?}: its ttl of {fixed:?} was fixed when it was granted, {ttl:?} is longer");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let answer = self.ask(|reply| Command::Extend { ttl, reply });
        match answer {
            Some(answer) => answer.await.unwrap_or_else(|_| Err(record.ended_error())),
            None => Err(record.ended_error()),
        }
    }

    /// Gives the lock back and waits until the service has confirmed it, or could not.
    ///
    /// From the first poll on the lock counts as not held, whatever comes. If the service gives no answer, the client goes on
    /// trying in the background until the grant has ended by itself, or its session where it belongs to one. With [`min_hold`](crate::Lock::min_hold) it waits until
    /// that time is over.
    ///
    /// It may be called again: it answers [`Release::NotHeld`] when there was nothing left to give back, as it does after a
    /// loss.
    ///
    /// # Errors
    ///
    /// Unavailable when the service gave no answer yet; Denied when it refused; Unexpected; Closed in a fork, or when the
    /// client's runtime was shut down meanwhile.
    ///
    /// # Cancel safety
    ///
    /// The lock is given back also when the future is dropped after its first poll.
    pub async fn release(&self) -> Result<Release> {
        match self.begin_release()? {
            Some(answer) => answer.await.unwrap_or_else(|_| self.hold.record.release()),
            None => Ok(Release::NotHeld),
        }
    }

    /// [`release`](Self::release) for threads without a runtime.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release), and Unsupported inside a runtime, where blocking would stop other tasks. The lock is
    /// still held then.
    pub fn release_blocking(&self) -> Result<Release> {
        self.client.check_may_block()?;
        match self.begin_release()? {
            Some(answer) => answer.blocking_recv().unwrap_or_else(|_| self.hold.record.release()),
            None => Ok(Release::NotHeld),
        }
    }

    /// Ends the lease and asks the keeper to give the grant back; `None` when it was lost.
    fn begin_release(&self) -> Result<Option<oneshot::Receiver<Result<Release>>>> {
        self.client.check_here()?;
        if self.hold.record.end(End::Released).is_some() {
            return Ok(None);
        }
        match self.ask(|reply| Command::Release { reply }) {
            Some(answer) => Ok(Some(answer)),
            // The keeper has come to its end.
            None => self.hold.record.release().map(|_| None),
        }
    }

    /// Sends a command to the keeper, if it still is there.
    fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<oneshot::Receiver<T>> {
        let (reply, answer) = oneshot::channel();
        self.hold.commands.send(command(reply)).ok().map(|()| answer)
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.lease()).finish()
    }
}
