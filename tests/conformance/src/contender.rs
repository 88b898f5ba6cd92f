use std::fmt;
use std::panic::Location;
use std::time::Duration;

use lock_core::{
    Attempt, Backend, BootTime, Claim, Contention, ErrorKind, Extension, FencingToken, Grant, LockName, Release, Result,
};
use tokio::time::timeout;

use crate::Trial;
use crate::failure::{Evidence, fail, too_slow};
use crate::polls::poll_times;
use crate::shared::Shared;

/// One claim and the backend it goes to: a client of one lock, without the core's policy.
///
/// Its verbs are what cases are written in. Each makes one call, fails the case unless the answer is the one that the verb
/// says, and keeps the claim as the core would.
#[derive(Debug)]
pub(crate) struct Contender {
    trial: Trial,
    who: String,
    backend: Shared,
    claim: Claim,
    yes: Option<Yes>,
}

/// When the service last said yes, and to what.
#[derive(Clone, Copy, Debug)]
struct Yes {
    sent: BootTime,
    answered: BootTime,
    ttl: Duration,
}

/// An answer, and when it was given.
#[derive(Debug)]
pub(crate) struct Told<T> {
    pub(crate) answer: T,
    pub(crate) sent: BootTime,
    pub(crate) answered: BootTime,
}

/// The case's line that a failure is reported at.
type At = &'static Location<'static>;

impl Contender {
    pub(crate) fn new(trial: &Trial, who: String, backend: Shared, name: LockName) -> Self {
        let claim = Claim::new(name, trial.long_ttl());
        Self { trial: trial.clone(), who, backend, claim, yes: None }
    }

    /// Another claim to the same lock, from the same client.
    pub(crate) fn sibling(&self) -> Self {
        self.sibling_for(&self.claim.name)
    }

    /// A claim to another lock, from the same client.
    pub(crate) fn sibling_for(&self, name: &LockName) -> Self {
        Self::new(&self.trial, self.trial.next_contender(), self.backend.clone(), name.clone())
    }

    /// Asks for this ttl from now on.
    pub(crate) fn with_ttl(mut self, ttl: Duration) -> Self {
        self.claim.ttl = ttl;
        self
    }

    /// Queues at the service, where it has a queue.
    pub(crate) fn queueing(mut self) -> Self {
        self.claim.may_queue = true;
        self
    }

    /// Has seen this token, and must not be granted one that is not above it.
    pub(crate) fn having_seen(mut self, token: FencingToken) -> Self {
        self.claim.above = Some(token);
        self
    }

    /// Asks, and is granted the lock.
    #[track_caller]
    pub(crate) fn acquires(&mut self) -> impl Future<Output = Grant> {
        let at = Location::caller();
        async move {
            match self.ask(at).await.answer {
                Attempt::Granted(grant) => grant,
                refusal @ Attempt::Contended(_) => self.fail(at, "to be granted the lock", &refusal),
            }
        }
    }

    /// Asks, and is told that somebody else has the lock.
    #[track_caller]
    pub(crate) fn is_refused(&mut self) -> impl Future<Output = Contention> {
        let at = Location::caller();
        async move {
            match self.ask(at).await.answer {
                Attempt::Contended(contention) => contention,
                grant @ Attempt::Granted(_) => self.fail(at, "to be refused", &grant),
            }
        }
    }

    /// Asks, and takes either answer.
    #[track_caller]
    pub(crate) fn tries(&mut self) -> impl Future<Output = Told<Attempt>> {
        self.ask(Location::caller())
    }

    /// Asks, and takes an error as an answer too.
    #[track_caller]
    pub(crate) fn tries_and_may_fail(&mut self) -> impl Future<Output = Result<Attempt>> {
        let at = Location::caller();
        async move { self.ask_once(at).await.answer }
    }

    pub(crate) async fn ask(&mut self, at: At) -> Told<Attempt> {
        let told = self.ask_once(at).await;
        self.answered(at, "try_acquire", told)
    }

