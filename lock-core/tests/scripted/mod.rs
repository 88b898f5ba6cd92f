//! A service that answers what the test says.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "each test program uses its part of it"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lock_core::{
    Attempt, Backend, Capabilities, Ceiling, Claim, Clock, Error, ErrorKind, Extension, FencingToken, Grant, Holder,
    LockClient, LockName, Notice, Op, Place, Release, Result, Scope, TtlChange, Watching, async_trait,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;

pub const TTL: Duration = Duration::from_secs(30);

/// A service that answers what it is told to, and remembers the claims. Without orders it says yes.
#[derive(Debug, Default)]
pub struct Scripted {
    pub attempts: Mutex<VecDeque<Result<Attempt>>>,
    pub extensions: Mutex<VecDeque<Option<Result<Extension>>>>,
    pub releases: Mutex<VecDeque<Option<Result<Release>>>>,
    pub asked: Mutex<Vec<(Op, Claim)>>,
    pub watched: Mutex<Vec<Option<Place>>>,
    /// Whether a watch is never armed.
    pub is_deaf: AtomicBool,
    pub hints: Notify,
    pub ttl_is_fixed: bool,
    pub grants_belong_to_a_session: bool,
}

impl Scripted {
    pub fn client(self) -> (&'static Self, LockClient) {
        let service: &Self = Box::leak(Box::new(self));
        (service, LockClient::builder(service).clock(Clock::tokio()).on_runtime(Handle::current()).build())
    }

    pub fn will_attempt(&self, answer: Result<Attempt>) {
        locked(&self.attempts).push_back(answer);
    }

    /// `None` lets the call panic.
    pub fn will_extend(&self, answer: Option<Result<Extension>>) {
        locked(&self.extensions).push_back(answer);
    }

    pub fn asked(&self, op: Op) -> Vec<Claim> {
        locked(&self.asked).iter().filter(|(asked, _)| *asked == op).map(|(_, claim)| claim.clone()).collect()
    }

    pub fn note(&self, op: Op, claim: &Claim) {
        locked(&self.asked).push((op, claim.clone()));
    }
}

#[async_trait]
impl Backend for &'static Scripted {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(Scope::Process, "nothing");
        if self.ttl_is_fixed {
            capabilities.ttl_change = TtlChange::Fixed;
        }
        if self.grants_belong_to_a_session {
            capabilities.ceiling = Ceiling::Session;
        }
        capabilities.wakeup = Notice::Push;
        capabilities
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.note(Op::TryAcquire, claim);
        let answer = locked(&self.attempts).pop_front();
        answer.unwrap_or_else(|| Ok(grant(claim.above.map_or(1, |above| above.as_u64() + 1), claim.ttl)))
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.note(Op::Extend, claim);
        let answer = locked(&self.extensions).pop_front();
        answer.unwrap_or_else(|| Some(Ok(Extension::extended(claim.ttl)))).expect("told to panic")
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.note(Op::Release, claim);
        locked(&self.releases).pop_front().unwrap_or(Some(Ok(Release::Released))).expect("told to panic")
    }

    async fn inspect(&self, _: &LockName) -> Result<Option<Holder>> {
        Ok(None)
    }

    async fn watch(&self, claim: &Claim, _: Watching) {
        locked(&self.watched).push(claim.place.clone());
        if self.is_deaf.load(Ordering::Relaxed) {
            std::future::pending().await
        }
        self.hints.notified().await;
    }
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

pub fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("a small number")
}

pub fn grant(number: u64, ttl: Duration) -> Attempt {
    Attempt::Granted(Grant::new(token(number), ttl))
}

pub fn no_answer<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unavailable, "no answer"))
}
