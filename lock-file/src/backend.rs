use std::future::pending;
use std::io;
use std::sync::Arc;

use lock_core::{
    Attempt, Backend, Capabilities, Claim, Error, ErrorKind, ExpiryClock, Extension, Fencing, FencingToken, Finding,
    Holder, LockName, Mode, Notice, Order, Page, Release, Restart, Result, Scope, TtlChange, Watching, async_trait,
};
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;

use crate::config::FileConfig;
use crate::locks::Locks;
use crate::owners::{self, Turn};
use crate::preflight::preflight;

/// Locks in a directory of this host.
#[derive(Debug)]
pub struct FileBackend {
    locks: Arc<Locks>,
    /// Read by each call that is under way, also when its future was dropped.
    under_way: Arc<RwLock<()>>,
}

impl FileBackend {
    /// Locks as `config` says. Nothing is opened before the first call.
    pub fn new(config: FileConfig) -> Self {
        Self { locks: Arc::new(Locks::new(config)), under_way: Arc::default() }
    }

    /// Runs system calls where they may block. Once begun they go on when this future is dropped, and keep the claim's turn.
    async fn run<T: Send + 'static>(
        &self,
        turn: Option<Turn>,
        calls: impl FnOnce(&Locks) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let locks = Arc::clone(&self.locks);
        let under_way = Arc::clone(&self.under_way).read_owned().await;
        let running = spawn_blocking(move || {
            let _until_done = (under_way, turn);
            calls(&locks)
        });
        running.await.unwrap_or_else(|stopped| {
            let (kind, why) = if stopped.is_panic() {
                (ErrorKind::Unexpected, "the call panicked")
            } else {
                (ErrorKind::Unavailable, "the runtime ended before the call did")
            };
            Err(Error::new(kind, format!("{why}; what became of it is not known")).with_source(stopped))
        })
    }

    async fn wait(&self, claim: &Claim, what: Watching) -> Result<()> {
        let name = claim.name.clone();
        let mut armed = match self.run(None, move |locks| Ok(locks.arm(&name))).await? {
            Ok(armed) => armed,
            // Where there is no directory there is no grant.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::new(ErrorKind::Unavailable, error.to_string())),
        };
        loop {
            let claim = claim.clone();
            if self.run(None, move |locks| locks.has_come(&claim, what)).await? {
                return Ok(());
            }
            armed.changed().await;
        }
    }
}

#[async_trait]
impl Backend for FileBackend {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(
            Scope::Host,
            "all use one directory on a local file system, and nobody else changes what is in it",
        );
        capabilities.expiry_clock = ExpiryClock::ServerMonotonic;
        capabilities.ttl_change = TtlChange::Any;
        capabilities.fencing = Fencing::Durable;
        capabilities.order = Order::None;
        capabilities.wakeup = Notice::Push;
        capabilities.loss = Notice::Push;
        capabilities.restart = Restart::TokensNoHolders;
        capabilities.can_list = true;
        capabilities.can_force_release = true;
        capabilities
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if claim.mode != Mode::Exclusive {
            return Err(Error::new(ErrorKind::Unsupported, format!("{:?} locks are not kept in files", claim.mode)));
        }
        let (turn, claim) = (Turn::of(claim.owner).await, claim.clone());
        self.run(Some(turn), move |locks| locks.acquire(&claim)).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        let (turn, claim) = (Turn::of(claim.owner).await, claim.clone());
        self.run(Some(turn), move |locks| locks.extend(&claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        if claim.unsure || owners::is_busy(claim.owner) {
            // Before it waits for that call: if this future is dropped meanwhile, that call still cleans up.
            owners::mark_released(claim.owner);
        }
        let (turn, claim) = (Turn::of(claim.owner).await, claim.clone());
        self.run(Some(turn), move |locks| locks.release(&claim)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let name = name.clone();
        self.run(None, move |locks| locks.inspect(&name)).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        if self.wait(claim, what).await.is_err() {
            // Whoever asks is told the error; here it would only make them ask again and again.
            pending().await
        }
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        let name = name.clone();
        self.run(None, move |locks| locks.force_release(&name, only)).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        self.run(None, move |locks| locks.list(&prefix, after.as_ref())).await
    }

    async fn preflight(&self) -> Vec<Finding> {
        let looked = self.run(None, |locks| Ok(preflight(&locks.config))).await;
        looked.unwrap_or_else(|error| vec![Finding::refused("directory", error, "")])
    }

    async fn close(&self) {
        drop(self.under_way.write().await);
        self.locks.changes.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn close_waits_for_calls_whose_futures_were_dropped() {
        let backend = FileBackend::new(FileConfig::new("/none"));
        let (go_on, stopped) = mpsc::channel::<()>();
        {
            let call = std::pin::pin!(backend.run(None, move |_| Ok(stopped.recv())));
            tokio::select! { biased; _ = call => panic!("it is stopped"), () = std::future::ready(()) => {} }
        }
        let mut close = std::pin::pin!(backend.close());
        tokio::select! { biased; () = &mut close => panic!("a call is under way"), () = std::future::ready(()) => {} }
        go_on.send(()).unwrap();
        close.await;
    }

    #[tokio::test]
    async fn a_panic_of_a_call_is_an_error_of_that_call() {
        let backend = FileBackend::new(FileConfig::new("/none"));
        let error = backend.run(None, |_| -> Result<()> { panic!("as asked for") }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        backend.close().await;
    }
}
