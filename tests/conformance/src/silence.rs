//! Calls to which no answer can come.
use std::fmt;
use std::panic::Location;

use lock_core::{Backend, Claim, ErrorKind, Result};
use tokio::time::timeout;

use crate::Contender;
use crate::failure::{Evidence, fail};
use crate::shared::Shared;

impl Contender {
    /// Asks over a network that brings no answer, and is told neither yes nor no.
    #[track_caller]
    pub(crate) fn asks_without_an_answer(&mut self) -> impl Future<Output = ()> {
        self.gets_no_answer("try_acquire", |backend, claim| async move { backend.try_acquire(&claim).await })
    }

    /// Extends over a network that brings no answer, and is told neither yes nor no.
    #[track_caller]
    pub(crate) fn extends_without_an_answer(&mut self) -> impl Future<Output = ()> {
        self.gets_no_answer("extend", |backend, claim| async move { backend.extend(&claim).await })
    }

    /// Releases over a network that brings no answer, and is told neither yes nor no.
    #[track_caller]
    pub(crate) fn releases_without_an_answer(&mut self) -> impl Future<Output = ()> {
        self.gets_no_answer("release", |backend, claim| async move { backend.release(&claim).await })
    }

    #[track_caller]
    fn gets_no_answer<T, F>(&mut self, what: &str, call: impl FnOnce(Shared, Claim) -> F) -> impl Future<Output = ()>
    where
        T: fmt::Debug,
        F: Future<Output = Result<T>>,
    {
        let at = Location::caller();
        async move {
            self.is_unsure();
            let (time, begin) = (self.trial().ttl(), self.trial().clock().now());
            let ended = timeout(time, call(self.backend(), self.claim())).await;
            let took = self.trial().clock().now().since(begin);
            let came = match &ended {
                Err(_) => "(silence)".to_owned(),
                Ok(Err(error)) => format!("{:?}: {error}", error.kind()),
                Ok(Ok(answer)) => format!("{answer:?}"),
            };
            self.tells(begin, what, &format_args!("{came}"), took);
            match &ended {
                Err(_) => {}
                Ok(Err(error)) if error.kind() == ErrorKind::Unavailable => {}
                Ok(_) => {
                    let message = format!("{self} could not be answered to {what}, and the answer was {came}");
                    fail(at, Evidence::Answer, message)
                }
            }
        }
    }
}
