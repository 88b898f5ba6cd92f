use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::caller::Caller;
use crate::client::Shared;
use crate::guard::Hold;
use crate::lease::{Record, deadline};
use crate::line::Ticket;
use crate::{Attempt, BootTime, Claim, Error, ErrorKind, FencingToken, Grant, Release, Result};

/// The first pause between two tries to release, doubled up to [`RELEASE_PAUSE_MAX`].
const RELEASE_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two tries to release: what a service that comes back is late by.
const RELEASE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Owns one claim from before the first byte is sent until the service has confirmed the end.
///
/// It runs as a task of its own and outlives whoever asked: a dropped future or guard never leaves a lock that nobody owns.
/// This file is its life; how it waits is in `waiting.rs`, how it holds in `holding.rs`.
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

/// What a guard asks of its keeper. The end of the channel means that the guard was dropped.
#[derive(Debug)]
pub(crate) enum Command {
    Extend {
        ttl: Duration,
        reply: oneshot::Sender<Result<()>>,
    },
    Release {
        reply: oneshot::Sender<Result<Release>>,
    },
    /// Ask the service whether the grant is still there.
    Verify,
}

/// A grant, kept.
pub(crate) struct Held {
    pub(crate) record: Arc<Record>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) granted_at: BootTime,
    /// When the newest yes was asked for.
    pub(crate) sent_at: BootTime,
    /// When the newest extension failed, if none has succeeded since.
    pub(crate) failed_at: Option<BootTime>,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim, ticket: Ticket, terms: HoldTerms) -> Self {
        let trouble = Some(Error::new(ErrorKind::Unavailable, "the service has given no answer"));
        let free_by = shared.clock.now();
        Self { shared, claim, ticket, terms, traces: false, free_by, above: None, trouble }
    }

    /// The claim's whole life.
    pub(crate) async fn keep(mut self, patience: Patience, mut caller: Caller) {
        let _kept = self.shared.keeping(self.ticket.number(), &self.claim.name);
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
                Ok(None) => Err(too_late(&self.claim, &grant)),
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
        let answer = {
            let mut call = std::pin::pin!(in_time(self.shared.op_timeout, backend.try_acquire(&self.claim)));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut call => break answer,
                    gave_up = caller.gives_up() => caller.tell_why(gave_up, self.trouble.clone()),
                }
            }
        };
        self.note_call();
        match &answer {
            Ok(Attempt::Granted(grant)) => self.claim.place.clone_from(&grant.place),
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
    pub(crate) fn note_call(&mut self) {
        let until = self.shared.clock.now() + self.claim.ttl + self.shared.capabilities.expiry_slack;
        self.free_by = self.free_by.max(until);
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
        self.shared.seen.note(name, token);
        self.claim.token = Some(token);
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
        let held = Held { record: Arc::clone(&record), commands, granted_at, sent_at, failed_at: None };
        Ok(Some((held, Hold { record, commands: sender })))
    }

    /// Gives the hold to the caller. If there is none, the hold is dropped, and so the lock is given back.
    pub(crate) fn hand_over(&self, held: Held, hold: Hold, caller: &mut Caller) -> Held {
        let (name, owner, token) = (&self.claim.name, self.claim.owner, self.claim.token.map(FencingToken::as_u64));
        tracing::event!(name: "lock.acquired", tracing::Level::DEBUG, %name, %owner, token, "lock acquired");
        caller.tell(Ok(Some(hold)));
        held
    }

    /// Gives up what the claim may have at the service, and tells those who wait for it.
    pub(crate) async fn release(&mut self, mut waiting: Vec<oneshot::Sender<Result<Release>>>, held: Option<Held>) {
        let (clock, limit) = (self.shared.clock.clone(), self.shared.op_timeout);
        let lost = held.as_ref().is_some_and(|held| held.record.loss().is_some());
        let mut commands = held.map(|held| held.commands);
        let mut pause = RELEASE_PAUSE;
        loop {
            if lost {
                waiting.drain(..).for_each(|reply| _ = reply.send(Ok(Release::NotHeld)));
            }
            let released = in_time(limit, self.shared.backend.release(&self.claim)).await;
            if commands.is_some() {
                // The next in line asks the service for itself, whatever it said to us.
                self.ticket.leave();
            }
            let done = match &released {
                Ok(_) => true,
                Err(error) => {
                    self.note_error(error);
                    error.kind().is_an_answer() || clock.now() >= self.free_by
                }
            };
            if let Ok(Release::Released) = released {
                let (name, owner, token) =
                    (&self.claim.name, self.claim.owner, self.claim.token.map(FencingToken::as_u64));
                tracing::event!(name: "lock.released", tracing::Level::DEBUG, %name, %owner, token, "lock released");
            }
            if let Some(commands) = &mut commands {
                while let Ok(command) = commands.try_recv() {
                    waiting.extend(release_of(command));
                }
            }
            let told = if lost { Ok(Release::NotHeld) } else { released };
            let told = told.map_err(|error| error.in_context(format_args!("release of lock {:?}", self.claim.name)));
            waiting.drain(..).for_each(|reply| _ = reply.send(told.clone()));
            if done {
                return;
            }
            let again = self.free_by.min(clock.now() + pause / 2 + pause.mul_f32(fastrand::f32() / 2.0));
            pause = RELEASE_PAUSE_MAX.min(pause * 2);
            tokio::select! {
                () = clock.sleep_until(again) => {}
                Some(command) = next_command(&mut commands) => waiting.extend(release_of(command)),
            }
        }
    }
}

/// The next command, or never when nobody can send one.
async fn next_command(commands: &mut Option<mpsc::UnboundedReceiver<Command>>) -> Option<Command> {
    match commands {
        Some(commands) => commands.recv().await,
        None => None,
    }
}

/// The reply that a release waits for. Other commands of a hold that is over are answered by dropping their reply.
fn release_of(command: Command) -> Option<oneshot::Sender<Result<Release>>> {
    match command {
        Command::Release { reply } => Some(reply),
        Command::Extend { .. } | Command::Verify => None,
    }
}

/// The error for a grant whose time was over when its answer came.
pub(crate) fn too_late(claim: &Claim, grant: &Grant) -> Error {
    let message = format!("lock {:?}: the answer took longer than the granted ttl of {:?}", claim.name, grant.ttl);
    Error::new(ErrorKind::Unavailable, message)
}

/// Bounds a call.
pub(crate) async fn in_time<T>(limit: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unavailable, format!("the service gave no answer within {limit:?}")))
    })
}
