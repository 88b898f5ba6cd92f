//! Hints that have to come.
use std::panic::Location;
use std::pin::pin;
use std::time::Duration;

use lock_core::{Attempt, Backend, Claim, Extension, Grant, Watching};
use tokio::time::{sleep, timeout};

use crate::Contender;
use crate::failure::{Evidence, fail};
use crate::shared::Shared;

/// As the core does, so that a watch that keeps calling does not become a storm of questions.
const BETWEEN_ASKS: Duration = Duration::from_millis(50);

/// The case's line that a failure is reported at.
type At = &'static Location<'static>;

impl Contender {
    /// Watches, and is called before long.
    #[track_caller]
    pub(crate) fn is_called(&mut self, what: Watching) -> impl Future<Output = ()> {
        self.watch(Location::caller(), what)
    }

    /// Watches and asks when it is called, as often as it takes, until it is granted the lock.
    #[track_caller]
    pub(crate) fn is_called_for_its_turn(&mut self) -> impl Future<Output = Grant> {
        let at = Location::caller();
        async move {
            loop {
                self.watch(at, Watching::Turn).await;
                if let Attempt::Granted(grant) = self.ask(at).await.answer {
                    return grant;
                }
                sleep(BETWEEN_ASKS).await;
            }
        }
    }

    /// Watches and extends when it is called, as often as it takes, until its grant is gone.
    #[track_caller]
    pub(crate) fn is_called_for_its_loss(&mut self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            loop {
                self.watch(at, Watching::Grant).await;
                if self.ask_to_extend(at).await.answer == Extension::Lost {
                    return;
                }
                sleep(BETWEEN_ASKS).await;
            }
        }
    }

    /// Watches for its turn for so long, and gives up. True if it was called before.
    pub(crate) async fn watches_for(&self, time: Duration) -> bool {
        let begin = self.trial().clock().now();
        let called = timeout(time, self.backend().watch(&self.claim(), Watching::Turn)).await.is_ok();
        let told = if called { "()" } else { "(given up)" };
        self.tells(begin, "watch for its turn", &format_args!("{told}"), self.trial().clock().now().since(begin));
        called
    }

    /// Watches until it is called. To wait in vain proves nothing by itself: what asking shows in the meantime does.
    async fn watch(&mut self, at: At, what: Watching) {
        let (call, watched) = match what {
            Watching::Grant => ("watch its grant", "watched its grant"),
            _ => ("watch for its turn", "watched for its turn"),
        };
        let (backend, claim, patience) = (self.backend(), self.claim(), self.trial().patience());
        let (clock, begin) = (self.trial().clock().clone(), self.trial().clock().now());
        let mut watch = pin!(backend.watch(&claim, what));
        if timeout(patience, &mut watch).await.is_ok() {
            self.tells(begin, call, &(), clock.now().since(begin));
            return;
        }
        self.tells(begin, call, &format_args!("(silence)"), clock.now().since(begin));
        // It may have come about only now: then the watch has as long again to tell it.
        let has_come = self.sees_what_it_watches_for(at, what).await;
        if has_come && timeout(patience, &mut watch).await.is_ok() {
            return;
        }
        let silence = format!("{self} {watched} for {:.0?} and was not called", clock.now().since(begin));
        if has_come && what == Watching::Grant {
            fail(at, Evidence::Answer, format!("{silence}; {patience:.0?} ago an extension was answered with Lost"));
        }
        if has_come && let granted @ Attempt::Granted(_) = self.ask(at).await.answer {
            let free = format!("{patience:.0?} ago nobody held the lock");
            fail(at, Evidence::Answer, format!("{silence}; {free}, and asking again is answered with {granted:?}"));
        }
        fail(at, Evidence::Silence, silence)
    }

    async fn sees_what_it_watches_for(&mut self, at: At, what: Watching) -> bool {
        if what == Watching::Grant {
            return self.ask_to_extend(at).await.answer == Extension::Lost;
        }
        let inspect = |backend: Shared, claim: Claim| async move { backend.inspect(&claim.name).await };
        self.call(at, "inspect", inspect).await.answer.is_none()
    }
}
