//! A watch sleeps through what it waits for.
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{Backend, Claim, FencingToken, LockName, Release, Result, Watching, async_trait};
use tokio::time::{sleep, timeout};

use crate::mutant::{Flaw, mutants};
use crate::remote::Remote;

mutants! {
    ListensWithoutLooking: "watching::a_free_lock_calls_at_once",
    LooksOnce: "watching::a_release_calls_a_waiter",
    ListensOnlyForReleases: "watching::taking_a_lock_away_calls_a_waiter",
    LooksAndThenArms: "watching::no_release_is_missed",
    EndsTheStreamOfAll: "watching::one_watch_given_up_leaves_the_others",
    WatchesOnlyTheLock: "watching::a_place_that_is_gone_calls_at_once",
    ArmsForOneRelease: "watching::the_next_in_line_is_called",
    ListensWithoutLooking: "watching::a_holder_without_a_grant_is_called_at_once",
    TellsNoLoss: "watching::a_holder_is_called_when_its_lock_is_taken_away",
}

/// Whether a watch would return at once.
async fn calls_at_once(sound: &Remote, claim: &Claim, what: Watching) -> bool {
    timeout(Duration::ZERO, sound.watch(claim, what)).await.is_ok()
}

/// It waits for an event, and what has happened before is none.
#[derive(Clone, Default)]
struct ListensWithoutLooking;

#[async_trait]
impl Flaw for ListensWithoutLooking {
    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        if calls_at_once(sound, claim, what).await {
            pending().await
        }
        sound.watch(claim, what).await;
    }
}

/// It looks, and arms nothing.
#[derive(Clone, Default)]
struct LooksOnce;

#[async_trait]
impl Flaw for LooksOnce {
    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        if !calls_at_once(sound, claim, what).await {
            pending().await
        }
    }
}

/// It looks, arms when the answer has come, and sleeps through what was in between.
#[derive(Clone, Default)]
struct LooksAndThenArms;

#[async_trait]
impl Flaw for LooksAndThenArms {
    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        if !calls_at_once(sound, claim, what).await {
            sleep(Duration::from_millis(3)).await;
            ListensWithoutLooking.watch(sound, claim, what).await;
        }
    }
}

/// All watches of an instance share one stream, and the first that is given up closes it.
#[derive(Clone, Default)]
struct EndsTheStreamOfAll(Arc<AtomicBool>);

/// A watch under way: dropped before it has returned, it closes the stream.
struct Subscription<'a>(Option<&'a AtomicBool>);

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        if let Some(closed) = self.0 {
            closed.store(true, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Flaw for EndsTheStreamOfAll {
    fn opened(&self) -> Self {
        Self::default()
    }

    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        let mut subscription = Subscription(Some(&self.0));
        sound.watch(claim, what).await;
        if self.0.load(Ordering::Relaxed) {
            pending().await
        }
        subscription.0 = None;
    }
}

/// It waits for the lock to be free, and does not look at the own place in the queue.
#[derive(Clone, Default)]
struct WatchesOnlyTheLock;

#[async_trait]
impl Flaw for WatchesOnlyTheLock {
    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        let mut claim = claim.clone();
        claim.may_queue = false;
        sound.watch(&claim, what).await;
    }
}

/// A watch of the service is good for one release, and it is not armed anew when that was another waiter's turn.
#[derive(Clone, Default)]
struct ArmsForOneRelease(Arc<AtomicU64>);

#[async_trait]
impl Flaw for ArmsForOneRelease {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        self.0.fetch_add(1, Ordering::Relaxed);
        sound.release(claim).await
    }

    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        let before = self.0.load(Ordering::Relaxed);
        sound.watch(claim, what).await;
        if what == Watching::Turn && self.0.load(Ordering::Relaxed) > before + 1 {
            pending().await
        }
    }
}

/// It promises to tell of a loss, and only listens for those who wait.
#[derive(Clone, Default)]
struct TellsNoLoss;

#[async_trait]
impl Flaw for TellsNoLoss {
    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        if what == Watching::Grant {
            pending().await
        }
        sound.watch(claim, what).await;
    }
}

/// A release sends the event, and the operator's command sends none.
#[derive(Clone, Default)]
struct ListensOnlyForReleases(Arc<AtomicU64>);

#[async_trait]
impl Flaw for ListensOnlyForReleases {
    async fn force_release(&self, sound: &Remote, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.0.fetch_add(1, Ordering::Relaxed);
        sound.force_release(name, only).await
    }

    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        let before = self.0.load(Ordering::Relaxed);
        sound.watch(claim, what).await;
        if what == Watching::Turn && self.0.load(Ordering::Relaxed) != before {
            pending().await
        }
    }
}
