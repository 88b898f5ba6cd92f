//! Successive grants of a name carry strictly increasing tokens.
use lock_core::{Attempt, ErrorKind, FencingToken, Restart};

use crate::Trial;
use crate::case::cases;
use crate::failure::{ensure, refute};

cases! { "8_tokens":
    tokens_rise_from_grant_to_grant,
    tokens_rise_whatever_happens_to_other_locks,
    tokens_rise_when_a_lease_ran_out,
    tokens_rise_when_a_lock_was_taken_away needs ForceRelease,
    tokens_rise_when_a_claim_comes_back_after_its_end,
    extending_keeps_the_token,
    a_grant_is_above_the_highest_token_seen,
    the_holder_is_shown_with_its_token,
    a_refusal_tells_of_no_token_that_nobody_was_granted,
    tokens_rise_over_a_restart needs Restart,
}

/// Field case A36. Two clients in turn, and a look at the lock while it is free: no memory of the name may be needed.
async fn tokens_rise_from_grant_to_grant(t: &Trial) {
    let mut last = None;
    let (one, other) = (t.contender(), t.contender());
    for cycle in 0..20 {
        let mut next = if cycle % 2 == 0 { one.sibling() } else { other.sibling() };
        let token = next.acquires().await.token;
        ensure!(last < Some(token), "{next} was granted token {token} after {last:?}");
        last = Some(token);
        next.releases().await;
        t.holder().await;
    }
}

/// Field case A36. Two locks are granted, extended and given back in turn; each has an order of its own.
async fn tokens_rise_whatever_happens_to_other_locks(t: &Trial) {
    let (one, other) = (t.contender(), t.contender_for(&t.name_with("/other")));
    let mut last = [None; 2];
    for cycle in 0..10 {
        let (mut here, mut there) = (one.sibling(), other.sibling());
        let tokens = [here.acquires().await.token, there.acquires().await.token];
        for _ in 0..cycle % 3 {
            there.extends().await;
        }
        let rise = last[0] < Some(tokens[0]) && last[1] < Some(tokens[1]);
        ensure!(rise, "two locks were granted with tokens {last:?}, and then with {tokens:?}");
        last = tokens.map(Some);
        here.releases().await;
        there.releases().await;
    }
}

async fn tokens_rise_when_a_lease_ran_out(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    let mut second = t.contender();
    let before = first.acquires().await.token;
    first.falls_silent().await;
    let after = second.acquires().await.token;
    ensure!(before < after, "{second} was granted token {after} after {first} had {before}");
}

async fn tokens_rise_when_a_lock_was_taken_away(t: &Trial) {
    let mut evicted = t.contender();
    let mut successor = t.contender();
    let before = evicted.acquires().await.token;
    t.takes_away(None).await;
    let after = successor.acquires().await.token;
    ensure!(before < after, "{successor} was granted token {after} after {evicted} had {before}");
}

/// A claim that ran out may be asked for again; it finds nothing of its own then, and gets a new grant.
async fn tokens_rise_when_a_claim_comes_back_after_its_end(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    let mut second = t.contender();
    first.acquires().await;
    first.falls_silent().await;
    let between = second.acquires().await.token;
    second.releases().await;
    if let Attempt::Granted(again) = first.tries().await.answer {
        ensure!(between < again.token, "{first} was granted token {} after {second} had {between}", again.token);
    }
}

async fn extending_keeps_the_token(t: &Trial) {
    let mut first = t.contender();
    let token = first.acquires().await.token;
    for _ in 0..3 {
        first.extends().await;
        let found = first.acquires().await.token;
        ensure!(found == token, "{first} was granted token {token} and has {found} after an extension");
    }
}

/// The service may have lost its memory since. If it can't grant a higher token then it must say so; to grant a lower one
/// would make the new holder's writes look stale.
async fn a_grant_is_above_the_highest_token_seen(t: &Trial) {
    let mut first = t.contender();
    let last = first.acquires().await.token;
    first.releases().await;
    let seen = FencingToken::new(last.as_u64() + 1000).expect("no service is so near to the largest token");
    let mut second = t.contender().having_seen(seen);
    let granted = match second.tries_and_may_fail().await {
        Ok(Attempt::Granted(grant)) => {
            ensure!(grant.token > seen, "{second} has seen token {seen} and was granted {}", grant.token);
            Some(grant.token)
        }
        Ok(Attempt::Contended(contention)) => refute!("{second} was refused a free lock: {contention:?}"),
        Err(error) => {
            ensure!(error.kind() == ErrorKind::TokenRegression, "{second} has seen token {seen}: {error}");
            None
        }
    };
    second.cleans_up().await;
    let next = t.contender().acquires().await.token;
    ensure!(granted < Some(next), "token {next} was granted after {granted:?}");
}

async fn the_holder_is_shown_with_its_token(t: &Trial) {
    let mut first = t.contender();
    let token = first.acquires().await.token;
    let shown = t.holder().await.and_then(|holder| holder.token);
    ensure!(
        shown.is_none_or(|shown| shown == token),
        "{first} was granted token {token}, and the holder is shown with {shown:?}"
    );
}

/// Whoever is told of a token asks for one above it.
async fn a_refusal_tells_of_no_token_that_nobody_was_granted(t: &Trial) {
    let (mut holder, mut other) = (t.contender(), t.contender());
    let token = holder.acquires().await.token;
    let told = other.is_refused().await.token;
    ensure!(told.is_none_or(|told| told <= token), "{holder} has token {token}, and {other} was told of {told:?}");
}

/// Field case A36, as far as the capabilities promise it. Nobody has seen the tokens before: the service itself has to know.
async fn tokens_rise_over_a_restart(t: &Trial) {
    let one = t.contender();
    let mut before = None;
    for _ in 0..3 {
        let mut holder = one.sibling();
        before = Some(holder.acquires().await.token);
        holder.releases().await;
    }
    t.service_restarts().await;
    let after = Some(t.contender().acquires().await.token);
    let promised = t.capabilities().restart >= Restart::Tokens;
    ensure!(before < after || !promised, "token {after:?} was granted after a restart, and {before:?} before");
}
