//! Without further calls a grant ends by itself, and a place in a queue likewise.
use std::time::Duration;

use lock_core::Attempt;
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;

cases! { "3_ceiling":
    a_grant_ends_of_itself,
    an_extended_grant_ends_of_itself,
    extensions_do_not_add_up,
    what_the_service_keeps_of_an_extended_grant_ends_in_time needs Look,
    a_lost_answer_leaves_a_grant_that_ends_of_itself,
    an_ask_given_up_at_any_point_leaves_nothing_that_stays,
    a_place_in_the_queue_ends_of_itself needs Fifo,
}

async fn a_grant_ends_of_itself(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

async fn an_extended_grant_ends_of_itself(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    sleep(t.ttl() / 3).await;
    first.extends().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

/// Field case A10. An extension asks for a ttl from now; it adds nothing to what is left.
async fn extensions_do_not_add_up(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    let granted = first.acquires().await.ttl;
    for _ in 0..10 {
        let left = first.extends().await;
        ensure!(
            left < granted + t.ttl() / 2,
            "{first} was granted {granted:?} and has {left:?} after an extension by {:?}",
            t.ttl()
        );
    }
    first.falls_silent().await;
    t.contender().acquires().await;
}

/// Field case A10, as the service itself sees it.
async fn what_the_service_keeps_of_an_extended_grant_ends_in_time(t: &Trial) {
    let mut first = t.contender();
    let mut granted = first.acquires().await.ttl;
    for _ in 0..10 {
        granted = first.extends().await;
    }
    // Some services tell in whole seconds what is left.
    let most = granted + t.capabilities().expiry_slack + Duration::from_secs(1);
    let kept = t.entries().await;
    let too_long = kept.iter().find(|entry| entry.remaining.is_some_and(|remaining| remaining > most));
    ensure!(!kept.is_empty(), "{first} holds the lock, and the service keeps nothing");
    ensure!(too_long.is_none(), "{first} was granted {granted:?} in the end, and the service keeps {kept:?}");
}

/// Field case A2: nobody knows of this grant, so nobody will ever release it.
async fn a_lost_answer_leaves_a_grant_that_ends_of_itself(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.hears_no_answer().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

/// At every await point of the call: never is there a lock without an end, not even for the moment between two messages.
async fn an_ask_given_up_at_any_point_leaves_nothing_that_stays(t: &Trial) {
    let (one, other) = (t.contender(), t.contender());
    let mut given_up = Vec::new();
    for polls in 1.. {
        let mut first = one.sibling_for(&t.name_with(polls)).with_ttl(t.ttl());
        let through = first.asks_in_vain(polls).await;
        given_up.push(first);
        if through {
            break;
        }
    }
    let until = t.clock().now() + t.patience();
    for first in given_up {
        let mut next = other.sibling_for(first.name());
        // What is on its way may arrive only now, and lives for its ttl then.
        while let Attempt::Contended(contention) = next.tries().await.answer {
            ensure!(t.clock().now() < until, "{first} gave up its ask for {:?} long ago: {contention:?}", t.ttl());
            sleep(t.ttl() / 5).await;
        }
    }
}

/// Field case A40: a waiter that died must not hold up the living.
async fn a_place_in_the_queue_ends_of_itself(t: &Trial) {
    let mut holder = t.contender();
    let mut dead = t.contender().with_ttl(t.ttl()).queueing();
    holder.acquires().await;
    dead.is_refused().await;
    dead.falls_silent().await;
    holder.releases().await;
    t.contender().acquires().await;
}
