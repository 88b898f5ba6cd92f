//! However an acquisition ends, nothing of it is left.
use std::time::Duration;

use lock_core::ErrorKind;
use tokio::time::{sleep, timeout};

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;
use crate::locking::{Ending, Holding, Locking};
use crate::polls::poll_times;

cases! { "client_clean_up":
    an_acquire_dropped_at_any_point_leaves_nothing,
    a_waiting_acquire_dropped_while_the_lock_is_released_leaves_nothing,
    a_release_given_up_still_happens,
    a_release_can_be_repeated,
    a_late_release_leaves_the_next_task_of_the_client_alone,
    a_dropped_guard_frees_the_lock,
    a_guard_can_be_dropped_outside_any_runtime,
    a_panic_frees_the_lock,
    many_short_holds_leave_nothing,
    closing_gives_back_what_is_held,
    closing_ends_what_waits,
    dropping_the_client_gives_back_what_is_held,
}

/// Field case A1, by poll count: with the lock free, either there is a guard or there is no trace.
async fn an_acquire_dropped_at_any_point_leaves_nothing(t: &Trial) {
    let (client, next) = (t.client(), t.client());
    for polls in 1.. {
        let name = t.name_with(polls);
        let lock = client.lock(name.as_str()).ttl(t.long_ttl()).wait(t.patience());
        let ended = poll_times(polls, lock.acquire()).await;
        let through = ended.is_some();
        drop(ended);
        next.lock(name.as_str()).ttl(t.long_ttl()).wait(t.patience()).can_be_had().await;
        if through {
            return;
        }
    }
}

/// Field case A1, with a holder that releases at a random moment around the drop.
async fn a_waiting_acquire_dropped_while_the_lock_is_released_leaves_nothing(t: &Trial) {
    let (holder, gives_up, next) = (t.lock(), t.lock(), t.lock());
    for _ in 0..30 {
        let guard = holder.acquires().await;
        let lock = gives_up.clone();
        let patience = Duration::from_micros(fastrand::u64(0..3000));
        let waiting = tokio::spawn(async move {
            // A guard in time must be of a lock that the service keeps.
            if let Ok(acquired) = timeout(patience, lock.acquire()).await {
                acquired.succeeds().releases().await;
            }
        });
        sleep(Duration::from_micros(fastrand::u64(0..3000))).await;
        guard.releases().await;
        t.all([waiting]).await;
        next.can_be_had().await;
    }
}

/// Field case A9: the handle stays usable, and the lock is given back in any case.
async fn a_release_given_up_still_happens(t: &Trial) {
    let (lock, next) = (t.lock(), t.lock());
    for polls in 1..4 {
        for is_repeated in [true, false] {
            let guard = lock.acquires().await;
            drop(poll_times(polls, guard.release()).await);
            ensure!(!guard.is_held(), "{guard:?} is held after a release that was given up after {polls} polls");
            if is_repeated {
                guard.release().await.succeeds();
            }
            drop(guard);
            next.can_be_had().await;
        }
    }
}

/// Field case A7.
async fn a_release_can_be_repeated(t: &Trial) {
    let guard = t.lock().acquires().await;
    guard.releases().await;
    guard.has_nothing_to_release().await;
    let successor = t.lock().acquires().await;
    guard.has_nothing_to_release().await;
    guard.has_lost().await;
    drop(guard);
    t.lock().is_refused().await;
    ensure!(successor.is_held(), "the successor lost the lock by releases that were not its own: {successor:?}");
}

/// Field case A24: the same client has the lock again by then, and that is another acquisition.
async fn a_late_release_leaves_the_next_task_of_the_client_alone(t: &Trial) {
    let lock = t.lock();
    let late = lock.clone().ttl(t.ttl()).auto_extend(false).acquires().await;
    t.soon(late.lost(), "the end of the lease").await;
    let next = lock.acquires().await;
    late.has_nothing_to_release().await;
    drop(late);
    t.lock().is_refused().await;
    next.releases().await;
}

async fn a_dropped_guard_frees_the_lock(t: &Trial) {
    drop(t.lock().acquires().await);
    t.lock().can_be_had().await;
}

/// Field case A38.
async fn a_guard_can_be_dropped_outside_any_runtime(t: &Trial) {
    let guard = t.lock().acquires().await;
    let dropped = std::thread::spawn(move || drop(guard)).join();
    ensure!(dropped.is_ok(), "dropping a guard outside of any runtime panicked");
    t.lock().can_be_had().await;
}

/// Field case A38: the guard is dropped while its task unwinds.
async fn a_panic_frees_the_lock(t: &Trial) {
    let lock = t.lock();
    let task = tokio::spawn(async move {
        let _guard = lock.acquires().await;
        std::panic::resume_unwind(Box::new("the application fails"));
    });
    ensure!(task.await.is_err(), "a task that panicked ended well");
    t.lock().can_be_had().await;
}

/// Field case A3: no extension of an earlier hold may come after its release, and keep the lock or bring it back.
async fn many_short_holds_leave_nothing(t: &Trial) {
    let client = t.client();
    let tasks = (0..8).map(|_| {
        let lock = t.lock_of(&client).ttl(t.steady_ttl());
        tokio::spawn(async move {
            for cycle in 0..25 {
                let guard = lock.acquires().await;
                if cycle % 5 == 0 {
                    drop(guard);
                } else {
                    guard.releases().await;
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    t.all(tasks).await;
    let last = t.lock().acquires().await;
    last.releases().await;
    sleep(t.steady_ttl() / 2).await;
    let seen = t.holder().await;
    ensure!(seen.is_none(), "every hold is over, and the lock has a holder: {seen:?}");
}

async fn closing_gives_back_what_is_held(t: &Trial) {
    let client = t.client();
    let lock = t.lock_of(&client);
    let guard = lock.acquires().await;
    let left = client.close(t.patience()).await;
    ensure!(left.is_empty(), "close could not give back {left:?}");
    ensure!(!guard.is_held(), "{guard:?} is held after its client was closed");
    t.lock().can_be_had().await;
    lock.acquire().await.fails_as(ErrorKind::Closed);
}

/// A waiter of a client that closes is told so, and not that its time is over; others go on waiting.
async fn closing_ends_what_waits(t: &Trial) {
    let (client, guard) = (t.client(), t.lock().acquires().await);
    let (lock, other) = (t.lock_of(&client), t.lock());
    let waiting = [lock.clone(), lock].map(|lock| tokio::spawn(async move { lock.acquire().await }));
    let goes_on = tokio::spawn(async move { other.acquires().await });
    sleep(t.ttl() / 4).await;
    let left = client.close(t.patience()).await;
    ensure!(left.is_empty(), "close could not give back {left:?}");
    for ended in t.soon(t.all(waiting), "the end of the waits").await {
        ended.fails_as(ErrorKind::Closed);
    }
    ensure!(guard.is_held(), "closing a client made another one lose its lock: {guard:?}");
    guard.releases().await;
    for guard in t.all([goes_on]).await {
        guard.releases().await;
    }
}

async fn dropping_the_client_gives_back_what_is_held(t: &Trial) {
    let client = t.client_unattended();
    let guard = t.lock_of(&client).acquires().await;
    drop(client);
    ensure!(guard.is_held(), "{guard:?} was lost when the client was dropped, and a guard keeps its client");
    drop(guard);
    t.lock().can_be_had().await;
}
