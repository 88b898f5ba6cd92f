use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Backend, LockName};

use crate::shared::Shared;

/// A service that is there: how to open one more backend instance on it, and what else can be done to it.
///
/// A backend instance is all that the suite needs. Each hook beside it unlocks the cases that need what only this service's
/// own tools can do; without it they are shown as ignored, with the reason. What the hooks own (a server, a directory) lives
/// until the last case has ended.
///
/// A hook that can't do its work panics: that fails the case.
///
/// ```
/// # use lock_conformance::{Service, Suite};
/// # use lock_core::{Backend, MemoryBackend};
/// # fn suite() -> Suite {
/// let store = MemoryBackend::new();
/// let operator = store.clone();
/// let service = Service::new(move || store.clone()).with_evict(move |name| {
///     let operator = operator.clone();
///     async move {
///         operator.force_release(&name, None).await.expect("memory answers");
///     }
/// });
/// Suite::new("memory", service)
/// # }
/// ```
pub struct Service {
    pub(crate) open: Box<dyn Fn() -> Shared + Send + Sync>,
    pub(crate) evict: Option<Hook<LockName, ()>>,
    pub(crate) look: Option<Hook<LockName, Vec<Entry>>>,
    pub(crate) link: Option<OpenOverLink>,
    pub(crate) restart: Option<Hook<(), ()>>,
    pub(crate) address: Option<String>,
}

/// Something that can be done to a service, from within the case's runtime.
pub(crate) type Hook<Q, A> = Box<dyn Fn(Q) -> Pin<Box<dyn Future<Output = A> + Send>> + Send + Sync>;

type OpenOverLink = Box<dyn Fn() -> (Shared, Link) + Send + Sync>;

/// The network between one backend instance and its service, which a case can hurt.
#[derive(Clone)]
pub(crate) struct Link(Arc<dyn Fn(Network) + Send + Sync>);

/// What the network between a backend instance and its service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Network {
    /// It passes everything, also over connections that were made before it was hurt if they still stand.
    Healthy,
    /// It passes everything, and each answer comes so much later.
    Slow(Duration),
    /// It delivers what the client sends, and swallows what the service answers. Nobody is told; but a connection of which
    /// something was swallowed breaks when the network is anything else again, since TCP never loses what is in the middle.
    RepliesLost,
    /// It passes nothing. Nobody is told: connections stay open, and what was sent may arrive when the network is healthy again.
    Silent,
    /// It breaks the connections that there are, and refuses new ones.
    Refused,
}

/// Something that the service itself keeps of a name and that can exclude others: a grant, or a place in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// How long it lives if nobody extends it, where the service tells.
    pub remaining: Option<Duration>,
}

impl Service {
    /// A service on which `open` makes one more backend instance, as another client would have it. All instances must see the
    /// same locks.
    pub fn new<B: Backend>(open: impl Fn() -> B + Send + Sync + 'static) -> Self {
        let open = Box::new(move || Shared::new(open()));
        Self { open, evict: None, look: None, link: None, restart: None, address: None }
    }

    /// How to make the service forget who holds a name, as an operator does with the service's own tools: the key is deleted,
    /// the node removed. The holder is not told by this.
    #[must_use]
    pub fn with_evict<F>(mut self, evict: impl Fn(LockName) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.evict = Some(Box::new(move |name| Box::pin(evict(name))));
        self
    }

    /// How to see what the service keeps of a name, with the service's own tools and not with the backend: an oracle.
    #[must_use]
    pub fn with_look<F>(mut self, look: impl Fn(LockName) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<Entry>> + Send + 'static,
    {
        self.look = Some(Box::new(move |name| Box::pin(look(name))));
        self
    }

    /// How to open a backend instance that reaches the service over a network of its own, and to hurt just that: a relay. The
    /// network is healthy at first, and a change of it works on what is under way too.
    #[must_use]
    pub fn with_link<B, L>(mut self, open: impl Fn() -> (B, L) + Send + Sync + 'static) -> Self
    where
        B: Backend,
        L: Fn(Network) + Send + Sync + 'static,
    {
        self.link = Some(Box::new(move || {
            let (backend, set) = open();
            (Shared::new(backend), Link(Arc::new(set)))
        }));
        self
    }

    /// How to restart the service, as a crash does: with no time to say farewell, and with what it has on disk. It is there
    /// again when this has ended.
    #[must_use]
    pub fn with_restart<F>(mut self, restart: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.restart = Some(Box::new(move |()| Box::pin(restart())));
        self
    }

    /// What another process has to know to reach the service: a URL, a path. It goes with
    /// [`Suite::with_processes`](crate::Suite::with_processes).
    #[must_use]
    pub fn with_address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }
}

/// A service without hooks.
impl<F, B> From<F> for Service
where
    F: Fn() -> B + Send + Sync + 'static,
    B: Backend,
{
    fn from(open: F) -> Self {
        Self::new(open)
    }
}

impl Link {
    /// Makes the network this from now on.
    pub(crate) fn set(&self, network: Network) {
        (self.0)(network);
    }
}

impl Entry {
    /// An entry of which the service does not tell how long it lives.
    pub const fn new() -> Self {
        Self { remaining: None }
    }

    /// An entry that lives for so long if nobody extends it.
    #[must_use]
    pub const fn with_remaining(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
