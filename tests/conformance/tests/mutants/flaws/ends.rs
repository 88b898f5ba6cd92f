//! A grant ends earlier than promised, or never.
use std::collections::HashMap;
use std::time::Duration;

use lock_core::{
    Attempt, Backend, Capabilities, Claim, Contention, Extension, Grant, LockName, OwnerId, Release, Result,
    async_trait,
};
use tokio::time::Instant;

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    PromisesMoreThanItKeeps: "2_floor::a_grant_lives_as_long_as_promised",
    EndsEarly: "2_floor::a_grant_lives_as_long_as_promised",
    CountsInWholeSeconds: "2_floor::a_ttl_between_two_seconds_is_kept_as_promised",
    ExtendsNothing: "2_floor::an_extension_lives_as_long_as_promised",
    PromisesTheWholeTtlOnARetry: "2_floor::a_repeated_ask_promises_only_what_it_keeps",
    OverwritesTheHolder: "2_floor::a_grant_outlives_the_refusals_of_others",
    HasOneTtlForAClient: "2_floor::a_grant_outlives_a_shorter_one_of_its_client",
    CountsALeaseFromTheLastAskInTheQueue: "2_floor::a_grant_to_a_waiter_lives_as_long_as_promised",
    RoundsUpAndDoesNotSay: "3_ceiling::a_ttl_between_two_seconds_ends_in_time",
    ExtendsTheHolderByRefusing: "3_ceiling::a_grant_ends_of_itself_while_others_ask",
    NeverExpires: "3_ceiling::a_grant_ends_of_itself",
    NeverExpiresOnceExtended: "3_ceiling::an_extended_grant_ends_of_itself",
    AddsExtensionsUp: "3_ceiling::extensions_do_not_add_up",
    GuardsItsRecordWithoutEnd: "3_ceiling::an_ask_given_up_at_any_point_leaves_nothing_that_stays",
    KeepsPlacesForEver: "3_ceiling::a_place_in_the_queue_ends_of_itself",
    RenewsNoPlace: "3_ceiling::a_place_that_is_asked_for_again_lives_on",
}

const HOUR: Duration = Duration::from_secs(3600);

/// The claim, with another ttl.
fn asking_for(claim: &Claim, ttl: Duration) -> Claim {
    let mut claim = claim.clone();
    claim.ttl = ttl;
    claim
}

/// Asks for `ttl`, and answers as if that were what the claim asks for.
async fn acquires_for(sound: &Remote, claim: &Claim, ttl: Duration) -> Result<Attempt> {
    Ok(match sound.try_acquire(&asking_for(claim, ttl)).await? {
        Attempt::Granted(grant) => Attempt::Granted(Grant::new(grant.token, claim.ttl)),
        contended => contended,
    })
}

/// Extends by `ttl`, and answers as if that were what the claim asks for.
async fn extends_by(sound: &Remote, claim: &Claim, ttl: Duration) -> Result<Extension> {
    Ok(match sound.extend(&asking_for(claim, ttl)).await? {
        Extension::Extended { .. } => Extension::extended(claim.ttl),
        Extension::Lost => Extension::Lost,
    })
}

/// It answers with a session's longest time, and not with what was negotiated.
#[derive(Clone, Default)]
struct PromisesMoreThanItKeeps;

#[async_trait]
impl Flaw for PromisesMoreThanItKeeps {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        Ok(match sound.try_acquire(claim).await? {
            Attempt::Granted(grant) => Attempt::Granted(Grant::new(grant.token, grant.ttl * 2)),
            contended => contended,
        })
    }
}

/// It leaves a margin for the clocks, and does not tell.
#[derive(Clone, Default)]
struct EndsEarly;

#[async_trait]
impl Flaw for EndsEarly {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        acquires_for(sound, claim, claim.ttl * 9 / 10).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        extends_by(sound, claim, claim.ttl * 9 / 10).await
    }
}

/// A service that takes whole seconds, and a conversion that drops the rest.
#[derive(Clone, Default)]
struct CountsInWholeSeconds;

#[async_trait]
impl Flaw for CountsInWholeSeconds {
    fn promises(&self, mut sound: Capabilities) -> Capabilities {
        sound.ttl_min = Duration::from_secs(1);
        sound
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        acquires_for(sound, claim, Duration::from_secs(claim.ttl.as_secs())).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        extends_by(sound, claim, Duration::from_secs(claim.ttl.as_secs())).await
    }
}

/// It looks whether the own record is still there, and calls that an extension.
#[derive(Clone, Default)]
struct ExtendsNothing;

#[async_trait]
impl Flaw for ExtendsNothing {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let holder = sound.inspect(&claim.name).await?;
        let is_own = holder.is_some_and(|holder| holder.owner == claim.owner.to_string());
        Ok(if is_own { Extension::extended(claim.ttl) } else { Extension::Lost })
    }
}

/// It finds its own grant, does not renew it, and answers with what was asked.
#[derive(Clone, Default)]
struct PromisesTheWholeTtlOnARetry;

#[async_trait]
impl Flaw for PromisesTheWholeTtlOnARetry {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let holder = sound.inspect(&claim.name).await?;
        match holder.filter(|holder| holder.owner == claim.owner.to_string()).and_then(|holder| holder.token) {
            Some(token) => Ok(Attempt::Granted(Grant::new(token, claim.ttl))),
            None => sound.try_acquire(claim).await,
        }
    }
}

/// It swaps its own record in, and says no when there was another one before.
#[derive(Clone, Default)]
struct OverwritesTheHolder;

