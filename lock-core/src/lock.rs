use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::caller::{Caller, Outcome};
use crate::client::gone;
use crate::keeper::{HoldTerms, Keeper, Patience};
use crate::{
    BootTime, Claim, Error, ErrorKind, FencingToken, Holder, Lease, LockClient, LockGuard, LockName, Release, Result,
};

/// Long enough to ride out a blip of service or network without losing the lock, short enough that a crashed holder is not
/// missed for long.
const TTL: Duration = Duration::from_secs(30);

/// The longest label, in bytes: it is stored with every grant.
const LABEL_MAX: usize = 256;

/// A named lock, ready to be acquired: name and settings, no state. From [`LockClient::lock`].
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    client: LockClient,
    name: Result<LockName>,
    ttl: Duration,
    wait: Option<Duration>,
    label: Option<String>,
    terms: HoldTerms,
}

impl Lock {
    pub(crate) fn new(client: LockClient, name: Result<LockName>) -> Self {
        let terms = HoldTerms { auto_extend: true, min_hold: Duration::ZERO, max_hold: None };
        Self { client, name, ttl: TTL, wait: None, label: None, terms }
    }

    /// For how long the service keeps a grant that nobody extends: how long a crashed holder blocks the others, and how long
    /// an outage a live one survives. By default 30 s: long enough to ride out a short outage, short enough after a crash.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long [`acquire`](Self::acquire) may take in all, also when the service gives no answer. By default without limit,
    /// since only the caller knows what is too long. Zero asks once, and takes as long as a call may.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// What people see who inspect the lock: at most 256 bytes, no control characters. By default none.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Whether the lease is extended while the guard lives. By default it is, since a lock that ends under its holder is what
    /// nobody wants; without it the lock ends one ttl after it was granted, or after [`LockGuard::extend`].
    pub fn auto_extend(mut self, auto_extend: bool) -> Self {
        self.terms.auto_extend = auto_extend;
        self
    }

