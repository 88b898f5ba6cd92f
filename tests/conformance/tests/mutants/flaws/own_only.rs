//! A release ends what is not its owner's, or leaves something.
use std::collections::HashMap;

use lock_core::{Attempt, Backend, Claim, Extension, FencingToken, LockName, OwnerId, Release, Result, async_trait};

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    IgnoresTheOwnerOnRelease: "6_own_only::a_late_release_leaves_the_successor_alone",
    ReleasesAllOfTheClient: "6_own_only::a_release_leaves_the_clients_other_locks_alone",
    LeavesItsPlaceInTheQueue: "6_own_only::leaving_the_queue_leaves_the_holder_alone",
    ForcesNothing: "6_own_only::a_lock_that_is_taken_away_is_gone_for_its_holder",
    ForcesWithoutLookingAtTheToken: "6_own_only::only_the_holder_with_the_given_token_loses_the_lock",
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
