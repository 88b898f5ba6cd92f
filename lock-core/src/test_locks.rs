use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::{
    Attempt, Backend, Capabilities, Claim, Clock, Error, ErrorKind, Extension, FencingToken, Finding, Holder,
    LockClient, LockName, MemoryBackend, Page, Release, Result, Watching,
};

/// In-memory locks with injected faults, for your own tests.
///
/// Their time is tokio's, so that a test under `start_paused = true` sees a ttl of minutes pass at once. Clones share their
/// locks and faults. It is itself a [`Backend`], [`MemoryBackend`] with a fault in front of each call.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = lock_core::TestLocks::new();
/// let guard = locks.client().lock("report").acquire().await?;
/// locks.evict("report").await; // as if the service had forgotten it
/// guard.lost().await;
/// assert!(!guard.is_held());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestLocks {
    memory: MemoryBackend,
    clock: Clock,
    faults: Arc<Faults>,
}

/// One of the calls of a [`Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Op {
    /// [`Backend::try_acquire`].
    TryAcquire,
    /// [`Backend::extend`].
    Extend,
    /// [`Backend::release`].
    Release,
    /// [`Backend::inspect`].
    Inspect,
    /// [`Backend::watch`].
    Watch,
    /// [`Backend::force_release`].
    ForceRelease,
    /// [`Backend::list`].
    List,
}

#[derive(Debug, Default)]
struct Faults {
    state: Mutex<State>,
    healed: Notify,
}

#[derive(Debug, Default)]
struct State {
    calls: BTreeMap<Op, u64>,
    planned: BTreeMap<Op, VecDeque<Fault>>,
    hanging: BTreeSet<Op>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The call fails and does nothing.
    Fail(ErrorKind),
    /// The call does its work, and its answer is lost.
    LoseReply,
    /// The call does its work, and answers after so long.
    Delay(Duration),
}

impl TestLocks {
    /// No locks and no faults yet. Call it inside the test's runtime.
    pub fn new() -> Self {
        let clock = Clock::tokio();
        Self { memory: MemoryBackend::with_clock(clock.clone()), clock, faults: Arc::default() }
    }

    /// One more client of these locks, on the test's runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn client(&self) -> LockClient {
        LockClient::builder(self.clone()).clock(self.clock.clone()).on_runtime(Handle::current()).build()
    }

    /// The clock of these locks; [`Clock::jump`] lets it run ahead of the timers, as after a suspend.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Takes a lock as somebody else, who extends it for ever. It is given back when the answer is dropped.
    ///
    /// # Panics
    ///
    /// When the name is invalid or the lock is not free.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock back.
    pub async fn hold_elsewhere(&self, name: &str) -> crate::LockGuard {
        let elsewhere = LockClient::builder(self.memory.clone()).clock(self.clock.clone());
        let elsewhere = elsewhere.on_runtime(Handle::current()).build();
        let guard = elsewhere.lock(name).label("elsewhere").try_acquire().await;
        guard.expect("a valid name").unwrap_or_else(|| panic!("somebody holds {name:?} already"))
    }

    /// Lets the service forget a grant. Its holder learns of it, if [`Op::Watch`] does not hang.
    ///
    /// # Panics
    ///
    /// When the name is invalid or nobody holds the lock.
    ///
    /// # Cancel safety
    ///
    /// It is done at its first poll.
    pub async fn evict(&self, name: &str) {
        let name = LockName::new(name).expect("a valid name");
        let released = self.memory.force_release(&name, None).await;
        assert_eq!(released.expect("memory answers"), Release::Released, "nobody holds {name:?}");
    }

    /// The next call of `op` fails with `kind` and does nothing.
    pub fn fail_next(&self, op: Op, kind: ErrorKind) {
        self.plan(op, Fault::Fail(kind));
    }

    /// The next call of `op` does its work, and its answer is lost: it ends as unavailable.
    pub fn lose_reply(&self, op: Op) {
        self.plan(op, Fault::LoseReply);
    }

    /// The next call of `op` does its work and answers after `delay`.
    pub fn delay_next(&self, op: Op, delay: Duration) {
        self.plan(op, Fault::Delay(delay));
    }

    /// Calls of `op` get no answer until [`heal`](Self::heal).
    pub fn hang(&self, op: Op) {
        self.faults.state().hanging.insert(op);
    }

    /// Nothing fails or hangs any more.
    pub fn heal(&self) {
        let mut state = self.faults.state();
        (state.planned, state.hanging) = Default::default();
        drop(state);
        self.faults.healed.notify_waiters();
    }

    /// How many calls of `op` there were.
    pub fn calls(&self, op: Op) -> u64 {
        self.faults.state().calls.get(&op).copied().unwrap_or_default()
    }

    fn plan(&self, op: Op, fault: Fault) {
        self.faults.state().planned.entry(op).or_default().push_back(fault);
    }

    /// Counts a call, and does with it what was planned.
    async fn through<T>(&self, op: Op, call: impl Future<Output = Result<T>>) -> Result<T> {
        let fault = {
            let mut state = self.faults.state();
            *state.calls.entry(op).or_default() += 1;
            state.planned.get_mut(&op).and_then(VecDeque::pop_front)
        };
        self.while_hanging(op).await;
        match fault {
            None => call.await,
            Some(Fault::Fail(kind)) => Err(Error::new(kind, format!("{op:?} was made to fail"))),
            Some(Fault::LoseReply) => {
                let _ = call.await;
                Err(Error::new(ErrorKind::Unavailable, format!("the answer to {op:?} was made to get lost")))
            }
            Some(Fault::Delay(delay)) => {
                let answer = call.await;
                tokio::time::sleep(delay).await;
                answer
            }
        }
    }

    async fn while_hanging(&self, op: Op) {
        loop {
            let mut healed = std::pin::pin!(self.faults.healed.notified());
            healed.as_mut().enable();
            if !self.faults.state().hanging.contains(&op) {
                return;
            }
            healed.await;
        }
    }
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TestLocks {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Backend for TestLocks {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.through(Op::TryAcquire, self.memory.try_acquire(claim)).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.through(Op::Extend, self.memory.extend(claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.through(Op::Release, self.memory.release(claim)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.through(Op::Inspect, self.memory.inspect(name)).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        let watch = async {
            self.memory.watch(claim, what).await;
            Ok(())
        };
        // A watch that fails is a watch that returns.
        let _ = self.through(Op::Watch, watch).await;
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.through(Op::ForceRelease, self.memory.force_release(name, only)).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        self.through(Op::List, self.memory.list(prefix, after)).await
    }

    async fn preflight(&self) -> Vec<Finding> {
        self.memory.preflight().await
    }

    async fn close(&self) {
        self.memory.close().await;
    }
}
