//! What the core makes of odd answers of a service. Under a paused clock.

mod scripted;

use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_core::{Attempt, Contention, Error, ErrorKind, Extension, LeaseState, LossReason, Op, Release};
use tokio::time::{Instant, sleep};

use scripted::*;

#[tokio::test(start_paused = true)]
async fn a_granted_ttl_below_the_asked_one_shortens_the_lease() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Ok(grant(1, TTL / 2)));
    let guard = client.lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    assert_eq!(guard.ttl(), TTL / 2);
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() < TTL / 2);
}

#[tokio::test(start_paused = true)]
async fn a_granted_ttl_above_the_asked_one_is_reported_and_used() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Ok(grant(1, TTL * 2)));
    let guard = client.lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    assert_eq!(guard.ttl(), TTL * 2);
    assert!(guard.remaining() > TTL);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_reports_less_does_not_take_back_what_was_promised() {
    let (service, client) = Scripted::default().client();
    let guard = client.lock("a").ttl(TTL).auto_extend(false).acquire().await.unwrap();
    service.will_extend(Some(Ok(Extension::extended(TTL / 10))));
    guard.extend(TTL).await.unwrap();
    assert!(guard.remaining() > TTL / 2);
}

#[tokio::test(start_paused = true)]
async fn where_the_ttl_is_fixed_a_longer_one_is_refused() {
    let (service, client) = Scripted { ttl_is_fixed: true, ..Scripted::default() }.client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    assert_eq!(guard.extend(TTL * 2).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(service.asked(Op::Extend).is_empty());
    guard.extend(TTL).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_panics_costs_the_lock_and_not_the_client() {
    let (service, client) = Scripted::default().client();
    service.will_extend(None);
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Abandoned);
    assert!(start.elapsed() < TTL / 2);
    assert_eq!(guard.state(), LeaseState::Lost);
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert!(client.lock("a").acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn what_no_backend_promises_by_default_is_unsupported() {
    let (_, client) = Scripted::default().client();
    assert_eq!(client.list("").await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(client.lock("a").force_release(None).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(client.preflight().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn extensions_that_its_user_asks_for_in_vain_do_not_put_off_the_lease_s_own() {
    let (service, client) = Scripted::default().client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    for _ in 0..100 {
        sleep(Duration::from_secs(1)).await;
        assert!(guard.is_held());
        locked(&service.extensions).clear();
        service.will_extend(Some(Err(Error::new(ErrorKind::Denied, "too long"))));
        // If the lease's own extension comes first, it is refused instead, and tried again.
        let _ = guard.extend(TTL * 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_grants_nothing_more_is_no_busy_loop() {
    let (service, client) = Scripted::default().client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    for _ in 0..10_000 {
        service.will_extend(Some(Ok(Extension::extended(Duration::ZERO))));
    }
    guard.lost().await;
    assert!(service.asked(Op::Extend).len() <= 3000, "{}", service.asked(Op::Extend).len());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_panicked_is_not_taken_for_one_that_succeeded() {
    let (service, client) = Scripted::default().client();
    locked(&service.releases).push_back(None);
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn clean_up_goes_on_for_as_long_as_the_grant_may_live() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Ok(grant(1, TTL * 20)));
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    for _ in 0..100 {
        locked(&service.releases).push_back(Some(no_answer()));
    }
    drop(guard);
    sleep(TTL * 5).await;
    assert_eq!(service.asked(Op::Release).len(), 101, "the last one was answered");
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_a_session_is_given_back_however_long_it_takes() {
    let (service, client) = Scripted { grants_belong_to_a_session: true, ..Scripted::default() }.client();
    for _ in 0..200 {
        locked(&service.releases).push_back(Some(no_answer()));
    }
    drop(client.lock("a").ttl(TTL).acquire().await.unwrap());
    sleep(TTL * 10).await;
    assert_eq!(service.asked(Op::Release).len(), 201, "the last one was answered");
}

#[tokio::test(start_paused = true)]
async fn a_refused_extension_does_not_spoil_the_next_ones() {
    let (service, client) = Scripted::default().client();
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    service.will_extend(Some(Err(Error::new(ErrorKind::Denied, "too long"))));
    assert_eq!(guard.extend(TTL * 2).await.unwrap_err().kind(), ErrorKind::Denied);
    sleep(TTL).await;
    assert_eq!(service.asked(Op::Extend)[1].ttl, TTL);
}

#[tokio::test(start_paused = true)]
async fn what_the_service_says_is_left_of_a_grant_is_waited_for() {
    let (service, client) = Scripted::default().client();
    let left = Duration::from_millis(70);
    service.will_attempt(Ok(Attempt::Contended(Contention::new().with_retry_after(left))));
    let start = Instant::now();
    let _guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    assert!((left..left * 2).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_made_during_an_outage_is_made_again_after_it() {
    let (service, client) = Scripted::default().client();
    // A waiter.
    service.is_deaf.store(true, Ordering::Relaxed);
    service.will_attempt(no_answer());
    for _ in 0..3 {
        service.will_attempt(Ok(Attempt::Contended(Contention::new())));
    }
    let waiter = tokio::spawn({
        let lock = client.lock("a").ttl(TTL);
        async move { lock.acquire().await }
    });
    sleep(Duration::from_millis(100)).await;
    service.is_deaf.store(false, Ordering::Relaxed);
    while service.asked(Op::TryAcquire).len() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_millis(1)).await;
    service.hints.notify_waiters();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(service.asked(Op::TryAcquire).len(), 3, "the hint was not heard");
    let guard = waiter.await.unwrap().unwrap();

    // The holder.
    service.is_deaf.store(true, Ordering::Relaxed);
    service.hints.notify_waiters();
    service.will_extend(Some(no_answer()));
    let extensions = service.asked(Op::Extend).len();
    while service.asked(Op::Extend).len() < extensions + 2 {
        sleep(Duration::from_millis(1)).await;
    }
    service.is_deaf.store(false, Ordering::Relaxed);
    service.will_extend(Some(no_answer()));
    sleep(TTL).await;
    service.will_extend(Some(Ok(Extension::Lost)));
    let start = Instant::now();
    service.hints.notify_waiters();
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
}
