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
