//! How a held lock goes on: extension, loss, and the limits of a hold. All under a paused clock.

use std::time::Duration;

use lock_core::{ErrorKind, FencingToken, LeaseState, LossReason, Op, Release, TestLocks};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_lock_outlives_many_ttls_while_its_guard_lives() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    let token = guard.token();
    sleep(TTL * 20).await;
    assert!(guard.is_held());
    assert_eq!(guard.state(), LeaseState::Held);
    assert_eq!(guard.token(), token);
    let extensions = locks.calls(Op::Extend);
    assert!((50..=70).contains(&extensions), "{extensions} extensions in 20 ttls");
    assert_eq!(locks.calls(Op::TryAcquire), 1);
}

#[tokio::test(start_paused = true)]
async fn without_extension_a_lock_is_lost_before_its_grant_ends() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(start.elapsed() < TTL, "{:?}", start.elapsed());
    assert!(start.elapsed() > TTL * 9 / 10, "{:?}", start.elapsed());
    assert!(!guard.is_held());
    assert_eq!(guard.state(), LeaseState::Lost);
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(locks.calls(Op::Extend), 0);
    sleep(Duration::from_millis(1)).await;
    assert!(
        locks.client().lock("a").try_acquire().await.unwrap().is_some(),
        "the rest of the grant was not given back"
    );
}

#[tokio::test(start_paused = true)]
async fn loss_is_told_at_the_deadline_while_the_extension_hangs() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.hang(Op::Extend);
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(start.elapsed() < TTL);
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn one_failed_extension_is_no_loss() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    for kind in [ErrorKind::Unavailable, ErrorKind::Denied, ErrorKind::Unexpected] {
        locks.fail_next(Op::Extend, kind);
        sleep(TTL).await;
        assert!(guard.is_held(), "{kind}");
    }
    locks.lose_reply(Op::Extend);
    sleep(TTL * 2).await;
    assert_eq!(guard.state(), LeaseState::Held);
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_rest_of_the_lease_costs_nothing() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.hang(Op::Extend);
    sleep(TTL * 8 / 10).await;
    assert_eq!(guard.state(), LeaseState::AtRisk);
    locks.heal();
    sleep(TTL / 10).await;
    assert_eq!(guard.state(), LeaseState::Held);
    assert!(guard.remaining() > TTL / 2);
}

#[tokio::test(start_paused = true)]
async fn at_least_two_tries_fit_before_the_deadline() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.hang(Op::Extend);
    guard.lost().await;
    assert!(locks.calls(Op::Extend) >= 2, "{}", locks.calls(Op::Extend));
}

#[tokio::test(start_paused = true)]
async fn a_yes_after_the_deadline_revives_nothing() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(Duration::from_millis(400)).auto_extend(false).acquire().await.unwrap();
    sleep(Duration::from_millis(380)).await;
    // The grant is extended in time at the service, but the answer comes after the old deadline.
    locks.delay_next(Op::Extend, Duration::from_millis(50));
    let error = guard.extend(Duration::from_millis(400)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(!guard.is_held());
    sleep(Duration::from_millis(1)).await;
    assert!(locks.client().lock("a").inspect().await.unwrap().is_none(), "what came too late was not given back");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_holder_learns_of_it_at_once() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    let (first, second) = (guard.lost(), guard.lost().clone());
    locks.evict("a").await;
    let start = Instant::now();
    assert_eq!(first.await, LossReason::Gone);
    assert_eq!(second.await, LossReason::Gone);
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(start.elapsed() < TTL / 10);
}

