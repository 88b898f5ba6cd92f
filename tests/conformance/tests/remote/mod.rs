//! The memory backend as a service that one can do things to: every hook of the suite, in this process.
use std::fmt;
use std::sync::Arc;

use lock_conformance::{Entry, Network, Service};
use lock_core::{
    Attempt, Backend, Capabilities, Claim, Clock, Error, ErrorKind, Extension, FencingToken, Holder, LockName,
    MemoryBackend, Page, Release, Result, Watching, async_trait,
};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};

/// Locks in memory with all hooks but other processes. Their time is tokio's.
#[allow(dead_code, reason = "not every test program wants them as they are")]
pub(crate) fn memory() -> Service {
    remote(|memory| memory)
}

/// The same, with `over` around each backend instance: what is between the client and its network.
pub(crate) fn remote<B: Backend>(over: impl Fn(Remote) -> B + Clone + Send + Sync + 'static) -> Service {
    let store = MemoryBackend::with_clock(Clock::tokio());
    // What a restart breaks is under way everywhere.
    let restarts = watch::Sender::new(0_u64);
    let connect = {
        let (store, restarts) = (store.clone(), restarts.clone());
        move || Remote::new(store.clone(), &restarts)
    };
    let (opens, links) = ((connect.clone(), over.clone()), (connect, over));
    let (evicted, looked) = (store.clone(), store);
    Service::new(move || opens.1(opens.0()))
        .with_evict(move |name| {
            let store = evicted.clone();
            async move {
                store.force_release(&name, None).await.expect("memory answers");
            }
        })
        .with_look(move |name| {
            let store = looked.clone();
            async move {
                let holder = store.inspect(&name).await.expect("memory answers");
                holder
                    .map(|holder| Entry::new().with_remaining(holder.remaining.expect("memory tells")))
                    .into_iter()
                    .collect()
            }
        })
        .with_link(move || {
            let remote = links.0();
            let network = Arc::clone(&remote.network);
            (links.1(remote), move |now| network.send_modify(|network| *network = now))
        })
        .with_restart(move || {
            restarts.send_modify(|restarts| *restarts += 1);
            async {}
        })
}

/// One client's way to the locks: what it sends arrives also when the caller has given up, and what is on its way fares as the
/// network does.
#[derive(Clone)]
pub(crate) struct Remote {
    memory: MemoryBackend,
    network: Arc<watch::Sender<Network>>,
    restarts: watch::Receiver<u64>,
}

impl Remote {
    fn new(memory: MemoryBackend, restarts: &watch::Sender<u64>) -> Self {
        Self { memory, network: Arc::new(watch::Sender::new(Network::Healthy)), restarts: restarts.subscribe() }
    }

    /// Sends a question, lets the service answer it, and waits for the answer.
    async fn ask<T, F>(&self, question: impl FnOnce(MemoryBackend) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let (memory, mut network) = (self.memory.clone(), self.network.subscribe());
        let mut broken = std::pin::pin!(self.broken());
        tokio::spawn(async move {
            if passes(&mut network, false).await {
                let answered = question(memory).await;
                if passes(&mut network, true).await {
                    // The caller may have given up.
                    let _ = answer.send(answered);
                }
            }
        });
        tokio::select! {
            biased;
            () = &mut broken => Err(Error::new(ErrorKind::Unavailable, "the connection is broken")),
            Ok(answer) = answered => answer,
        }
    }

    /// Ends when the connection breaks. One whose answers were swallowed can never go on.
    async fn broken(&self) {
        let (mut network, mut restarts) = (self.network.subscribe(), self.restarts.clone());
        restarts.mark_unchanged();
        let mut swallowed = false;
        let cut = network.wait_for(|network| {
            let was_swallowing = std::mem::replace(&mut swallowed, *network == Network::RepliesLost);
            *network == Network::Refused || (was_swallowing && !swallowed)
        });
        tokio::select! {
            cut = cut => drop(cut),
            _ = restarts.changed() => {}
        }
    }
}

/// Waits until the network passes what is on its way: a question or an answer. False if it never will.
async fn passes(network: &mut watch::Receiver<Network>, is_answer: bool) -> bool {
    let silence = (*network.borrow() == Network::Silent).then(Instant::now);
    let Ok(now) = network.wait_for(|network| *network != Network::Silent).await.map(|now| *now) else {
        return false;
    };
    if let Some(sent) = silence {
        // What was sent first comes last, as it may over several connections.
        sleep(sent.elapsed() / 10).await;
    }
    match now {
        Network::Refused => false,
        Network::RepliesLost => !is_answer,
        Network::Slow(by) if is_answer => {
            sleep(by).await;
            true
        }
        _ => true,
    }
}

#[async_trait]
impl Backend for Remote {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let claim = claim.clone();
        self.ask(|memory| async move { memory.try_acquire(&claim).await }).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        let claim = claim.clone();
        self.ask(|memory| async move { memory.extend(&claim).await }).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let claim = claim.clone();
        self.ask(|memory| async move { memory.release(&claim).await }).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let name = name.clone();
        self.ask(|memory| async move { memory.inspect(&name).await }).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        let mut network = self.network.subscribe();
        let called = async {
            if !passes(&mut network, false).await {
                return std::future::pending().await;
            }
            tokio::select! {
                () = self.memory.watch(claim, what) => {}
                // Armed, and broken then: it might have been called.
                () = self.broken() => return,
            }
            if !passes(&mut network, true).await {
                std::future::pending().await
            }
        };
        called.await;
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        let name = name.clone();
        self.ask(move |memory| async move { memory.force_release(&name, only).await }).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        self.ask(|memory| async move { memory.list(&prefix, after.as_ref()).await }).await
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}
