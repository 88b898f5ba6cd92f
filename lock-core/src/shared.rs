use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::line::Line;
use crate::seen::SeenTokens;
use crate::{Backend, BootTime, Capabilities, Clock, Error, ErrorKind, LockName, Result};

/// What the keepers of one client share.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) op_timeout: Duration,
    pub(crate) line: Arc<Line>,
    pub(crate) seen: SeenTokens,
    closing: watch::Sender<bool>,
    /// What is locked, or about to be, by the numbers of the tickets.
    pub(crate) kept: watch::Sender<BTreeMap<u64, LockName>>,
    /// What could not be given back, and when it has ended by itself.
    left: Mutex<BTreeMap<LockName, BootTime>>,
}

/// An entry in [`Shared::kept`], taken out by dropping it.
pub(crate) struct Kept {
    shared: Arc<Shared>,
    ticket: u64,
}

impl Shared {
    pub(crate) fn new(backend: Arc<dyn Backend>, clock: Clock, op_timeout: Duration) -> Self {
        Self {
            capabilities: backend.capabilities(),
            backend,
            clock,
            op_timeout,
            line: Arc::default(),
            seen: SeenTokens::default(),
            closing: watch::Sender::new(false),
            kept: watch::Sender::default(),
            left: Mutex::default(),
        }
    }

    /// An answer that takes longer is waited for, and counts as none for whoever can't wait.
    pub(crate) fn overdue(&self) -> Duration {
        self.op_timeout / 10
    }

    /// Refuses new work, and lets what is under way come to its end.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Resolves when the client is being closed.
    pub(crate) async fn closing(&self) {
        // The sender lives in `self`: this can't fail.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Notes that a claim on `name` is under way.
    pub(crate) fn keeping(self: &Arc<Self>, ticket: u64, name: &LockName) -> Kept {
        self.kept.send_modify(|kept| _ = kept.insert(ticket, name.clone()));
        Kept { shared: Arc::clone(self), ticket }
    }

    /// What has not been given back.
    pub(crate) fn left(&self) -> Vec<LockName> {
        let (now, kept) = (self.clock.now(), self.kept.borrow());
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = left.iter().filter(|(_, ended)| **ended > now).map(|(name, _)| name);
        kept.values().chain(left).cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Notes that `name` could not be given back.
    pub(crate) fn note_left(&self, name: &LockName, ended: BootTime) {
        let now = self.clock.now();
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|_, ended| *ended > now);
        left.insert(name.clone(), ended);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shared.kept.send_modify(|kept| _ = kept.remove(&self.ticket));
    }
}

/// Between half of `pause` and all of it, by chance, so that many who wait don't ask in step.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause / 2 + pause.mul_f32(fastrand::f32() / 2.0)
}

/// Bounds a call.
pub(crate) async fn in_time<T>(limit: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unavailable, format!("the service gave no answer within {limit:?}")))
    })
}
