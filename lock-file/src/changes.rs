use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use inotify::{EventMask, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What is told of a lock's directory: a record linked, replaced, freed or removed, and the directory's own end.
const CHANGES: WatchMask = WatchMask::CREATE
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::MODIFY)
    .union(WatchMask::DELETE)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR)
    .union(WatchMask::DONT_FOLLOW);

/// Enough for some hundred events; more stay in the kernel's queue.
const BUFFER: usize = 4096;

/// Tells of changes in directories, by one inotify instance for all of them: a user may have 128 on a whole machine.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    stream: Mutex<Option<Arc<Stream>>>,
}

/// It lives as long as its backend, since closing one takes the kernel milliseconds.
#[derive(Debug)]
struct Stream {
    watches: Watches,
    watched: Arc<Watched>,
    reader: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Watched(Mutex<HashMap<WatchDescriptor, Watch>>);

/// The kernel gives one descriptor for one directory, however often it is added.
#[derive(Debug)]
struct Watch {
    changed: watch::Sender<()>,
    armed: usize,
}

/// A watched directory. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Armed {
    stream: Arc<Stream>,
    descriptor: WatchDescriptor,
    changed: watch::Receiver<()>,
}

impl Changes {
    /// Watches a directory from now on. It must be called within a runtime that does input and output.
    pub(crate) fn arm(&self, directory: &Path) -> io::Result<Armed> {
        let mut stream = lock(&self.stream);
        // A runtime that has ended took its reader with it.
        stream.take_if(|stream| stream.reader.is_finished());
        let stream = match &*stream {
            Some(stream) => Arc::clone(stream),
            None => Arc::clone(stream.insert(Arc::new(Stream::open()?))),
        };
        // The descriptor may be in use already: adding it and counting it are one step, and so is the end of both.
        let mut watched = lock(&stream.watched.0);
        let descriptor = stream.watches.clone().add(directory, CHANGES)?;
        let watch =
            watched.entry(descriptor.clone()).or_insert_with(|| Watch { changed: watch::channel(()).0, armed: 0 });
        watch.armed += 1;
        let changed = watch.changed.subscribe();
        drop(watched);
        Ok(Armed { stream, descriptor, changed })
    }

    pub(crate) fn close(&self) {
        lock(&self.stream).take();
    }
}

impl Stream {
    fn open() -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let (watches, watched) = (inotify.watches(), Arc::<Watched>::default());
        let events = inotify.into_event_stream([0; BUFFER])?;
        let reader = tokio::spawn(read(events, EndsAll(Arc::clone(&watched))));
        Ok(Self { watches, watched, reader })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads until it breaks or is dropped; all watches end then.
async fn read(mut events: EventStream<[u8; BUFFER]>, watched: EndsAll) {
    while let Some(Ok(event)) = events.next().await {
        let watched = lock(&watched.0.0);
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            watched.values().for_each(|watch| watch.changed.send_replace(()));
        } else if let Some(watch) = watched.get(&event.wd) {
            watch.changed.send_replace(());
        }
    }
}

struct EndsAll(Arc<Watched>);

impl Drop for EndsAll {
    fn drop(&mut self) {
        lock(&self.0.0).clear();
    }
}

impl Armed {
    /// Returns when something has changed since the last time, or when nothing more will be told.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses no change.
    pub(crate) async fn changed(&mut self) {
        let _ = self.changed.changed().await;
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let mut watched = lock(&self.stream.watched.0);
        let Some(watch) = watched.get_mut(&self.descriptor) else { return };
        watch.armed -= 1;
        if watch.armed == 0 {
            watched.remove(&self.descriptor);
            // It fails where the directory is gone, and its watch with it.
            let _ = self.stream.watches.clone().remove(self.descriptor.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn every_kind_of_change_is_told() {
        let temporary = tempfile::tempdir().unwrap();
        let [watched, one, other] = ["watched", "one", "other"].map(|name| temporary.path().join(name));
        fs::create_dir(&watched).unwrap();
        fs::write(&one, "x").unwrap();
        fs::write(&other, "x").unwrap();
        let changes = Changes::default();
        let kinds: [&dyn Fn() -> io::Result<()>; 5] = [
            &|| fs::hard_link(&one, watched.join("1")),
            &|| fs::OpenOptions::new().write(true).open(watched.join("1"))?.write_all(b"y"),
            &|| fs::rename(&other, watched.join("1")),
            &|| fs::remove_file(watched.join("1")),
            &|| fs::remove_dir(&watched),
        ];
        for change in kinds {
            let mut armed = changes.arm(&watched).unwrap();
            change().unwrap();
            armed.changed().await;
        }
    }

    #[tokio::test]
    async fn watches_of_one_directory_share_a_descriptor_and_leave_none() {
        let directory = tempfile::tempdir().unwrap();
        let changes = Changes::default();
        let first = changes.arm(directory.path()).unwrap();
        let mut second = changes.arm(directory.path()).unwrap();
        assert_eq!(first.descriptor, second.descriptor);
        drop(first);
        fs::write(directory.path().join("1"), "").unwrap();
        second.changed().await;
        let stream = Arc::clone(&second.stream);
        drop(second);
        assert!(lock(&stream.watched.0).is_empty());
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_is_told_at_once() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Changes::default().arm(&directory.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_watch_outlives_its_runtime_as_a_broken_one() {
        let directory = tempfile::tempdir().unwrap();
        let changes = Changes::default();
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut armed = runtime().block_on(async { changes.arm(directory.path()).unwrap() });
        runtime().block_on(async {
            armed.changed().await;
            let mut again = changes.arm(directory.path()).unwrap();
            fs::write(directory.path().join("1"), "").unwrap();
            again.changed().await;
        });
    }
}
