use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Capabilities, Claim, Error, FencingToken, Finding, Holder, LockName, Place, Result};

/// A lock service, as the core needs it: all that a service's crate implements.
///
/// What each method promises is written in the [contract](crate::contract); the conformance suite holds a backend to it. A
/// backend answers questions: it does not wait for a lock, retry, or extend on its own.
///
/// Constructors of a backend are synchronous and open nothing: connections start in the first call, on the runtime that polls
/// it. One backend belongs to one client.
///
/// # Cancel safety
///
/// Every method's future may be dropped at any point. The call may have happened then, or may still happen; the core marks the
/// claim `unsure` and its release ends whatever took effect.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What this backend promises, from its configuration alone.
    fn capabilities(&self) -> Capabilities;

    /// Asks for the lock once, and keeps or takes a place in the queue where the claim may queue.
    ///
    /// # Errors
    ///
    /// Unavailable when it is not known whether the claim was granted; Denied, Unsupported or InvalidConfig when it certainly
    /// was not.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt>;

    /// Lets the claim's grant live for another ttl from now.
    ///
    /// # Errors
    ///
    /// As for [`try_acquire`](Self::try_acquire). That the grant is gone is an answer, not an error.
    async fn extend(&self, claim: &Claim) -> Result<Extension>;

    /// Ends the claim: its grant, its place in the queue, and whatever an unanswered call may still bring about.
    ///
    /// # Errors
    ///
    /// Unavailable when it is not known whether anything is left.
    async fn release(&self, claim: &Claim) -> Result<Release>;

    /// Looks who has the lock.
    ///
    /// # Errors
    ///
    /// Unavailable when the service can't be asked; Denied when it refuses.
    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>>;

    /// Returns when asking again may give another answer; a hint, described under [watching](crate::contract#watching).
    ///
    /// By default it never returns, and the core asks again by time alone.
    async fn watch(&self, claim: &Claim, what: Watching) {
        let _ = (claim, what);
        std::future::pending().await
    }

    /// Takes the lock away from whoever has it, or only from the holder with the token `only`. The next token is larger.
    ///
    /// # Errors
    ///
    /// Unsupported by default; else as for [`release`](Self::release).
    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        let _ = (name, only);
        Err(Error::unsupported("take a lock away from its holder"))
    }

    /// The held locks whose names begin with `prefix`, in the order of their names, from the first one after `after`.
    ///
    /// # Errors
    ///
    /// Unsupported by default; else as for [`inspect`](Self::inspect).
    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let _ = (prefix, after);
        Err(Error::unsupported("list locks"))
    }

    /// Looks whether the service is fit for locks: rights, settings, versions. By default there is nothing to look at.
    async fn preflight(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Closes connections and sessions, after the clean-up that is still under way. By default there is nothing to close.
    async fn close(&self) {}
}

/// So that a backend whose type is known at run time only can be used like any other.
#[async_trait]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        (**self).try_acquire(claim).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        (**self).extend(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        (**self).release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        (**self).inspect(name).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        (**self).watch(claim, what).await;
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        (**self).force_release(name, only).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        (**self).list(prefix, after).await
    }

    async fn preflight(&self) -> Vec<Finding> {
        (**self).preflight().await
    }

    async fn close(&self) {
        (**self).close().await;
    }
}

/// The answer to [`Backend::try_acquire`]. There will be no third one: it would be another contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The claim has the lock.
    Granted(Grant),
    /// Somebody else has it.
    Contended(Contention),
}

/// The service's yes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The token of this grant.
    pub token: FencingToken,
    /// The ttl that the service honours, counted from when it handled the call.
    pub ttl: Duration,
    /// Where the claim now stands.
    pub place: Option<Place>,
}

impl Grant {
    /// A grant without a place.
    pub const fn new(token: FencingToken, ttl: Duration) -> Self {
        Self { token, ttl, place: None }
    }

    /// Adds where the claim now stands.
    #[must_use]
    pub fn with_place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }
}

/// The service's no: somebody else has the lock, or stands before this claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contention {
    /// When asking again may give another answer even if nothing is heard before: what is left of the present grant.
    pub retry_after: Option<Duration>,
    /// The highest token of any grant of the name that the service knows.
    pub token: Option<FencingToken>,
    /// Where the claim now stands in the queue.
    pub place: Option<Place>,
}

impl Contention {
    /// Contention of which nothing more is known.
    pub const fn new() -> Self {
        Self { retry_after: None, token: None, place: None }
    }

    /// Adds what is left of the present grant.
    #[must_use]
    pub const fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Adds the highest token of any grant of the name.
    #[must_use]
    pub const fn with_token(mut self, token: FencingToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Adds where the claim now stands in the queue.
    #[must_use]
    pub fn with_place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }
}

/// The answer to [`Backend::extend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The grant goes on.
    #[non_exhaustive]
    Extended {
        /// What the grant now has, counted from when the service handled the call.
        ttl: Duration,
        /// Where the claim now stands.
        place: Option<Place>,
    },
    /// The grant is gone, for good.
    Lost,
}

impl Extension {
    /// The grant goes on for `ttl`.
    pub const fn extended(ttl: Duration) -> Self {
        Self::Extended { ttl, place: None }
    }

    /// The grant goes on for `ttl`, and the claim now stands at `place`.
    pub const fn extended_at(ttl: Duration, place: Place) -> Self {
        Self::Extended { ttl, place: Some(place) }
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Release {
    /// The lock was held and is now free.
    Released,
    /// It was not held any more, and nothing was changed.
    NotHeld,
}

/// What a [`Backend::watch`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Watching {
    /// For a claim that waits: the way looks free, or its own place in the queue is gone.
    Turn,
    /// For a claim that holds: its own grant is not there.
    Grant,
}

/// One answer of a listing, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// What was found, in order.
    pub items: Vec<T>,
    /// After which name to go on; `None` at the end.
    pub next: Option<LockName>,
}

impl<T> Page<T> {
    /// The last page.
    pub const fn last(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// A page after which there is more.
    pub const fn and_more(items: Vec<T>, after: LockName) -> Self {
        Self { items, next: Some(after) }
    }
}
