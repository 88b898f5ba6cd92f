//! What may be asked for, and the errors for the rest: the same on every backend.
use std::time::Duration;

use lock_core::{ErrorKind, LockName};

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;
use crate::locking::{Ending, Holding, Locking};

cases! { "client_limits":
    names_are_judged_alike_on_every_backend,
    names_that_mean_something_elsewhere_are_just_names,
    a_ttl_out_of_bounds_is_refused,
    an_odd_ttl_is_rounded_and_not_refused,
}

/// Field case A41: the refused half of the table. That every other name works is a case of exclusion.
async fn names_are_judged_alike_on_every_backend(t: &Trial) {
    let too_long = [LockName::MAX_BYTES + 1, 64 << 10, 1 << 20].map(|length| "x".repeat(length));
    let client = t.client();
    let names = ["", "\0", "\n", "a\nb", "a\tb", "\u{7f}", "\u{85}"];
    for name in names.into_iter().chain(too_long.iter().map(String::as_str)) {
        let lock = client.lock(name);
        lock.acquire().await.fails_as(ErrorKind::InvalidName);
        lock.try_acquire().await.fails_as(ErrorKind::InvalidName);
        lock.inspect().await.fails_as(ErrorKind::InvalidName);
        lock.force_release(None).await.fails_as(ErrorKind::InvalidName);
    }
}

/// Field case A41: whole names to which a path, a pattern, a query or the service gives a meaning. Other runs may use them too,
/// so they are held for a moment only.
async fn names_that_mean_something_elsewhere_are_just_names(t: &Trial) {
    let client = t.client();
    let paths = [".", "..", "/", "//", "/a", "a/", "a//b", "a/../b", "file:///var/x", "zookeeper"];
    let signs = [
        " ", "*", "?", "%", "%2F", "{}", "{a}", ":", "-", "\\", "\"", "🔒", "\u{e9}", "e\u{301}", "\u{5d0}", "\u{ffff}",
    ];
    for name in paths.into_iter().chain(signs) {
        let lock = client.lock(name).ttl(t.steady_ttl()).wait(t.patience());
        let guard = lock.acquires().await;
        ensure!(guard.name().as_str() == name, "the lock {name:?} became {:?}", guard.name());
        t.answered(|| guard.release()).await;
    }
}

/// Field case A11: never a lock without an end, and never one that ends at once.
async fn a_ttl_out_of_bounds_is_refused(t: &Trial) {
    let (min, max) = (t.capabilities().ttl_min, t.capabilities().ttl_max);
    let (below, above) = (min - Duration::from_nanos(1), max.saturating_add(Duration::from_nanos(1)));
    let guard = t.lock().acquires().await;
    let lock = t.lock();
    let tiny = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999), Duration::from_millis(1)];
    // What is too much for a service's own number: etcd's seconds, JavaScript's and Java's milliseconds.
    let huge = [9_000_000_001_000, 9_000_000_000_000_000, i64::MAX as u64, u64::MAX].map(Duration::from_millis);
    let odd = tiny.into_iter().chain(huge).chain([below, above, Duration::MAX]);
    for ttl in odd.filter(|ttl| *ttl < min || *ttl > max) {
        guard.extend(ttl).await.fails_as(ErrorKind::InvalidConfig);
        lock.clone().ttl(ttl).try_acquire().await.fails_as(ErrorKind::InvalidConfig);
        let error = lock.clone().ttl(ttl).acquire().await.fails_as(ErrorKind::InvalidConfig).to_string();
        let named = error.contains(&format!("{min:?}")) && error.contains(&format!("{max:?}"));
        ensure!(named, "the error does not name the bounds {min:?} and {max:?}: {error}");
    }
    ensure!(guard.is_held(), "extensions that were refused made the holder lose the lock: {guard:?}");
    guard.releases().await;
    lock.ttl(max).can_be_had().await;
}

/// Field case A11: a service that counts in milliseconds or seconds must take every duration between the bounds.
async fn an_odd_ttl_is_rounded_and_not_refused(t: &Trial) {
    let odd = t.ttl() + Duration::from_nanos(1_234_567);
    let guard = t.lock().ttl(odd).auto_extend(false).acquires().await;
    let (left, granted) = (guard.remaining(), guard.ttl());
    ensure!(!granted.is_zero() && left <= granted, "a ttl of {odd:?} became {granted:?} with {left:?} left");
    t.soon(guard.lost(), "the end of the lease").await;
    t.lock().can_be_had().await;
}