#[tokio::test(start_paused = true)]
async fn without_pushed_news_an_eviction_is_noticed_by_the_next_extension() {
    let locks = TestLocks::new();
    locks.hang(Op::Watch);
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.evict("a").await;
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(start.elapsed() <= TTL / 2, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_returns_is_no_busy_loop() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    for _ in 0..10_000 {
        locks.fail_next(Op::Watch, ErrorKind::Unexpected);
    }
    sleep(TTL * 10).await;
    assert!(guard.is_held());
    assert!(locks.calls(Op::Extend) < 100, "{}", locks.calls(Op::Extend));
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_frees_nobody_elses_lock() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.evict("a").await;
    let successor = locks.hold_elsewhere("a").await;
    guard.lost().await;
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert_eq!(guard.extend(TTL).await.unwrap_err().kind(), ErrorKind::Lost);
    drop(guard);
    sleep(TTL).await;
    assert!(successor.is_held());
}

#[tokio::test(start_paused = true)]
async fn extend_counts_from_now_and_adds_nothing() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    let token = guard.token();
    for _ in 0..10 {
        sleep(TTL / 3).await;
        guard.extend(TTL).await.unwrap();
        let holder = locks.client().lock("a").inspect().await.unwrap().unwrap();
        assert_eq!(holder.remaining, Some(TTL));
        assert!(guard.remaining() <= TTL);
        assert!(guard.remaining() > TTL * 9 / 10);
    }
    assert_eq!(guard.token(), token);
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() <= TTL);
}

#[tokio::test(start_paused = true)]
async fn extend_to_another_ttl_holds_for_later_extensions_too() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    guard.extend(TTL * 2).await.unwrap();
    assert_eq!(guard.ttl(), TTL * 2);
    let before = locks.calls(Op::Extend);
    sleep(TTL * 20).await;
    assert_eq!(guard.ttl(), TTL * 2);
    assert!(locks.calls(Op::Extend) - before < 36, "{}", locks.calls(Op::Extend) - before);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_or_impossible_extension_is_refused_before_the_network() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    for ttl in [TTL / 2, Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let error = guard.extend(ttl).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
    assert_eq!(locks.calls(Op::Extend), 0);
    assert!(guard.is_held());
    sleep(TTL * 2 / 3).await;
    guard.extend(TTL / 2).await.unwrap();
    assert!(guard.remaining() > TTL / 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_extension_shortens_nothing() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    let before = guard.remaining();
    locks.fail_next(Op::Extend, ErrorKind::Unavailable);
    let error = guard.extend(TTL * 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("\"a\""), "{error}");
    assert_eq!((guard.remaining(), guard.ttl()), (before, TTL));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_machine_finds_its_lock_lost() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    let lost = guard.lost();
    sleep(Duration::from_secs(1)).await;
    locks.clock().jump(TTL * 2);
    assert!(!guard.is_held(), "before anybody has run");
    let woken = Instant::now();
    assert_eq!(lost.await, LossReason::Expired);
    assert!(woken.elapsed() <= Duration::from_millis(200), "{:?}", woken.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_moves_can_be_followed() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    let lease = guard.lease();
    let first = lease.deadline();
    lease.deadline_moved(first).await;
    assert!(lease.deadline() > first);
    let last = lease.deadline();
    drop(guard);
    lease.deadline_moved(last).await;
    assert!(!lease.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_wants_extended_is_not_extended_by_looking_after_it() {
    let locks = TestLocks::new();
    for _ in 0..1000 {
        locks.fail_next(Op::Watch, ErrorKind::Unavailable);
    }
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    let start = Instant::now();
    client.lock("a").force_release(Some(FencingToken::MAX)).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(start.elapsed() < TTL);
}

#[tokio::test(start_paused = true)]
async fn without_extension_a_hint_still_tells_of_an_eviction() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    sleep(TTL / 2).await;
    locks.evict("a").await;
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(start.elapsed() < TTL / 10);
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_loss_does_not_change() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).max_hold(TTL * 3).acquire().await.unwrap();
    locks.clock().jump(TTL);
    let lost = guard.lost();
    locks.clock().jump(TTL * 4);
    assert_eq!(lost.await, LossReason::Expired);
    assert_eq!(guard.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_late_yes_revives_nothing_after_a_suspend() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    locks.delay_next(Op::Extend, Duration::from_millis(3));
    while locks.calls(Op::Extend) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // The jump is noticed by nobody before the yes comes.
    locks.clock().jump(TTL * 7 / 10);
    for _ in 0..300 {
        assert!(!guard.is_held(), "{guard:?}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_try_to_extend_leaves_time_for_another() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    locks.hang(Op::Extend);
    sleep(Duration::from_millis(2700)).await;
    assert!(guard.is_held());
    assert!(locks.calls(Op::Extend) >= 2, "{}", locks.calls(Op::Extend));
}
