use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lock_core::{
    Backend, BootTime, Capabilities, Claim, Clock, ErrorKind, FencingToken, Holder, Lock, LockClient,
    LockClientBuilder, LockName, Release, Result,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::failure::{Evidence, fail, too_slow};
use crate::shared::Shared;
use crate::story::Story;
use crate::{Contender, Pace, Service};

/// A number of locks or waiters that makes a crowd, and that a real service serves in a moment.
const MANY: usize = 300;

/// One run of one case: it opens the case's backends, names its locks, and knows how long things may take.
///
/// Every contender has a backend instance of its own, as every client has; all of them see the same locks.
#[derive(Clone)]
pub(crate) struct Trial {
    service: Arc<Service>,
    paused_time: bool,
    capabilities: Capabilities,
    pace: Pace,
    name: LockName,
    clock: Clock,
    story: Story,
    contenders: Arc<AtomicUsize>,
    visitor: Arc<OnceLock<Shared>>,
    opened: Arc<Mutex<Vec<Shared>>>,
    clients: Arc<Mutex<Vec<LockClient>>>,
}

impl Trial {
    /// To be called within the case's runtime, whose time may be paused.
    pub(crate) fn new(service: Arc<Service>, pace: Pace, paused_time: bool) -> Self {
        let clock = if paused_time { Clock::tokio() } else { Clock::system() };
        let capabilities = (service.open)().capabilities();
        let (story, name) = (Story::beginning_now(&clock), random_name());
        let (contenders, visitor, opened, clients) = Default::default();
        Self { service, paused_time, capabilities, pace, name, clock, story, contenders, visitor, opened, clients }
    }

    /// The case's own lock, which nobody outside of it uses.
    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    /// A name like [`name`](Self::name), that begins with it.
    pub(crate) fn name_with(&self, end: impl fmt::Display) -> LockName {
        LockName::new(format!("{}{end}", self.name)).expect("a short name with a printable end is allowed")
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn story(&self) -> &Story {
        &self.story
    }

    /// A client that can ask for the case's lock, with a ttl that outlives the case.
    pub(crate) fn contender(&self) -> Contender {
        self.contender_for(self.name())
    }

    /// A client that can ask for the lock `name`, with a ttl that outlives the case.
    pub(crate) fn contender_for(&self, name: &LockName) -> Contender {
        Contender::new(self, self.next_contender(), self.open(), name.clone())
    }

    /// One more backend instance, closed when the case ends.
    pub(crate) fn open(&self) -> Shared {
        let backend = self.open_unattended();
        self.closes_in_the_end(&backend);
        backend
    }

    pub(crate) fn closes_in_the_end(&self, backend: &Shared) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(backend.clone());
    }

    /// One more backend instance, which is the case's own to drop.
    pub(crate) fn open_unattended(&self) -> Shared {
        (self.service.open)()
    }

    /// A client on one more backend instance, closed when the case ends.
    pub(crate) fn client(&self) -> LockClient {
        let client = self.client_unattended();
        self.client_closes_in_the_end(&client);
        client
    }

    pub(crate) fn client_closes_in_the_end(&self, client: &LockClient) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client.clone());
    }

    /// A client on one more backend instance, which is the case's own to close or drop.
    pub(crate) fn client_unattended(&self) -> LockClient {
        self.builder(self.open_unattended()).build()
    }

    /// A client of its own thread, or where time is paused, on the case's runtime. It waits for an answer for a third of what a
    /// case has patience for, and at least as long as any other client.
    pub(crate) fn builder(&self, backend: Shared) -> LockClientBuilder {
        let builder = LockClient::builder(backend).clock(self.clock.clone()).op_timeout(self.patience() / 3);
        if self.paused_time { builder.on_runtime(Handle::current()) } else { builder }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// The case's lock, from a client of its own. Its lease outlives the case, and its wait ends in a failure.
    pub(crate) fn lock(&self) -> Lock {
        self.lock_of(&self.client())
    }

    /// The case's lock, from this client.
    pub(crate) fn lock_of(&self, client: &LockClient) -> Lock {
        client.lock(self.name().as_str()).ttl(self.long_ttl()).wait(self.patience())
    }

    /// What the next contender is called in the story.
    pub(crate) fn next_contender(&self) -> String {
        format!("contender {}", self.contenders.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A ttl for a grant that shall end within the case.
    pub(crate) fn ttl(&self) -> Duration {
        self.pace.short_ttl(&self.capabilities)
    }

    /// A ttl for a grant that nobody waits out.
    pub(crate) fn long_ttl(&self) -> Duration {
        self.pace.long_ttl(&self.capabilities)
    }

    /// A ttl for a grant that is extended in time also on a busy machine, and still ends within the case.
    pub(crate) fn steady_ttl(&self) -> Duration {
        self.pace.steady_ttl(&self.capabilities)
    }

    /// A ttl for a grant that lives through a part of it without being extended, also on a busy machine.
    pub(crate) fn double_ttl(&self) -> Duration {
        (self.steady_ttl() * 2).min(self.capabilities.ttl_max)
    }

    /// How long to wait for something that has to come: it is generous, because on a busy machine it costs nothing.
    pub(crate) fn patience(&self) -> Duration {
        self.pace.patience(&self.capabilities)
    }

    /// How long a call may take of a client whose network is hurt: much longer than a healthy service needs, and no longer
    /// than a case can wait for.
    pub(crate) fn op_timeout(&self) -> Duration {
        self.steady_ttl()
    }

    /// So many, or fewer where a real service has to bear them.
    pub(crate) fn many(&self, many: usize) -> usize {
        if self.paused_time { many } else { many.min(MANY) }
    }

    /// The moment until which a yes that was asked for at `sent` holds for certain.
    ///
    /// The contract counts in the service's time. Two clocks may differ by a five-hundredth, and a service may count in
    /// milliseconds; the core allows for just as much.
    pub(crate) fn promised_until(&self, sent: BootTime, ttl: Duration) -> BootTime {
        sent + ttl.saturating_sub(ttl / 500 + Duration::from_millis(2))
    }

    /// The moment from which a yes that was answered at `answered` holds no more, for certain.
    pub(crate) fn over_at(&self, answered: BootTime, ttl: Duration) -> BootTime {
        answered + ttl + self.capabilities.expiry_slack + ttl / 500 + Duration::from_millis(2)
    }

    /// Waits for `event`, which has to come, and fails when it does not.
    #[track_caller]
    pub(crate) fn soon<T>(&self, event: impl Future<Output = T>, what: &str) -> impl Future<Output = T> {
        let (at, patience) = (Location::caller(), self.patience());
        async move {
            match timeout(patience, event).await {
                Ok(value) => value,
                Err(_) => fail(at, Evidence::Silence, format!("{what} did not happen within {patience:?}")),
            }
        }
    }

    /// Waits for `call`, which has to be back `within` that time, but for what a busy machine needs.
    #[track_caller]
    pub(crate) fn is_back<T>(
        &self,
        within: Duration,
        what: &str,
        call: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        let (at, limit) = (Location::caller(), within + self.patience() / 2);
        async move {
            match timeout(limit, call).await {
                Ok(value) => value,
                Err(_) => {
                    fail(at, Evidence::Silence, format!("{what} had {within:?} and was not back after {limit:?}"))
                }
            }
        }
    }

    /// Repeats `call` until it is answered: after an outage the first calls may still find that their connection is broken.
    #[track_caller]
    pub(crate) fn answered<T: fmt::Debug, F>(&self, mut call: impl FnMut() -> F) -> impl Future<Output = T>
    where
        F: Future<Output = Result<T>>,
    {
        let (pause, until_answered) = (self.ttl() / 10, self.clock.now() + self.patience());
        let (at, clock) = (Location::caller(), self.clock.clone());
        async move {
            loop {
                match call().await {
                    Ok(answer) => return answer,
                    Err(error) if error.kind() == ErrorKind::Unavailable && clock.now() < until_answered => {
                        sleep(pause).await;
                    }
                    Err(error) if error.kind() == ErrorKind::Unavailable => too_slow(error),
                    Err(error) => {
                        let message = format!("expected an answer in the end; came error {:?}: {error}", error.kind());
                        fail(at, Evidence::Answer, message)
                    }
                }
            }
        }
    }

    /// Waits for all of `tasks`, and fails as the first of them that failed.
    pub(crate) async fn all<T>(&self, tasks: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
        let mut values = Vec::new();
        for task in tasks {
            match task.await {
                Ok(value) => values.push(value),
                Err(ended) => std::panic::resume_unwind(ended.into_panic()),
            }
        }
        values
    }

    /// Who holds the case's lock, asked by somebody who takes no part.
    #[track_caller]
    pub(crate) fn holder(&self) -> impl Future<Output = Option<Holder>> {
        let at = Location::caller();
        async move {
            let call = |backend: Shared, claim: Claim| async move { backend.inspect(&claim.name).await };
            self.visitor().call(at, "inspect", call).await.answer
        }
    }

    /// Waits until somebody holds the case's lock.
    pub(crate) async fn until_held(&self) {
        while self.holder().await.is_none() {
            sleep(self.ttl() / 20).await;
        }
    }

    /// Takes the case's lock away from its holder, or only from the holder with the token `only`.
    #[track_caller]
    pub(crate) fn takes_away(&self, only: Option<FencingToken>) -> impl Future<Output = Release> {
        let at = Location::caller();
        async move {
            let call = |backend: Shared, claim: Claim| async move { backend.force_release(&claim.name, only).await };
            self.visitor().call(at, "force_release", call).await.answer
        }
    }

    /// Somebody who looks and takes away, but never asks for a lock.
    fn visitor(&self) -> Contender {
        let backend = self.visitor.get_or_init(|| self.open()).clone();
        Contender::new(self, "a visitor".to_owned(), backend, self.name.clone())
    }

    /// Closes what the case has opened.
    pub(crate) async fn end(&self) {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        let clients = std::mem::take(&mut *self.clients.lock().unwrap_or_else(PoisonError::into_inner));
        for client in clients {
            client.close(self.patience()).await;
        }
        for backend in opened {
            // How a case ended is known by now, and a backend that can't close has lost its service.
            let _ = timeout(self.patience(), backend.close()).await;
        }
    }
}

/// A name that no other case and no other run uses.
fn random_name() -> LockName {
    let letters: String = std::iter::repeat_with(fastrand::lowercase).take(16).collect();
    LockName::new(format!("conformance-{letters}")).expect("letters and a dash are allowed")
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("name", &self.name).field("pace", &self.pace).finish_non_exhaustive()
    }
}
