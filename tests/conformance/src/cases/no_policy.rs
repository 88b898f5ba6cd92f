//! A backend answers what it is asked, and does nothing else.
use lock_core::Backend;

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;

cases! { "9_no_policy":
    a_refusal_does_not_wait_for_the_lock,
    a_waiter_gets_nothing_without_asking_again,
    an_idle_backend_extends_nothing,
    a_backend_can_be_made_and_dropped_outside_any_runtime,
    every_instance_promises_the_same,
}

/// Whether and how long to wait is the core's to decide.
async fn a_refusal_does_not_wait_for_the_lock(t: &Trial) {
    let mut holder = t.contender().with_ttl(t.long_ttl());
    holder.acquires().await;
    for mut waiter in [t.contender(), t.contender().queueing()] {
        let told = waiter.tries().await;
        let took = told.answered.since(told.sent);
        ensure!(took < t.patience() / 2, "{waiter} was refused only after {took:?}");
    }
}

async fn a_waiter_gets_nothing_without_asking_again(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().with_ttl(t.ttl()).queueing();
    holder.acquires().await;
    waiter.is_refused().await;
    holder.releases().await;
    waiter.falls_silent().await;
    let seen = t.holder().await;
    ensure!(seen.is_none(), "nobody asked since the release, and the lock has a holder: {seen:?}");
    t.contender().acquires().await;
}

/// A third of a ttl is when the core extends; the backend lives on, with a second lock in use, and must not do so itself.
async fn an_idle_backend_extends_nothing(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    first.falls_silent().await;
    let seen = t.holder().await;
    ensure!(seen.is_none(), "{first} made no call since, and the lock has a holder: {seen:?}");
    first.has_lost().await;
}

/// The constructor opens nothing: connections start in the first call, on the runtime that polls it.
async fn a_backend_can_be_made_and_dropped_outside_any_runtime(t: &Trial) {
    let trial = t.clone();
    let elsewhere = std::thread::spawn(move || drop(trial.open_unattended()));
    ensure!(elsewhere.join().is_ok(), "a backend that was made and dropped outside of any runtime panicked");
    let trial = t.clone();
    let elsewhere = std::thread::spawn(move || trial.contender());
    match elsewhere.join() {
        Ok(mut made_elsewhere) => made_elsewhere.acquires().await,
        Err(panic) => std::panic::resume_unwind(panic),
    };
}

async fn every_instance_promises_the_same(t: &Trial) {
    let (one, other) = (t.open().capabilities(), t.open().capabilities());
    ensure!(one == other, "two instances promise {one:?} and {other:?}");
    ensure!(!one.ttl_min.is_zero() && one.ttl_min <= one.ttl_max, "ttl from {:?} to {:?}", one.ttl_min, one.ttl_max);
    ensure!(!one.assumption.is_empty(), "it is not said what exclusion rests on");
}
