use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::caller::Caller;
use crate::hold::{Command, Hold};
use crate::line::Ticket;
use crate::record::{Record, deadline};
use crate::shared::{Kept, Shared, in_time};
use crate::{Attempt, BootTime, Ceiling, Claim, Error, ErrorKind, FencingToken, Grant, Result};

/// Owns one claim from before the first byte is sent until the service has confirmed the end.
///
/// It runs as a task of its own and outlives whoever asked: a dropped future or guard never leaves a lock that nobody owns.
/// This file is its life; how it waits is in `waiting.rs`, how it holds in `holding.rs`, how it ends in `releasing.rs`.
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) claim: Claim,
    pub(crate) ticket: Ticket,
    pub(crate) terms: HoldTerms,
    /// Whether anything may be left of the claim at the service.
    pub(crate) traces: bool,
    /// When the grant has ended by itself for certain.
    pub(crate) free_by: BootTime,
    /// The highest token known before the first call that this claim's grant may stem from.
    pub(crate) above: Option<FencingToken>,
    /// What came last instead of an answer; none when somebody else has the lock.
    pub(crate) trouble: Option<Error>,
    _kept: Kept,
}

/// How the caller wants the lock to be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldTerms {
    pub(crate) auto_extend: bool,
    pub(crate) min_hold: Duration,
    pub(crate) max_hold: Option<Duration>,
}

/// How long the caller wants to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One question.
    Try,
    /// Again and again, until the caller gives up.
    Wait,
}

