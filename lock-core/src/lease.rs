use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;

use crate::{BootTime, Clock, Error, ErrorKind, FencingToken, LockName, OwnerId};

/// By how much slower than the service's clock this machine's may run: one in 500, well above what quartz drifts.
const DRIFT: u32 = 500;

/// What is taken off besides, for clocks that count in milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// Until when a grant of `ttl`, asked for at `sent_at`, is certainly alive.
///
/// It counts from before the request was sent, never from the answer: model checking finds two holders in 17 steps with the
/// latter. See "Is the algorithm asynchronous?" in <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>.
pub(crate) fn deadline(sent_at: BootTime, ttl: Duration) -> BootTime {
    sent_at + ttl.saturating_sub(ttl / DRIFT).saturating_sub(ROUNDING)
}

/// A view of a held lock that can be cloned and handed to whoever works under it. It does not keep the lock.
#[derive(Clone)]
pub struct Lease {
    record: Arc<Record>,
}

/// What keeper, guard and views share about one grant.
pub(crate) struct Record {
    name: LockName,
    owner: OwnerId,
    token: FencingToken,
    clock: Clock,
    /// When the hold ends in any case.
    max_until: Option<BootTime>,
    terms: watch::Sender<Terms>,
}

struct Terms {
    deadline: BootTime,
    ttl: Duration,
    extension_failed: bool,
    risk_was_told: bool,
    end: Option<End>,
}

/// How a lease ended. The first end is the end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Lost(LossReason),
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
    /// Nobody extends it any more: the runtime that did was shut down.
    Abandoned,
}

impl Record {
    pub(crate) fn new(
        (name, owner, token): (LockName, OwnerId, FencingToken),
        clock: Clock,
        (sent_at, ttl): (BootTime, Duration),
        max_until: Option<BootTime>,
    ) -> Self {
        let until = deadline(sent_at, ttl);
        let deadline = max_until.map_or(until, |max| until.min(max));
        let terms =
            watch::Sender::new(Terms { deadline, ttl, extension_failed: false, risk_was_told: false, end: None });
        Self { name, owner, token, clock, max_until, terms }
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(crate) fn deadline(&self) -> BootTime {
        self.terms.borrow().deadline
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.terms.borrow().ttl
    }

    /// Moves the deadline after a yes to what was sent at `sent_at`. False when the yes came too late to count.
    pub(crate) fn extend(&self, sent_at: BootTime, ttl: Duration) -> bool {
        let mut extended = false;
        self.terms.send_modify(|terms| {
            extended = terms.loss(self.clock.now()).is_none();
            if extended {
                let until = deadline(sent_at, ttl).max(terms.deadline);
                terms.deadline = self.max_until.map_or(until, |max| until.min(max));
                terms.ttl = ttl;
                (terms.extension_failed, terms.risk_was_told) = (false, false);
            }
        });
        extended
    }

    /// Notes a failed extension. True when the lease is at risk by now, and that was not told before.
    pub(crate) fn extension_failed(&self) -> bool {
        let mut news = false;
        self.terms.send_modify(|terms| {
            terms.extension_failed = true;
            news = terms.state(self.clock.now()) == LeaseState::AtRisk && !terms.risk_was_told;
            terms.risk_was_told |= news;
        });
        news
    }

    /// Ends the lease, if nothing has ended it before. The loss, if it was or is now lost.
    pub(crate) fn end(&self, end: End) -> Option<LossReason> {
        let mut news = false;
        let mut loss = None;
        self.terms.send_modify(|terms| {
            if terms.end.is_none() {
                // What comes too late, a release or another loss, does not change what the deadline has decided: whoever
                // looked in between was told so.
                let end = terms.loss(self.clock.now()).map_or(end, |reason| End::Lost(self.at_deadline(reason)));
                terms.end = Some(end);
                news = true;
            }
            loss = match terms.end {
                Some(End::Lost(reason)) => Some(reason),
                _ => None,
            };
        });
        if let (true, Some(reason)) = (news, loss) {
            let (name, token) = (&self.name, self.token.as_u64());
            tracing::event!(name: "lock.lost", tracing::Level::WARN, %name, owner = %self.owner, token, %reason, "lock lost");
        }
        loss
    }

    /// The loss that passing the deadline is.
    fn at_deadline(&self, reason: LossReason) -> LossReason {
        let at_max = self.max_until.is_some_and(|max| max <= self.clock.now());
        if reason == LossReason::Expired && at_max { LossReason::MaxHold } else { reason }
    }

    /// Ends the lease because its deadline has come.
    pub(crate) fn expire(&self) -> Option<LossReason> {
        self.end(End::Lost(self.at_deadline(LossReason::Expired)))
    }

    pub(crate) fn is_held(&self) -> bool {
        let terms = self.terms.borrow();
        terms.end.is_none() && self.clock.now() < terms.deadline
    }

    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.terms.borrow().loss(self.clock.now()).map(|reason| self.at_deadline(reason))
    }

    /// The error for a holder who asks for something after the end.
    pub(crate) fn ended_error(&self) -> Error {
        let why = self.loss().map_or_else(|| "it has been released".to_owned(), |reason| reason.to_string());
        Error::new(ErrorKind::Lost, format!("lock {:?} is not held any more: {why}", self.name))
    }
}

impl Terms {
    /// Time alone decides, whether or not anybody was there to notice.
    fn loss(&self, now: BootTime) -> Option<LossReason> {
        match self.end {
            Some(End::Lost(reason)) => Some(reason),
            Some(End::Released) => None,
            None => (now >= self.deadline).then_some(LossReason::Expired),
        }
    }

    fn state(&self, now: BootTime) -> LeaseState {
        match self.end {
            _ if self.loss(now).is_some() => LeaseState::Lost,
            Some(_) => LeaseState::Released,
            None if self.extension_failed && self.deadline.since(now) < self.ttl / 2 => LeaseState::AtRisk,
            None => LeaseState::Held,
        }
    }
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
        &self.record.name
    }

    /// The id of this acquisition.
    pub fn owner(&self) -> OwnerId {
        self.record.owner
    }

    /// The fencing token of this grant. It does not change while the lock is held.
    pub fn token(&self) -> FencingToken {
        self.record.token
    }

    /// The ttl that the service granted last.
    pub fn ttl(&self) -> Duration {
        self.record.ttl()
    }

    /// The time for which the lock is certainly held if nothing more is heard of the service; zero once it is not held.
    pub fn remaining(&self) -> Duration {
        let terms = self.record.terms.borrow();
        if terms.end.is_some() { Duration::ZERO } else { terms.deadline.since(self.record.clock.now()) }
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
        self.record.terms.borrow().state(self.record.clock.now())
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
        let mut terms = self.record.terms.subscribe();
        // The sender lives in the record that `self` keeps: this can't fail.
        let _ = terms.wait_for(|terms| terms.deadline != known || terms.end.is_some()).await;
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
        let mut terms = record.terms.subscribe();
        let waiting = Box::pin({
            let record = Arc::clone(&record);
            async move {
                loop {
                    terms.mark_unchanged();
                    if let Some(reason) = record.loss() {
                        return reason;
                    }
                    if terms.changed().await.is_err() {
                        std::future::pending().await
                    }
                }
            }
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
            Self::Abandoned => "the runtime that extended it was shut down",
        })
    }
}
