use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::caller::Caller;
use crate::keeper::{Held, Keeper, too_late};
use crate::{Attempt, Contention, FencingToken, Notice, OwnerId, Place, Watching};

/// The longest time between two asks: what a lost wake-up can cost at most.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The first pause where only asking tells that the way is free.
const PAUSE_POLLING: Duration = Duration::from_millis(10);

/// The first pause where the service tells: asking is only the safety net.
const PAUSE_PUSHED: Duration = Duration::from_millis(500);

/// The shortest pause, whatever the service says is left of the present grant.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// Between two asks that a watch caused without a new answer, so that a watch that always returns is no busy loop.
const HINT_PAUSE: Duration = Duration::from_millis(50);

/// A backend's watch, kept over several asks.
pub(crate) type Watch = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Keeper {
    /// Stands in this client's line, then asks again and again until the lock is granted or the caller gives up.
    pub(crate) async fn wait(&mut self, caller: &mut Caller) -> Option<Held> {
        let mut waiting = Waiting::new(self.first_pause());
        loop {
            tokio::select! {
                biased;
                // First, since a client that is being closed lets go of its locks, and its waiters must not take them.
                gave_up = caller.gives_up() => {
                    let trouble = self.ticket.trouble().or_else(|| self.trouble.clone().filter(|_| self.traces));
                    caller.tell_why(gave_up, trouble);
                    return None;
                }
                () = self.ticket.turn() => {}
            }
            self.ticket.report(self.trouble.as_ref());
            let sent_at = self.shared.clock.now();
            let answer = self.ask(caller).await;
            self.ticket.report(self.trouble.as_ref());
            match answer {
                _ if caller.is_gone() => return None,
                Ok(Attempt::Granted(grant)) => match self.granted(sent_at, &grant) {
                    Ok(Some((held, hold))) => return Some(self.hand_over(held, hold, caller)),
                    Ok(None) => {
                        self.trouble = Some(too_late(&self.claim, &grant));
                        self.start_anew();
                        waiting.unanswered();
                    }
                    Err(error) => {
                        caller.tell(Err(error));
                        return None;
                    }
                },
                Ok(Attempt::Contended(contention)) => waiting.contended(&contention, self.first_pause()),
                Err(error) if error.kind().is_transient() => waiting.unanswered(),
                Err(error) => {
                    caller.tell(Err(error));
                    return None;
                }
            }
            let gave_up = tokio::select! {
                biased;
                gave_up = caller.gives_up() => Some(gave_up),
                () = self.pause(&mut waiting) => None,
            };
            if let Some(gave_up) = gave_up {
                caller.tell_why(gave_up, self.trouble.clone());
                return None;
            }
        }
    }

    fn first_pause(&self) -> Duration {
        match self.shared.capabilities.wakeup {
            Notice::Push => PAUSE_PUSHED,
            Notice::Poll => PAUSE_POLLING,
        }
    }

    /// Goes on with a new claim, since a release is a claim's last word; the old one is given back meanwhile.
    fn start_anew(&mut self) {
        let beside = self.shared.line.beside(&self.claim.name);
        let mut old = Self::new(Arc::clone(&self.shared), self.claim.clone(), beside, self.terms);
        old.free_by = self.free_by;
        tokio::spawn(async move { old.release(Vec::new(), None).await });
        self.claim.owner = OwnerId::random();
        (self.claim.unsure, self.claim.token, self.claim.place) = (false, None, None);
        self.traces = false;
    }

    /// Until it is time to ask again: because the service gave a hint, or because enough time has passed.
    async fn pause(&self, waiting: &mut Waiting) {
        let clock = &self.shared.clock;
        let asked_at = clock.now();
        let pause = waiting.next_pause().min(PAUSE_MAX).min(self.claim.ttl / 3).max(PAUSE_MIN);
        if waiting.watch.is_none() || waiting.watched != self.claim.place {
            waiting.watched.clone_from(&self.claim.place);
            waiting.watch = Some(self.watch(Watching::Turn));
        }
        let may_follow_hint = if waiting.hint_was_empty { asked_at + HINT_PAUSE } else { asked_at };
        let watch = waiting.watch.as_mut().expect("it was just made");
        tokio::select! {
            biased;
            () = clock.sleep_until(asked_at + pause) => waiting.hinted = false,
            () = async {
                clock.sleep_until(may_follow_hint).await;
                watch.await;
            } => {
                waiting.watch = None;
                waiting.hinted = true;
            }
        }
    }

    pub(crate) fn watch(&self, what: Watching) -> Watch {
        let (backend, claim) = (Arc::clone(&self.shared.backend), self.claim.clone());
        Box::pin(async move { backend.watch(&claim, what).await })
    }
}

/// What a waiting claim remembers from one ask to the next.
struct Waiting {
    watch: Option<Watch>,
    /// For which place the watch was made.
    watched: Option<Place>,
    /// Whether the last ask was caused by a hint.
    hinted: bool,
    /// Whether that hint brought no new answer.
    hint_was_empty: bool,
    pause: Duration,
    retry_after: Option<Duration>,
    last: Option<(Option<Place>, Option<FencingToken>)>,
}

impl Waiting {
    fn new(pause: Duration) -> Self {
        Self { watch: None, watched: None, hinted: false, hint_was_empty: false, pause, retry_after: None, last: None }
    }

    fn contended(&mut self, contention: &Contention, first_pause: Duration) {
        let answer = Some((contention.place.clone(), contention.token));
        let news = self.last != answer;
        self.hint_was_empty = self.hinted && !news;
        if news {
            self.pause = first_pause;
        }
        self.last = answer;
        self.retry_after = contention.retry_after;
    }

    fn unanswered(&mut self) {
        // A watch of another claim, or of a service that was away, tells nothing about this one.
        (self.watch, self.hint_was_empty, self.retry_after) = (None, true, None);
    }

    /// The back-off, jittered so that waiters of many clients don't ask in step, unless the present grant ends before.
    fn next_pause(&mut self) -> Duration {
        let pause = self.pause / 2 + self.pause.mul_f32(fastrand::f32() / 2.0);
        self.pause = PAUSE_MAX.min(self.pause * 2);
        self.retry_after.map_or(pause, |left| left.min(pause))
    }
}
