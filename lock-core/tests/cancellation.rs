//! A caller that goes away leaves nothing behind, wherever it was. Exhaustive by poll count, under a paused clock.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::{Error, ErrorKind, Lock, LockGuard, Op, TestLocks};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(30);

/// Polls `future` `polls` times, letting the other tasks run once in between, then drops it. Its value if it was ready before.
async fn poll_and_drop<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for poll in 0..polls {
        if let Poll::Ready(value) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(value);
        }
        match poll % 4 {
            // Time goes on too.
            3 => sleep(Duration::from_millis(1)).await,
            _ => tokio::task::yield_now().await,
        }
    }
    None
}

/// Runs `acquire` to each of its await points and drops it there, until it needs no more polls.
async fn at_every_await_point<F>(locks: &TestLocks, prepare: impl Fn(), acquire: impl Fn(Lock) -> F)
where
    F: Future<Output = Result<Option<LockGuard>, Error>>,
{
    for polls in 0.. {
        assert!(polls < 1000, "it does not come to an end");
        let client = locks.client();
        prepare();
        let outcome = poll_and_drop(acquire(client.lock("a").ttl(TTL)), polls).await;
        let finished = outcome.is_some();
        drop(outcome);
        locks.heal();
        sleep(Duration::from_secs(6)).await;
        assert!(client.lock("a").inspect().await.unwrap().is_none(), "a grant is left after {polls} polls");
        let next = client.lock("a").try_acquire().await.unwrap();
        assert!(next.is_some(), "a place in the queue is left after {polls} polls");
        next.unwrap().release().await.unwrap();
        assert!(client.close(TTL).await.is_empty());
        if finished {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_try_leaves_nothing() {
    let locks = TestLocks::new();
    at_every_await_point(&locks, || (), |lock| async move { lock.try_acquire().await }).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_nothing() {
    let locks = TestLocks::new();
    at_every_await_point(&locks, || (), |lock| async move { lock.acquire().await.map(Some) }).await;
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_after_a_lost_reply_leaves_nothing() {
    let locks = TestLocks::new();
    let lose = || locks.lose_reply(Op::TryAcquire);
    at_every_await_point(&locks, lose, |lock| async move { lock.acquire().await.map(Some) }).await;
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_while_its_answer_is_late_leaves_nothing() {
    let locks = TestLocks::new();
    for late in [1, 2, 3] {
        let delay = || locks.delay_next(Op::TryAcquire, Duration::from_millis(late));
        at_every_await_point(&locks, delay, |lock| async move { lock.try_acquire().await }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_at_any_time_leaves_no_place_in_the_queue() {
    let locks = TestLocks::new();
    for polls in 0..20 {
        let client = locks.client();
        let elsewhere = locks.hold_elsewhere("a").await;
        let lock = client.lock("a").ttl(TTL);
        let waiter = async {
            let guard = lock.acquire().await;
            guard.map(drop)
        };
        assert!(poll_and_drop(waiter, polls).await.is_none());
        elsewhere.release().await.unwrap();
        sleep(Duration::from_millis(10)).await;
        let next = locks.client().lock("a").try_acquire().await.unwrap();
        assert!(next.is_some(), "after {polls} polls");
        next.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_dropped_in_the_line_is_skipped() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").acquire().await.unwrap();
    let spawn = || {
        let lock = client.lock("a");
        tokio::spawn(async move { lock.acquire().await })
    };
    let (middle, last) = (spawn(), spawn());
    sleep(Duration::from_millis(1)).await;
    middle.abort();
    sleep(Duration::from_millis(1)).await;
    guard.release().await.unwrap();
    assert!(last.await.unwrap().unwrap().is_held());
    assert_eq!(locks.calls(Op::TryAcquire), 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_any_time_still_happens() {
    let locks = TestLocks::new();
    for polls in 1..10 {
        let client = locks.client();
        let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
        poll_and_drop(guard.release(), polls).await;
        assert!(!guard.is_held());
        guard.release().await.unwrap();
        assert!(client.lock("a").inspect().await.unwrap().is_none(), "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_never_polled_changes_nothing() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").acquire().await.unwrap();
    drop(guard.release());
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn an_extension_dropped_at_any_time_keeps_the_lock() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    for polls in 0..6 {
        poll_and_drop(guard.extend(TTL), polls).await;
        sleep(Duration::from_millis(1)).await;
        assert!(guard.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_during_an_outage_is_cleaned_up_when_it_is_over() {
    let locks = TestLocks::new();
    let client = locks.client();
    locks.lose_reply(Op::TryAcquire);
    locks.fail_next(Op::TryAcquire, ErrorKind::Unavailable);
    locks.hang(Op::Release);
    let acquire = tokio::time::timeout(Duration::from_millis(5), client.lock("a").ttl(TTL * 10).acquire()).await;
    assert!(acquire.is_err());
    sleep(TTL).await;
    assert!(client.lock("a").inspect().await.unwrap().is_some());
    locks.heal();
    sleep(Duration::from_secs(7)).await;
    assert!(client.lock("a").inspect().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn min_hold_keeps_no_lock_that_nobody_was_given() {
    let locks = TestLocks::new();
    locks.delay_next(Op::TryAcquire, Duration::from_secs(1));
    let lock = locks.client().lock("a").ttl(TTL).min_hold(TTL * 100);
    assert!(tokio::time::timeout(Duration::from_millis(500), lock.try_acquire()).await.is_err());
    sleep(TTL).await;
    assert!(lock.inspect().await.unwrap().is_none());
    // Granted, and dropped before it was looked at again.
    assert!(poll_and_drop(async { lock.acquire().await.map(drop) }, 1).await.is_none());
    sleep(TTL).await;
    assert!(lock.inspect().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_comes_after_the_lease_is_over_gets_no_guard() {
    let locks = TestLocks::new();
    let lock = locks.client().lock("a").ttl(TTL).auto_extend(false);
    let mut acquire = pin!(lock.acquire());
    assert!(poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx))).await.is_pending());
    sleep(TTL * 2).await;
    assert_eq!(acquire.await.unwrap_err().kind(), ErrorKind::Lost);
}
