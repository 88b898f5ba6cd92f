use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::client::Shared;
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
    Thread(Handle, Option<JoinHandle<()>>),
    /// The caller's runtime, on which the attendant has yet to be started.
    Given(Handle),
    Attended(Handle),
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
            Place::Thread(handle, _) | Place::Attended(handle) => handle.clone(),
            Place::Given(handle) => {
                let handle = handle.clone();
                handle.spawn(self.attendant());
                *place = Place::Attended(handle.clone());
                handle
            }
            Place::ToBeStarted => {
                let (handle, thread) = self.start()?;
                *place = Place::Thread(handle.clone(), Some(thread));
                handle
            }
        };
        drop(place);
        handle.spawn(task);
        Ok(())
    }

    fn start(&self) -> Result<(Handle, JoinHandle<()>)> {
        let failed =
            |error| Error::new(ErrorKind::Unexpected, "the client's thread can't be started").with_source(error);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (handle, attendant) = (runtime.handle().clone(), self.attendant());
        let thread = std::thread::Builder::new().name("lock-client".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(attendant);
            // A blocking call that hangs in a backend must not keep this thread.
            runtime.shutdown_background();
        });
        Ok((handle, thread.map_err(failed)?))
    }

    /// What runs for as long as the client, beside its keepers: it notices jumps of the clock, and at the end closes the
    /// backend once every keeper is done.
    fn attendant(&self) -> impl Future<Output = ()> + Send + 'static {
        let (shared, left) = (Arc::clone(&self.shared), self.left.clone());
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
            left.send_replace(true);
        }
    }

    /// Lets the thread end when all keepers are done, and waits for that.
    pub(crate) async fn leave(&self) {
        self.leaving.send_replace(true);
        let thread = {
            let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *place {
                Place::ToBeStarted | Place::Given(_) => return,
                Place::Attended(_) => None,
                Place::Thread(_, thread) => thread.take(),
            }
        };
        // The sender lives in `self`: it can't fail.
        let _ = self.left.subscribe().wait_for(|left| *left).await;
        if let Some(thread) = thread {
            // It has nothing left to do but to return; a panic in it was reported where it happened.
            let _ = thread.join();
        }
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
