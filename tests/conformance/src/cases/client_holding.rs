//! A client's lease: it lasts while it is extended, and its holder knows when it is over.
use std::time::Duration;

use lock_core::{ErrorKind, LeaseState, LossReason, Release};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::Trial;
use crate::case::cases;
use crate::failure::{ensure, too_slow};
use crate::locking::{Ending, Holding, Locking};

cases! { "client_holding":
    a_lock_is_held_over_several_ttls,
    a_lock_is_held_while_the_application_blocks_its_thread needs RealTime,
    a_lock_that_is_not_extended_is_lost_in_time,
    a_holder_learns_that_its_lock_was_taken_away needs ForceRelease,
    a_release_is_no_loss,
    extending_does_not_add_up,
    a_lock_can_be_extended_to_a_longer_ttl needs TtlChange,
    a_body_is_dropped_when_its_lock_is_lost needs ForceRelease,
    a_body_gives_its_value_and_the_lock_back,
    a_body_that_panics_gives_the_lock_back,
    a_body_does_not_run_without_the_lock,
    a_lock_is_kept_for_its_min_hold,
}

async fn a_lock_is_held_over_several_ttls(t: &Trial) {
    let ttl = t.steady_ttl();
    let (guard, rival) = (t.lock().ttl(ttl).acquires().await, t.lock());
    let token = guard.token();
    for _ in 0..12 {
        sleep(ttl / 4).await;
        guard.excludes(&rival).await;
        ensure!(guard.token() == token, "extending changed token {token} to {}", guard.token());
    }
    guard.releases().await;
    rival.can_be_had().await;
}

