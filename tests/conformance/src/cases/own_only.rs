//! A release ends what its owner has, and nothing else.
use lock_core::{Attempt, Backend, Ceiling, Extension, FencingToken, Release};
use tokio::time::{sleep, timeout};

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;
use crate::service::Network;

cases! { "6_own_only":
    a_stranger_releases_nothing,
    of_many_who_release_only_the_holder_frees_the_lock,
    a_late_release_leaves_the_successor_alone,
    a_slow_release_leaves_the_successor_alone needs Link,
    a_slow_extension_leaves_the_successor_alone needs Link,
    a_release_leaves_the_clients_other_locks_alone,
    a_claim_that_ran_out_leaves_the_clients_other_locks_alone,
    a_release_leaves_nothing_behind,
    leaving_the_queue_leaves_the_holder_alone,
    leaving_the_queue_leaves_the_other_waiters_alone needs Fifo,
    a_lock_that_is_taken_away_is_gone_for_its_holder needs ForceRelease,
    a_lock_that_is_taken_away_leaves_the_waiters_their_places needs Fifo ForceRelease,
    only_the_holder_with_the_given_token_loses_the_lock needs ForceRelease,
    taking_away_what_nobody_holds_does_nothing needs ForceRelease,
    the_service_keeps_one_entry_of_a_grant_and_none_after_its_release needs Look,
    what_the_service_forgot_can_be_had_and_its_holder_harms_nobody needs Evict,
}

async fn a_stranger_releases_nothing(t: &Trial) {
    let mut holder = t.contender();
    holder.acquires().await;
    t.contender().has_nothing_to_release().await;
    holder.sibling().has_nothing_to_release().await;
    holder.extends().await;
    t.contender().is_refused().await;
}

async fn of_many_who_release_only_the_holder_frees_the_lock(t: &Trial) {
    let (mut holder, other) = (t.contender(), t.contender());
    holder.acquires().await;
    let strangers = (0..20).map(|number| {
        let stranger = if number % 2 == 0 { holder.sibling() } else { other.sibling() };
        tokio::spawn(async move { stranger.has_nothing_to_release().await })
    });
    t.all(strangers.collect::<Vec<_>>()).await;
    other.sibling().is_refused().await;
    holder.releases().await;
    other.sibling().acquires().await;
}

/// Field case A7. The lease ran out, somebody else came, and only now the first one is done.
async fn a_late_release_leaves_the_successor_alone(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    let mut successor = t.contender();
    first.acquires().await;
    first.falls_silent().await;
    successor.acquires().await;
    first.has_nothing_to_release().await;
    successor.extends().await;
    t.contender().is_refused().await;
}

/// The lease runs out while the answers are on their way: a release in two steps would delete what it did not look at.
async fn a_slow_release_leaves_the_successor_alone(t: &Trial) {
    let (client, link) = t.contender_over_link();
    let (mut first, mut successor) = (client.sibling().with_ttl(t.ttl()), t.contender());
    first.acquires().await;
    link.set(Network::Slow(t.ttl() * 2));
    let (backend, claim, patience) = (first.backend(), first.claim(), t.patience());
    // What it answers, if it does, is not the point.
    let releasing = tokio::spawn(async move { timeout(patience, backend.release(&claim)).await.ok() });
    while let Attempt::Contended(_) = successor.tries().await.answer {
        sleep(t.ttl() / 20).await;
    }
    t.all([releasing]).await;
    link.set(Network::Healthy);
    successor.extends().await;
}

/// The lease runs out while the answers are on their way: an extension in two steps would extend what it did not look at.
async fn a_slow_extension_leaves_the_successor_alone(t: &Trial) {
    let (client, link) = t.contender_over_link();
    let (mut first, mut successor) = (client.sibling().with_ttl(t.ttl()), t.contender());
    first.acquires().await;
    sleep(t.ttl() / 2).await;
    link.set(Network::Slow(t.ttl() * 2));
    let (backend, claim, patience, clock) = (first.backend(), first.claim(), t.patience(), t.clock().clone());
    let extending = tokio::spawn(async move {
        let sent = clock.now();
        (sent, timeout(patience, backend.extend(&claim)).await)
    });
    let granted = loop {
        let told = successor.tries().await;
        if let Attempt::Granted(_) = told.answer {
            break told.answered;
        }
        sleep(t.ttl() / 20).await;
    };
    for (sent, extended) in t.all([extending]).await {
        if let Ok(Ok(Extension::Extended { ttl, .. })) = extended {
            let early = t.promised_until(sent, ttl).since(granted);
            ensure!(early.is_zero(), "{successor} was granted the lock {early:?} before {first} may lose it");
        }
    }
    link.set(Network::Healthy);
    successor.extends().await;
}

