//! The end of a client: closing, dropping, and a runtime that goes away.

use std::time::Duration;

use lock_core::{Clock, ErrorKind, LeaseState, LockClient, LossReason, MemoryBackend, Op, Release, TestLocks};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn closing_gives_back_what_is_held_and_ends_what_waits() {
    let locks = TestLocks::new();
    let (client, elsewhere) = (locks.client(), locks.hold_elsewhere("busy").await);
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let waiting = ["busy", "busy", "a"].map(|name| {
        let lock = client.lock(name);
        tokio::spawn(async move { lock.acquire().await })
    });
    sleep(Duration::from_secs(1)).await;
    assert!(client.close(TTL).await.is_empty());
    assert_eq!(guard.lost().await, LossReason::Closed);
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
    assert_eq!(client.lock("b").acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(client.lock("b").try_acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(client.list("").await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(locks.client().lock("a").inspect().await.unwrap().is_none());
    elsewhere.release().await.unwrap();
    assert!(locks.client().lock("busy").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn closing_tells_what_could_not_be_given_back_in_time() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guards = [client.lock("b").acquire().await.unwrap(), client.lock("a").acquire().await.unwrap()];
    locks.hang(Op::Release);
    let start = Instant::now();
    let left = client.close(Duration::from_secs(2)).await;
    assert_eq!(left.iter().map(lock_core::LockName::as_str).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(start.elapsed().as_secs(), 2);
    locks.heal();
    assert!(client.close(TTL).await.is_empty(), "closing again waits on");
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_work_closes_at_once_and_twice() {
    let client = TestLocks::new().client();
    let start = Instant::now();
    assert!(client.close(TTL).await.is_empty());
    assert!(client.close(TTL).await.is_empty());
    assert!(start.elapsed() < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_guard_keeps_the_clients_machinery_alive() {
    let locks = TestLocks::new();
    let guard = locks.client().lock("a").ttl(TTL).acquire().await.unwrap();
    sleep(TTL * 5).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn dropping_ten_thousand_guards_frees_ten_thousand_locks() {
    let locks = TestLocks::new();
    let client = locks.client();
    let mut guards = Vec::new();
    for number in 0..10_000 {
        guards.push(client.lock(format!("lock {number}")).ttl(TTL).acquire().await.unwrap());
    }
    assert_eq!(client.list("lock ").await.unwrap().len(), 10_000);
    drop(guards);
    sleep(Duration::from_millis(1)).await;
    assert!(client.list("lock ").await.unwrap().is_empty());
    let start = Instant::now();
    assert!(client.close(TTL).await.is_empty());
    assert!(start.elapsed() < Duration::from_millis(10), "keepers are left");
}

#[test]
fn a_runtime_that_is_shut_down_takes_its_locks_with_it() {
    let memory = MemoryBackend::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = LockClient::builder(memory).on_runtime(runtime.handle().clone()).build();
    let guard = runtime.block_on(client.lock("a").ttl(TTL).acquire()).unwrap();
    let waiter = client.clone();
    runtime.shutdown_background();
    let elsewhere = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    elsewhere.block_on(async {
        assert_eq!(guard.lost().await, LossReason::Abandoned);
        assert!(!guard.is_held());
        assert_eq!(waiter.lock("b").acquire().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(waiter.lock("a").inspect().await.unwrap_err().kind(), ErrorKind::Closed);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_guard_may_be_dropped_where_there_is_no_runtime() {
    let memory = MemoryBackend::with_clock(Clock::system());
    let (client, other) = (LockClient::new(memory.clone()), LockClient::new(memory));
    for _ in 0..100 {
        let guard = client.lock("a").try_acquire_blocking().unwrap();
        drop(guard);
        // It waits for no longer than the release takes.
        drop(other.lock("a").wait(TTL).acquire_blocking().unwrap());
    }
    let guard = client.lock("a").acquire_blocking().unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = other.lock("a").wait(TTL).acquire_blocking().unwrap();
        std::panic::panic_any("with a guard in scope");
    }));
    assert!(panicked.is_err());
    assert!(client.lock("a").wait(TTL).acquire_blocking().is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_was_held_is_lost_when_the_client_has_closed_also_while_an_extension_hangs() {
    let locks = TestLocks::new();
    let client = locks.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    locks.hang(Op::Extend);
    while locks.calls(Op::Extend) == 0 {
        sleep(Duration::from_millis(100)).await;
    }
    client.close(Duration::from_secs(1)).await;
    assert_eq!(guard.state(), LeaseState::Lost);
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert_eq!(guard.extend(TTL).await.unwrap_err().kind(), ErrorKind::Lost);
}

#[test]
fn a_client_closes_where_there_is_no_runtime() {
    let memory = MemoryBackend::new();
    let client = LockClient::new(memory.clone());
    let guard = client.lock("a").acquire_blocking().unwrap();
    assert!(client.close_blocking(TTL).unwrap().is_empty());
    assert_eq!(guard.lease().state(), LeaseState::Lost);
    assert!(LockClient::new(memory).lock("a").try_acquire_blocking().unwrap().is_some());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { assert_eq!(client.close_blocking(TTL).unwrap_err().kind(), ErrorKind::Unsupported) });
    // A runtime without timers is enough.
    assert!(runtime.block_on(client.close(TTL)).is_empty());
}

#[test]
fn closing_does_not_wait_for_a_runtime_that_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = runtime();
    let client = LockClient::builder(MemoryBackend::new()).on_runtime(home.handle().clone()).build();
    let guard = home.block_on(client.lock("a").ttl(TTL).acquire()).unwrap();
    drop(home);
    assert_eq!(runtime().block_on(guard.release()).unwrap(), Release::NotHeld, "it was lost with its runtime");
    let closed = runtime().block_on(async { tokio::time::timeout(TTL, client.close(Duration::MAX)).await });
    assert!(closed.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_happens_also_when_nobody_waits_for_it() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let client = locks.client();
    locks.hang(Op::ForceRelease);
    let force = tokio::time::timeout(Duration::from_millis(1), client.lock("a").force_release(None)).await;
    assert!(force.is_err());
    drop(client);
    locks.heal();
    assert_eq!(elsewhere.lost().await, LossReason::Gone);
}
