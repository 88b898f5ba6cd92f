use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Clock, LockName};

use crate::history::{Became, Event, History, Line, ProcessEvent, What};

/// Takes down a [`History`] while it happens, in one of the processes that take part. Clones write into the same one.
#[derive(Clone, Debug)]
pub struct Recorder {
    clock: Clock,
    process: u32,
    written: Arc<Mutex<Written>>,
}

struct Written {
    lines: Vec<Line>,
    ops: u32,
    tell: Box<dyn FnMut(&Line) + Send>,
}

/// Takes down what happens to one acquisition.
#[derive(Debug)]
pub struct Acquisition {
    recorder: Recorder,
    number: u64,
    name: LockName,
}

impl Recorder {
    /// Nothing has happened yet, in the only process that takes part.
    pub fn new(clock: Clock) -> Self {
        Self::of_process(clock, 0, |_| {})
    }

    /// Nothing has happened yet in this process, whose number no other one has.
    ///
    /// `tell` is called with each line before what it says is done. So a process that is killed has told at least all that it
    /// did, if `tell` leaves the line where it outlives the process: in a pipe or a file.
    pub fn of_process(clock: Clock, process: u32, tell: impl FnMut(&Line) + Send + 'static) -> Self {
        let written = Written { lines: Vec::new(), ops: 0, tell: Box::new(tell) };
        Self { clock, process, written: Arc::new(Mutex::new(written)) }
    }

    /// Begins an acquisition of `name`, which is about to be asked for.
    pub fn asks(&self, name: &LockName) -> Acquisition {
        let number = {
            let mut written = self.written();
            written.ops += 1;
            (u64::from(self.process) << u32::BITS) + u64::from(written.ops)
        };
        let op = Acquisition { recorder: self.clone(), number, name: name.clone() };
        op.record(What::Asks);
        op
    }

    /// Takes down what becomes of this process now.
    pub fn becomes(&self, became: Became) {
        self.write(ProcessEvent::new(self.clock.now(), self.process, became).into());
    }

    /// What this process has taken down up to now.
    pub fn lines(&self) -> Vec<Line> {
        self.written().lines.clone()
    }

    /// The same as a history.
    pub fn history(&self) -> History {
        History::new(self.lines())
    }

    fn write(&self, line: Line) {
        let mut written = self.written();
        (written.tell)(&line);
        written.lines.push(line);
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Acquisition {
    /// Takes down what happens now. One task does it at a time, so that nothing overtakes what was told before.
    pub fn record(&self, what: What) {
        self.recorder.write(Event::new(self.recorder.clock.now(), self.number, self.name.clone(), what).into());
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}