    /// Puts the release off until the lock was held for so long: one run per tick although clocks differ. Off by default.
    ///
    /// It lasts no longer than the lease does: without [`auto_extend`](Self::auto_extend) no longer than the ttl, and not
    /// beyond [`LockClient::close`] or the end of the process.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.terms.min_hold = min_hold;
        self
    }

    /// Ends the hold after so long, as lost: for holders that may forget or hang. Off by default.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.terms.max_hold = Some(max_hold);
        self
    }

    /// Waits for the lock.
    ///
    /// Tasks of one client that wait for one name are served in the order of their calls; between clients the order is the
    /// backend's: see [`Capabilities::order`](crate::Capabilities::order).
    ///
    /// # Errors
    ///
    /// Timeout when the wait is over and somebody else has the lock; Unavailable when the wait is over, or a single try was
    /// made, without an answer from the service; Denied when the service refuses; InvalidName; InvalidConfig for a ttl out of
    /// the backend's bounds, a bad label, or a `min_hold` above `max_hold`; Unsupported for a mode that the backend does not
    /// know; TokenRegression; Lost when the lease was over before the caller came to take it; Unexpected; Closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up: what the service has granted, or grants later, is given back in the background.
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.got(self.begin_waiting()?.await)
    }

    /// Asks once, without waiting for the lock. None when somebody else has it.
    ///
    /// It overtakes the tasks of this client that wait, and it answers at once while this client holds the lock.
    ///
    /// # Errors
    ///
    /// Unavailable when the service gave no answer; else as [`acquire`](Self::acquire), but never Timeout.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        match self.begin_trying()? {
            Some(outcome) => self.guard(outcome.await),
            None => Ok(None),
        }
    }

    /// [`acquire`](Self::acquire) for threads without a runtime.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and Unsupported inside a runtime, where blocking would stop other tasks.
    pub fn acquire_blocking(&self) -> Result<LockGuard> {
        self.client.check_may_block()?;
        self.got(self.begin_waiting()?.blocking_recv())
    }

    /// [`try_acquire`](Self::try_acquire) for threads without a runtime.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and Unsupported inside a runtime, where blocking would stop other tasks.
    pub fn try_acquire_blocking(&self) -> Result<Option<LockGuard>> {
        self.client.check_may_block()?;
        match self.begin_trying()? {
            Some(outcome) => self.guard(outcome.blocking_recv()),
            None => Ok(None),
        }
    }

    /// Runs `body` under the lock, and drops it when the lock is lost.
    ///
    /// A body that finished under a valid lease gives its value, even if the release fails afterwards. A panic in the body
    /// gives the lock back, then goes on. With [`min_hold`](Self::min_hold) both come when that is over. Work that the body
    /// has spawned elsewhere is not stopped by a loss.
    ///
    /// # Errors
    ///
    /// Lost when the lock was lost before or at the moment when the body finished; else as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and gives the lock back in the background.
    pub async fn run<F, B, T>(&self, body: F) -> Result<T>
    where
        F: FnOnce(Lease) -> B,
        B: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let lease = guard.lease();
        let finished = {
            let (mut body, mut lost) = (pin!(body(lease.clone())), pin!(lease.lost()));
            poll_fn(|cx| {
                if lost.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                match catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(cx))) {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(value)) => Poll::Ready(lease.is_held().then_some(Ok(value))),
                    Err(panic) => Poll::Ready(Some(Err(panic))),
                }
            })
            .await
        };
        let Some(finished) = finished else { return Err(lease.record().ended_error()) };
        // The work is done, and the lock ends by itself if this fails: the keeper goes on trying.
        let _ = guard.release().await;
        finished.map_err(|panic| resume_unwind(panic))
    }

    /// Who has the lock.
    ///
    /// # Errors
    ///
    /// Unavailable when the service gives no answer; Denied when it refuses; InvalidName; Unexpected; Closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn inspect(&self) -> Result<Option<Holder>> {
        let name = self.name.clone()?;
        self.client.ask(async move |backend| backend.inspect(&name).await).await
    }

    /// Takes the lock away from whoever has it, or only from the holder with the token `only`. The holder learns of it, but
    /// maybe late: what protects the resource then is the fencing token.
    ///
    /// # Errors
    ///
    /// Unsupported when the backend can't; Unavailable when the service gives no answer; Denied when it refuses; InvalidName;
    /// Unexpected; Closed.
    ///
    /// # Cancel safety
    ///
    /// The call happens also when the future is dropped after its first poll.
    pub async fn force_release(&self, only: Option<FencingToken>) -> Result<Release> {
        let name = self.name.clone()?;
        let line = Arc::clone(&self.client.shared().line);
        self.client
            .ask(async move |backend| {
                let released = backend.force_release(&name, only).await;
                line.verify(&name);
                released
            })
            .await
    }

    /// Starts a keeper for a claim that waits.
    fn begin_waiting(&self) -> Result<oneshot::Receiver<Outcome>> {
        let patience = if self.wait == Some(Duration::ZERO) { Patience::Try } else { Patience::Wait };
        self.begin(patience)
    }

    /// Starts a keeper for a single question; none is needed while this client holds the lock.
    fn begin_trying(&self) -> Result<Option<oneshot::Receiver<Outcome>>> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        self.client.check_open()?;
        if self.client.shared().line.is_held(name) {
            return Ok(None);
        }
        self.begin(Patience::Try).map(Some)
    }

    fn begin(&self, patience: Patience) -> Result<oneshot::Receiver<Outcome>> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        self.check()?;
        let shared = Arc::clone(self.client.shared());
        let (outcome, receiver) = oneshot::channel();
        let (until, ticket) = match patience {
            Patience::Try => (BootTime::from_boot(Duration::MAX), shared.line.beside(name)),
            Patience::Wait => (shared.clock.now() + self.wait.unwrap_or(Duration::MAX), shared.line.join(name)),
        };
        let caller = Caller::new(name.clone(), Arc::clone(&shared), outcome, until);
        let mut claim = Claim::new(name.clone(), self.ttl);
        claim.may_queue = patience == Patience::Wait;
        claim.about.label.clone_from(&self.label);
        let keeper = Keeper::new(shared, claim, ticket, self.terms);
        self.client.home().spawn(keeper.keep(patience, caller))?;
        Ok(receiver)
    }

    /// Everything that can be refused before a byte is sent.
    fn check(&self) -> Result<()> {
        self.client.check_open()?;
        self.client.check_ttl(self.ttl)?;
        let invalid = |message| Err(Error::new(ErrorKind::InvalidConfig, message));
        if let Some(label) = &self.label
            && (label.len() > LABEL_MAX || label.contains(char::is_control))
        {
            let (bytes, start) = (label.len(), label.chars().take(40).collect::<String>());
            return invalid(format!(
                "a label has at most {LABEL_MAX} bytes and no control characters, this one has {bytes} and begins with {start:?}"
            ));
        }
        match self.terms.max_hold {
            Some(max) if max.is_zero() || max < self.terms.min_hold => {
                let min = self.terms.min_hold;
                invalid(format!("a max_hold of {max:?} must be above zero and not below min_hold, which is {min:?}"))
            }
            _ => Ok(()),
        }
    }

    fn guard(&self, outcome: Result<Outcome, oneshot::error::RecvError>) -> Result<Option<LockGuard>> {
        let Some(hold) = outcome.unwrap_or_else(|_| Err(gone()))? else { return Ok(None) };
        if hold.record.loss().is_some() {
            // It was there in time, and the caller was not.
            return Err(hold.record.ended_error());
        }
        Ok(Some(LockGuard::new(hold, self.client.clone())))
    }

    /// As [`guard`](Self::guard), for one who would have waited.
    fn got(&self, outcome: Result<Outcome, oneshot::error::RecvError>) -> Result<LockGuard> {
        self.guard(outcome)?.ok_or_else(|| {
            let message = match &self.name {
                Ok(name) => format!("lock {name:?} not granted: somebody else has it, and the wait is zero"),
                Err(error) => error.to_string(),
            };
            Error::new(ErrorKind::Timeout, message)
        })
    }
}
