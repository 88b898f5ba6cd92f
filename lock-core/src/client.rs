use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::home::Home;
use crate::keeper::in_time;
use crate::line::Line;
use crate::seen::SeenTokens;
use crate::{Backend, Capabilities, Clock, Error, ErrorKind, Finding, Holder, Lock, LockName, Result};

/// How long one call may take. Longer than an election of etcd or ZooKeeper, and two of them fit into the default ttl.
const OP_TIMEOUT: Duration = Duration::from_secs(5);

/// Locks of one service. Cloning it is cheap, and the clones are the same client.
///
/// A client, its [`Lock`]s and its guards keep each other's machinery alive. When the last of them is dropped, what is still
/// under way is given back in the background. Exiting right after that is no guarantee: [`close`](Self::close) is.
#[derive(Clone)]
pub struct LockClient {
    home: Arc<Home>,
}

/// Settings of a [`LockClient`] before it is made.
#[derive(Debug)]
pub struct LockClientBuilder {
    backend: Arc<dyn Backend>,
    clock: Clock,
    op_timeout: Duration,
    runtime: Option<Handle>,
}

/// What the keepers of one client share.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) op_timeout: Duration,
    pub(crate) line: Arc<Line>,
    pub(crate) seen: SeenTokens,
    pub(crate) closing: watch::Sender<bool>,
    /// What is locked, or about to be, by the numbers of the tickets.
    pub(crate) kept: watch::Sender<BTreeMap<u64, LockName>>,
}

/// An entry in [`Shared::kept`], taken out by dropping it.
pub(crate) struct Kept {
    shared: Arc<Shared>,
    ticket: u64,
}

impl LockClient {
    /// A client with the default settings.
    pub fn new(backend: impl Backend) -> Self {
        Self::builder(backend).build()
    }

    /// A client with settings of its own.
    pub fn builder(backend: impl Backend) -> LockClientBuilder {
        LockClientBuilder { backend: Arc::new(backend), clock: Clock::system(), op_timeout: OP_TIMEOUT, runtime: None }
    }

    /// The lock of this name, to be configured and acquired. Nothing is asked or opened yet; an invalid name is an error of
    /// the first call.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), LockName::new(name))
    }

    /// What the backend promises.
    pub fn capabilities(&self) -> &Capabilities {
        &self.shared().capabilities
    }

    /// Who holds the locks whose names begin with `prefix`, in the order of their names.
    ///
    /// It is no snapshot: locks change while it is made.
    ///
    /// # Errors
    ///
    /// Unsupported when the backend can't list; Unavailable when the service gives no answer; Denied when it refuses; Closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Holder>> {
        let (prefix, mut found, mut after) = (prefix.to_owned(), Vec::new(), None);
        loop {
            let from = after.take();
            let prefix = prefix.clone();
            let page = self.ask(async move |backend| backend.list(&prefix, from.as_ref()).await).await?;
            found.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Looks whether the service is fit for locks.
    ///
    /// # Errors
    ///
    /// Unavailable when the service gives no answer; Closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn preflight(&self) -> Result<Vec<Finding>> {
        self.ask(async |backend| Ok(backend.preflight().await)).await
    }

    /// Ends the client: new work is refused, waiting ends, held locks are lost and given back. Answers which names could not
    /// be given back within `deadline`; they end by their ttl.
    ///
    /// # Cancel safety
    ///
    /// The client closes also when the future is dropped after its first poll.
    pub async fn close(&self, deadline: Duration) -> Vec<LockName> {
        let shared = self.shared();
        shared.closing.send_replace(true);
        if !self.home.is_here() {
            return Vec::new();
        }
        let _ = tokio::time::timeout(deadline, self.home.leave()).await;
        let mut left: Vec<_> = shared.kept.borrow().values().cloned().collect();
        left.sort();
        left.dedup();
        left
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.home.shared()
    }

    /// Runs one call of the backend at home, within the time of one call.
    pub(crate) async fn ask<T: Send + 'static, F>(&self, call: impl FnOnce(Arc<dyn Backend>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.check_open()?;
        let (reply, answer) = oneshot::channel();
        let call = in_time(self.shared().op_timeout, call(Arc::clone(&self.shared().backend)));
        self.home.spawn(async move {
            // Whoever asked may have gone.
            let _ = reply.send(call.await);
        })?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// # Errors
    ///
    /// Closed when nothing new may begin.
    pub(crate) fn check_open(&self) -> Result<()> {
        if !self.home.is_here() {
            let message = "this process is a fork of the one that opened the client: open a client of its own";
            return Err(Error::new(ErrorKind::Closed, message));
        }
        if *self.shared().closing.borrow() {
            return Err(Error::new(ErrorKind::Closed, "the client was closed"));
        }
        Ok(())
    }

    /// # Errors
    ///
    /// InvalidConfig when the backend takes no such ttl.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<()> {
        let (min, max) = (self.capabilities().ttl_min, self.capabilities().ttl_max);
        if (min..=max).contains(&ttl) {
            return Ok(());
        }
        let message = format!("a ttl of {ttl:?} is out of bounds: this backend takes {min:?} to {max:?}");
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// # Errors
    ///
    /// Unsupported inside a runtime.
    pub(crate) fn check_may_block(&self) -> Result<()> {
        if Handle::try_current().is_err() {
            return Ok(());
        }
        let message = "a blocking call inside a runtime would stop its other tasks: await the method without _blocking, in \
                       spawn_blocking with Handle::current().block_on(...)";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// The error when the runtime at home ended under a call.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Closed, "the runtime that the client ran on was shut down")
}

impl LockClientBuilder {
    /// How long one call of the service may take. By default 5 s: longer than an election of etcd or ZooKeeper takes, and
    /// short enough for several tries within the default ttl.
    #[must_use]
    pub fn op_timeout(mut self, op_timeout: Duration) -> Self {
        self.op_timeout = op_timeout;
        self
    }

    /// Another clock than the machine's: for tests.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Runs on `runtime` instead of a thread of its own.
    ///
    /// That saves two changes of thread per call. The price: what blocks the runtime blocks extension and the telling of a
    /// loss, and when it is shut down, held locks are lost and end by their ttl.
    #[must_use]
    pub fn on_runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Makes the client. Nothing is opened yet.
    pub fn build(self) -> LockClient {
        let shared = Shared {
            capabilities: self.backend.capabilities(),
            backend: self.backend,
            clock: self.clock,
            op_timeout: self.op_timeout,
            line: Arc::default(),
            seen: SeenTokens::default(),
            closing: watch::Sender::new(false),
            kept: watch::Sender::default(),
        };
        LockClient { home: Arc::new(Home::new(Arc::new(shared), self.runtime)) }
    }
}

impl Shared {
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
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shared.kept.send_modify(|kept| _ = kept.remove(&self.ticket));
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient").field("backend", &self.shared().backend).finish_non_exhaustive()
    }
}
