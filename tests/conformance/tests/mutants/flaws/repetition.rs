//! A call that comes twice, or late, does something else than it should.
use std::collections::HashSet;
use std::time::Duration;

use lock_core::{Attempt, Backend, Claim, Contention, Extension, OwnerId, Release, Result, async_trait};
use tokio::time::sleep;

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    TakesARetryForARival: "4_idempotence::asking_again_finds_the_own_grant",
    ForgetsItsClaimWhenUnsure: "4_idempotence::a_lost_answer_is_found_by_asking_again",
    KnowsOnlyGrantsThatWereAnswered: "4_idempotence::an_ask_given_up_at_any_point_can_be_repeated",
    ShortensByALateAsk: "4_idempotence::an_ask_for_less_shortens_nothing",
    ShortensByALateExtension: "4_idempotence::an_extension_by_less_shortens_nothing",
    AnswersAnExtensionWithWhatWasAsked: "4_idempotence::an_extension_by_less_shortens_nothing",
    AnswersEveryReleaseWithReleased: "4_idempotence::a_second_release_does_nothing",
    QueuesAnewWithEachAsk: "4_idempotence::asking_again_keeps_one_place_in_the_queue",
    RecreatesByExtending: "5_no_resurrection::an_extension_after_the_end_is_lost",
    TakesOverByExtending: "5_no_resurrection::an_extension_after_a_successor_came_is_lost_and_leaves_it_alone",
    ExtendsForAnybody: "5_no_resurrection::an_extension_of_a_claim_that_was_never_granted_is_lost",
    LandsAfterTheRelease: "5_no_resurrection::an_ask_given_up_at_any_point_does_not_land_after_the_release",
}

/// Whether the claim has the lock already.
async fn holds(sound: &Remote, claim: &Claim) -> Result<bool> {
    let holder = sound.inspect(&claim.name).await?;
    Ok(holder.is_some_and(|holder| holder.owner == claim.owner.to_string()))
}

/// The claim, as if every call of it had had its answer.
fn without_doubt(claim: &Claim) -> Claim {
    let mut claim = claim.clone();
    claim.unsure = false;
    claim
}

/// It creates the record unless there is one, and does not look whose that is.
#[derive(Clone, Default)]
struct TakesARetryForARival;

#[async_trait]
impl Flaw for TakesARetryForARival {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        if holds(sound, claim).await? {
            return Ok(Attempt::Contended(Contention::new()));
        }
        sound.try_acquire(claim).await
    }
}

/// It asks as somebody new after a call without an answer.
#[derive(Clone, Default)]
struct ForgetsItsClaimWhenUnsure;

#[async_trait]
impl Flaw for ForgetsItsClaimWhenUnsure {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        if claim.unsure && holds(sound, claim).await? {
            return Ok(Attempt::Contended(Contention::new()));
        }
        sound.try_acquire(claim).await
    }
}

/// Each instance keeps a list of its grants, and adds to it when the answer comes.
#[derive(Clone, Default)]
struct KnowsOnlyGrantsThatWereAnswered(Notes<HashSet<OwnerId>>);

#[async_trait]
impl Flaw for KnowsOnlyGrantsThatWereAnswered {
    fn opened(&self) -> Self {
        Self::default()
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let is_known = self.0.now().contains(&claim.owner);
        if !is_known && holds(sound, claim).await? {
            return Ok(Attempt::Contended(Contention::new()));
        }
        let attempt = sound.try_acquire(claim).await?;
        self.0.now().insert(claim.owner);
        Ok(attempt)
    }
}

/// Every ask that finds the own grant gives it a new end, be it an earlier one.
#[derive(Clone, Default)]
struct ShortensByALateAsk;

#[async_trait]
impl Flaw for ShortensByALateAsk {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        if holds(sound, claim).await? {
            sound.release(&without_doubt(claim)).await?;
        }
        sound.try_acquire(claim).await
    }
}

/// Every extension gives the grant a new end, be it an earlier one.
#[derive(Clone, Default)]
struct ShortensByALateExtension;

#[async_trait]
impl Flaw for ShortensByALateExtension {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        if sound.release(&without_doubt(claim)).await? == Release::NotHeld {
            return Ok(Extension::Lost);
        }
        sound.try_acquire(claim).await?;
        Ok(Extension::extended(claim.ttl))
    }
}

/// The service keeps the later end, and the answer does not say so.
#[derive(Clone, Default)]
struct AnswersAnExtensionWithWhatWasAsked;

#[async_trait]
impl Flaw for AnswersAnExtensionWithWhatWasAsked {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        Ok(match sound.extend(claim).await? {
            Extension::Extended { .. } => Extension::extended(claim.ttl),
            Extension::Lost => Extension::Lost,
        })
    }
}

/// It does not look at how many records its deletion met.
#[derive(Clone, Default)]
struct AnswersEveryReleaseWithReleased;

#[async_trait]
impl Flaw for AnswersEveryReleaseWithReleased {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        sound.release(claim).await?;
        Ok(Release::Released)
    }
}

/// Each ask of a waiter creates one more node in the queue.
#[derive(Clone, Default)]
struct QueuesAnewWithEachAsk;

#[async_trait]
impl Flaw for QueuesAnewWithEachAsk {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Contended(_)) && claim.may_queue {
            let mut once_more = claim.clone();
            once_more.owner = OwnerId::random();
            sound.try_acquire(&once_more).await?;
        }
        Ok(attempt)
    }
}

/// It sets the record, and does not ask that there be one.
#[derive(Clone, Default)]
struct RecreatesByExtending;

#[async_trait]
impl Flaw for RecreatesByExtending {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        Ok(match sound.try_acquire(claim).await? {
            Attempt::Granted(grant) => Extension::extended(grant.ttl),
            Attempt::Contended(_) => Extension::Lost,
        })
    }
}

/// It sets the record, and does not look whose it is.
#[derive(Clone, Default)]
struct TakesOverByExtending;

#[async_trait]
impl Flaw for TakesOverByExtending {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let extension = sound.extend(claim).await?;
        if extension != Extension::Lost || sound.inspect(&claim.name).await?.is_none() {
            return Ok(extension);
        }
        sound.force_release(&claim.name, None).await?;
        RecreatesByExtending.extend(sound, claim).await
    }
}

/// It moves the record's end, and does not look whose it is.
#[derive(Clone, Default)]
struct ExtendsForAnybody;

#[async_trait]
impl Flaw for ExtendsForAnybody {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let is_held = sound.inspect(&claim.name).await?.is_some();
        let extension = sound.extend(claim).await?;
        Ok(if is_held && extension == Extension::Lost { Extension::extended(claim.ttl) } else { extension })
    }
}

/// What was sent stays in a queue for a while, and the release of an unsure claim leaves nothing to stop it.
#[derive(Clone, Default)]
struct LandsAfterTheRelease;

#[async_trait]
impl Flaw for LandsAfterTheRelease {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let (sound, claim) = (sound.clone(), claim.clone());
        let landing = tokio::spawn(async move {
            sleep(Duration::from_millis(20)).await;
            sound.try_acquire(&claim).await
        });
        landing.await.expect("memory does not panic")
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        sound.release(&without_doubt(claim)).await
    }
}
