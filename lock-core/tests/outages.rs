//! A service that gives no answer, or gives it late, while claims wait. Under a paused clock.

use std::time::Duration;

use lock_core::{ErrorKind, Op, TestLocks};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_service_without_answer_is_no_contention() {
    let locks = TestLocks::new();
    let client = locks.client();
    locks.hang(Op::TryAcquire);
    let start = Instant::now();
    let error = client.lock("a").wait(Duration::from_millis(500)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(start.elapsed().as_millis(), 500);
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("\"a\""), "{error}");
    locks.heal();
    assert!(client.lock("a").acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out() {
    let locks = TestLocks::new();
    for _ in 0..5 {
        locks.fail_next(Op::TryAcquire, ErrorKind::Unavailable);
    }
    assert!(locks.client().lock("a").acquire().await.unwrap().is_held());
    assert_eq!(locks.calls(Op::TryAcquire), 6);
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_told_of_the_outage_that_its_head_met() {
    let locks = TestLocks::new();
    let client = locks.client();
    locks.hang(Op::TryAcquire);
    let head = tokio::spawn({
        let lock = client.lock("a");
        async move { lock.acquire().await }
    });
    sleep(Duration::from_secs(10)).await;
    let error = client.lock("a").wait(Duration::from_secs(1)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    head.abort();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_wait_at_once() {
    let locks = TestLocks::new();
    for kind in [ErrorKind::Denied, ErrorKind::Unsupported, ErrorKind::Unexpected] {
        locks.fail_next(Op::TryAcquire, kind);
        let start = Instant::now();
        assert_eq!(locks.client().lock("a").acquire().await.unwrap_err().kind(), kind);
        assert!(start.elapsed() < Duration::from_millis(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_not_taken_for_somebody_elses_lock() {
    let locks = TestLocks::new();
    locks.lose_reply(Op::TryAcquire);
    let start = Instant::now();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(guard.remaining() > TTL * 9 / 10);
    locks.lose_reply(Op::TryAcquire);
    let error = locks.client().lock("b").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    sleep(Duration::from_millis(1)).await;
    assert!(locks.client().lock("b").inspect().await.unwrap().is_none(), "the grant behind the lost reply was left");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_its_own_deadline_is_not_handed_out() {
    let locks = TestLocks::new();
    let lock = locks.client().lock("a").ttl(Duration::from_millis(500));
    locks.delay_next(Op::TryAcquire, Duration::from_millis(600));
    assert_eq!(lock.try_acquire().await.unwrap_err().kind(), ErrorKind::Unavailable);
    locks.delay_next(Op::TryAcquire, Duration::from_millis(600));
    let guard = lock.acquire().await.unwrap();
    assert!(guard.remaining() > Duration::from_millis(450), "{:?}", guard.remaining());
    locks.delay_next(Op::TryAcquire, Duration::from_millis(300));
    let slow = locks.client().lock("b").ttl(Duration::from_millis(500)).auto_extend(false).acquire().await.unwrap();
    assert!(slow.remaining() <= Duration::from_millis(200), "{:?}", slow.remaining());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_to_all_who_wait_also_during_the_first_ask() {
    let locks = TestLocks::new();
    locks.hang(Op::TryAcquire);
    let client = locks.client();
    let lock = client.lock("a").wait(Duration::from_secs(1));
    let (head, follower) = tokio::join!(lock.acquire(), lock.acquire());
    assert_eq!([head, follower].map(|end| end.unwrap_err().kind()), [ErrorKind::Unavailable; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fell_silent_is_not_taken_for_a_holder() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let waiter = tokio::spawn({
        let lock = locks.client().lock("a").wait(Duration::from_secs(4));
        async move { lock.acquire().await }
    });
    sleep(Duration::from_millis(10)).await;
    locks.hang(Op::TryAcquire);
    elsewhere.release().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_also_while_a_grant_that_came_too_late_is_given_back() {
    let locks = TestLocks::new();
    locks.hang(Op::Release);
    for _ in 0..9 {
        locks.delay_next(Op::TryAcquire, Duration::from_secs(2));
    }
    let start = Instant::now();
    let error = locks.client().lock("a").ttl(Duration::from_secs(1)).wait(Duration::from_secs(3)).acquire().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn grants_that_always_come_too_late_are_no_busy_loop() {
    let locks = TestLocks::new();
    for _ in 0..1000 {
        locks.delay_next(Op::TryAcquire, Duration::from_millis(11));
    }
    let lock = locks.client().lock("a").ttl(Duration::from_millis(10)).wait(Duration::from_secs(10));
    assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Unavailable);
    // One every 16 ms: the answer takes 11, and then it waits for 5.
    assert!(locks.calls(Op::TryAcquire) <= 626, "{}", locks.calls(Op::TryAcquire));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fell_silent_is_one_to_all_who_wait() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let client = locks.client();
    let waiters = [(); 2].map(|()| {
        let lock = client.lock("a").wait(Duration::from_secs(4));
        tokio::spawn(async move { lock.acquire().await })
    });
    sleep(Duration::from_millis(10)).await;
    locks.hang(Op::TryAcquire);
    elsewhere.release().await.unwrap();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_takes_its_time_is_not_one_that_is_away() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let head = client.lock("a").ttl(TTL);
    let head = tokio::spawn(async move { head.acquire().await });
    sleep(Duration::from_millis(1)).await;
    let follower = client.lock("a").wait(Duration::from_millis(20));
    let follower = tokio::spawn(async move { follower.acquire().await });
    locks.delay_next(Op::TryAcquire, Duration::from_millis(50));
    guard.release().await.unwrap();
    assert_eq!(follower.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    assert!(head.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ended_during_an_ask_is_over() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    locks.hang(Op::TryAcquire);
    assert!(locks.client().lock("a").ttl(TTL).wait(Duration::from_secs(1)).acquire().await.is_err());
    locks.heal();
    sleep(Duration::from_secs(6)).await;
    let asked = locks.calls(Op::TryAcquire);
    sleep(TTL * 3).await;
    assert_eq!(locks.calls(Op::TryAcquire), asked, "nobody waits, and somebody asks");
    drop(elsewhere);
}

#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_is_given_back_also_after_a_refusal() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let lock = locks.client().lock("a").ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(Duration::from_millis(1)).await;
    locks.fail_next(Op::TryAcquire, ErrorKind::Denied);
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Denied);
    elsewhere.release().await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert!(locks.client().lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_shortest_wait_asks_once() {
    let locks = TestLocks::new();
    let lock = locks.client().lock("a").wait(Duration::from_nanos(1));
    assert!(lock.acquire().await.unwrap().is_held(), "it was free, and the service answered at once");
    locks.hang(Op::TryAcquire);
    let busy = locks.client().lock("b").wait(Duration::from_nanos(1));
    assert_eq!(busy.acquire().await.unwrap_err().kind(), ErrorKind::Unavailable);
}
