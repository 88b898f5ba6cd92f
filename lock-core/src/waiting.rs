use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::caller::{Caller, GaveUp};
use crate::keeper::{Held, Keeper, too_late};
use crate::shared::jittered;
use crate::{Attempt, BootTime, Contention, FencingToken, Notice, OwnerId, Place, Watching};

/// The longest time between two asks: what a lost wake-up can cost at most.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The first pause where only asking tells that the way is free.
const PAUSE_POLLING: Duration = Duration::from_millis(10);

/// The first pause where the service tells: asking is only the safety net.
const PAUSE_PUSHED: Duration = Duration::from_millis(500);

/// The shortest pause, whatever the service says is left of the present grant.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// Between two asks that a watch caused without a new answer, so that a watch that always returns is no busy loop.
pub(crate) const HINT_PAUSE: Duration = Duration::from_millis(50);

/// A backend's watch on behalf of a claim, kept over several asks.
pub(crate) struct Watched {
    pub(crate) hint: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Where the claim stood when the watch was made.
    place: Option<Place>,
}

impl Watched {
    /// Whether the watch still is for where the claim stands.
    pub(crate) fn is_for(&self, place: Option<&Place>) -> bool {
        self.place.as_ref() == place
    }
}

impl Keeper {
    /// Stands in this client's line, then asks again and again until the lock is granted or the caller gives up.
    pub(crate) async fn wait(&mut self, caller: &mut Caller) -> Option<Held> {
        let mut waiting = Waiting::new(self.first_pause());
        loop {
            tokio::select! {
                biased;
                // First, so that also the shortest wait asks once if nobody stands before it.
                () = self.ticket.turn() => {}
                gave_up = caller.gives_up() => {
                    let trouble = self.ticket.trouble().or_else(|| self.trouble.clone().filter(|_| self.traces));
                    caller.tell_why(gave_up, trouble);
                    return None;
                }
            }
            if self.shared.is_closing() {
                // A client that is being closed lets go of its locks, and its own waiters must not take them.
                caller.tell_why(GaveUp::Closing, None);
                return None;
            }
            let sent_at = self.shared.clock.now();
            let answer = self.ask(caller).await;
            self.ticket.report(self.trouble.as_ref());
            match answer {
                _ if caller.is_gone() => return None,
                Ok(Attempt::Granted(grant)) => match self.granted(sent_at, &grant) {
                    Ok(Some((held, hold))) => return Some(self.hand_over(held, hold, caller)),
                    Ok(None) => {
                        self.trouble = Some(too_late(&grant));
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
            tokio::select! {
                biased;
                gave_up = caller.gives_up() => {
                    caller.tell_why(gave_up, self.trouble.clone());
                    return None;
                }
                () = self.pause(&mut waiting) => {}
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
        (old.traces, old.free_by) = (true, self.free_by);
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
        if !waiting.watch.as_ref().is_some_and(|watch| watch.is_for(self.claim.place.as_ref())) {
            waiting.watch = Some(self.watch(Watching::Turn, asked_at));
        }
        let may_follow_hint = if waiting.hint_was_empty { asked_at + HINT_PAUSE } else { asked_at };
        let watch = waiting.watch.as_mut().expect("it was just made");
        tokio::select! {
            biased;
            () = clock.sleep_until(asked_at + pause) => waiting.hinted = false,
            () = async {
                clock.sleep_until(may_follow_hint).await;
                watch.hint.as_mut().await;
            } => {
                waiting.watch = None;
                waiting.hinted = true;
            }
        }
    }

    /// A watch that begins at `from`.
    pub(crate) fn watch(&self, what: Watching, from: BootTime) -> Watched {
        let (shared, claim) = (Arc::clone(&self.shared), self.claim.clone());
        let place = claim.place.clone();
        let hint = Box::pin(async move {
            shared.clock.sleep_until(from).await;
            shared.backend.watch(&claim, what).await;
        });
        Watched { hint, place }
    }
}

/// What a waiting claim remembers from one ask to the next.
struct Waiting {
    watch: Option<Watched>,
    /// Whether the service has been silent since its last answer.
    was_silent: bool,
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
        Self {
            watch: None,
            was_silent: false,
            hinted: false,
            hint_was_empty: false,
            pause,
            retry_after: None,
            last: None,
        }
    }

    fn contended(&mut self, contention: &Contention, first_pause: Duration) {
        let answer = Some((contention.place.clone(), contention.token));
        let news = self.last != answer;
        if std::mem::take(&mut self.was_silent) {
            // A watch that was made during an outage may never have been armed.
            self.watch = None;
        }
        self.hint_was_empty = self.hinted && !news;
        if news {
            self.pause = first_pause;
        }
        self.last = answer;
        self.retry_after = contention.retry_after;
    }

    fn unanswered(&mut self) {
        (self.watch, self.was_silent) = (None, true);
        (self.hint_was_empty, self.retry_after) = (true, None);
    }

    /// The back-off, jittered so that waiters of many clients don't ask in step, unless the present grant ends before.
    fn next_pause(&mut self) -> Duration {
        let pause = jittered(self.pause);
        self.pause = PAUSE_MAX.min(self.pause * 2);
        self.retry_after.map_or(pause, |left| left.min(pause))
    }
}
