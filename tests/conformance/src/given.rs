use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{BootTime, ErrorKind, FencingToken};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::Trial;
use crate::failure::{Evidence, fail, too_slow};
use crate::orders::Answer;
use crate::process::Heard;

/// The case's line that a failure is reported at.
type At = &'static Location<'static>;

/// An order that was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) trial: Trial,
    pub(crate) who: String,
    pub(crate) what: &'static str,
    pub(crate) sent: BootTime,
    pub(crate) answers: mpsc::UnboundedReceiver<Answer>,
    pub(crate) heard: Arc<Mutex<Heard>>,
    /// How long to wait for an answer.
    pub(crate) patience: Duration,
}

impl Given {
    /// It takes long, also on a machine that is not busy.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits until the service knows of the claim, which waits.
    #[track_caller]
    pub(crate) fn waits(&mut self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            match self.answer(at).await {
                Answer::Waits => {}
                other => self.fail(at, "to wait", &other),
            }
        }
    }

    /// Waits for the lock.
    #[track_caller]
    pub(crate) fn gets_the_lock(self) -> impl Future<Output = FencingToken> {
        self.gets_the_lock_at(Location::caller())
    }

    pub(crate) async fn gets_the_lock_at(mut self, at: At) -> FencingToken {
        loop {
            match self.answer(at).await {
                Answer::Waits => {}
                Answer::Granted { token } => return token,
                // The lease was over before anybody came to take it.
                Answer::Failed { kind: ErrorKind::Lost, message } => too_slow(message),
                other => self.fail(at, "to be granted the lock", &other),
            }
        }
    }

    /// It was asked how it stands with the lock, and says that it has lost it.
    #[track_caller]
    pub(crate) fn says_it_is_lost(mut self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let answer = self.answer(at).await;
            if answer != (Answer::Stands { is_held: false, is_lost: true }) {
                self.fail(at, "to know that its lock is lost", &answer);
            }
        }
    }

    /// It has no end, and does it until `event` comes.
    #[track_caller]
    pub(crate) fn goes_on_until(mut self, event: impl Future<Output = ()>) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            tokio::select! {
                biased;
                () = event => {}
                answer = self.answer(at) => self.fail(at, "to go on", &answer),
            }
        }
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self, at: At) -> Answer {
        let answer = timeout(self.patience, self.answers.recv()).await;
        let took = self.trial.clock().now().since(self.sent);
        match answer {
            Ok(Some(answer)) => {
                self.trial.story().tell(self.sent, &self.who, self.what, &answer, took);
                answer
            }
            Ok(None) => {
                let end = self.heard.lock().unwrap_or_else(PoisonError::into_inner).end();
                fail(at, Evidence::Panic, format!("{} gave no answer to {}: {end}", self.who, self.what))
            }
            Err(_) => {
                let message = format!("{} gave no answer to {} within {took:.1?}", self.who, self.what);
                fail(at, Evidence::Silence, message)
            }
        }
    }

    pub(crate) fn fail(&self, at: At, expected: &str, came: &Answer) -> ! {
        fail(at, Evidence::Answer, format!("{} expected {expected}; the answer was {came:?}", self.who))
    }
}
