//! A release ends what is not its owner's, or leaves something.
use std::collections::HashMap;

use lock_core::{Attempt, Backend, Claim, Extension, FencingToken, LockName, OwnerId, Release, Result, async_trait};

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    IgnoresTheOwnerOnRelease: "6_own_only::a_late_release_leaves_the_successor_alone",
    ReleasesAllOfTheClient: "6_own_only::a_release_leaves_the_clients_other_locks_alone",
    LooksAndThenReleases: "6_own_only::a_slow_release_leaves_the_successor_alone",
    LooksAndThenExtends: "6_own_only::a_slow_extension_leaves_the_successor_alone",
    EndsAllOfTheClientWithOne: "6_own_only::a_claim_that_ran_out_leaves_the_clients_other_locks_alone",
    LeavesItsPlaceInTheQueue: "6_own_only::leaving_the_queue_leaves_the_holder_alone",
    LeavesWithTheWholeQueue: "6_own_only::leaving_the_queue_leaves_the_other_waiters_alone",
    ForcesNothing: "6_own_only::a_lock_that_is_taken_away_is_gone_for_its_holder",
    ForcesTheQueueAway: "6_own_only::a_lock_that_is_taken_away_leaves_the_waiters_their_places",
    ForcesWithoutLookingAtTheToken: "6_own_only::only_the_holder_with_the_given_token_loses_the_lock",
    AnswersEveryForceWithReleased: "6_own_only::taking_away_what_nobody_holds_does_nothing",
    BelievesItsOwnList: "6_own_only::what_the_service_forgot_can_be_had_and_its_holder_harms_nobody",
}

/// It deletes the record, whoever wrote it.
#[derive(Clone, Default)]
struct IgnoresTheOwnerOnRelease;

#[async_trait]
impl Flaw for IgnoresTheOwnerOnRelease {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        match sound.release(claim).await? {
            Release::NotHeld => sound.force_release(&claim.name, None).await,
            released => Ok(released),
        }
    }
}

/// What one instance was granted.
#[derive(Clone, Default)]
struct Granted(Notes<HashMap<OwnerId, Claim>>);

impl Granted {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Granted(_)) {
            self.0.now().insert(claim.owner, claim.clone());
        }
        Ok(attempt)
    }
}

/// All locks of a client hang on one session, and a release closes it.
#[derive(Clone, Default)]
struct ReleasesAllOfTheClient(Granted);

#[async_trait]
impl Flaw for ReleasesAllOfTheClient {
    fn opened(&self) -> Self {
        Self::default()
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(sound, claim).await
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        let released = sound.release(claim).await?;
        let all = std::mem::take(&mut *self.0.0.now());
        for claim in all.values() {
            sound.release(claim).await?;
        }
        Ok(released)
    }
}

/// It reads that the record is its own, and deletes the record, in two steps.
#[derive(Clone, Default)]
struct LooksAndThenReleases;

#[async_trait]
impl Flaw for LooksAndThenReleases {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        let holder = sound.inspect(&claim.name).await?;
        if holder.is_some_and(|holder| holder.owner == claim.owner.to_string()) {
            sound.force_release(&claim.name, None).await?;
            sound.release(claim).await?;
            return Ok(Release::Released);
        }
        sound.release(claim).await
    }
}

/// It reads that the record is its own, and moves the record's end, in two steps.
#[derive(Clone, Default)]
struct LooksAndThenExtends(Notes<HashMap<LockName, Claim>>);

#[async_trait]
impl Flaw for LooksAndThenExtends {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Granted(_)) {
            self.0.now().insert(claim.name.clone(), claim.clone());
        }
        Ok(attempt)
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let holder = sound.inspect(&claim.name).await?;
        if holder.is_none_or(|holder| holder.owner != claim.owner.to_string()) {
            return Ok(Extension::Lost);
        }
        let mut by_now = self.0.now().get(&claim.name).unwrap_or(claim).clone();
        by_now.ttl = claim.ttl;
        sound.extend(&by_now).await
    }
}

/// All locks of a client hang on one session, and it closes the session when it finds that one of them is lost.
#[derive(Clone, Default)]
struct EndsAllOfTheClientWithOne(Granted);

