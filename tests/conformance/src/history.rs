use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lock_core::{BootTime, Clock, ErrorKind, FencingToken, LockName};

/// What happened to the locks of a run, by every client, as the clients saw it.
///
/// All stamps are boot times of one machine, so the intervals of different threads and processes compare exactly. A client
/// stamps what it sends before it sends it, and what it is told after it was told: so a claim is never seen longer than its
/// holder took it to be.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
}

/// Something that a client did or was told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When.
    pub at: BootTime,
    /// To which acquisition it belongs: a number that no other one has.
    pub op: u64,
    /// Of which lock.
    pub name: LockName,
    /// What.
    pub what: What,
}

/// What an [`Event`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The client is about to ask for the lock.
    Asks,
    /// It was told that it has the lock, certainly until then.
    Granted {
        /// The grant's token.
        token: FencingToken,
        /// Until when, by the client's own reckoning.
        until: BootTime,
    },
    /// It was told that somebody else has the lock.
    Refused,
    /// It was told that this failed.
    Failed(ErrorKind),
    /// It gave up before it was told anything.
    GaveUp,
    /// It was told that it has the lock for longer.
    Extended {
        /// Until when, by the client's own reckoning.
        until: BootTime,
    },
    /// It is about to give the lock back, and takes it for gone.
    Releases,
    /// It was told that it has lost the lock.
    Lost,
}

impl Event {
    /// An event of the acquisition `op`.
    pub const fn new(at: BootTime, op: u64, name: LockName, what: What) -> Self {
        Self { at, op, name, what }
    }
}

impl History {
    /// A history of these events, in any order.
    pub fn new(events: impl IntoIterator<Item = Event>) -> Self {
        let mut events: Vec<_> = events.into_iter().collect();
        events.sort_by_key(|event| event.at);
        Self { events }
    }

    /// The events, by time.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How often a lock was granted.
    pub fn grants(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.what, What::Granted { .. })).count()
    }
}

/// Takes down a [`History`] while it happens. Clones write into the same one.
#[derive(Clone, Debug)]
pub struct Recorder {
    clock: Clock,
    written: Arc<Mutex<Written>>,
}

#[derive(Debug, Default)]
struct Written {
    events: Vec<Event>,
    ops: u64,
}

/// Takes down what happens to one acquisition.
#[derive(Debug)]
pub struct Acquisition {
    recorder: Recorder,
    number: u64,
    name: LockName,
}

impl Recorder {
    /// Nothing has happened yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, written: Arc::default() }
    }

    /// Begins an acquisition of `name`, which is about to be asked for.
    pub fn asks(&self, name: &LockName) -> Acquisition {
        let number = {
            let mut written = self.written();
            written.ops += 1;
            written.ops
        };
        let op = Acquisition { recorder: self.clone(), number, name: name.clone() };
        op.record(What::Asks);
        op
    }

    /// What has happened up to now.
    pub fn history(&self) -> History {
        History::new(self.written().events.iter().cloned())
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Acquisition {
    /// Takes down what happens now.
    pub fn record(&self, what: What) {
        let event = Event::new(self.recorder.clock.now(), self.number, self.name.clone(), what);
        self.recorder.written().events.push(event);
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.since_boot().as_secs_f64();
        write!(f, "{at:.6} s  acquisition {} of {:?} ", self.op, self.name)?;
        match self.what {
            What::Asks => write!(f, "asks"),
            What::Granted { token, until } => {
                write!(f, "is granted token {token} until {:.6} s", until.since_boot().as_secs_f64())
            }
            What::Refused => write!(f, "is refused"),
            What::Failed(kind) => write!(f, "fails: {kind}"),
            What::GaveUp => write!(f, "gives up"),
            What::Extended { until } => write!(f, "is extended until {:.6} s", until.since_boot().as_secs_f64()),
            What::Releases => write!(f, "gives the lock back"),
            What::Lost => write!(f, "is told of its loss"),
        }
    }
}
