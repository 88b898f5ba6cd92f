//! A watch returns when asking again may give another answer. It is a hint: one too many is legal, one too few is not.
use std::time::Duration;

use lock_core::{Release, Watching};
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::{ensure, refute};

cases! { "watching":
    a_free_lock_calls_at_once needs PushedWakeup,
    a_release_calls_a_waiter needs PushedWakeup,
    taking_a_lock_away_calls_a_waiter needs PushedWakeup ForceRelease,
    no_release_is_missed needs PushedWakeup,
    one_watch_given_up_leaves_the_others needs PushedWakeup,
    a_place_that_is_gone_calls_at_once needs Fifo PushedWakeup,
    the_next_in_line_is_called needs Fifo PushedWakeup,
    a_holder_without_a_grant_is_called_at_once needs PushedLoss,
    a_holder_is_called_when_its_lock_is_taken_away needs PushedLoss ForceRelease,
}

async fn a_free_lock_calls_at_once(t: &Trial) {
    t.contender().is_called(Watching::Turn).await;
}

async fn a_release_calls_a_waiter(t: &Trial) {
    let (one, other) = (t.contender(), t.contender());
    for mut waiter in [other.sibling(), other.sibling().queueing()] {
        let mut holder = one.sibling();
        holder.acquires().await;
        waiter.is_refused().await;
        let waiting = tokio::spawn(async move {
            waiter.is_called_for_its_turn().await;
            waiter.releases().await;
        });
        sleep(t.ttl() / 10).await;
        holder.releases().await;
        t.all([waiting]).await;
    }
}

async fn taking_a_lock_away_calls_a_waiter(t: &Trial) {
    let (mut holder, mut waiter) = (t.contender(), t.contender());
    holder.acquires().await;
    waiter.is_refused().await;
    let waiting = tokio::spawn(async move { waiter.is_called_for_its_turn().await });
    sleep(t.ttl() / 10).await;
    t.takes_away(None).await;
    t.all([waiting]).await;
}

/// Field case A16. The release falls before, into and after the moment at which the watch is armed.
async fn no_release_is_missed(t: &Trial) {
    let (one, other) = (t.contender(), t.contender());
    for round in 0..100 {
        let (mut holder, mut waiter) = (one.sibling(), other.sibling());
        holder.acquires().await;
        waiter.is_refused().await;
        let waiting = tokio::spawn(async move {
            waiter.is_called_for_its_turn().await;
            waiter.releases().await;
        });
        sleep(Duration::from_micros(round * 20)).await;
        holder.releases().await;
        t.all([waiting]).await;
    }
}

/// All watches of a backend share one stream: the end of one must not end it.
async fn one_watch_given_up_leaves_the_others(t: &Trial) {
    let mut holder = t.contender();
    holder.acquires().await;
    let mut waiter = t.contender();
    waiter.is_refused().await;
    let mut gives_up = waiter.sibling();
    gives_up.is_refused().await;
    let waiting = tokio::spawn(async move { waiter.is_called_for_its_turn().await });
    // If it is called then so be it: a hint too many is legal.
    gives_up.watches_for(t.ttl() / 4).await;
    holder.releases().await;
    t.all([waiting]).await;
}

/// Field case A25: the place lapsed while the waiter slept, and no release will ever be its turn.
async fn a_place_that_is_gone_calls_at_once(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().with_ttl(t.ttl()).queueing();
    holder.acquires().await;
    waiter.is_refused().await;
    waiter.falls_silent().await;
    if !waiter.watches_for(t.patience()).await {
        // Its place would stand before anybody who comes now.
        let mut later = t.contender();
        holder.releases().await;
        later.acquires().await;
        refute!("{waiter} has no place any more, as {later} shows, and was not called for {:?}", t.patience());
    }
}

async fn the_next_in_line_is_called(t: &Trial) {
    let mut holder = t.contender();
    holder.acquires().await;
    let mut waiters: Vec<_> = (0..3).map(|_| t.contender().queueing()).collect();
    for waiter in &mut waiters {
        waiter.is_refused().await;
    }
    let waiting = waiters.into_iter().map(|mut waiter| {
        tokio::spawn(async move {
            waiter.is_called_for_its_turn().await;
            waiter.releases().await;
        })
    });
    let waiting: Vec<_> = waiting.collect();
    holder.releases().await;
    t.all(waiting).await;
}

async fn a_holder_without_a_grant_is_called_at_once(t: &Trial) {
    let mut first = t.contender();
    first.acquires().await;
    first.releases().await;
    first.is_called(Watching::Grant).await;
}

/// Field case A35: deleted by hand, and the holder is to know at once and not only at its next extension.
async fn a_holder_is_called_when_its_lock_is_taken_away(t: &Trial) {
    let mut evicted = t.contender();
    evicted.acquires().await;
    let trial = t.clone();
    let waiting = tokio::spawn(async move {
        evicted.is_called_for_its_loss().await;
        evicted.has_lost().await;
    });
    sleep(t.ttl() / 10).await;
    let release = trial.takes_away(None).await;
    ensure!(release == Release::Released, "taking away a held lock answered {release:?}");
    t.all([waiting]).await;
}