    async fn ask_once(&mut self, at: At) -> Told<Result<Attempt>> {
        let call = |backend: Shared, claim| async move { backend.try_acquire(&claim).await };
        let told = self.send(at, "try_acquire", call).await;
        match &told.answer {
            Ok(Attempt::Granted(grant)) => {
                self.yes = Some(Yes { sent: told.sent, answered: told.answered, ttl: grant.ttl });
                self.claim.token = Some(grant.token);
                self.claim.place.clone_from(&grant.place);
            }
            Ok(Attempt::Contended(contention)) => self.claim.place.clone_from(&contention.place),
            Err(_) => self.claim.unsure = true,
        }
        told
    }

    /// Asks, is answered, and the answer is lost on its way.
    pub(crate) async fn hears_no_answer(&mut self) {
        self.asks_in_vain(usize::MAX).await;
    }

    /// Asks, and gives up after so many polls. True when the call was through by then, and only its answer is lost.
    pub(crate) async fn asks_in_vain(&mut self, polls: usize) -> bool {
        self.is_unsure();
        let sent = self.trial.clock().now();
        let through = poll_times(polls, self.backend.try_acquire(&self.claim)).await.is_some();
        let took = self.trial.clock().now().since(sent);
        if !through {
            self.backend.note_given_up();
        }
        let answer = if through { "(lost)".to_owned() } else { format!("(given up after {polls} polls)") };
        self.tells(sent, "try_acquire", &format_args!("{answer}"), took);
        through
    }

    /// Extends, and is told for how long the grant now lives.
    #[track_caller]
    pub(crate) fn extends(&mut self) -> impl Future<Output = Duration> {
        let at = Location::caller();
        async move {
            let told = self.ask_to_extend(at).await;
            match told.answer {
                Extension::Extended { ttl, .. } => ttl,
                Extension::Lost if self.was_over_by(told.answered) => {
                    too_slow("an extension came after the end of the grant")
                }
                Extension::Lost => self.fail(at, "to extend its grant", &Extension::Lost),
            }
        }
    }