async fn a_release_leaves_the_clients_other_locks_alone(t: &Trial) {
    let mut kept = t.contender();
    kept.acquires().await;
    for other in ["/1", "/2"].map(|end| t.name_with(end)) {
        let mut given_back = kept.sibling_for(&other);
        given_back.acquires().await;
        given_back.releases().await;
    }
    kept.extends().await;
    t.contender().is_refused().await;
}

/// Only claims that share a session may end together.
async fn a_claim_that_ran_out_leaves_the_clients_other_locks_alone(t: &Trial) {
    if t.capabilities().ceiling == Ceiling::Session {
        return;
    }
    let mut kept = t.contender();
    kept.acquires().await;
    let mut ran_out = kept.sibling_for(&t.name_with("/1")).with_ttl(t.ttl());
    ran_out.acquires().await;
    ran_out.falls_silent().await;
    ran_out.has_lost().await;
    kept.extends().await;
    t.contender().is_refused().await;
}

async fn a_release_leaves_nothing_behind(t: &Trial) {
    let mut first = t.contender();
    first.acquires().await;
    ensure!(t.holder().await.is_some(), "nobody seems to hold a lock that {first} holds");
    first.releases().await;
    let holder = t.holder().await;
    ensure!(holder.is_none(), "after the release by {first} the lock has a holder: {holder:?}");
}

/// Field case A29: a waiter that gives up takes its place in the queue with it.
async fn leaving_the_queue_leaves_the_holder_alone(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().queueing();
    holder.acquires().await;
    waiter.is_refused().await;
    waiter.has_nothing_to_release().await;
    holder.extends().await;
    t.contender().is_refused().await;
    holder.releases().await;
    t.contender().acquires().await;
}

async fn leaving_the_queue_leaves_the_other_waiters_alone(t: &Trial) {
    let mut holder = t.contender();
    let (mut leaves, mut stays) = (t.contender().queueing(), t.contender().queueing());
    holder.acquires().await;
    leaves.is_refused().await;
    stays.is_refused().await;
    leaves.has_nothing_to_release().await;
    holder.releases().await;
    t.contender().is_refused().await;
    stays.acquires().await;
}

/// Field case A35: the operator removes a lock that seems stuck, and its holder is still there.
async fn a_lock_that_is_taken_away_is_gone_for_its_holder(t: &Trial) {
    let mut evicted = t.contender();
    evicted.acquires().await;
    let release = t.takes_away(None).await;
    ensure!(release == Release::Released, "{evicted} held the lock, and taking it away answered {release:?}");
    let mut successor = t.contender();
    successor.acquires().await;
    evicted.has_lost().await;
    evicted.has_nothing_to_release().await;
    successor.extends().await;
}

async fn a_lock_that_is_taken_away_leaves_the_waiters_their_places(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().queueing();
    holder.acquires().await;
    waiter.is_refused().await;
    t.takes_away(None).await;
    t.contender().is_refused().await;
    waiter.acquires().await;
}

async fn only_the_holder_with_the_given_token_loses_the_lock(t: &Trial) {
    let mut first = t.contender();
    let old = first.acquires().await.token;
    first.releases().await;
    let mut second = t.contender();
    let token = second.acquires().await.token;
    let release = t.takes_away(Some(old)).await;
    ensure!(release == Release::NotHeld, "token {old} is gone, and taking its lock away answered {release:?}");
    second.extends().await;
    let release = t.takes_away(Some(token)).await;
    ensure!(release == Release::Released, "token {token} holds, and taking its lock away answered {release:?}");
    second.has_lost().await;
}

async fn taking_away_what_nobody_holds_does_nothing(t: &Trial) {
    let release = t.takes_away(None).await;
    ensure!(release == Release::NotHeld, "nobody ever held the lock, and taking it away answered {release:?}");
    let mut holder = t.contender();
    let token = holder.acquires().await.token;
    let next = FencingToken::new(token.as_u64() + 1).expect("no service is so near to the largest token");
    let release = t.takes_away(Some(next)).await;
    ensure!(release == Release::NotHeld, "token {token} holds, and taking away that of {next} answered {release:?}");
    holder.extends().await;
}

async fn the_service_keeps_one_entry_of_a_grant_and_none_after_its_release(t: &Trial) {
    let mut holder = t.contender();
    holder.acquires().await;
    t.contender().is_refused().await;
    let kept = t.entries().await;
    ensure!(kept.len() == 1, "one holds the lock, and the service keeps {kept:?}");
    holder.releases().await;
    let kept = t.entries().await;
    ensure!(kept.is_empty(), "nobody holds the lock, and the service keeps {kept:?}");
}

/// Field cases A5 and A35: an operator deleted the key under the holder, and somebody else came.
async fn what_the_service_forgot_can_be_had_and_its_holder_harms_nobody(t: &Trial) {
    let (mut first, mut successor) = (t.contender(), t.contender());
    first.acquires().await;
    t.service_forgets_the_holder().await;
    successor.acquires().await;
    first.has_lost().await;
    first.has_nothing_to_release().await;
    successor.extends().await;
    t.contender().is_refused().await;
}