#[async_trait]
impl Flaw for OverwritesTheHolder {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Contended(_)) {
            sound.force_release(&claim.name, None).await?;
            sound.try_acquire(&Claim::new(claim.name.clone(), claim.ttl)).await?;
        }
        Ok(attempt)
    }
}

/// A record without an end.
#[derive(Clone, Default)]
struct NeverExpires;

#[async_trait]
impl Flaw for NeverExpires {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        acquires_for(sound, claim, HOUR).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        extends_by(sound, claim, HOUR).await
    }
}

/// It writes the record anew when it extends, and the end is gone.
#[derive(Clone, Default)]
struct NeverExpiresOnceExtended;

#[async_trait]
impl Flaw for NeverExpiresOnceExtended {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        extends_by(sound, claim, HOUR).await
    }
}

/// It counts an extension from the old end, and not from now.
#[derive(Clone, Default)]
struct AddsExtensionsUp;

#[async_trait]
impl Flaw for AddsExtensionsUp {
    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let left = sound.inspect(&claim.name).await?.and_then(|holder| holder.remaining).unwrap_or_default();
        sound.extend(&asking_for(claim, claim.ttl + left)).await
    }
}

/// A second record, around reading and writing the first, keeps other clients out: who dies in between leaves it there.
#[derive(Clone, Default)]
struct GuardsItsRecordWithoutEnd;

#[async_trait]
impl Flaw for GuardsItsRecordWithoutEnd {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let guard = Claim::new(LockName::new(format!("guard:{}", claim.name))?, HOUR);
        if let Attempt::Contended(_) = sound.try_acquire(&guard).await? {
            return Ok(Attempt::Contended(Contention::new()));
        }
        let attempt = sound.try_acquire(claim).await;
        sound.release(&guard).await?;
        attempt
    }
}

/// Those who hold come to an end, and those who wait do not.
#[derive(Clone, Default)]
struct KeepsPlacesForEver;

#[async_trait]
impl Flaw for KeepsPlacesForEver {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Contended(_)) && claim.may_queue {
            sound.try_acquire(&asking_for(claim, HOUR)).await?;
        }
        Ok(attempt)
    }
}

/// All claims of a client hang on one session, with the ttl of the first of them.
#[derive(Clone, Default)]
struct HasOneTtlForAClient(Notes<Option<Duration>>);

#[async_trait]
impl Flaw for HasOneTtlForAClient {
    fn opened(&self) -> Self {
        Self::default()
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let ttl = *self.0.now().get_or_insert(claim.ttl);
        acquires_for(sound, claim, ttl).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        let ttl = *self.0.now().get_or_insert(claim.ttl);
        extends_by(sound, claim, ttl).await
    }
}

/// The lease is made with the place in the queue, and the grant answers with the whole of it.
#[derive(Clone, Default)]
struct CountsALeaseFromTheLastAskInTheQueue(Notes<HashMap<OwnerId, Instant>>);

#[async_trait]
impl Flaw for CountsALeaseFromTheLastAskInTheQueue {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let asked = self.0.now().insert(claim.owner, Instant::now());
        let waited = asked.map(|asked| asked.elapsed()).filter(|_| claim.may_queue).unwrap_or_default();
        match acquires_for(sound, claim, claim.ttl.saturating_sub(waited)).await? {
            // The place lives on from now.
            Attempt::Contended(_) => sound.try_acquire(claim).await,
            granted => Ok(granted),
        }
    }
}

/// A service that takes whole seconds, and a conversion that rounds up.
#[derive(Clone, Default)]
struct RoundsUpAndDoesNotSay;

impl RoundsUpAndDoesNotSay {
    fn rounds(ttl: Duration) -> Duration {
        Duration::from_secs(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0))
    }
}

#[async_trait]
impl Flaw for RoundsUpAndDoesNotSay {
    fn promises(&self, mut sound: Capabilities) -> Capabilities {
        sound.ttl_min = Duration::from_secs(1);
        sound
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        acquires_for(sound, claim, Self::rounds(claim.ttl)).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        extends_by(sound, claim, Self::rounds(claim.ttl)).await
    }
}

/// It sets the record if there is none, and then the record's end, whoever wrote it.
#[derive(Clone, Default)]
struct ExtendsTheHolderByRefusing(Notes<HashMap<LockName, Claim>>);

#[async_trait]
impl Flaw for ExtendsTheHolderByRefusing {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        let holder = match attempt {
            Attempt::Granted(_) => self.0.now().insert(claim.name.clone(), claim.clone()).and(None),
            Attempt::Contended(_) => self.0.now().get(&claim.name).cloned(),
        };
        if let Some(holder) = holder {
            sound.extend(&asking_for(&holder, claim.ttl)).await?;
        }
        Ok(attempt)
    }
}

/// A place ends a ttl after it was taken, and asking again does not move that.
#[derive(Clone, Default)]
struct RenewsNoPlace(Notes<HashMap<OwnerId, Instant>>);

#[async_trait]
impl Flaw for RenewsNoPlace {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let taken = *self.0.now().entry(claim.owner).or_insert_with(Instant::now);
        let holder = sound.inspect(&claim.name).await?;
        let holds = holder.is_some_and(|holder| holder.owner == claim.owner.to_string());
        if claim.may_queue && !holds && taken.elapsed() > claim.ttl {
            self.release(sound, claim).await?;
        }
        sound.try_acquire(claim).await
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        self.0.now().remove(&claim.owner);
        let mut leaving = claim.clone();
        leaving.unsure = false;
        sound.release(&leaving).await
    }
}