    /// Extends, and is told that the grant is gone.
    #[track_caller]
    pub(crate) fn has_lost(&mut self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let told = self.ask_to_extend(at).await;
            if told.answer != Extension::Lost {
                self.fail(at, "to be told that its grant is gone", &told.answer);
            }
        }
    }

    pub(crate) async fn ask_to_extend(&mut self, at: At) -> Told<Extension> {
        let call = |backend: Shared, claim| async move { backend.extend(&claim).await };
        let told = self.call(at, "extend", call).await;
        if let Extension::Extended { ttl, place, .. } = &told.answer {
            self.yes = Some(Yes { sent: told.sent, answered: told.answered, ttl: *ttl });
            self.claim.place.clone_from(place);
        }
        told
    }

    /// Releases, and is told that this ended its grant.
    #[track_caller]
    pub(crate) fn releases(&self) -> impl Future<Output = ()> {
        self.gives_back(Location::caller(), Release::Released, "to end its grant")
    }

    /// Releases, and is told that it held nothing.
    #[track_caller]
    pub(crate) fn has_nothing_to_release(&self) -> impl Future<Output = ()> {
        self.gives_back(Location::caller(), Release::NotHeld, "to hold nothing")
    }

    /// Releases, and takes either answer: after a call without one nobody knows what it held.
    #[track_caller]
    pub(crate) fn cleans_up(&self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            self.ask_to_release(at).await;
        }
    }

    async fn gives_back(&self, at: At, expected: Release, wish: &str) {
        let answer = self.ask_to_release(at).await;
        if answer != expected {
            self.fail(at, wish, &answer);
        }
    }

    async fn ask_to_release(&self, at: At) -> Release {
        let call = |backend: Shared, claim| async move { backend.release(&claim).await };
        self.call(at, "release", call).await.answer
    }

    /// Makes no call until its last yes, or its place from an ask that was answered now, must have ended.
    pub(crate) async fn falls_silent(&self) {
        let now = self.trial.clock().now();
        let yes = self.yes.unwrap_or(Yes { sent: now, answered: now, ttl: self.claim.ttl });
        self.trial.clock().sleep_until(self.trial.over_at(yes.answered, yes.ttl)).await;
    }

    /// The moment until which its last yes holds for certain.
    ///
    /// # Panics
    ///
    /// When it never had a yes.
    pub(crate) fn promised_until(&self) -> BootTime {
        let yes = self.yes.expect("a case asks this of a contender that was granted the lock");
        self.trial.promised_until(yes.sent, yes.ttl)
    }

    /// Whether its grant may have ended of itself before `moment`.
    fn was_over_by(&self, moment: BootTime) -> bool {
        self.yes.is_some_and(|yes| self.trial.promised_until(yes.sent, yes.ttl) < moment)
    }

    /// Makes one call, and fails the case when the answer is an error.
    pub(crate) async fn call<T, F>(&self, at: At, what: &str, call: impl Fn(Shared, Claim) -> F) -> Told<T>
    where
        T: fmt::Debug,
        F: Future<Output = Result<T>>,
    {
        let told = self.send(at, what, call).await;
        self.answered(at, what, told)
    }

    fn answered<T>(&self, at: At, what: &str, told: Told<Result<T>>) -> Told<T> {
        match told.answer {
            Ok(answer) => Told { answer, sent: told.sent, answered: told.answered },
            Err(error) => {
                let came = format_args!("error {:?}: {error}", error.kind());
                self.fail(at, &format!("an answer to {what}"), &came)
            }
        }
    }

    /// Makes one call and writes it into the story. Silence ends the case.
    async fn send<T, F>(&self, at: At, what: &str, call: impl Fn(Shared, Claim) -> F) -> Told<Result<T>>
    where
        T: fmt::Debug,
        F: Future<Output = Result<T>>,
    {
        let mut claim = self.claim.clone();
        loop {
            let sent = self.trial.clock().now();
            let answer = timeout(self.trial.patience(), call(self.backend.clone(), claim.clone())).await;
            let answered = self.trial.clock().now();
            let took = answered.since(sent);
            let Ok(answer) = answer else {
                self.tells(sent, what, &format_args!("(silence)"), took);
                let message = format!("{self} expected an answer to {what}, and heard nothing for {took:.1?}");
                fail(at, Evidence::Silence, message);
            };
            match &answer {
                Ok(answer) => self.tells(sent, what, answer, took),
                Err(error) => {
                    self.tells(sent, what, &format_args!("{:?}: {error}", error.kind()), took);
                    if error.kind() == ErrorKind::Unavailable && self.backend.has_an_excuse() {
                        claim.unsure = true;
                        continue;
                    }
                }
            }
            return Told { answer, sent, answered };
        }
    }

    /// Takes down a call that it made otherwise.
    pub(crate) fn tells(&self, sent: BootTime, what: &str, answer: &dyn fmt::Debug, took: Duration) {
        self.trial.story().tell(sent, &self.who, what, answer, took);
    }

    /// Some call of its had no answer, or may have none.
    pub(crate) fn is_unsure(&mut self) {
        self.claim.unsure = true;
    }

    /// The lock that it asks for.
    pub(crate) fn name(&self) -> &LockName {
        &self.claim.name
    }

    pub(crate) fn trial(&self) -> &Trial {
        &self.trial
    }

    pub(crate) fn backend(&self) -> Shared {
        self.backend.clone()
    }

    pub(crate) fn claim(&self) -> Claim {
        self.claim.clone()
    }

    fn fail(&self, at: At, expected: &str, came: &dyn fmt::Debug) -> ! {
        fail(at, Evidence::Answer, format!("{self} expected {expected}; the answer was {came:?}"))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (owner {} of {:?})", self.who, self.claim.owner, self.claim.name)
    }
}