#[async_trait]
impl Flaw for EndsAllOfTheClientWithOne {
    fn opened(&self) -> Self {
        Self::default()
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(sound, claim).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let extension = sound.extend(claim).await?;
        if extension == Extension::Lost {
            let all = std::mem::take(&mut *self.0.0.now());
            for claim in all.values() {
                sound.release(claim).await?;
            }
        }
        Ok(extension)
    }
}

/// It releases who holds, and forgets who waits.
#[derive(Clone, Default)]
struct LeavesItsPlaceInTheQueue;

#[async_trait]
impl Flaw for LeavesItsPlaceInTheQueue {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        match sound.inspect(&claim.name).await? {
            Some(holder) if holder.owner == claim.owner.to_string() => sound.release(claim).await,
            _ => Ok(Release::NotHeld),
        }
    }
}

/// Who waits in the queue.
#[derive(Clone, Default)]
struct Waiting(Notes<Vec<Claim>>);

impl Waiting {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        let waits = claim.may_queue && matches!(attempt, Attempt::Contended(_));
        let mut waiting = self.0.now();
        waiting.retain(|waiter| waiter.owner != claim.owner);
        waiting.extend(waits.then(|| claim.clone()));
        Ok(attempt)
    }

    /// Deletes the queue of this name.
    async fn end(&self, sound: &Remote, name: &LockName) -> Result<()> {
        let ended: Vec<_> = self.0.now().extract_if(.., |waiter| waiter.name == *name).collect();
        for mut waiter in ended {
            waiter.unsure = false;
            sound.release(&waiter).await?;
        }
        Ok(())
    }
}

/// The queue is one record, and who leaves deletes it.
#[derive(Clone, Default)]
struct LeavesWithTheWholeQueue(Waiting);

#[async_trait]
impl Flaw for LeavesWithTheWholeQueue {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(sound, claim).await
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        let waits = self.0.0.now().iter().any(|waiter| waiter.owner == claim.owner);
        if waits {
            self.0.end(sound, &claim.name).await?;
        }
        sound.release(claim).await
    }
}

/// It deletes all that the service has of the name.
#[derive(Clone, Default)]
struct ForcesTheQueueAway(Waiting);

#[async_trait]
impl Flaw for ForcesTheQueueAway {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(sound, claim).await
    }

    async fn force_release(&self, sound: &Remote, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        let released = sound.force_release(name, only).await?;
        self.0.end(sound, name).await?;
        Ok(released)
    }
}

/// It does not look at how many records its deletion met.
#[derive(Clone, Default)]
struct AnswersEveryForceWithReleased;

#[async_trait]
impl Flaw for AnswersEveryForceWithReleased {
    async fn force_release(&self, sound: &Remote, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        sound.force_release(name, only).await?;
        Ok(Release::Released)
    }
}

/// It takes the lock out of a listing, and leaves it to its holder.
#[derive(Clone, Default)]
struct ForcesNothing;

#[async_trait]
impl Flaw for ForcesNothing {
    async fn force_release(&self, sound: &Remote, name: &LockName, _: Option<FencingToken>) -> Result<Release> {
        let is_held = sound.inspect(name).await?.is_some();
        Ok(if is_held { Release::Released } else { Release::NotHeld })
    }
}

/// It takes the lock away from whoever has it by now.
#[derive(Clone, Default)]
struct ForcesWithoutLookingAtTheToken;

#[async_trait]
impl Flaw for ForcesWithoutLookingAtTheToken {
    async fn force_release(&self, sound: &Remote, name: &LockName, _: Option<FencingToken>) -> Result<Release> {
        sound.force_release(name, None).await
    }
}

/// Each instance keeps a list of its grants, and believes that rather than the service.
#[derive(Clone, Default)]
struct BelievesItsOwnList(Granted);

#[async_trait]
impl Flaw for BelievesItsOwnList {
    fn opened(&self) -> Self {
        Self::default()
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(sound, claim).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let is_listed = self.0.0.now().contains_key(&claim.owner);
        match sound.extend(claim).await? {
            Extension::Lost if is_listed => Ok(Extension::extended(claim.ttl)),
            extension => Ok(extension),
        }
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        self.0.0.now().remove(&claim.owner);
        sound.release(claim).await
    }
}
