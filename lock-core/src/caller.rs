use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::hold::Hold;
use crate::shared::Shared;
use crate::{BootTime, Error, ErrorKind, LockName, Result};

/// How often a waiting claim is reported.
const WAITING_REPORT: Duration = Duration::from_secs(60);

/// What an acquisition ends with: a hold, or nothing when somebody else has the lock and nobody wanted to wait.
pub(crate) type Outcome = Result<Option<Hold>>;

/// The one who asked for a lock, from the keeper's side: someone who is told one outcome and may go away before.
pub(crate) struct Caller {
    name: LockName,
    shared: Arc<Shared>,
    outcome: Option<oneshot::Sender<Outcome>>,
    until: BootTime,
    next_report: BootTime,
}

/// Why a caller waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GaveUp {
    /// Its future was dropped.
    Gone,
    /// The time it wanted to wait is over.
    TimeIsUp,
    /// The client is being closed.
    Closing,
}

impl Caller {
    pub(crate) fn new(name: LockName, shared: Arc<Shared>, outcome: oneshot::Sender<Outcome>, until: BootTime) -> Self {
        let next_report = shared.clock.now() + WAITING_REPORT;
        Self { name, shared, outcome: Some(outcome), until, next_report }
    }

    /// Tells the caller. False when there is nobody to be told: the outcome is dropped then.
    pub(crate) fn tell(&mut self, outcome: Outcome) -> bool {
        self.outcome.take().is_some_and(|caller| caller.send(outcome).is_ok())
    }

    /// Whether nobody waits for an outcome any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.outcome.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Resolves when the caller waits no longer, and never once it has been told.
    pub(crate) async fn gives_up(&mut self) -> GaveUp {
        let Some(outcome) = &mut self.outcome else { return std::future::pending().await };
        let clock = &self.shared.clock;
        loop {
            tokio::select! {
                biased;
                () = outcome.closed() => return GaveUp::Gone,
                () = self.shared.closing() => return GaveUp::Closing,
                () = clock.sleep_until(self.until) => return GaveUp::TimeIsUp,
                () = clock.sleep_until(self.next_report) => {
                    self.next_report = clock.now() + WAITING_REPORT;
                    tracing::event!(name: "lock.waiting", tracing::Level::INFO, name = %self.name, "waiting for a lock");
                }
            }
        }
    }

    /// Tells the caller that it waited in vain. `trouble` is what came last instead of an answer.
    pub(crate) fn tell_why(&mut self, gave_up: GaveUp, trouble: Option<Error>) {
        let name = &self.name;
        let error = match (gave_up, trouble) {
            (GaveUp::Gone, _) => return self.outcome = None,
            (GaveUp::Closing, _) => Error::new(ErrorKind::Closed, format!("lock {name:?}: the client was closed")),
            (GaveUp::TimeIsUp, Some(trouble)) => trouble.in_context(format_args!("lock {name:?} not granted in time")),
            (GaveUp::TimeIsUp, None) => {
                let message = format!("lock {name:?} not granted in time: somebody else has it");
                Error::new(ErrorKind::Timeout, message)
            }
        };
        self.tell(Err(error));
    }
}
