//! Other processes, which are stopped and killed: what they had comes free in time, and what they were no longer gets through.
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{BootTime, FencingToken};
use tokio::time::sleep;

use crate::case::cases;
use crate::failure::ensure;
use crate::history::{Line, What};
use crate::locking::{Holding, Locking};
use crate::process::Process;
use crate::{Seed, Trial};

cases! { "processes":
    a_lock_is_held_against_other_processes needs Processes,
    the_lock_of_a_killed_process_comes_free_in_time needs Processes,
    the_lock_of_a_process_that_ends_without_a_release_comes_free_in_time needs Processes,
    a_process_killed_at_any_moment_of_an_acquire_blocks_nobody needs Processes,
    a_holder_that_was_stopped_too_long_knows_it_at_once needs Processes,
    a_holder_that_was_stopped_too_long_does_not_revive_a_free_lock needs Processes,
    killed_waiters_do_not_hold_up_the_living needs Processes,
    waiters_of_several_processes_are_served_in_order needs Processes Fifo,
}

async fn a_lock_is_held_against_other_processes(t: &Trial) {
    let (mut first, mut second) = (t.process(), t.process());
    let token = first.acquires().await;
    second.is_refused().await;
    t.lock().is_refused().await;
    first.releases().await;
    let next = second.acquires().await;
    ensure!(token < next, "token {next} of one process came after {token} of another");
    first.is_refused().await;
    second.releases().await;
    t.lock().can_be_had().await;
}

/// Field case A36: the next token is higher, whatever became of the holder.
async fn the_lock_of_a_killed_process_comes_free_in_time(t: &Trial) {
    let mut last = None;
    for _ in 0..3 {
        let mut holder = t.process().with_ttl(t.ttl());
        let token = holder.acquires().await;
        let dead = holder.is_killed();
        last = Some(comes_free(t, dead, last.max(Some(token))).await);
    }
}

async fn the_lock_of_a_process_that_ends_without_a_release_comes_free_in_time(t: &Trial) {
    let mut holder = t.process().with_ttl(t.ttl());
    let token = holder.acquires().await;
    let dead = holder.exits().await;
    comes_free(t, dead, Some(token)).await;
}

/// What a process with the short ttl had when it died is over; somebody asks once and gets it, with a higher token.
async fn comes_free(t: &Trial, dead: BootTime, last: Option<FencingToken>) -> FencingToken {
    t.clock().sleep_until(gone_at(t, dead)).await;
    let mut next = t.contender();
    let token = next.acquires().await.token;
    ensure!(last < Some(token), "token {token} came after {last:?} of a process that is dead");
    next.releases().await;
    token
}

/// The moment from which nothing is left of a process with the short ttl that died at `dead`. The last that it sent may come
/// to the service later than that.
fn gone_at(t: &Trial, dead: BootTime) -> BootTime {
    t.over_at(dead, t.ttl()) + t.ttl() / 2
}

/// Several processes take their locks and give them back as fast as they can, and are killed then.
async fn a_process_killed_at_any_moment_of_an_acquire_blocks_nobody(t: &Trial) {
    let seed = Seed::from_environment("processes::a_process_killed_at_any_moment_of_an_acquire_blocks_nobody");
    let killed = (0..4).map(|number| {
        let (t, mut rng) = (t.clone(), seed.rng(number));
        tokio::spawn(async move {
            let name = t.name_with(format_args!("/{number}"));
            let last = Arc::new(Mutex::new(None));
            let told = Arc::clone(&last);
            let tell = move |line| {
                if let Line::Event(event) = line
                    && let What::Granted { token, .. } = event.what
                {
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
                }
            };
            let mut process = t.process_telling(tell).with_name(name.clone()).with_ttl(t.ttl());
            let churning = process.churns();
            let has_begun = async {
                while last.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            churning.goes_on_until(has_begun).await;
            sleep(Duration::from_micros(rng.u64(0..20_000))).await;
            let dead = process.is_killed();
            t.clock().sleep_until(gone_at(&t, dead)).await;
            let last = *last.lock().unwrap_or_else(PoisonError::into_inner);
            let token = t.contender_for(&name).acquires().await.token;
            ensure!(last < Some(token), "token {token} came after {last:?} of a process that was killed; {seed}");
        })
    });
    t.all(killed.collect::<Vec<_>>()).await;
}

/// Field cases A8 and A37: it says so before it has asked anybody, and does not disturb its successor.
async fn a_holder_that_was_stopped_too_long_knows_it_at_once(t: &Trial) {
    let mut holder = t.process().with_ttl(t.ttl());
    let token = holder.acquires().await;
    holder.is_stopped();
    let successor = t.lock().acquires().await;
    wakes_up_without_its_lock(&mut holder).await;
    ensure!(successor.is_held(), "a process that went on made its successor lose the lock: {successor:?}");
    ensure!(token < successor.token(), "token {} came after {token}", successor.token());
    successor.releases().await;
}

/// Field case A8: its successor has been there, and is gone.
async fn a_holder_that_was_stopped_too_long_does_not_revive_a_free_lock(t: &Trial) {
    let mut holder = t.process().with_ttl(t.ttl());
    holder.acquires().await;
    holder.is_stopped();
    t.lock().can_be_had().await;
    wakes_up_without_its_lock(&mut holder).await;
    t.contender().acquires().await;
}

async fn wakes_up_without_its_lock(holder: &mut Process) {
    // It stands in the pipe by then, so that it comes first.
    let standing = holder.says_how_it_stands();
    holder.goes_on();
    standing.says_it_is_lost().await;
    holder.has_lost().await;
    holder.has_nothing_to_release().await;
}

/// Field case A40: the dead cost one ttl in all, and not one each.
async fn killed_waiters_do_not_hold_up_the_living(t: &Trial) {
    let holder = t.lock().acquires().await;
    let mut waiters: Vec<_> = (0..5).map(|_| t.process().with_ttl(t.ttl())).collect();
    for waiter in &mut waiters {
        waiter.begins_to_acquire().waits().await;
    }
    let mut living = t.contender().queueing();
    living.is_refused().await;
    let dead = waiters.iter_mut().map(Process::is_killed).max().expect("there are five");
    holder.releases().await;
    t.clock().sleep_until(gone_at(t, dead)).await;
    living.acquires().await;
}

/// Field case A40, with waiters that live.
async fn waiters_of_several_processes_are_served_in_order(t: &Trial) {
    let holder = t.lock().acquires().await;
    let mut waiters: Vec<_> = (0..5).map(|_| t.process()).collect();
    let mut waiting = Vec::new();
    for waiter in &mut waiters {
        let mut acquiring = waiter.begins_to_acquire();
        acquiring.waits().await;
        waiting.push(acquiring);
    }
    let mut last = holder.token();
    holder.releases().await;
    for (number, (waiter, acquiring)) in waiters.iter_mut().zip(waiting).enumerate() {
        let token = acquiring.gets_the_lock().await;
        ensure!(last < token, "waiter {number} has token {token}, which is not above {last} of the one before");
        last = token;
        waiter.releases().await;
    }
}
