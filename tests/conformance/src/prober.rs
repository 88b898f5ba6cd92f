use std::time::Duration;

use lock_core::{Backend, BootTime, LockName};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::Trial;
use crate::history::Probe;

/// How often the service is asked: many times within the shortest ttl, and seldom beside what a crowd asks.
const PERIOD: Duration = Duration::from_millis(50);

/// Asks the service again and again who holds which lock, on behalf of nobody.
pub(crate) struct Prober {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Probed>,
}

/// What a [`Prober`] has found.
#[derive(Debug, Default)]
pub(crate) struct Probed {
    pub(crate) probes: Vec<Probe>,
    /// By how much this machine was behind when it was slowest.
    pub(crate) lag: Duration,
}

impl Trial {
    /// Begins to ask for the holders of these locks.
    pub(crate) fn probing(&self, names: &[LockName]) -> Prober {
        let (stop, mut stopped) = oneshot::channel();
        let (trial, names, backend) = (self.clone(), names.to_vec(), self.open());
        let running = tokio::spawn(async move {
            let mut probed = Probed::default();
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                for name in &names {
                    let sent = trial.clock().now();
                    // Where there is no answer there is nothing to be judged.
                    if let Ok(holder) = backend.inspect(name).await {
                        let seen = holder.into_iter().map(|holder| holder.token).collect();
                        probed.probes.push(Probe::new(sent, trial.clock().now(), name.clone(), seen));
                    }
                    probed.probes.extend(trial.looks(name).await);
                }
                let begin = trial.clock().now();
                sleep(PERIOD).await;
                probed.lag = probed.lag.max(trial.clock().now().since(begin + PERIOD));
            }
            probed
        });
        Prober { stop, running }
    }

    /// What the service's own tools show of `name`, where there are any. They tell no tokens.
    async fn looks(&self, name: &LockName) -> Option<Probe> {
        let look = self.service().look.as_ref()?;
        let sent: BootTime = self.clock().now();
        let seen = look(name.clone()).await.iter().map(|_| None).collect();
        Some(Probe::new(sent, self.clock().now(), name.clone(), seen))
    }
}

impl Prober {
    /// What was found, with one look more than there were up to now.
    pub(crate) async fn ends(self, t: &Trial) -> Probed {
        sleep(PERIOD * 2).await;
        drop(self.stop);
        match t.soon(self.running, "the end of the looks at the service").await {
            Ok(probed) => probed,
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        }
    }
}
