use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::home::Home;
use crate::shared::{Shared, in_time};
use crate::{Backend, Capabilities, Clock, Error, ErrorKind, Finding, Holder, Lock, LockName, Result};

/// How long one call may take. Longer than an election of etcd or ZooKeeper, and two of them fit into the default ttl.
const OP_TIMEOUT: Duration = Duration::from_secs(5);

/// Whatever a backend takes: below it the allowances for clocks eat up the lease.
const TTL_MIN: Duration = Duration::from_millis(10);

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
    /// Unsupported when the backend can't list; Unavailable when the service gives no answer; Denied when it refuses; Closed;
    /// Unexpected.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Holder>> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (prefix, from) = (prefix.to_owned(), after.clone());
            let page = self.ask(async move |backend| backend.list(&prefix, from.as_ref()).await).await?;
            found.extend(page.items);
            match page.next {
                Some(next) if after.as_ref().is_some_and(|after| next <= *after) => {
                    let message = format!("the listing of locks does not go on after {next:?}");
                    return Err(Error::new(ErrorKind::Unexpected, message));
                }
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

    /// Ends the client: new work is refused, waiting ends, held locks are lost and given back, also those that a
    /// [`min_hold`](Lock::min_hold) would keep. Answers which names could not be given back within `deadline`; they end by
    /// their ttl.
    ///
    /// It may be called again, and then waits for the rest. In a fork it does nothing.
    ///
    /// # Cancel safety
    ///
    /// The client closes also when the future is dropped after its first poll.
    pub async fn close(&self, deadline: Duration) -> Vec<LockName> {
        if let Some(ended) = self.begin_close(deadline) {
            // Without an answer the runtime at home has ended, and everything with it.
            let _ = ended.await;
        }
        self.left()
    }

    /// [`close`](Self::close) for threads without a runtime.
    ///
    /// # Errors
    ///
    /// Unsupported inside a runtime, where blocking would stop other tasks. Nothing has been closed then.
    pub fn close_blocking(&self, deadline: Duration) -> Result<Vec<LockName>> {
        self.check_may_block()?;
        if let Some(ended) = self.begin_close(deadline) {
            let _ = ended.blocking_recv();
        }
        Ok(self.left())
    }

    fn begin_close(&self, deadline: Duration) -> Option<oneshot::Receiver<()>> {
        if !self.home.is_here() {
            return None;
        }
        self.shared().close();
        self.home.leave(deadline)
    }

    /// What has not been given back.
    fn left(&self) -> Vec<LockName> {
        if !self.home.is_here() {
            return Vec::new();
        }
        self.shared().left()
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
        let until_done = self.clone();
        self.home.spawn(async move {
            // Whoever asked may have gone.
            let _ = reply.send(call.await);
            drop(until_done);
        })?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// # Errors
    ///
    /// Closed when nothing new may begin.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_here()?;
        if self.shared().is_closing() {
            return Err(Error::new(ErrorKind::Closed, "the client was closed"));
        }
        Ok(())
    }

    /// # Errors
    ///
    /// Closed in a fork.
    pub(crate) fn check_here(&self) -> Result<()> {
        if self.home.is_here() {
            return Ok(());
        }
        let message = "this process is a fork of the one that opened the client: open a client of its own";
        Err(Error::new(ErrorKind::Closed, message))
    }

    /// # Errors
    ///
    /// InvalidConfig when the backend takes no such ttl.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<()> {
        let (min, max) = (self.capabilities().ttl_min.max(TTL_MIN), self.capabilities().ttl_max);
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

/// The error of a call whose task at home has ended without an answer.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Closed, "the client's runtime was shut down, or its backend panicked")
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
    /// It needs tokio's timers, and for most backends its input and output (`enable_all`).
    ///
    /// That saves two changes of thread per call. The price: what blocks the runtime blocks extension, waiting's end and the
    /// telling of a loss, and when it is shut down, held locks are lost and end by their ttl.
    #[must_use]
    pub fn on_runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Makes the client. Nothing is opened yet.
    pub fn build(self) -> LockClient {
        let shared = Shared::new(self.backend, self.clock, self.op_timeout);
        LockClient { home: Arc::new(Home::new(Arc::new(shared), self.runtime)) }
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient").field("backend", &self.shared().backend).finish_non_exhaustive()
    }
}
