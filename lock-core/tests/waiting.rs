//! How a claim waits: the local line, time-outs, outages and hints. All under a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{ErrorKind, FencingToken, Op, TestLocks};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_when_it_is_given_back() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let waiter = tokio::spawn({
        let lock = locks.client().lock("a").ttl(TTL);
        async move { lock.acquire().await.map(|guard| (guard.token(), Instant::now())) }
    });
    sleep(TTL * 3).await;
    let (token, released) = (elsewhere.token(), Instant::now());
    elsewhere.release().await.unwrap();
    let (next, granted) = waiter.await.unwrap().unwrap();
    assert!(next > token);
    assert!(granted.duration_since(released) < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_lost_wake_up_costs_two_seconds_at_most() {
    let locks = TestLocks::new();
    locks.hang(Op::Watch);
    let elsewhere = locks.hold_elsewhere("a").await;
    let waiter = tokio::spawn({
        let lock = locks.client().lock("a").ttl(TTL);
        async move { lock.acquire().await.map(|_| Instant::now()) }
    });
    sleep(TTL * 3).await;
    let released = Instant::now();
    drop(elsewhere);
    let granted = waiter.await.unwrap().unwrap();
    assert!(granted.duration_since(released) <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_as_timeout_and_leaves_nothing() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let start = Instant::now();
    let error = locks.client().lock("a").wait(Duration::from_secs(7)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(start.elapsed().as_secs(), 7);
    elsewhere.release().await.unwrap();
    assert!(locks.client().lock("a").try_acquire().await.unwrap().is_some(), "a place in the queue was left");
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_zero_asks_once() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let lock = locks.client().lock("a").wait(Duration::ZERO);
    let start = Instant::now();
    assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(locks.calls(Op::TryAcquire), 1);
    elsewhere.release().await.unwrap();
    assert!(lock.acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_local_waiters_get_their_turn_in_order_and_ask_once_each() {
    const WAITERS: usize = 10_000;
    let locks = TestLocks::new();
    let client = locks.client();
    let first = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let (lock, served) = (client.lock("a").ttl(TTL), Arc::clone(&served));
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                served.lock().unwrap().push((number, guard.token()));
                guard.release().await.unwrap();
            })
        })
        .collect();
    sleep(TTL / 10).await;
    assert_eq!(locks.calls(Op::TryAcquire), 1, "followers asked the service");
    first.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let served = served.lock().unwrap();
    assert!(served.iter().map(|(number, _)| *number).eq(0..WAITERS));
    assert!(served.is_sorted_by(|(_, a), (_, b)| a < b));
    assert_eq!(locks.calls(Op::TryAcquire), WAITERS as u64 + 1);
    assert_eq!(locks.calls(Op::Release), WAITERS as u64 + 1);
    assert_eq!(locks.calls(Op::Extend), 0);
}

#[tokio::test(start_paused = true)]
async fn acquire_extend_and_release_take_one_round_trip_each_whatever_waits() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let waiters: Vec<_> = (0..50)
        .map(|_| {
            let lock = client.lock("a");
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    sleep(Duration::from_millis(1)).await;
    guard.extend(TTL).await.unwrap();
    assert_eq!([Op::TryAcquire, Op::Extend, Op::Release].map(|op| locks.calls(op)), [1, 1, 0]);
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    sleep(Duration::from_millis(1)).await;
    guard.release().await.unwrap();
    assert_eq!([Op::TryAcquire, Op::Extend, Op::Release].map(|op| locks.calls(op)), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn try_acquire_does_not_ask_while_this_client_holds() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).try_acquire().await.unwrap().unwrap();
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(locks.calls(Op::TryAcquire), 1);
    locks.hang(Op::Extend);
    guard.lost().await;
    locks.heal();
    assert!(client.lock("a").try_acquire().await.unwrap().is_some(), "a lost guard is no reason not to ask");
}

#[tokio::test(start_paused = true)]
async fn try_acquire_overtakes_the_line() {
    let locks = TestLocks::new();
    let client = locks.client();
    locks.hang(Op::TryAcquire);
    let waiter = tokio::spawn({
        let lock = client.lock("a").ttl(TTL);
        async move { lock.acquire().await }
    });
    sleep(Duration::from_secs(1)).await;
    locks.heal();
    let tried = client.lock("a").ttl(TTL).try_acquire().await.unwrap();
    // Whichever of the two the service served first has the lock, the other one has not.
    assert_eq!(tried.is_some(), !waiter.is_finished());
    drop(tried);
    assert!(waiter.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_lets_the_next_in_line_ask() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = client.lock("a").ttl(TTL);
        async move { lock.acquire().await }
    });
    sleep(Duration::from_secs(1)).await;
    locks.evict("a").await;
    let start = Instant::now();
    guard.lost().await;
    assert!(waiter.await.unwrap().unwrap().token() > guard.token());
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_force_release_reaches_the_local_holder_and_the_next_in_line() {
    let locks = TestLocks::new();
    locks.hang(Op::Watch);
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = client.lock("a").ttl(TTL);
        async move { lock.acquire().await }
    });
    sleep(Duration::from_secs(1)).await;
    let wrong = FencingToken::new(guard.token().as_u64() + 1).unwrap();
    client.lock("a").force_release(Some(wrong)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(guard.is_held(), "another token was named");
    client.lock("a").force_release(Some(guard.token())).await.unwrap();
    assert!(waiter.await.unwrap().unwrap().token() > guard.token());
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_returns_asks_every_fifty_milliseconds_at_most() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    for _ in 0..10_000 {
        locks.fail_next(Op::Watch, ErrorKind::Unexpected);
    }
    let error = locks.client().lock("a").wait(Duration::from_secs(10)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(locks.calls(Op::TryAcquire) <= 203, "{}", locks.calls(Op::TryAcquire));
    drop(elsewhere);
}

#[tokio::test(start_paused = true)]
async fn waiting_is_cheap_while_the_lock_is_simply_held() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let error = locks.client().lock("a").wait(TTL * 10).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(locks.calls(Op::TryAcquire) <= 10 * 30, "{} asks in 300 s", locks.calls(Op::TryAcquire));
    assert!(locks.calls(Op::Watch) <= 3, "{} watches for one wait", locks.calls(Op::Watch));
    drop(elsewhere);
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_before_the_network() {
    let locks = TestLocks::new();
    let client = locks.client();
    let lock = client.lock("a");
    let long = "x".repeat(513);
    for name in ["", "a\nb", &long] {
        let lock = client.lock(name);
        assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::InvalidName);
        assert_eq!(lock.try_acquire().await.unwrap_err().kind(), ErrorKind::InvalidName);
        assert_eq!(lock.inspect().await.unwrap_err().kind(), ErrorKind::InvalidName);
        assert_eq!(lock.force_release(None).await.unwrap_err().kind(), ErrorKind::InvalidName);
    }
    for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX, Duration::from_secs(24 * 60 * 60 + 1)] {
        let error = lock.clone().ttl(ttl).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("10ms to 86400s"), "{error}");
    }
    for bad in [
        lock.clone().label("x".repeat(257)),
        lock.clone().label("a\tb"),
        lock.clone().max_hold(Duration::ZERO),
        lock.clone().max_hold(Duration::from_secs(1)).min_hold(Duration::from_secs(2)),
    ] {
        assert_eq!(bad.acquire().await.unwrap_err().kind(), ErrorKind::InvalidConfig);
    }
    assert_eq!(locks.calls(Op::TryAcquire), 0);
    let endless = lock.wait(Duration::MAX).min_hold(Duration::ZERO).max_hold(Duration::MAX);
    assert!(endless.acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn what_a_holder_says_of_itself_can_be_inspected() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a/b").label("nightly report").ttl(TTL).acquire().await.unwrap();
    let holder = client.lock("a/b").inspect().await.unwrap().unwrap();
    assert_eq!(holder.owner, guard.owner().to_string());
    assert_eq!(holder.token, Some(guard.token()));
    assert_eq!(holder.label.as_deref(), Some("nightly report"));
    assert_eq!(holder.pid, Some(std::process::id()));
    assert_eq!(client.list("a/").await.unwrap(), [holder]);
    assert!(client.list("b").await.unwrap().is_empty());
    assert!(client.lock("b").inspect().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_often_enough_to_keep_its_place() {
    let locks = TestLocks::new();
    locks.hang(Op::Watch);
    let elsewhere = locks.hold_elsewhere("a").await;
    let lock = locks.client().lock("a").ttl(Duration::from_secs(3)).wait(TTL);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(Duration::from_secs(20)).await;
    assert!(locks.calls(Op::TryAcquire) >= 20, "{} asks in 20 s, with a ttl of 3 s", locks.calls(Op::TryAcquire));
    waiter.abort();
    drop(elsewhere);
}

#[tokio::test(start_paused = true)]
async fn the_next_in_line_is_served_while_the_loser_cleans_up() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let lock = client.lock("a").ttl(TTL);
    let next = tokio::spawn(async move { lock.acquire().await });
    sleep(Duration::from_secs(1)).await;
    locks.hang(Op::Release);
    locks.evict("a").await;
    guard.lost().await;
    let start = Instant::now();
    assert!(next.await.unwrap().unwrap().is_held());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_next_in_line_is_served_while_the_losers_extension_hangs() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let lock = client.lock("a").ttl(TTL);
    let next = tokio::spawn(async move { lock.acquire().await });
    locks.hang(Op::Extend);
    guard.lost().await;
    // The service's own end of the grant.
    sleep(TTL / 100).await;
    let start = Instant::now();
    assert!(next.await.unwrap().unwrap().is_held());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
