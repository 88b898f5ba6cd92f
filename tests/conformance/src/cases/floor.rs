//! A yes promises that the grant lives at least the answered ttl, counted from when the service handled the call.
use std::time::Duration;

use lock_core::Attempt;

use crate::case::cases;
use crate::failure::ensure;
use crate::{Contender, Trial};

cases! { "2_floor":
    a_grant_lives_as_long_as_promised,
    a_ttl_between_two_seconds_is_kept_as_promised,
    an_extension_lives_as_long_as_promised,
    a_repeated_ask_promises_only_what_it_keeps,
    a_grant_outlives_the_refusals_of_others,
    a_grant_outlives_a_shorter_one_of_its_client,
    a_grant_to_a_waiter_lives_as_long_as_promised needs Fifo,
}

async fn a_grant_lives_as_long_as_promised(t: &Trial) {
    let mut holder = t.contender().with_ttl(t.ttl());
    holder.acquires().await;
    nobody_else_is_granted_before_the_promise_ends(t, &holder).await;
}

/// A service that counts in whole seconds may promise less than it was asked for, and not more than it keeps.
async fn a_ttl_between_two_seconds_is_kept_as_promised(t: &Trial) {
    let ttl = t.ttl() + Duration::from_millis(900);
    let mut holder = t.contender().with_ttl(ttl.min(t.capabilities().ttl_max));
    holder.acquires().await;
    nobody_else_is_granted_before_the_promise_ends(t, &holder).await;
}

async fn an_extension_lives_as_long_as_promised(t: &Trial) {
    let mut holder = t.contender().with_ttl(t.ttl());
    holder.acquires().await;
    for _ in 0..3 {
        tokio::time::sleep(t.ttl() / 3).await;
        holder.extends().await;
    }
    nobody_else_is_granted_before_the_promise_ends(t, &holder).await;
}

/// A yes found on a retry renews the grant, or reports what is left: never more than that.
async fn a_repeated_ask_promises_only_what_it_keeps(t: &Trial) {
    let mut holder = t.contender().with_ttl(t.ttl());
    holder.acquires().await;
    tokio::time::sleep(t.ttl() / 2).await;
    holder.tries().await;
    nobody_else_is_granted_before_the_promise_ends(t, &holder).await;
}

async fn a_grant_outlives_the_refusals_of_others(t: &Trial) {
    let (mut holder, other) = (t.contender(), t.contender());
    holder.acquires().await;
    for _ in 0..50 {
        other.sibling().with_ttl(t.ttl()).is_refused().await;
    }
    holder.extends().await;
}

/// Where claims share a session, the later one may be promised less than it asked for, and not more than the session lives.
async fn a_grant_outlives_a_shorter_one_of_its_client(t: &Trial) {
    let ttl = (t.ttl() * 2).min(t.capabilities().ttl_max);
    let mut longer = t.contender().with_ttl(ttl);
    let mut shorter = longer.sibling_for(&t.name_with("/shorter")).with_ttl(t.ttl());
    shorter.acquires().await;
    longer.acquires().await;
    nobody_else_is_granted_before_the_promise_ends(t, &longer).await;
}

/// The grant begins when it is made, and not with the place in the queue.
async fn a_grant_to_a_waiter_lives_as_long_as_promised(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().with_ttl(t.ttl()).queueing();
    holder.acquires().await;
    waiter.is_refused().await;
    tokio::time::sleep(t.ttl() / 2).await;
    holder.releases().await;
    waiter.acquires().await;
    nobody_else_is_granted_before_the_promise_ends(t, &waiter).await;
}

/// Asks on and on. A grant whose answer came after the end of the promise proves nothing, so a slow machine can't fail this.
async fn nobody_else_is_granted_before_the_promise_ends(t: &Trial, holder: &Contender) {
    let mut rival = t.contender().with_ttl(t.ttl());
    loop {
        let told = rival.tries().await;
        let left = holder.promised_until().since(told.answered);
        if left.is_zero() {
            return;
        }
        ensure!(
            matches!(told.answer, Attempt::Contended(_)),
            "{rival} was granted the lock {left:?} before {holder} may lose it"
        );
        tokio::time::sleep((t.ttl() / 50).min(left)).await;
    }
}
