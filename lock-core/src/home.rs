use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

use crate::shared::Shared;
use crate::{Error, ErrorKind, Result};

/// Where a client's keepers and its backend's connections run.
///
/// By default that is one thread of the client's own, started by the first call: a blocking call in the application can't
/// starve extension and loss there, guards may be dropped outside any runtime, and plain threads need none.
pub(crate) struct Home {
    shared: Arc<Shared>,
    /// The process that the thread belongs to: a fork has no such thread.
    process: u32,
    place: Mutex<Place>,
    /// Set when the last client, lock and guard are gone, or the client was closed.
    leaving: watch::Sender<bool>,
    /// Set when everything has come to its end.
    left: watch::Sender<bool>,
}

enum Place {
    /// The thread has not been needed yet.
    ToBeStarted,
    /// The caller's runtime, on which the attendant has yet to be started.
    Given(Handle),
    /// The attendant runs there.
    Running(Handle),
}

impl Home {
    pub(crate) fn new(shared: Arc<Shared>, given: Option<Handle>) -> Self {
        let place = Mutex::new(given.map_or(Place::ToBeStarted, Place::Given));
        let (leaving, left) = (watch::Sender::new(false), watch::Sender::new(false));
        Self { shared, process: std::process::id(), place, leaving, left }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether this is the process in which the client was made.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Runs a task at home.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = match &*place {
            Place::Running(handle) => handle.clone(),
            Place::Given(handle) => {
                let handle = handle.clone();
                handle.spawn(self.attendant());
                *place = Place::Running(handle.clone());
                handle
            }
            Place::ToBeStarted => {
                let handle = self.start()?;
                *place = Place::Running(handle.clone());
                handle
            }
        };
        drop(place);
        handle.spawn(task);
        Ok(())
    }

    fn start(&self) -> Result<Handle> {
        fn failed(error: std::io::Error) -> Error {
            Error::new(ErrorKind::Unexpected, format!("the client's thread can't be started: {error}"))
                .with_source(error)
        }
        let (attendant, (started, start)) = (self.attendant(), mpsc::channel());
        let thread = std::thread::Builder::new().name("lock-client".to_owned());
        let thread = thread.spawn(move || {
            // Made here, since a runtime that is not needed can't be dropped inside another one.
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    // Whoever waits is told; it can't have gone.
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let _ = started.send(Ok(runtime.handle().clone()));
            runtime.block_on(attendant);
            // A blocking call that hangs in a backend must not keep this thread.
            runtime.shutdown_background();
        });
        // Nobody joins it: it ends by itself, and whoever waits for that waits for what runs on it.
        thread.map_err(failed)?;
        let handle = start.recv().unwrap_or_else(|_| Err(std::io::Error::other("it ended at once")));
        handle.map_err(failed)
    }

    /// What runs for as long as the client, beside its keepers: it notices jumps of the clock, and at the end closes the
    /// backend once every keeper is done.
    fn attendant(&self) -> impl Future<Output = ()> + Send + 'static {
        let (shared, left) = (Arc::clone(&self.shared), SetOnDrop(self.left.clone()));
        let mut leaving = self.leaving.subscribe();
        async move {
            let mut kept = shared.kept.subscribe();
            loop {
                tokio::select! {
                    biased;
                    // The sender says so before it is dropped: it can't fail.
                    _ = leaving.wait_for(|leaving| *leaving) => break,
                    _ = kept.wait_for(|kept| !kept.is_empty()) => {}
                }
                tokio::select! {
                    biased;
                    _ = kept.wait_for(|kept| kept.is_empty()) => {}
                    _ = leaving.wait_for(|leaving| *leaving) => break,
                    () = shared.clock.notice_jumps() => {}
                }
            }
            tokio::select! {
                biased;
                _ = kept.wait_for(|kept| kept.is_empty()) => {}
                () = shared.clock.notice_jumps() => {}
            }
            // A backend that can't close in time is left: its connections end with the runtime.
            let _ = tokio::time::timeout(shared.op_timeout, shared.backend.close()).await;
            drop(left);
        }
    }

    /// Lets the thread end when all keepers are done. The answer comes then, or after `deadline`; none means that nothing runs
    /// any more.
    pub(crate) fn leave(&self, deadline: Duration) -> Option<oneshot::Receiver<()>> {
        self.leaving.send_replace(true);
        let mut left = self.left.subscribe();
        let (reply, ended) = oneshot::channel();
        let wait = async move {
            // The timer runs at home, since whoever closes may have none.
            let _ = tokio::time::timeout(deadline, left.wait_for(|left| *left)).await;
            let _ = reply.send(());
        };
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        match &*place {
            Place::ToBeStarted | Place::Given(_) => None,
            Place::Running(handle) => {
                handle.spawn(wait);
                Some(ended)
            }
        }
    }
}

/// Says that an attendant has come to its end, whatever ended it.
struct SetOnDrop(watch::Sender<bool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.leaving.send_replace(true);
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("process", &self.process).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockClient, MemoryBackend};

    #[test]
    fn a_fork_is_not_at_home() {
        let client = LockClient::new(MemoryBackend::new());
        let mut home = Home::new(Arc::clone(client.shared()), None);
        assert!(home.is_here());
        home.process += 1;
        assert!(!home.is_here());
    }
}
