//! A client's waiting: it ends with the lock or with the time, and never otherwise.
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;
use crate::locking::{Holding, Locking};
use crate::polls::poll_times;

cases! { "client_waiting":
    a_waiter_gets_the_lock_when_it_is_released,
    a_waiter_gets_the_whole_ttl_when_a_lease_ran_out,
    a_wait_that_is_over_is_a_timeout_and_not_before,
    a_wait_that_is_over_leaves_nothing_behind,
    contention_is_no_error_for_a_try,
    a_wait_of_nothing_is_a_try,
    waiters_of_one_client_are_served_in_order,
    waiters_of_many_clients_are_all_served,
    a_wait_without_limit_is_no_overflow,
}

/// Field case A16: well before the holder's ttl is over.
async fn a_waiter_gets_the_lock_when_it_is_released(t: &Trial) {
    let (holder, waiter) = (t.lock(), t.lock());
    for round in 0..5 {
        let guard = holder.acquires().await;
        let waiter = waiter.clone();
        let waiting = tokio::spawn(async move { waiter.acquires().await });
        sleep(t.ttl() / 20 * round).await;
        guard.releases().await;
        for guard in t.all([waiting]).await {
            guard.releases().await;
        }
    }
}

/// Field case A22: the ttl counts from the ask that was granted, and not from when the wait began.
async fn a_waiter_gets_the_whole_ttl_when_a_lease_ran_out(t: &Trial) {
    let mut dead = t.contender().with_ttl(t.ttl());
    dead.acquires().await;
    let guard = t.lock().acquires().await;
    let (left, granted) = (guard.remaining(), guard.ttl());
    ensure!(left > granted / 2, "a lock of {granted:?} was handed out with {left:?} left");
}

async fn a_wait_that_is_over_is_a_timeout_and_not_before(t: &Trial) {
    let guard = t.lock().acquires().await;
    for wait in [t.ttl() / 4, t.ttl()] {
        let begin = t.clock().now();
        t.lock().times_out_after(wait).await;
        let took = t.clock().now().since(begin);
        ensure!(took >= wait, "a wait of {wait:?} was over after {took:?}");
        ensure!(took < wait + t.patience() / 2, "a wait of {wait:?} took {took:?}");
    }
    ensure!(guard.is_held(), "waiting made the holder lose the lock: {guard:?}");
}

/// Field case A29. The same client and another one get the lock as soon as it is free.
async fn a_wait_that_is_over_leaves_nothing_behind(t: &Trial) {
    let (holder, waiter) = (t.lock(), t.lock());
    let guard = holder.acquires().await;
    waiter.times_out_after(t.ttl() / 2).await;
    guard.releases().await;
    for next in [waiter, t.lock()] {
        next.can_be_had().await;
    }
}

/// Field case A19, the other way round: what is locked must not look like an outage.
async fn contention_is_no_error_for_a_try(t: &Trial) {
    let (holder, other) = (t.lock(), t.lock());
    let guard = holder.acquires().await;
    holder.is_refused().await;
    other.is_refused().await;
    guard.releases().await;
    let guard = other.acquires().await;
    holder.is_refused().await;
    drop(guard);
}

/// It asks once, however long the answer takes: a free lock is had, and one that is held is a timeout.
async fn a_wait_of_nothing_is_a_try(t: &Trial) {
    let lock = t.lock().wait(Duration::ZERO);
    let guard = lock.acquires().await;
    t.lock().times_out_after(Duration::ZERO).await;
    lock.times_out_after(Duration::ZERO).await;
    guard.releases().await;
    lock.can_be_had().await;
}

/// Only the first in line asks the service, so the order is the client's, whatever the service's is.
async fn waiters_of_one_client_are_served_in_order(t: &Trial) {
    let lock = t.lock();
    let guard = lock.acquires().await;
    let (calls, mut called) = mpsc::unbounded_channel();
    let mut waiting = Vec::new();
    for number in 0..10 {
        let (lock, calls) = (lock.clone(), calls.clone());
        let mut acquiring = Box::pin(async move {
            let guard = lock.acquires().await;
            calls.send(number).expect("the case receives until all are served");
            drop(guard);
        });
        // The first poll is what puts it into the line.
        let ended = poll_times(1, &mut acquiring).await;
        ensure!(ended.is_none(), "waiter {number} got a lock that is held");
        waiting.push(tokio::spawn(acquiring));
    }
    guard.releases().await;
    t.all(waiting).await;
    let served: Vec<_> = std::iter::from_fn(|| called.try_recv().ok()).collect();
    ensure!(served.is_sorted(), "waiters 0 to 9 were served in the order {served:?}");
}

/// Field case A17, with a lease that has to be extended meanwhile: those who wait must not starve the one who holds.
async fn waiters_of_many_clients_are_all_served(t: &Trial) {
    let holder = t.lock().ttl(t.steady_ttl()).acquires().await;
    let clients = [t.client(), t.client(), t.client()];
    let waiting = (0..60).map(|number| {
        let lock = t.lock_of(&clients[number % clients.len()]).wait(t.patience() * 4);
        tokio::spawn(async move { drop(lock.acquires().await) })
    });
    let waiting: Vec<_> = waiting.collect();
    sleep(t.steady_ttl()).await;
    holder.still_holds();
    holder.releases().await;
    t.all(waiting).await;
}

/// Field case A11.
async fn a_wait_without_limit_is_no_overflow(t: &Trial) {
    let lock = t.lock().wait(Duration::MAX);
    let guard = lock.acquires().await;
    let waiting = tokio::spawn(async move { lock.acquires().await });
    guard.releases().await;
    t.all([waiting]).await;
}
