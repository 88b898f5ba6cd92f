//! How a hold ends: by a release, in time or late, during an outage, and by the limits that its holder set. Under a paused
//! clock.

use std::time::Duration;

use lock_core::{ErrorKind, LeaseState, LossReason, Op, Release, TestLocks};
use tokio::time::{Instant, advance, sleep, timeout};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn lost_stays_silent_after_a_release() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    let (lease, lost) = (guard.lease(), guard.lost());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert_eq!(guard.state(), LeaseState::Released);
    assert!(!lease.is_held());
    assert_eq!(guard.extend(TTL).await.unwrap_err().kind(), ErrorKind::Lost);
    drop(guard);
    assert!(timeout(TTL * 10, lost).await.is_err());
    assert_eq!(locks.calls(Op::Release), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_release_says_that_nothing_was_held() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    advance(TTL).await;
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert_eq!(guard.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_leaked_guard_loses_the_lock_at_max_hold() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).max_hold(TTL * 3).acquire().await.unwrap();
    let lost = guard.lost();
    std::mem::forget(guard);
    let start = Instant::now();
    assert_eq!(lost.await, LossReason::MaxHold);
    assert!(start.elapsed() <= TTL * 3 + Duration::from_millis(2), "{:?}", start.elapsed());
    sleep(Duration::from_millis(1)).await;
    assert!(locks.client().lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn min_hold_puts_the_release_off() {
    let locks = TestLocks::new();
    let client = locks.client();
    let start = Instant::now();
    let guard = client.lock("tick").ttl(TTL).min_hold(TTL * 4).acquire().await.unwrap();
    let lease = guard.lease();
    drop(guard);
    assert!(!lease.is_held(), "whoever gave it back must not go on working under it");
    sleep(TTL * 3).await;
    assert!(locks.client().lock("tick").try_acquire().await.unwrap().is_none());
    let _next = locks.client().lock("tick").acquire().await.unwrap();
    assert!(start.elapsed() >= TTL * 4);
    assert!(start.elapsed() < TTL * 5);
}

#[tokio::test(start_paused = true)]
async fn release_waits_for_min_hold() {
    let locks = TestLocks::new();
    let start = Instant::now();
    let guard = locks.client().lock("tick").ttl(TTL).min_hold(TTL).acquire().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(start.elapsed() >= TTL);
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_is_tried_again() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.lose_reply(Op::Release);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert_eq!(locks.calls(Op::Extend), 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_during_an_outage_is_made_good_when_the_service_is_back() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL * 20).acquire().await.unwrap();
    locks.hang(Op::Release);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(guard);
    sleep(TTL).await;
    assert!(client.lock("a").inspect().await.unwrap().is_some());
    locks.heal();
    let start = Instant::now();
    let _next = locks.client().lock("a").acquire().await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn clean_up_ends_when_the_grant_has_ended_by_itself() {
    let locks = TestLocks::new();
    let client = locks.client();
    drop(client.lock("a").ttl(TTL).acquire().await.unwrap());
    locks.hang(Op::Release);
    drop(client.lock("b").ttl(TTL).acquire().await.unwrap());
    sleep(TTL * 2).await;
    let before = locks.calls(Op::Release);
    sleep(TTL * 10).await;
    assert_eq!(locks.calls(Op::Release), before);
    assert!(client.close(Duration::from_secs(1)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refused_release_is_reported_and_not_repeated() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.fail_next(Op::Release, ErrorKind::Denied);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Denied);
    sleep(TTL * 2).await;
    assert_eq!(locks.calls(Op::Release), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_the_extension_that_is_on_its_way() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.delay_next(Op::Extend, Duration::from_secs(2));
    sleep(TTL * 11 / 30).await;
    assert_eq!(locks.calls(Op::Extend), 1);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    sleep(TTL).await;
    assert!(locks.client().lock("a").inspect().await.unwrap().is_none());
    assert_eq!(locks.calls(Op::Extend), 1, "nothing extends after a release");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_goes_while_min_hold_keeps_it_ends_the_keeping() {
    let locks = TestLocks::new();
    let client = locks.client();
    drop(client.lock("tick").ttl(TTL).min_hold(TTL * 10).acquire().await.unwrap());
    sleep(TTL).await;
    locks.evict("tick").await;
    sleep(TTL).await;
    let extensions = locks.calls(Op::Extend);
    assert!(extensions < 10, "{extensions}");
    sleep(TTL * 3).await;
    assert_eq!(locks.calls(Op::Extend), extensions);
    assert!(client.lock("tick").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_refused_release_is_not_forgotten() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    locks.fail_next(Op::Release, ErrorKind::Denied);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Denied, "the lock is still there");
    assert_eq!(client.close(Duration::from_secs(1)).await.len(), 1, "and closing says so");
    sleep(TTL).await;
    assert!(client.close(Duration::from_secs(1)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_wait_long_for_an_extension_that_hangs() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    locks.hang(Op::Extend);
    while locks.calls(Op::Extend) == 0 {
        sleep(Duration::from_millis(100)).await;
    }
    let start = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_long_for_an_extension_that_hangs() {
    let locks = TestLocks::new();
    let client = locks.client();
    let _guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    locks.hang(Op::Extend);
    while locks.calls(Op::Extend) == 0 {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(client.close(Duration::from_secs(1)).await.is_empty());
}
