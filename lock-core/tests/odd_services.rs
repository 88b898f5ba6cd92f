//! What the core sends to a service, and what it makes of odd answers. Under a paused clock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lock_core::{
    Attempt, Backend, Capabilities, Ceiling, Claim, Clock, Contention, Error, ErrorKind, Extension, FencingToken,
    Grant, Holder, LeaseState, LockClient, LockName, LossReason, Notice, Op, Place, Release, Result, Scope, TtlChange,
    Watching, async_trait,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

/// A service that answers what it is told to, and remembers the claims. Without orders it says yes.
#[derive(Debug, Default)]
struct Scripted {
    attempts: Mutex<VecDeque<Result<Attempt>>>,
    extensions: Mutex<VecDeque<Option<Result<Extension>>>>,
    releases: Mutex<VecDeque<Option<Result<Release>>>>,
    asked: Mutex<Vec<(Op, Claim)>>,
    watched: Mutex<Vec<Option<Place>>>,
    /// Whether a watch is never armed.
    is_deaf: AtomicBool,
    hints: Notify,
    ttl_is_fixed: bool,
    grants_belong_to_a_session: bool,
}

impl Scripted {
    fn client(self) -> (&'static Self, LockClient) {
        let service: &Self = Box::leak(Box::new(self));
        (service, LockClient::builder(service).clock(Clock::tokio()).on_runtime(Handle::current()).build())
    }

    fn will_attempt(&self, answer: Result<Attempt>) {
        locked(&self.attempts).push_back(answer);
    }

    /// `None` lets the call panic.
    fn will_extend(&self, answer: Option<Result<Extension>>) {
        locked(&self.extensions).push_back(answer);
    }

    fn asked(&self, op: Op) -> Vec<Claim> {
        locked(&self.asked).iter().filter(|(asked, _)| *asked == op).map(|(_, claim)| claim.clone()).collect()
    }

    fn note(&self, op: Op, claim: &Claim) {
        locked(&self.asked).push((op, claim.clone()));
    }
}

#[async_trait]
impl Backend for &'static Scripted {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(Scope::Process, "nothing");
        if self.ttl_is_fixed {
            capabilities.ttl_change = TtlChange::Fixed;
        }
        if self.grants_belong_to_a_session {
            capabilities.ceiling = Ceiling::Session;
        }
        capabilities.wakeup = Notice::Push;
        capabilities
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.note(Op::TryAcquire, claim);
        let answer = locked(&self.attempts).pop_front();
        answer.unwrap_or_else(|| Ok(grant(claim.above.map_or(1, |above| above.as_u64() + 1), claim.ttl)))
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.note(Op::Extend, claim);
        let answer = locked(&self.extensions).pop_front();
        answer.unwrap_or_else(|| Some(Ok(Extension::extended(claim.ttl)))).expect("told to panic")
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.note(Op::Release, claim);
        locked(&self.releases).pop_front().unwrap_or(Some(Ok(Release::Released))).expect("told to panic")
    }

    async fn inspect(&self, _: &LockName) -> Result<Option<Holder>> {
        Ok(None)
    }

    async fn watch(&self, claim: &Claim, _: Watching) {
        locked(&self.watched).push(claim.place.clone());
        if self.is_deaf.load(Ordering::Relaxed) {
            std::future::pending().await
        }
        self.hints.notified().await;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("a small number")
}

fn grant(number: u64, ttl: Duration) -> Attempt {
    Attempt::Granted(Grant::new(token(number), ttl))
}

fn no_answer<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unavailable, "no answer"))
}

#[tokio::test(start_paused = true)]
async fn a_token_that_goes_back_is_an_error_and_its_grant_is_given_back() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Ok(grant(7, TTL)));
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    for wrong in [7, 1] {
        service.will_attempt(Ok(grant(wrong, TTL)));
        let error = client.lock("a").acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TokenRegression, "{error}");
        assert!(error.to_string().contains(&format!("token {wrong} after 7")), "{error}");
        sleep(Duration::from_millis(1)).await;
        let owner = service.asked(Op::TryAcquire).last().unwrap().owner;
        assert_eq!(service.asked(Op::Release).last().unwrap().owner, owner);
    }
    assert_eq!(service.asked(Op::TryAcquire).last().unwrap().above, Some(token(7)));
    assert_eq!(client.lock("b").acquire().await.unwrap().token(), token(1), "another name has tokens of its own");
    assert_eq!(client.lock("a").acquire().await.unwrap().token(), token(8));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_finds_its_own_grant_is_no_regression() {
    let (service, client) = Scripted::default().client();
    // The reply to the first ask is lost; meanwhile the client hears of token 5, which is that very grant's.
    service.will_attempt(no_answer());
    service.will_attempt(Ok(Attempt::Contended(Contention::new().with_token(token(5)))));
    service.will_attempt(Ok(grant(5, TTL)));
    assert_eq!(client.lock("a").acquire().await.unwrap().token(), token(5));
}

