use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::record::Record;
use crate::{BootTime, FencingToken, LockName, OwnerId};

/// A view of a held lock that can be cloned and handed to whoever works under it. It does not keep the lock.
#[derive(Clone)]
pub struct Lease {
    record: Arc<Record>,
}

/// How it stands with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is held, but an extension has failed and less than half of the ttl is left: time to come to an end.
    AtRisk,
    /// The lease ended before its holder ended it. It stays so.
    Lost,
    /// The holder has given the lock back, or is about to.
    Released,
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time was over before an extension was confirmed. Somebody else may have the lock now.
    Expired,
    /// The service said that the grant is gone: it was taken away, deleted or forgotten.
    Gone,
    /// The holder's own [`max_hold`](crate::Lock::max_hold) was over.
    MaxHold,
    /// The client was closed.
    Closed,
    /// Nobody extends it any more: the client's runtime was shut down, its backend panicked, or this process is a fork.
    Abandoned,
}

impl Lease {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self { record }
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// What is locked.
    pub fn name(&self) -> &LockName {
        self.record.name()
    }

    /// The id of this acquisition.
    pub fn owner(&self) -> OwnerId {
        self.record.owner()
    }

    /// The fencing token of this grant. It does not change while the lock is held.
    pub fn token(&self) -> FencingToken {
        self.record.token()
    }

    /// The ttl that the service granted last.
    pub fn ttl(&self) -> Duration {
        self.record.ttl()
    }

    /// The time for which the lock is certainly held if nothing more is heard of the service; zero once it is not held.
    pub fn remaining(&self) -> Duration {
        self.record.remaining()
    }

    /// The moment until which the lock is certainly held if nothing more is heard of the service.
    pub fn deadline(&self) -> BootTime {
        self.record.deadline()
    }

    /// Whether the lock is held at this moment, by the clock and without asking anybody.
    ///
    /// It may be lost the moment after: what must not happen twice needs the [token](Self::token) too.
    pub fn is_held(&self) -> bool {
        self.record.is_held()
    }

    /// How it stands at this moment, by the clock and without asking anybody.
    pub fn state(&self) -> LeaseState {
        self.record.state()
    }

    /// Resolves when the lease is lost, at once if it already is, and never after a release.
    pub fn lost(&self) -> Lost {
        Lost::new(Arc::clone(&self.record))
    }

    /// Resolves when the [deadline](Self::deadline) has moved away from `known`, or the lease has ended.
    ///
    /// For whoever has to pass the deadline on, to a process of its own for example.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn deadline_moved(&self, known: BootTime) {
        self.record.deadline_moved(known).await;
    }
}

/// A future that resolves to the reason when a lease is lost; from [`Lease::lost`].
///
/// # Cancel safety
///
/// Dropping it has no effect.
#[must_use = "a future does nothing unless polled"]
pub struct Lost {
    record: Arc<Record>,
    waiting: Pin<Box<dyn Future<Output = LossReason> + Send + Sync>>,
}

impl Lost {
    fn new(record: Arc<Record>) -> Self {
        let waiting = Box::pin({
            let record = Arc::clone(&record);
            async move { record.lost().await }
        });
        Self { record, waiting }
    }
}

impl Future for Lost {
    type Output = LossReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossReason> {
        // Whoever is polled late must not have to wait for the keeper to be polled too.
        match self.record.loss() {
            Some(reason) => Poll::Ready(reason),
            None => self.waiting.as_mut().poll(cx),
        }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.record))
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lost").field(&self.record.loss()).finish()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", self.name())
            .field("owner", &self.owner())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Expired => "its time was over before an extension was confirmed",
            Self::Gone => "the service said that the grant is gone",
            Self::MaxHold => "it was held for as long as its holder allowed",
            Self::Closed => "the client was closed",
            Self::Abandoned => "nobody extends it any more",
        })
    }
}
