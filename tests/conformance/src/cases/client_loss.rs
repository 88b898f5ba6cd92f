//! However a lease is lost, its holder knows before it does anything more under the lock.
use std::time::Duration;

use lock_core::{Fencing, LeaseState, LossReason};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::{ensure, too_slow};
use crate::locking::{Holding, Locking};
use crate::polls::poll_times;

cases! { "client_loss":
    a_holder_learns_that_the_service_forgot_it needs Evict,
    what_the_service_forgot_is_not_brought_back needs Evict,
    a_machine_that_slept_for_too_long_is_a_loss_before_any_use,
    a_machine_that_slept_for_a_moment_loses_nothing,
    a_forgotten_guard_ends_by_its_max_hold,
    a_guard_whose_runtime_is_gone_is_lost needs RealTime,
    a_guard_dropped_by_a_runtime_that_ends_frees_the_lock needs RealTime,
}

/// Field cases A5 and A35: the key was deleted under the holder, and somebody else came at once.
async fn a_holder_learns_that_the_service_forgot_it(t: &Trial) {
    let guard = t.lock().ttl(t.double_ttl()).acquires().await;
    t.service_forgets_the_holder().await;
    let successor = t.lock().acquires().await;
    is_told_of_the_loss(t, &guard).await;
    // What the client still does about the lost lock must not be the successor's loss.
    sleep(t.steady_ttl()).await;
    ensure!(guard.state() == LeaseState::Lost, "a lost lock came to be {:?}", guard.state());
    ensure!(successor.is_held(), "the successor of a lost lock lost it too: {successor:?}");
    // A service that was made to forget may have forgotten the tokens too: only some keep them elsewhere.
    let rises = successor.token() > guard.token() || t.capabilities().fencing < Fencing::ClockAssisted;
    ensure!(rises, "token {} came after {}", successor.token(), guard.token());
    successor.releases().await;
}

/// Field case A35: nobody came, so an extension that takes a missing key for a free one would find nothing wrong.
async fn what_the_service_forgot_is_not_brought_back(t: &Trial) {
    let guard = t.lock().ttl(t.double_ttl()).acquires().await;
    t.service_forgets_the_holder().await;
    is_told_of_the_loss(t, &guard).await;
    for _ in 0..5 {
        let seen = t.holder().await;
        ensure!(seen.is_none(), "nobody asked since the service forgot the holder, and there is one: {seen:?}");
        sleep(t.ttl() / 5).await;
    }
    t.lock().can_be_had().await;
}

/// By the service's word, long before the lease would have run out; and what is told stays so.
async fn is_told_of_the_loss(t: &Trial, guard: &lock_core::LockGuard) {
    let reason = t.soon(guard.lost(), "being told of the loss").await;
    if reason == LossReason::Expired {
        too_slow("the lease ran out before the service was asked again");
    }
    ensure!(reason == LossReason::Gone, "the service forgot the holder, and the reason of the loss is {reason:?}");
    let again = poll_times(1, guard.lost()).await;
    ensure!(again == Some(reason), "a loss for the reason {reason:?} was told again as {again:?}");
    guard.has_lost().await;
    guard.has_nothing_to_release().await;
}

/// Field cases A8 and A37. Timers stood still, and no call was made: the clock alone must tell, at the first question.
async fn a_machine_that_slept_for_too_long_is_a_loss_before_any_use(t: &Trial) {
    let lock = t.lock().ttl(t.steady_ttl());
    let guard = lock.acquires().await;
    let waiting = tokio::spawn(guard.lost());
    t.clock().jump(t.capabilities().expiry_slack + guard.ttl() * 2);
    ensure!(!guard.is_held(), "{guard:?} is held after the machine slept for two ttls");
    ensure!(guard.remaining().is_zero(), "{:?} of a lease are left that ran out in sleep", guard.remaining());
    let told = poll_times(1, guard.lost()).await;
    ensure!(told == Some(LossReason::Expired), "the lease ran out in sleep, and what is told is {told:?}");
    guard.has_lost().await;
    guard.has_nothing_to_release().await;
    t.soon(t.all([waiting]), "waking who waits for the loss").await;
    lock.can_be_had().await;
    t.lock().can_be_had().await;
}

/// Field case A37: what is left is less than the time to the next extension, which therefore has to come at once.
async fn a_machine_that_slept_for_a_moment_loses_nothing(t: &Trial) {
    let (guard, rival) = (t.lock().ttl(t.double_ttl()).acquires().await, t.lock());
    t.clock().jump(guard.ttl() * 3 / 4);
    for _ in 0..6 {
        guard.excludes(&rival).await;
        sleep(guard.ttl() / 5).await;
    }
    guard.releases().await;
    rival.can_be_had().await;
}

/// Field case A38: nothing is dropped, so nothing but the holder's own limit can end it.
async fn a_forgotten_guard_ends_by_its_max_hold(t: &Trial) {
    let (lock, max) = (t.lock().ttl(t.steady_ttl()), t.steady_ttl() * 2);
    let begin = t.clock().now();
    let guard = lock.max_hold(max).acquires().await;
    let (lease, granted) = (guard.lease(), t.clock().now());
    std::mem::forget(guard);
    let successor = t.lock().wait(max + t.patience()).acquires().await;
    let held = t.clock().now().since(begin);
    let reason = t.soon(lease.lost(), "being told of the loss").await;
    if reason == LossReason::Expired {
        too_slow("a lease was not extended in time");
    }
    ensure!(held >= max, "a lock that may be held for {max:?} was somebody else's after {held:?}");
    ensure!(reason == LossReason::MaxHold, "the lock was held for as long as it may be, and the reason is {reason:?}");
    let most = lease.deadline().since(granted);
    ensure!(most <= max, "a lock that may be held for {max:?} had {most:?}");
    successor.releases().await;
}

/// Field cases A38 and A39: nobody is left who extends it. The guard must not look valid for ever, and can be dropped.
async fn a_guard_whose_runtime_is_gone_is_lost(t: &Trial) {
    let (name, ttl, patience) = (t.name().clone(), t.steady_ttl(), t.patience());
    let (backend, trial) = (t.open_unattended(), t.clone());
    let elsewhere = spawn_blocking(move || {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime can be made");
        let client = trial.builder(backend).on_runtime(runtime.handle().clone()).build();
        let guard = runtime.block_on(client.lock(name.as_str()).ttl(ttl).wait(patience).acquires());
        runtime.shutdown_timeout(Duration::ZERO);
        guard
    });
    for guard in t.all([elsewhere]).await {
        t.soon(guard.lost(), "the loss of a lock that nobody extends").await;
        t.lock().can_be_had().await;
        ensure!(guard.state() == LeaseState::Lost, "nobody extends {guard:?}, and its state is {:?}", guard.state());
        guard.has_lost().await;
        guard.has_nothing_to_release().await;
        drop(guard);
    }
}

/// Field case A38: a task owns the guard, and its runtime ends without ever polling it again.
async fn a_guard_dropped_by_a_runtime_that_ends_frees_the_lock(t: &Trial) {
    let (lock, next) = (t.lock(), t.lock());
    let elsewhere = spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        let guard = runtime.block_on(lock.acquires());
        runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        });
        runtime.shutdown_timeout(Duration::ZERO);
    });
    t.all([elsewhere]).await;
    next.can_be_had().await;
}
