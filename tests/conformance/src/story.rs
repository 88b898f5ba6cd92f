use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{BootTime, Clock};

/// Every call that a case made, with its answer: what a failure shows beside its own line.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    begin: BootTime,
    lines: Arc<Mutex<Vec<String>>>,
}

/// A case that asks in a loop must not drown the rest.
const LONGEST: usize = 200;

impl Story {
    pub(crate) fn beginning_now(clock: &Clock) -> Self {
        Self { begin: clock.now(), lines: Arc::default() }
    }

    /// Adds one call.
    pub(crate) fn tell(&self, sent: BootTime, who: &str, call: &str, answer: &dyn fmt::Debug, took: Duration) {
        let at = sent.since(self.begin).as_secs_f64();
        let line = format!("{at:8.3} s  {who}: {call} -> {answer:?}, after {took:.1?}");
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// The calls up to now; of very many, the last ones.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines[lines.len().saturating_sub(LONGEST)..].to_vec()
    }
}