/// Field case A39: the application's only thread makes no progress for two ttls, and the client's own one does.
async fn a_lock_is_held_while_the_application_blocks_its_thread(t: &Trial) {
    let (lock, rival, ttl) = (t.lock().ttl(t.steady_ttl()), t.lock(), t.steady_ttl());
    let application = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(async {
            let guard = lock.acquires().await;
            block_for(ttl * 2);
            guard.still_holds();
            guard
        })
    });
    t.soon(t.until_held(), "the lock being held by the application").await;
    let mut taken = None;
    while !application.is_finished() && taken.is_none() {
        taken = rival.try_acquire().await.succeeds();
        sleep(ttl / 10).await;
    }
    match application.join() {
        Ok(guard) => ensure!(taken.is_none(), "{guard:?} was held, and so was {taken:?}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Blocks the thread, as an application does that computes or calls a library that waits.
#[expect(clippy::disallowed_methods, reason = "to block the runtime is the point")]
fn block_for(time: Duration) {
    std::thread::sleep(time);
}

/// The loss is told at the deadline: not before it, and not later than a moment at which another one may be granted the lock.
async fn a_lock_that_is_not_extended_is_lost_in_time(t: &Trial) {
    let guard = t.lock().ttl(t.ttl()).auto_extend(false).acquires().await;
    let (rival, deadline) = (t.lock(), guard.lease().deadline());
    let loser = tokio::spawn({
        let (lost, clock) = (guard.lost(), t.clock().clone());
        async move { (lost.await, clock.now()) }
    });
    let successor = rival.acquires().await;
    ensure!(!guard.is_held(), "{guard:?} is held, and so is {successor:?}");
    ensure!(guard.state() == LeaseState::Lost, "the lease ran out, and its state is {:?}", guard.state());
    for (reason, told) in t.soon(t.all([loser]), "being told of the loss").await {
        ensure!(reason == LossReason::Expired, "the lease ran out, and the reason is {reason:?}");
        ensure!(told >= deadline, "the loss was told {:?} before the deadline", deadline.since(told));
    }
    guard.has_lost().await;
    guard.has_nothing_to_release().await;
    ensure!(successor.is_held(), "a late release made the successor lose the lock: {successor:?}");
}

/// Field cases A5 and A35: the holder learns of it at once where the service tells, else by its next extension.
async fn a_holder_learns_that_its_lock_was_taken_away(t: &Trial) {
    let (guard, operator) = (t.lock().ttl(t.steady_ttl()).acquires().await, t.lock());
    ensure!(guard.is_held(), "{guard:?} is not held");
    let release = operator.force_release(Some(guard.token())).await.succeeds();
    ensure!(release == Release::Released, "taking away token {}, which holds, gave {release:?}", guard.token());
    let successor = operator.acquires().await;
    let reason = t.soon(guard.lost(), "being told of the loss").await;
    ensure!(reason == LossReason::Gone, "the lock was taken away, and the reason is {reason:?}");
    guard.has_lost().await;
    guard.has_nothing_to_release().await;
    ensure!(guard.state() == LeaseState::Lost, "a lost lock came to be {:?}", guard.state());
    ensure!(successor.token() > guard.token(), "token {} came after {}", successor.token(), guard.token());
    sleep(t.ttl()).await;
    ensure!(successor.is_held(), "the successor of a lost lock lost it too: {successor:?}");
}

async fn a_release_is_no_loss(t: &Trial) {
    let guard = t.lock().ttl(t.steady_ttl()).acquires().await;
    let lease = guard.lease();
    guard.releases().await;
    ensure!(!guard.is_held() && guard.remaining().is_zero(), "{guard:?} is held after its release");
    let told = timeout(t.steady_ttl() * 2, lease.lost()).await;
    ensure!(told.is_err(), "a released lock was told to be lost: {told:?}");
    ensure!(lease.state() == LeaseState::Released, "a released lock is {:?}", lease.state());
}

/// Field case A10, on one guard: at once, then at intervals, and then no more.
async fn extending_does_not_add_up(t: &Trial) {
    let (lock, rival) = (t.lock().ttl(t.steady_ttl()).auto_extend(false), t.lock());
    let guard = lock.acquires().await;
    let (token, granted) = (guard.token(), guard.ttl());
    for _ in 0..10 {
        let before = guard.lease().deadline();
        guard.extends_to(guard.ttl()).await;
        ensure!(guard.lease().deadline() >= before, "an extension moved the deadline back");
        let left = guard.remaining();
        ensure!(left < granted + granted / 2, "a lock of {granted:?} has {left:?} after an extension");
    }
    for _ in 0..5 {
        sleep(t.steady_ttl() / 4).await;
        let before = guard.lease().deadline();
        guard.extends_to(guard.ttl()).await;
        ensure!(guard.lease().deadline() > before, "a lease of which a quarter was over is as long after an extension");
    }
    ensure!(guard.token() == token, "extending changed token {token} to {}", guard.token());
    let successor = rival.acquires().await;
    ensure!(guard.state() == LeaseState::Lost, "nobody extends {guard:?}, and its state is {:?}", guard.state());
    ensure!(successor.token() > token, "token {} came after {token}", successor.token());
}

async fn a_lock_can_be_extended_to_a_longer_ttl(t: &Trial) {
    let ttl = t.steady_ttl();
    let guard = t.lock().ttl(ttl).auto_extend(false).acquires().await;
    guard.extends_to(t.long_ttl()).await;
    ensure!(guard.remaining() > t.long_ttl() / 2, "a lock extended to {:?} has {:?}", t.long_ttl(), guard.remaining());
    guard.extend(ttl).await.fails_as(ErrorKind::InvalidConfig);
    sleep(ttl * 2).await;
    t.lock().is_refused().await;
}

async fn a_body_is_dropped_when_its_lock_is_lost(t: &Trial) {
    let (lock, operator) = (t.lock().ttl(t.steady_ttl()), t.lock());
    let running = tokio::spawn(async move { lock.run(|_| std::future::pending::<()>()).await });
    t.soon(t.until_held(), "the lock being held by the body").await;
    let release = operator.force_release(None).await.succeeds();
    ensure!(release == Release::Released, "taking the body's lock away gave {release:?}");
    for ended in t.soon(t.all([running]), "the end of the body").await {
        ended.fails_as(ErrorKind::Lost);
    }
}

async fn a_body_gives_its_value_and_the_lock_back(t: &Trial) {
    let (lock, rival) = (t.lock(), t.lock());
    let (held, token) = lock.run(|lease| async move { (lease.is_held(), lease.token()) }).await.succeeds();
    ensure!(held, "the body ran without the lock");
    let next = rival.acquires().await.token();
    ensure!(token < next, "token {next} came after the body's {token}");
}

/// Field case A38.
async fn a_body_that_panics_gives_the_lock_back(t: &Trial) {
    let lock = t.lock();
    let running = tokio::spawn(async move { lock.run(|_| async { std::panic::resume_unwind(Box::new("oh")) }).await });
    let ended: Result<lock_core::Result<()>, _> = running.await;
    ensure!(ended.is_err_and(|ended| ended.is_panic()), "the panic of a body did not come out of run");
    t.lock().can_be_had().await;
}

async fn a_body_does_not_run_without_the_lock(t: &Trial) {
    let guard = t.lock().acquires().await;
    let mut ran = false;
    let ended = t.lock().wait(t.ttl() / 4).run(async |_| ran = true).await;
    ensure!(!ran, "the body ran while {guard:?} was held");
    match ended {
        Err(error) if error.kind() == ErrorKind::Unavailable => too_slow(error),
        ended => _ = ended.fails_as(ErrorKind::Timeout),
    }
}

/// One run per tick, although the clocks of those who run differ.
async fn a_lock_is_kept_for_its_min_hold(t: &Trial) {
    let (min, begin) = (t.steady_ttl(), t.clock().now());
    drop(t.lock().ttl(t.double_ttl()).min_hold(min).acquires().await);
    t.lock().can_be_had().await;
    let kept = t.clock().now().since(begin);
    ensure!(kept >= min, "a lock with a min_hold of {min:?} was somebody else's after {kept:?}");
}
