//! A call does more than it is asked, or gives a false answer where the truth is an error.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::{
    Attempt, Backend, Capabilities, Claim, Contention, Error, ErrorKind, Extension, FencingToken, Grant, Holder,
    LockName, Page, Release, Result, async_trait,
};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::mutant::{Flaw, mutants};
use crate::remote::Remote;

mutants! {
    WaitsForTheLock: "9_no_policy::a_refusal_does_not_wait_for_the_lock",
    AsksOnItsOwn: "9_no_policy::a_waiter_gets_nothing_without_asking_again",
    ExtendsOnItsOwn: "9_no_policy::an_idle_backend_extends_nothing",
    NeedsARuntimeToBeMade: "9_no_policy::a_backend_can_be_made_and_dropped_outside_any_runtime",
    PromisesWhatItFindsOut: "9_no_policy::every_instance_promises_the_same",
    ReportsContentionAsAnError: "10_honest_errors::contention_is_an_answer",
    ReportsWhatIsGoneAsAnError: "10_honest_errors::what_is_gone_is_an_answer",
    PromisesAListing: "10_honest_errors::what_the_backend_cannot_do_is_unsupported",
    ReportsUnknownAsGranted: "10_honest_errors::a_call_without_an_answer_is_neither_yes_nor_no",
    ReportsUnknownAsContended: "10_honest_errors::a_call_without_an_answer_is_neither_yes_nor_no",
    ReportsUnknownAsLost: "10_honest_errors::a_call_without_an_answer_is_neither_yes_nor_no",
    ReportsUnknownAsNotHeld: "10_honest_errors::a_call_without_an_answer_is_neither_yes_nor_no",
    ListsNothingWhenUnknown: "10_honest_errors::a_listing_without_an_answer_is_not_empty",
    ReportsUnknownAsNotHeldToTheOperator:
        "10_honest_errors::taking_a_lock_away_without_an_answer_is_neither_yes_nor_no",
}

/// A blocking call of the service, with a limit of ten seconds.
#[derive(Clone, Default)]
struct WaitsForTheLock;

#[async_trait]
impl Flaw for WaitsForTheLock {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        for _ in 0..100 {
            if let granted @ Attempt::Granted(_) = sound.try_acquire(claim).await? {
                return Ok(granted);
            }
            sleep(Duration::from_millis(100)).await;
        }
        sound.try_acquire(claim).await
    }
}

/// A client of the service that goes on asking for whoever is in its queue.
#[derive(Clone, Default)]
struct AsksOnItsOwn;

#[async_trait]
impl Flaw for AsksOnItsOwn {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Contended(_)) && claim.may_queue {
            let (sound, claim) = (sound.clone(), claim.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    sleep(claim.ttl / 3).await;
                    let _ = sound.try_acquire(&claim).await;
                }
            });
        }
        Ok(attempt)
    }
}

/// A client of the service that keeps its sessions alive.
#[derive(Clone, Default)]
struct ExtendsOnItsOwn;

#[async_trait]
impl Flaw for ExtendsOnItsOwn {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Granted(_)) {
            let (sound, claim) = (sound.clone(), claim.clone());
            tokio::spawn(async move {
                while let Ok(Extension::Extended { .. }) = sound.extend(&claim).await {
                    sleep(claim.ttl / 3).await;
                }
            });
        }
        Ok(attempt)
    }
}

/// Its connections belong to the runtime that it was made on.
#[derive(Clone, Default)]
struct NeedsARuntimeToBeMade(Option<Handle>);

#[async_trait]
impl Flaw for NeedsARuntimeToBeMade {
    fn opened(&self) -> Self {
        Self(Handle::try_current().ok())
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        match &self.0 {
            Some(_) => sound.try_acquire(claim).await,
            None => Err(Error::new(ErrorKind::Unavailable, "there was no runtime to connect on")),
        }
    }
}

/// Its limits are those of the server that it has reached.
#[derive(Clone, Default)]
struct PromisesWhatItFindsOut(Arc<AtomicU32>, Duration);

impl Flaw for PromisesWhatItFindsOut {
    fn opened(&self) -> Self {
        let found = self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0), Duration::from_millis(10) * (found + 1))
    }

    fn promises(&self, mut sound: Capabilities) -> Capabilities {
        sound.ttl_min = self.1;
        sound
    }
}

/// The service answers with an error, and that is handed on.
#[derive(Clone, Default)]
struct ReportsContentionAsAnError;

#[async_trait]
impl Flaw for ReportsContentionAsAnError {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        match sound.try_acquire(claim).await? {
            Attempt::Contended(_) => Err(Error::new(ErrorKind::Unavailable, "the record exists already")),
            granted => Ok(granted),
        }
    }
}

/// The service answers with an error, and that is handed on.
#[derive(Clone, Default)]
struct ReportsWhatIsGoneAsAnError;

#[async_trait]
impl Flaw for ReportsWhatIsGoneAsAnError {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        match sound.extend(claim).await? {
            Extension::Lost => Err(Error::new(ErrorKind::Unexpected, "there is no such record")),
            extended => Ok(extended),
        }
    }
}

/// Its capabilities are copied from another backend.
#[derive(Clone, Default)]
struct PromisesAListing;

#[async_trait]
impl Flaw for PromisesAListing {
    async fn list(&self, _: &Remote, _: &str, _: Option<&LockName>) -> Result<Page<Holder>> {
        Err(Error::new(ErrorKind::Unsupported, "this service lists no locks"))
    }
}

/// What the service was asked has surely been done.
#[derive(Clone, Default)]
struct ReportsUnknownAsGranted;

#[async_trait]
impl Flaw for ReportsUnknownAsGranted {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        match sound.try_acquire(claim).await {
            Err(_) => Ok(Attempt::Granted(Grant::new(FencingToken::new(1 << 40)?, claim.ttl))),
            answer => answer,
        }
    }
}

/// No yes is taken for a no.
#[derive(Clone, Default)]
struct ReportsUnknownAsContended;

#[async_trait]
impl Flaw for ReportsUnknownAsContended {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        Ok(sound.try_acquire(claim).await.unwrap_or_else(|_| Attempt::Contended(Contention::new())))
    }
}

/// A session that can't be reached is given up.
#[derive(Clone, Default)]
struct ReportsUnknownAsLost;

#[async_trait]
impl Flaw for ReportsUnknownAsLost {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        Ok(sound.extend(claim).await.unwrap_or(Extension::Lost))
    }
}

/// What can't be released is left to end of itself, and nobody is told.
#[derive(Clone, Default)]
struct ReportsUnknownAsNotHeld;

#[async_trait]
impl Flaw for ReportsUnknownAsNotHeld {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        Ok(sound.release(claim).await.unwrap_or(Release::NotHeld))
    }
}

/// No answer has no rows.
#[derive(Clone, Default)]
struct ListsNothingWhenUnknown;

#[async_trait]
impl Flaw for ListsNothingWhenUnknown {
    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        Ok(sound.list(prefix, after).await.unwrap_or_else(|_| Page::last(Vec::new())))
    }
}

/// What was not deleted was not there.
#[derive(Clone, Default)]
struct ReportsUnknownAsNotHeldToTheOperator;

#[async_trait]
impl Flaw for ReportsUnknownAsNotHeldToTheOperator {
    async fn force_release(&self, sound: &Remote, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        Ok(sound.force_release(name, only).await.unwrap_or(Release::NotHeld))
    }
}