/// A grant, kept.
pub(crate) struct Held {
    pub(crate) record: Arc<Record>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) granted_at: BootTime,
    /// When to extend next; never if nobody wants that.
    pub(crate) extend_at: Option<BootTime>,
    /// Whether nothing is held any more, whatever the holder was told.
    pub(crate) is_over: bool,
    /// Whether the last extension failed.
    pub(crate) is_silent: bool,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim, ticket: Ticket, terms: HoldTerms) -> Self {
        let kept = shared.keeping(ticket.number(), &claim.name);
        let (free_by, trouble) = (shared.clock.now(), Some(no_answer()));
        Self { shared, claim, ticket, terms, traces: false, free_by, above: None, trouble, _kept: kept }
    }

    /// The claim's whole life.
    pub(crate) async fn keep(mut self, patience: Patience, mut caller: Caller) {
        let held = match patience {
            Patience::Try => self.try_once(&mut caller).await,
            Patience::Wait => self.wait(&mut caller).await,
        };
        match held {
            Some(held) => self.hold(held).await,
            None => {
                self.ticket.leave();
                if self.traces {
                    self.release(Vec::new(), None).await;
                }
            }
        }
    }

    /// One question and no waiting.
    async fn try_once(&mut self, caller: &mut Caller) -> Option<Held> {
        let sent_at = self.shared.clock.now();
        let outcome = match self.ask(caller).await {
            Ok(Attempt::Granted(grant)) => match self.granted(sent_at, &grant) {
                Ok(Some((held, hold))) => return Some(self.hand_over(held, hold, caller)),
                Ok(None) => Err(too_late(&grant).in_context(format_args!("lock {:?}", self.claim.name))),
                Err(error) => Err(error),
            },
            Ok(Attempt::Contended(_)) => Ok(None),
            Err(error) => Err(error),
        };
        caller.tell(outcome);
        None
    }

    /// Asks the service once. The call runs to its end also when the caller gives up meanwhile.
    pub(crate) async fn ask(&mut self, caller: &mut Caller) -> Result<Attempt> {
        let backend = Arc::clone(&self.shared.backend);
        self.claim.above = self.shared.seen.get(&self.claim.name);
        if !self.claim.unsure {
            self.above = self.claim.above;
        }
        let had_traces = std::mem::replace(&mut self.traces, true);
        let clock = &self.shared.clock;
        let (overdue, mut is_overdue) = (clock.now() + self.shared.overdue(), false);
        let answer = {
            let mut call = std::pin::pin!(in_time(self.shared.op_timeout, backend.try_acquire(&self.claim)));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut call => break answer,
                    () = clock.sleep_until(overdue), if !is_overdue => {
                        // Whatever it said before: now it says nothing, and those behind shall know it too.
                        is_overdue = true;
                        self.trouble.get_or_insert_with(no_answer);
                        self.ticket.report(self.trouble.as_ref());
                    }
                    gave_up = caller.gives_up() => caller.tell_why(gave_up, self.trouble.clone()),
                }
            }
        };
        let granted = match &answer {
            Ok(Attempt::Granted(grant)) => grant.ttl,
            _ => Duration::ZERO,
        };
        self.note_call(granted);
        match &answer {
            Ok(Attempt::Granted(grant)) => {
                self.claim.place.clone_from(&grant.place);
                self.claim.token = Some(grant.token);
                self.shared.seen.note(&self.claim.name, grant.token);
            }
            Ok(Attempt::Contended(contention)) => {
                self.claim.place.clone_from(&contention.place);
                self.traces = self.claim.unsure || self.claim.may_queue;
                self.trouble = None;
                if let Some(token) = contention.token {
                    self.shared.seen.note(&self.claim.name, token);
                }
            }
            Err(error) => {
                self.note_error(error);
                self.traces = self.claim.unsure || had_traces;
                self.trouble = Some(error.clone());
            }
        }
        answer.map_err(|error| error.in_context(format_args!("lock {:?}", self.claim.name)))
    }

    /// Without further calls, a grant by the one that has just ended is over by then (contract 3).
    pub(crate) fn note_call(&mut self, granted: Duration) {
        let ttl = granted.max(self.claim.ttl);
        self.free_by = self.free_by.max(self.shared.clock.now() + ttl + self.shared.capabilities.expiry_slack);
    }

    /// A call that ended without an answer makes the claim unsure for good.
    pub(crate) fn note_error(&mut self, error: &Error) {
        self.claim.unsure |= !error.kind().is_an_answer();
    }

    /// What to make of a yes: a hold, none if it came too late, or an error if its token can't be right.
    pub(crate) fn granted(&mut self, sent_at: BootTime, grant: &Grant) -> Result<Option<(Held, Hold)>> {
        let (name, token) = (&self.claim.name, grant.token);
        if let Some(above) = self.above.filter(|above| token <= *above) {
            let message =
                format!("lock {name:?} was granted with token {token} after {above}: the service's memory went back");
            return Err(Error::new(ErrorKind::TokenRegression, message));
        }
        let clock = &self.shared.clock;
        let granted_at = clock.now();
        if deadline(sent_at, grant.ttl) <= granted_at {
            return Ok(None);
        }
        let max_until = self.terms.max_hold.map(|max| granted_at + max);
        let identity = (name.clone(), self.claim.owner, token);
        let record = Arc::new(Record::new(identity, clock.clone(), (sent_at, grant.ttl), max_until));
        let (sender, commands) = mpsc::unbounded_channel();
        self.ticket.hold(Arc::clone(&record), sender.downgrade());
        let extend_at = self.extension_after(sent_at, grant.ttl);
        let held =
            Held { record: Arc::clone(&record), commands, granted_at, extend_at, is_over: false, is_silent: false };
        Ok(Some((held, Hold { record, commands: sender })))
    }

    /// Gives the hold to the caller. If there is none, the hold is dropped, and so the lock is given back.
    pub(crate) fn hand_over(&self, held: Held, hold: Hold, caller: &mut Caller) -> Held {
        if caller.tell(Ok(Some(hold))) {
            let (name, owner, token) = (&self.claim.name, self.claim.owner, self.claim.token.map(FencingToken::as_u64));
            tracing::event!(name: "lock.acquired", tracing::Level::DEBUG, %name, %owner, token, "lock acquired");
        }
        held
    }
}

/// A keeper that ends without having ended its claim, by a panic or with its runtime, leaves what it has at the service.
impl Drop for Keeper {
    fn drop(&mut self) {
        if self.traces {
            let ends_by_itself = self.shared.capabilities.ceiling == Ceiling::Claim;
            let ended = if ends_by_itself { self.free_by } else { BootTime::from_boot(Duration::MAX) };
            self.shared.note_left(&self.claim.name, ended);
        }
    }
}

/// The error while the service says nothing.
pub(crate) fn no_answer() -> Error {
    Error::new(ErrorKind::Unavailable, "the service has given no answer")
}

/// The error for a grant whose time was over when its answer came.
pub(crate) fn too_late(grant: &Grant) -> Error {
    let message = format!("the answer took longer than the granted ttl of {:?}", grant.ttl);
    Error::new(ErrorKind::Unavailable, message)
}
