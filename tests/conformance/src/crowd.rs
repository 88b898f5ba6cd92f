//! Tasks that do at random what clients may do.
use std::time::Duration;

use fastrand::Rng;
use lock_core::{ErrorKind, Lock, LockClient, LockGuard, LockName, Release, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{sleep, timeout};

use crate::Seed;
use crate::history::What;
use crate::locking::Ending;
use crate::recorder::{Acquisition, Recorder};

/// Many tasks that fight for a few locks. They hold them for a moment, give up waiting, give them back early or late or by
/// dropping the guard, extend them, let a lease run out, and forget a guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Crowd {
    pub(crate) seed: Seed,
    /// The number of the first task. No two tasks of a run have the same number, and so the same randomness.
    pub(crate) first: usize,
    pub(crate) tasks: usize,
    /// How often each task asks for a lock; none to go on until the crowd is told to end.
    pub(crate) rounds: Option<usize>,
    pub(crate) names: Vec<LockName>,
    /// Of the locks that are extended.
    pub(crate) ttl: Duration,
    /// Of those that are not.
    pub(crate) short_ttl: Duration,
    /// Seldom is a lock held for longer.
    pub(crate) moment: Duration,
    pub(crate) wait: Duration,
}

/// In which of its first rounds a task does what it does once.
const EARLY: usize = 8;

impl Crowd {
    /// Lives on these clients until the rounds are over, or until it is told to end. What its tasks failed with, if they did.
    pub(crate) async fn lives(
        &self,
        clients: &[LockClient],
        recorder: &Recorder,
        told_to_end: &watch::Receiver<bool>,
    ) -> Vec<JoinError> {
        let tasks = (self.first..self.first + self.tasks).map(|number| {
            let one = OneOfTheCrowd {
                rng: self.seed.rng(number),
                recorder: recorder.clone(),
                client: clients[number % clients.len()].clone(),
                crowd: self.clone(),
            };
            tokio::spawn(one.lives(number, told_to_end.clone()))
        });
        let mut failures = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            failures.extend(task.await.err());
        }
        failures
    }
}

struct OneOfTheCrowd {
    rng: Rng,
    recorder: Recorder,
    client: LockClient,
    crowd: Crowd,
}

impl OneOfTheCrowd {
    async fn lives(mut self, number: usize, told_to_end: watch::Receiver<bool>) {
        let (runs_out, forgets) = (number.is_multiple_of(16), number % 16 == 8);
        let once = self.rng.usize(0..EARLY);
        for round in 0..self.crowd.rounds.unwrap_or(usize::MAX) {
            if *told_to_end.borrow() {
                return;
            }
            let name = self.rng.choice(&self.crowd.names).cloned().expect("a crowd has locks");
            let lock = self.client.lock(name.as_str()).ttl(self.crowd.ttl).wait(self.crowd.wait);
            let acquisition = self.recorder.asks(&name);
            if round == once && runs_out {
                self.lets_it_run_out(&acquisition, lock).await;
                continue;
            }
            if round == once && forgets {
                self.forgets(&acquisition, lock).await;
                continue;
            }
            let guard = match self.rng.u8(0..8) {
                0 => self.tries(&acquisition, &lock).await,
                1 | 2 => self.gives_up(&acquisition, &lock).await,
                _ => self.acquires(&acquisition, &lock).await,
            };
            if let Some(guard) = guard {
                self.holds(&acquisition, guard).await;
            }
        }
    }

    async fn lets_it_run_out(&self, acquisition: &Acquisition, lock: Lock) {
        if let Some(guard) = self.acquires(acquisition, &lock.ttl(self.crowd.short_ttl).auto_extend(false)).await {
            guard.lost().await;
            acquisition.record(What::Lost);
        }
    }

    /// What it may hold is limited, and so it comes free.
    async fn forgets(&self, acquisition: &Acquisition, lock: Lock) {
        if let Some(guard) = self.acquires(acquisition, &lock.max_hold(self.crowd.short_ttl)).await {
            let lost = guard.lost();
            std::mem::forget(guard);
            lost.await;
            acquisition.record(What::Lost);
        }
    }

    async fn gives_up(&mut self, acquisition: &Acquisition, lock: &Lock) -> Option<LockGuard> {
        let patience = self.a_moment();
        let acquired = timeout(patience, self.acquires(acquisition, lock)).await;
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
            match guard.release().await {
                Ok(Release::Released) => acquisition.record(What::Released),
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                // After a loss there was nothing to give back.
                ended => _ = ended.succeeds(),
            }
        }
    }

    fn a_moment(&mut self) -> Duration {
        self.crowd.moment.mul_f64(self.rng.f64())
    }

    async fn tries(&self, acquisition: &Acquisition, lock: &Lock) -> Option<LockGuard> {
        let tried = lock.try_acquire().await;
        if matches!(tried, Ok(None)) {
            acquisition.record(What::Refused);
        }
        self.granted(acquisition, tried)
    }

    async fn acquires(&self, acquisition: &Acquisition, lock: &Lock) -> Option<LockGuard> {
        let acquired = lock.acquire().await;
        self.granted(acquisition, acquired.map(Some))
    }

    fn granted(&self, acquisition: &Acquisition, ended: Result<Option<LockGuard>>) -> Option<LockGuard> {
        match &ended {
            Ok(Some(guard)) => {
                acquisition.record(What::Granted { token: guard.token(), until: guard.lease().deadline() });
            }
            Ok(None) => {}
            Err(error) => {
                acquisition.record(What::Failed(error.kind()));
                // On a busy machine an answer can be too late to count, and a lease over before anybody comes to take it.
                if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost) {
                    return None;
                }
            }
        }
        ended.succeeds()
    }
}
