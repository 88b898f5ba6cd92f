//! The client's own thread: blocking calls, and an application that starves its runtime. In real time.
#![expect(clippy::disallowed_methods, reason = "these tests starve a runtime on purpose")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::{ErrorKind, LockClient, MemoryBackend, Release};

const TTL: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "current_thread")]
async fn a_program_that_blocks_its_only_runtime_thread_keeps_its_lock() {
    let memory = MemoryBackend::new();
    let client = LockClient::new(memory.clone());
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    std::thread::sleep(TTL * 3);
    assert!(guard.is_held());
    assert!(LockClient::new(memory).lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "current_thread")]
async fn on_the_callers_runtime_a_starved_holder_finds_its_lock_lost() {
    let client = LockClient::builder(MemoryBackend::new()).on_runtime(tokio::runtime::Handle::current()).build();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    std::thread::sleep(TTL * 3);
    assert!(!guard.is_held(), "nobody extended it");
}

#[test]
fn threads_without_a_runtime_exclude_each_other() {
    let client = LockClient::new(MemoryBackend::new());
    let inside = Arc::new(AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let guard = client.lock("a").acquire_blocking().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release_blocking().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_blocking_call_inside_a_runtime_is_an_error_and_no_panic() {
    let client = LockClient::new(MemoryBackend::new());
    let lock = client.lock("a");
    let guard = lock.acquire_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        assert_eq!(lock.acquire_blocking().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(lock.try_acquire_blocking().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(guard.release_blocking().unwrap_err().kind(), ErrorKind::Unsupported);
    });
    assert!(guard.is_held());
    let in_spawn_blocking = runtime.block_on(async move {
        let release = move || tokio::runtime::Handle::current().block_on(guard.release());
        tokio::task::spawn_blocking(release).await
    });
    assert_eq!(in_spawn_blocking.unwrap().unwrap(), Release::Released);
}

#[test]
fn guards_move_between_threads_and_runtimes() {
    let client = LockClient::new(MemoryBackend::new());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = runtime().block_on(client.lock("a").ttl(TTL).acquire()).unwrap();
    std::thread::sleep(TTL * 2);
    assert!(guard.is_held(), "its first runtime is gone, its keeper is not");
    assert_eq!(runtime().block_on(guard.release()).unwrap(), Release::Released);
}

#[test]
fn the_thread_ends_when_the_last_guard_is_dropped() {
    let backend = Arc::new(MemoryBackend::new());
    let (everything, client) = (Arc::downgrade(&backend), LockClient::new(backend));
    let guard = client.lock("a").acquire_blocking().unwrap();
    drop(client);
    std::thread::sleep(TTL);
    assert!(guard.is_held() && everything.strong_count() > 0);
    drop(guard);
    for _ in 0..1000 {
        if everything.strong_count() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the client's thread did not let go of the backend");
}
