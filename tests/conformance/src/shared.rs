use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::{
    Attempt, Backend, Capabilities, Claim, Extension, FencingToken, Finding, Holder, LockName, Page, Release, Result,
    Watching, async_trait,
};
use tokio::sync::watch;

/// One backend instance of any type, for a contender or a client, and for the trial that closes it in the end.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    backend: Arc<dyn Backend>,
    /// How many asks for a lock were answered.
    answered: watch::Sender<usize>,
    /// How many calls were given up amid their way, and have not been an excuse since.
    given_up: Arc<AtomicUsize>,
}

impl Shared {
    pub(crate) fn new(backend: impl Backend) -> Self {
        Self { backend: Arc::new(backend), answered: watch::Sender::new(0), given_up: Arc::default() }
    }

    /// A call was given up. That may break the connection under it, and the next call is the one that finds out.
    pub(crate) fn note_given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a call may be without an answer because an earlier one was given up: once for each.
    pub(crate) fn has_an_excuse(&self) -> bool {
        self.given_up.try_update(Ordering::Relaxed, Ordering::Relaxed, |given_up| given_up.checked_sub(1)).is_ok()
    }

    /// Ends when the next ask for a lock has been answered: only then is its claim known to the service.
    pub(crate) fn next_answer(&self) -> impl Future<Output = ()> + use<> {
        let mut answered = self.answered.subscribe();
        async move {
            // The sender lives as long as the backend that is asked.
            let _ = answered.changed().await;
        }
    }
}

#[async_trait]
impl Backend for Shared {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let answer = self.backend.try_acquire(claim).await;
        self.answered.send_modify(|answered| *answered += 1);
        answer
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.backend.extend(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.backend.release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.backend.inspect(name).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        self.backend.watch(claim, what).await;
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.backend.force_release(name, only).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        self.backend.list(prefix, after).await
    }

    async fn preflight(&self) -> Vec<Finding> {
        self.backend.preflight().await
    }

    async fn close(&self) {
        self.backend.close().await;
    }
}
