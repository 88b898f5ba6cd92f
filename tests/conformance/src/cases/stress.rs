//! Many at once, at random: what they saw is judged by the rules that hold of every history.
use std::time::Duration;

use fastrand::Rng;
use lock_core::{ErrorKind, Lock, LockGuard, LockName};
use tokio::time::{sleep, timeout};

use crate::case::cases;
use crate::failure::ensure;
use crate::history::{Acquisition, Recorder, What};
use crate::locking::{Ending, Locking};
use crate::{Seed, Trial};

cases! { "stress":
    the_history_of_a_crowd_is_sound,
}

const CLIENTS: usize = 4;
const TASKS: usize = 24;
const ROUNDS: usize = 15;

/// 24 tasks of four clients fight for three locks. They hold them for a moment, give up waiting, give back early or late or by
/// dropping, extend, and now and then let a lease run out.
async fn the_history_of_a_crowd_is_sound(t: &Trial) {
    let seed = Seed::from_environment("stress::the_history_of_a_crowd_is_sound");
    let recorder = Recorder::new(t.clock().clone());
    let names = ["/a", "/b", "/c"].map(|end| t.name_with(end));
    let clients: Vec<_> = (0..CLIENTS).map(|_| t.client()).collect();
    let tasks = (0..TASKS).map(|number| {
        let locks = names.clone().map(|name| {
            let lock = clients[number % CLIENTS].lock(name.as_str()).ttl(t.steady_ttl()).wait(t.patience() * 4);
            (name, lock)
        });
        let one = OneOfTheCrowd { rng: seed.rng(number), recorder: recorder.clone(), locks, short_ttl: t.ttl() };
        tokio::spawn(one.lives(number % 4 == 0))
    });
    let mut failures = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        failures.extend(task.await.err());
    }
    // First what all of them saw: that one of them failed may be no more than what follows from it.
    let history = recorder.history();
    let violations = history.violations();
    let worst: Vec<_> = violations.iter().take(3).map(ToString::to_string).collect();
    ensure!(worst.is_empty(), "{} rules were broken; {seed}\n  {}", violations.len(), worst.join("\n  "));
    if let Some(failure) = failures.pop() {
        std::panic::resume_unwind(failure.into_panic());
    }
    let grants = history.grants();
    ensure!(grants > TASKS * ROUNDS / 4, "only {grants} acquisitions came about; {seed}");
    for name in &names {
        t.client().lock(name.as_str()).ttl(t.long_ttl()).wait(t.patience()).can_be_had().await;
    }
}

struct OneOfTheCrowd {
    rng: Rng,
    recorder: Recorder,
    locks: [(LockName, Lock); 3],
    short_ttl: Duration,
}

impl OneOfTheCrowd {
    async fn lives(mut self, lets_one_run_out: bool) {
        let runs_out_in = if lets_one_run_out { self.rng.usize(0..ROUNDS) } else { ROUNDS };
        for round in 0..ROUNDS {
            let (name, lock) = self.rng.choice(&self.locks).cloned().expect("there are three");
            let acquisition = self.recorder.asks(&name);
            if round == runs_out_in {
                if let Some(guard) = acquires(&acquisition, &lock.ttl(self.short_ttl).auto_extend(false)).await {
                    guard.lost().await;
                    acquisition.record(What::Lost);
                }
                continue;
            }
            let guard = match self.rng.u8(0..8) {
                0 => self.tries(&acquisition, &lock).await,
                1 | 2 => self.gives_up(&acquisition, &lock).await,
                _ => acquires(&acquisition, &lock).await,
            };
            if let Some(guard) = guard {
                self.holds(&acquisition, guard).await;
            }
        }
    }

    async fn tries(&self, acquisition: &Acquisition, lock: &Lock) -> Option<LockGuard> {
        let guard = lock.try_acquire().await.succeeds();
        if guard.is_none() {
            acquisition.record(What::Refused);
        }
        guard.map(|guard| granted(acquisition, guard))
    }

    async fn gives_up(&mut self, acquisition: &Acquisition, lock: &Lock) -> Option<LockGuard> {
        let patience = self.a_moment();
        let acquired = timeout(patience, acquires(acquisition, lock)).await;
        acquired.unwrap_or_else(|_| {
            acquisition.record(What::GaveUp);
            None
        })
    }

    async fn holds(&mut self, acquisition: &Acquisition, guard: LockGuard) {
        sleep(self.a_moment()).await;
        if self.rng.u8(0..4) == 0 {
            match guard.extend(guard.ttl()).await {
                Ok(()) => acquisition.record(What::Extended { until: guard.lease().deadline() }),
                // On a busy machine it may have lost the lock by now: then so it goes down in history.
                Err(error) => acquisition.record(What::Failed(error.kind())),
            }
        }
        // The client may have extended the lease in the meantime.
        acquisition.record(What::Extended { until: guard.lease().deadline() });
        acquisition.record(What::Releases);
        if self.rng.bool() {
            guard.release().await.succeeds();
        }
    }

    fn a_moment(&mut self) -> Duration {
        Duration::from_micros(self.rng.u64(0..3000))
    }
}

/// The guard, unless the lease was over before anybody came to take it: that happens on a busy machine.
async fn acquires(acquisition: &Acquisition, lock: &Lock) -> Option<LockGuard> {
    match lock.acquire().await {
        Err(error) if error.kind() == ErrorKind::Lost => {
            acquisition.record(What::Failed(error.kind()));
            None
        }
        acquired => Some(granted(acquisition, acquired.succeeds())),
    }
}

fn granted(acquisition: &Acquisition, guard: LockGuard) -> LockGuard {
    acquisition.record(What::Granted { token: guard.token(), until: guard.lease().deadline() });
    guard
}
