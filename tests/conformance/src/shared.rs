use std::sync::Arc;

use lock_core::{
    Attempt, Backend, Capabilities, Claim, Extension, FencingToken, Finding, Holder, LockName, Page, Release, Result,
    Watching, async_trait,
};

/// One backend instance of any type, for a contender or a client, and for the trial that closes it in the end.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<dyn Backend>);

impl Shared {
    pub(crate) fn new(backend: impl Backend) -> Self {
        Self(Arc::new(backend))
    }
}

#[async_trait]
impl Backend for Shared {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(claim).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.0.extend(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.0.release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.0.inspect(name).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        self.0.watch(claim, what).await;
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.0.force_release(name, only).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        self.0.list(prefix, after).await
    }

    async fn preflight(&self) -> Vec<Finding> {
        self.0.preflight().await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
