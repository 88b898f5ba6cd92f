//! `run`: a body under a lock. Under a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{ErrorKind, FencingToken, Op, TestLocks};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn the_bodys_value_is_given_and_the_lock_given_back() {
    let locks = TestLocks::new();
    let lock = locks.client().lock("a").ttl(TTL);
    let (token, held): (FencingToken, bool) = lock
        .run(async |lease| {
            sleep(TTL * 5).await;
            (lease.token(), lease.is_held())
        })
        .await
        .unwrap();
    assert!(held);
    assert!(lock.try_acquire().await.unwrap().unwrap().token() > token);
}

#[tokio::test(start_paused = true)]
async fn the_bodys_own_error_passes_through() {
    let locks = TestLocks::new();
    let outcome = locks.client().lock("a").run(async |_| Err::<(), _>("no")).await;
    assert_eq!(outcome.unwrap(), Err("no"));
    assert!(locks.client().lock("a").inspect().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_loss_drops_the_body() {
    struct SetOnDrop(Arc<AtomicBool>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (locks, dropped) = (TestLocks::new(), Arc::<AtomicBool>::default());
    let lock = locks.client().lock("a").ttl(TTL);
    let running = tokio::spawn({
        let witness = SetOnDrop(Arc::clone(&dropped));
        async move {
            lock.run(async move |_| {
                let _witness = witness;
                std::future::pending::<()>().await
            })
            .await
        }
    });
    sleep(TTL * 2).await;
    assert!(!dropped.load(Ordering::Relaxed));
    locks.evict("a").await;
    assert_eq!(running.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
    assert!(dropped.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finishes_after_the_loss_has_lost() {
    let locks = TestLocks::new();
    let clock = locks.clock().clone();
    let lock = locks.client().lock("a").ttl(TTL);
    // The body does not yield between the loss and its end.
    let outcome = lock.run(async |_| clock.jump(TTL)).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_does_not_cost_the_value() {
    let locks = TestLocks::new();
    locks.fail_next(Op::Release, ErrorKind::Unavailable);
    assert_eq!(locks.client().lock("a").run(async |_| 7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_panic_gives_the_lock_back_and_goes_on() {
    let locks = TestLocks::new();
    let lock = locks.client().lock("a").ttl(TTL);
    let running = tokio::spawn({
        let lock = lock.clone();
        async move { lock.run(async |_| std::panic::panic_any("ouch")).await }
    });
    let panic = running.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"ouch"));
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_body_does_not_run_without_the_lock() {
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    let lock = locks.client().lock("a").wait(Duration::from_secs(1));
    let outcome = lock.run(async |_| unreachable!("it must not run")).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
    drop(elsewhere);
}
