//! One client with very many tasks, locks and waiters.
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::{Lock, LockClient, LockGuard};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;
use crate::locking::{Holding, Locking};
use crate::service::Network;

cases! { "client_crowd":
    tasks_that_share_a_lock_exclude_each_other,
    those_who_wait_do_not_starve_who_holds,
    a_hundred_locks_are_all_extended,
    a_hundred_locks_are_all_extended_over_a_slow_network needs Link,
    many_guards_dropped_at_once_free_their_locks,
}

/// Field case A24: an acquisition is an owner, and not the lock's clone, the task or the thread. Each guard is given back by
/// another task than the one that acquired it.
async fn tasks_that_share_a_lock_exclude_each_other(t: &Trial) {
    let lock = t.lock().wait(t.patience() * 4);
    let counter = Arc::new(AtomicU32::new(0));
    let tasks = (0..50).map(|_| {
        let (lock, counter) = (lock.clone(), Arc::clone(&counter));
        tokio::spawn(async move {
            let guard = lock.acquires().await;
            let before = counter.load(Ordering::Relaxed);
            for _ in 0..5 {
                yield_now().await;
            }
            counter.store(before + 1, Ordering::Relaxed);
            let identity = (guard.owner(), guard.token());
            (identity, tokio::spawn(async move { guard.releases().await }))
        })
    });
    let (identities, releases): (Vec<_>, Vec<_>) = t.all(tasks.collect::<Vec<_>>()).await.into_iter().unzip();
    t.all(releases).await;
    let counted = counter.load(Ordering::Relaxed);
    ensure!(counted == 50, "50 tasks counted under one lock, and came to {counted}");
    let owners: HashSet<_> = identities.iter().map(|(owner, _)| owner).collect();
    let tokens: HashSet<_> = identities.iter().map(|(_, token)| token).collect();
    ensure!(owners.len() == 50, "50 acquisitions had {} owners", owners.len());
    ensure!(tokens.len() == 50, "50 acquisitions had {} tokens", tokens.len());
    t.lock().can_be_had().await;
}

/// Field case A17: the same client holds one lock, waits for it, and waits for very many others.
async fn those_who_wait_do_not_starve_who_holds(t: &Trial) {
    let (client, elsewhere) = (t.client(), t.client());
    let held = all_of(t, &elsewhere, t.many(200)).await;
    let holder = t.lock_of(&client).ttl(t.double_ttl()).acquires().await;
    let others = held.iter().map(|guard| client.lock(guard.name().as_str()).ttl(t.long_ttl()));
    let same = std::iter::repeat_n(t.lock_of(&client), held.len());
    let waiting = others.chain(same).map(|lock: Lock| {
        let lock = lock.wait(t.patience() * 4);
        tokio::spawn(async move { drop(lock.acquires().await) })
    });
    let waiting: Vec<_> = waiting.collect();
    for _ in 0..10 {
        sleep(holder.ttl() / 5).await;
        holder.still_holds();
    }
    t.is_back(t.ttl(), "release", holder.releases()).await;
    drop(held);
    t.all(waiting).await;
    t.lock().can_be_had().await;
}

/// Field case A39: extending one must not wait for the extension of all others.
async fn a_hundred_locks_are_all_extended(t: &Trial) {
    let client = t.client();
    are_all_extended(t, &client, || {}).await;
}

/// Field case A39.
async fn a_hundred_locks_are_all_extended_over_a_slow_network(t: &Trial) {
    let (client, link) = t.client_over_link();
    are_all_extended(t, &client, || link.set(Network::Slow(t.op_timeout() / 40))).await;
    link.set(Network::Healthy);
}

async fn are_all_extended(t: &Trial, client: &LockClient, now_hurt: impl FnOnce()) {
    let ttl = t.double_ttl();
    let locks = (0..100).map(|number| {
        let lock = client.lock(t.name_with(number).as_str()).ttl(ttl).wait(t.patience());
        tokio::spawn(async move { lock.acquires().await })
    });
    let guards = t.all(locks.collect::<Vec<_>>()).await;
    now_hurt();
    sleep(ttl * 2).await;
    for guard in &guards {
        guard.still_holds();
    }
    let releases = guards.into_iter().map(|guard| tokio::spawn(async move { guard.releases().await }));
    t.all(releases.collect::<Vec<_>>()).await;
}

/// Field case A38. No drop waits for anything, and every lock is given back.
async fn many_guards_dropped_at_once_free_their_locks(t: &Trial) {
    let (client, next) = (t.client(), t.client());
    let guards = all_of(t, &client, t.many(2_000)).await;
    let number = guards.len();
    let begin = t.clock().now();
    drop(guards);
    let took = t.clock().now().since(begin);
    ensure!(took < t.patience() / 2, "dropping {number} guards took {took:?}");
    drop(all_of(t, &next, number).await);
}

/// So many locks, all acquired.
async fn all_of(t: &Trial, client: &LockClient, number: usize) -> Vec<LockGuard> {
    let acquires = (0..number).map(|number| {
        let lock =
            client.lock(t.name_with(format_args!("/{number}")).as_str()).ttl(t.long_ttl()).wait(t.patience() * 2);
        tokio::spawn(async move { lock.acquires().await })
    });
    t.all(acquires.collect::<Vec<_>>()).await
}
