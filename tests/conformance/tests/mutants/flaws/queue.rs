//! A try leaves a trace, or the queue has another order.
use std::collections::HashMap;
use std::time::Duration;

use lock_core::{
    About, Attempt, Backend, Claim, Contention, FencingToken, Grant, Holder, LockName, OwnerId, Release, Result,
    async_trait,
};
use tokio::time::sleep;

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    LeavesAQueuePlace: "7_no_trace::refused_tries_leave_nothing_behind",
    SignsTheRecordOfAnother: "7_no_trace::a_refused_try_leaves_the_holder_as_it_was",
    QueuesATryForAMoment: "7_no_trace::a_refused_try_does_not_stand_before_a_waiter",
    LetsATryOvertake: "7_no_trace::a_try_does_not_overtake_a_waiter",
    ServesTheLastFirst: "7_no_trace::waiters_are_served_in_order",
    LosesThePlaceByAskingAgain: "7_no_trace::waiters_are_served_in_order",
}

/// The claim, as one that may queue or may not.
fn queueing(claim: &Claim, may_queue: bool) -> Claim {
    let mut claim = claim.clone();
    claim.may_queue = may_queue;
    claim
}

/// It queues whoever asks.
#[derive(Clone, Default)]
struct LeavesAQueuePlace;

#[async_trait]
impl Flaw for LeavesAQueuePlace {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        sound.try_acquire(&queueing(claim, true)).await
    }
}

/// It writes who it is before it knows whether it is granted the lock.
#[derive(Clone, Default)]
struct SignsTheRecordOfAnother(Notes<HashMap<LockName, About>>);

#[async_trait]
impl Flaw for SignsTheRecordOfAnother {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        self.0.now().insert(claim.name.clone(), claim.about.clone());
        sound.try_acquire(claim).await
    }

    async fn inspect(&self, sound: &Remote, name: &LockName) -> Result<Option<Holder>> {
        let holder = sound.inspect(name).await?;
        let signed = self.0.now();
        Ok(holder.map(|holder| signed.get(name).iter().fold(holder, |holder, about| holder.with_about(about))))
    }
}

/// It queues whoever asks, and lets those who may not queue leave in the background.
#[derive(Clone, Default)]
struct QueuesATryForAMoment;

#[async_trait]
impl Flaw for QueuesATryForAMoment {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(&queueing(claim, true)).await?;
        if matches!(attempt, Attempt::Contended(_)) && !claim.may_queue {
            let (sound, claim) = (sound.clone(), claim.clone());
            tokio::spawn(async move {
                sleep(Duration::from_millis(20)).await;
                sound.release(&claim).await
            });
        }
        Ok(attempt)
    }
}

/// It looks whether anybody holds the lock, and not whether anybody waits for it.
#[derive(Clone, Default)]
struct LetsATryOvertake;

#[async_trait]
impl Flaw for LetsATryOvertake {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if claim.may_queue || sound.inspect(&claim.name).await?.is_some() {
            return Ok(attempt);
        }
        Ok(Attempt::Granted(Grant::new(FencingToken::new(1 << 40)?, claim.ttl)))
    }
}

/// Its queue is a stack.
#[derive(Clone, Default)]
struct ServesTheLastFirst(Notes<Vec<(LockName, OwnerId)>>);

#[async_trait]
impl Flaw for ServesTheLastFirst {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let own = (claim.name.clone(), claim.owner);
        let last = self.0.now().iter().rfind(|waiter| waiter.0 == claim.name).cloned();
        if last.is_some_and(|last| last != own) && sound.inspect(&claim.name).await?.is_none() {
            return Ok(Attempt::Contended(Contention::new()));
        }
        let attempt = sound.try_acquire(&queueing(claim, false)).await?;
        let mut waiting = self.0.now();
        match attempt {
            Attempt::Granted(_) => waiting.retain(|waiter| *waiter != own),
            Attempt::Contended(_) if claim.may_queue && !waiting.contains(&own) => waiting.push(own),
            Attempt::Contended(_) => {}
        }
        Ok(attempt)
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        self.0.now().retain(|waiter| waiter.1 != claim.owner);
        sound.release(claim).await
    }
}

/// Each ask of a waiter replaces its node in the queue by a newer one.
#[derive(Clone, Default)]
struct LosesThePlaceByAskingAgain;

#[async_trait]
impl Flaw for LosesThePlaceByAskingAgain {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let holder = sound.inspect(&claim.name).await?;
        if claim.may_queue && holder.is_some_and(|holder| holder.owner != claim.owner.to_string()) {
            let mut leaving = claim.clone();
            leaving.unsure = false;
            sound.release(&leaving).await?;
        }
        sound.try_acquire(claim).await
    }
}
