//! A contended answer to a claim that may not queue leaves nothing behind, and queues are served in order.
use lock_core::Attempt;

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;

cases! { "7_no_trace":
    refused_tries_leave_nothing_behind,
    tries_that_meet_leave_nothing_behind,
    a_refused_try_leaves_the_holder_as_it_was,
    a_refused_try_does_not_stand_before_a_waiter needs Fifo,
    a_try_does_not_overtake_a_waiter needs Fifo,
    waiters_are_served_in_order needs Fifo,
    waiters_for_names_that_are_almost_the_same_are_independent needs Fifo,
}

/// Field case A29, without waiting.
async fn refused_tries_leave_nothing_behind(t: &Trial) {
    let (mut holder, other) = (t.contender(), t.contender());
    holder.acquires().await;
    for _ in 0..20 {
        other.sibling().is_refused().await;
    }
    holder.releases().await;
    let seen = t.holder().await;
    ensure!(seen.is_none(), "after refused tries and the holder's release the lock has a holder: {seen:?}");
    t.contender().acquires().await;
}

/// All may be refused when they meet, where the service decides by votes: then too the lock is free afterwards.
async fn tries_that_meet_leave_nothing_behind(t: &Trial) {
    let clients: Vec<_> = (0..4).map(|_| t.contender()).collect();
    for _ in 0..5 {
        let tries = clients.iter().map(|client| {
            let mut contender = client.sibling();
            tokio::spawn(async move {
                if let Attempt::Granted(_) = contender.tries().await.answer {
                    contender.releases().await;
                }
            })
        });
        let tries: Vec<_> = tries.collect();
        t.all(tries).await;
        let mut next = clients[0].sibling();
        next.acquires().await;
        next.releases().await;
    }
}

async fn a_refused_try_leaves_the_holder_as_it_was(t: &Trial) {
    let mut holder = t.contender();
    holder.acquires().await;
    let before = t.holder().await.map(|holder| (holder.owner, holder.token, holder.label, holder.since));
    t.contender().with_ttl(t.ttl()).is_refused().await;
    let after = t.holder().await.map(|holder| (holder.owner, holder.token, holder.label, holder.since));
    ensure!(before.is_some(), "nobody seems to hold a lock that {holder} holds");
    ensure!(after == before, "a refused try changed the holder from {before:?} to {after:?}");
}

async fn a_refused_try_does_not_stand_before_a_waiter(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().queueing();
    holder.acquires().await;
    t.contender().is_refused().await;
    waiter.is_refused().await;
    t.contender().is_refused().await;
    holder.releases().await;
    waiter.acquires().await;
}

/// The lock is free, but promised to the waiter that has not asked again yet.
async fn a_try_does_not_overtake_a_waiter(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().queueing();
    holder.acquires().await;
    waiter.is_refused().await;
    holder.releases().await;
    t.contender().is_refused().await;
    waiter.acquires().await;
}

/// Field case A40, among the living.
async fn waiters_are_served_in_order(t: &Trial) {
    let mut holder = t.contender();
    holder.acquires().await;
    let mut waiters: Vec<_> = (0..5).map(|_| t.contender().queueing()).collect();
    for waiter in &mut waiters {
        waiter.is_refused().await;
    }
    for next in 0..waiters.len() {
        // Those behind ask again, in the wrong order: that must win them nothing.
        for behind in waiters[next..].iter_mut().rev() {
            behind.is_refused().await;
        }
        holder.releases().await;
        for behind in waiters[next + 1..].iter_mut().rev() {
            behind.is_refused().await;
        }
        waiters[next].acquires().await;
        std::mem::swap(&mut holder, &mut waiters[next]);
    }
}

/// Field case A27: a queue is of one name, also where names are paths, or the beginning of a key.
async fn waiters_for_names_that_are_almost_the_same_are_independent(t: &Trial) {
    let one = t.contender();
    let names = ["", "/", "/b", "//b", "b", "/b/c"].map(|end| t.name_with(end));
    let mut pairs = Vec::new();
    for name in &names {
        let (mut holder, mut waiter) = (one.sibling_for(name), one.sibling_for(name).queueing());
        holder.acquires().await;
        waiter.is_refused().await;
        pairs.push((holder, waiter));
    }
    for (holder, waiter) in &mut pairs {
        holder.releases().await;
        waiter.acquires().await;
    }
    for (_, waiter) in pairs {
        waiter.releases().await;
        one.sibling_for(waiter.name()).acquires().await;
    }
}
