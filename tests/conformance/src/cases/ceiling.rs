//! Without further calls a grant ends by itself, and a place in a queue likewise.
use std::time::Duration;

use lock_core::Attempt;
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::{ensure, too_slow};

cases! { "3_ceiling":
    a_grant_ends_of_itself,
    a_ttl_between_two_seconds_ends_in_time,
    a_grant_ends_of_itself_while_others_ask,
    an_extended_grant_ends_of_itself,
    extensions_do_not_add_up,
    what_the_service_keeps_of_an_extended_grant_ends_in_time needs Look,
    a_lost_answer_leaves_a_grant_that_ends_of_itself,
    an_ask_given_up_at_any_point_leaves_nothing_that_stays,
    a_place_in_the_queue_ends_of_itself needs Fifo,
    a_place_that_is_asked_for_again_lives_on needs Fifo,
}

async fn a_grant_ends_of_itself(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

/// A service that counts in whole seconds may grant more than it was asked for, if the answer says so.
async fn a_ttl_between_two_seconds_ends_in_time(t: &Trial) {
    let ttl = t.ttl() + Duration::from_millis(100);
    let mut first = t.contender().with_ttl(ttl.min(t.capabilities().ttl_max));
    first.acquires().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

async fn a_grant_ends_of_itself_while_others_ask(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    let mut rival = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    let silence = tokio::spawn(async move { first.falls_silent().await });
    while !silence.is_finished() {
        rival.tries().await;
        sleep(t.ttl() / 10).await;
    }
    rival.acquires().await;
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
            left < granted.max(t.ttl()) + t.ttl() / 2,
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

/// Each ask renews the place, so a waiter that asks in time is not overtaken.
async fn a_place_that_is_asked_for_again_lives_on(t: &Trial) {
    let mut holder = t.contender();
    let mut first = t.contender().with_ttl(t.ttl()).queueing();
    let mut second = t.contender().queueing();
    holder.acquires().await;
    let mut asked = t.clock().now();
    first.is_refused().await;
    second.is_refused().await;
    for _ in 0..4 {
        sleep(t.ttl() / 2).await;
        let told = first.tries().await;
        if told.answered >= t.promised_until(asked, t.ttl()) {
            too_slow("a waiter asked again after the end of its place");
        }
        ensure!(matches!(told.answer, Attempt::Contended(_)), "{first} was granted a lock that {holder} holds");
        asked = told.sent;
    }
    holder.releases().await;
    let told = second.tries().await;
    if told.answered >= t.promised_until(asked, t.ttl()) {
        too_slow("the next one asked after the end of the first one's place");
    }
    ensure!(matches!(told.answer, Attempt::Contended(_)), "{second} overtook {first}, which asked again in time");
    first.acquires().await;
}