#[tokio::test(start_paused = true)]
async fn contention_teaches_the_highest_token() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Ok(Attempt::Contended(Contention::new().with_token(token(41)))));
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(client.lock("a").acquire().await.unwrap().token(), token(42));
    assert_eq!(service.asked(Op::TryAcquire)[1].above, Some(token(41)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_unsure_from_the_first_call_without_an_answer_to_its_end() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(no_answer());
    service.will_extend(Some(Ok(Extension::extended(TTL))));
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    guard.extend(TTL).await.unwrap();
    guard.release().await.unwrap();
    let unsure = |op| service.asked(op).iter().map(|claim| claim.unsure).collect::<Vec<_>>();
    assert_eq!(unsure(Op::TryAcquire), [false, true]);
    assert_eq!(unsure(Op::Extend), [true]);
    assert_eq!(unsure(Op::Release), [true]);
    let owners: Vec<_> = locked(&service.asked).iter().map(|(_, claim)| claim.owner).collect();
    assert!(owners.windows(2).all(|pair| pair[0] == pair[1]), "a retry repeats the same claim");

    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    assert!(!service.asked(Op::Release)[1].unsure, "every call of it was answered");
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_leaves_nothing_to_release() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Err(Error::new(ErrorKind::Denied, "no rights")));
    assert_eq!(client.lock("a").acquire().await.unwrap_err().kind(), ErrorKind::Denied);
    service.will_attempt(Ok(Attempt::Contended(Contention::new())));
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    sleep(TTL).await;
    assert!(service.asked(Op::Release).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_place_of_the_last_answer_is_sent_with_the_next_call() {
    let (service, client) = Scripted::default().client();
    let place = |name: &str| Place::new(name);
    service.will_attempt(Ok(Attempt::Contended(Contention::new().with_place(place("third")))));
    service.will_attempt(Ok(Attempt::Contended(Contention::new())));
    service.will_attempt(Ok(Attempt::Granted(Grant::new(token(1), TTL).with_place(place("first")))));
    service.will_extend(Some(Ok(Extension::extended_at(TTL, place("moved")))));
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    guard.extend(TTL).await.unwrap();
    guard.release().await.unwrap();
    let places: Vec<_> = locked(&service.asked).iter().map(|(_, claim)| claim.place.clone()).collect();
    assert_eq!(places, [None, Some(place("third")), None, Some(place("first")), Some(place("moved"))]);
}

#[tokio::test(start_paused = true)]
async fn only_a_claim_that_waits_may_queue() {
    let (service, client) = Scripted::default().client();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    client.lock("a").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    client.lock("a").wait(Duration::ZERO).acquire().await.unwrap().release().await.unwrap();
    let may_queue: Vec<_> = service.asked(Op::TryAcquire).iter().map(|claim| claim.may_queue).collect();
    assert_eq!(may_queue, [true, false, false]);
}

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
async fn the_grant_is_watched_where_it_now_stands() {
    let (service, client) = Scripted::default().client();
    let moved = Place::new("moved");
    service.will_extend(Some(Ok(Extension::extended_at(TTL, moved.clone()))));
    let _guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    sleep(TTL / 2).await;
    assert_eq!(*locked(&service.watched), [None, Some(moved)]);
}

#[tokio::test(start_paused = true)]
async fn a_new_claim_after_one_that_was_granted_too_late_is_sure() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(no_answer());
    service.will_attempt(Ok(grant(1, Duration::from_nanos(1))));
    let _guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let asked = service.asked(Op::TryAcquire);
    assert!(asked[0].owner == asked[1].owner && asked[1].owner != asked[2].owner);
    assert_eq!(asked.iter().map(|claim| claim.unsure).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(service.asked(Op::Release)[0].owner, asked[0].owner);
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
