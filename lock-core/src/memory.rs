use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::{
    Attempt, Backend, BootTime, Capabilities, Claim, Clock, Contention, Error, ErrorKind, ExpiryClock, Extension,
    Fencing, FencingToken, Grant, Holder, LockName, Mode, Notice, Order, OwnerId, Page, Place, Release, Result, Scope,
    Watching,
};

/// How long the end of an unsure claim is remembered, so that a call of it that arrives later does nothing.
const DEAD_MARK: Duration = Duration::from_secs(15 * 60);

/// Locks in this process's memory: the reference implementation, to be read as the specification.
///
/// It excludes the tasks and threads of one process and nobody else. Waiters are served first in, first out. Clones share
/// their locks: give one to each client that shall see the same ones.
#[derive(Clone)]
pub struct MemoryBackend {
    clock: Clock,
    locks: Arc<Mutex<Locks>>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Locks {
    by_name: BTreeMap<LockName, Slot>,
    dead: HashMap<OwnerId, BootTime>,
    /// One counter for all names: it is unique, it grows, and nothing has to be kept of a name that nobody uses.
    last_token: u64,
}

#[derive(Default)]
struct Slot {
    granted: Option<Granted>,
    queue: VecDeque<Queued>,
}

struct Granted {
    claim: Claim,
    token: FencingToken,
    until: BootTime,
}

struct Queued {
    owner: OwnerId,
    until: BootTime,
}

impl MemoryBackend {
    /// No locks yet.
    pub fn new() -> Self {
        Self::with_clock(Clock::system())
    }

    /// No locks yet, and grants that end by `clock`.
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, locks: Arc::default(), changed: Arc::default() }
    }

    /// The locks as they are now: what has run out is gone.
    fn locks(&self) -> (MutexGuard<'_, Locks>, BootTime) {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        locks.dead.retain(|_, until| *until > now);
        (locks, now)
    }
}

impl Locks {
    fn next_token(&mut self, above: Option<FencingToken>) -> Result<FencingToken> {
        let token = FencingToken::new(self.last_token.max(above.map_or(0, FencingToken::as_u64)) + 1)?;
        self.last_token = token.as_u64();
        Ok(token)
    }

    /// What is known of a name now.
    fn slot(&mut self, name: &LockName, now: BootTime) -> &mut Slot {
        let slot = self.by_name.entry(name.clone()).or_default();
        slot.granted.take_if(|granted| granted.until <= now);
        slot.queue.retain(|queued| queued.until > now);
        slot
    }

    fn forget_if_empty(&mut self, name: &LockName) {
        if self.by_name.get(name).is_some_and(|slot| slot.granted.is_none() && slot.queue.is_empty()) {
            self.by_name.remove(name);
        }
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(Scope::Process, "all who lock share one MemoryBackend in one process");
        capabilities.expiry_clock = ExpiryClock::ServerMonotonic;
        capabilities.ttl_min = Duration::from_millis(10);
        capabilities.fencing = Fencing::Process;
        capabilities.order = Order::Fifo;
        capabilities.wakeup = Notice::Push;
        capabilities.loss = Notice::Push;
        capabilities.can_list = true;
        capabilities.can_force_release = true;
        capabilities
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if claim.mode != Mode::Exclusive {
            return Err(Error::new(ErrorKind::Unsupported, format!("{:?} locks are not kept in memory", claim.mode)));
        }
        let (mut locks, now) = self.locks();
        if locks.dead.contains_key(&claim.owner) {
            return Err(Error::new(ErrorKind::Unexpected, "this claim has been released: a new try needs a new owner"));
        }
        let until = now + claim.ttl;
        let slot = locks.slot(&claim.name, now);
        if let Some(granted) = slot.granted.as_mut().filter(|granted| granted.claim.owner == claim.owner) {
            granted.until = granted.until.max(until);
            return Ok(Attempt::Granted(Grant::new(granted.token, granted.until.since(now))));
        }
        let position = slot.queue.iter().position(|queued| queued.owner == claim.owner);
        if slot.granted.is_none() && position.unwrap_or(slot.queue.len()) == 0 {
            let token = locks.next_token(claim.above);
            if let Ok(token) = token {
                let slot = locks.slot(&claim.name, now);
                slot.queue.pop_front();
                slot.granted = Some(Granted { claim: claim.clone(), token, until });
            }
            locks.forget_if_empty(&claim.name);
            return Ok(Attempt::Granted(Grant::new(token?, claim.ttl)));
        }
        let mut contention = Contention::new();
        contention.retry_after = slot.granted.as_ref().map(|granted| granted.until.since(now));
        contention.token = slot.granted.as_ref().map(|granted| granted.token);
        if claim.may_queue {
            match position {
                Some(position) => slot.queue[position].until = until,
                None => slot.queue.push_back(Queued { owner: claim.owner, until }),
            }
            contention.place = Some(Place::new(claim.owner.to_string()));
        }
        Ok(Attempt::Contended(contention))
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        let (mut locks, now) = self.locks();
        let slot = locks.slot(&claim.name, now);
        let extension = match &mut slot.granted {
            Some(granted) if granted.claim.owner == claim.owner => {
                granted.until = granted.until.max(now + claim.ttl);
                Extension::extended(granted.until.since(now))
            }
            _ => Extension::Lost,
        };
        locks.forget_if_empty(&claim.name);
        Ok(extension)
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let (mut locks, now) = self.locks();
        if claim.unsure {
            locks.dead.insert(claim.owner, now + DEAD_MARK);
        }
        let slot = locks.slot(&claim.name, now);
        slot.queue.retain(|queued| queued.owner != claim.owner);
        let released = slot.granted.take_if(|granted| granted.claim.owner == claim.owner);
        locks.forget_if_empty(&claim.name);
        self.changed.notify_waiters();
        Ok(if released.is_some() { Release::Released } else { Release::NotHeld })
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let (mut locks, now) = self.locks();
        let holder = locks.slot(name, now).granted.as_ref().map(|granted| granted.holder(now));
        locks.forget_if_empty(name);
        Ok(holder)
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let (mut locks, now) = self.locks();
                let slot = locks.slot(&claim.name, now);
                let granted_to = slot.granted.as_ref().map(|granted| granted.claim.owner);
                let ask_again = match what {
                    Watching::Grant => granted_to != Some(claim.owner),
                    Watching::Turn => match slot.queue.iter().position(|queued| queued.owner == claim.owner) {
                        Some(position) => granted_to.is_none() && position == 0,
                        None => claim.may_queue || (granted_to.is_none() && slot.queue.is_empty()),
                    },
                };
                locks.forget_if_empty(&claim.name);
                if ask_again {
                    return;
                }
            }
            changed.await;
        }
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        let (mut locks, now) = self.locks();
        let slot = locks.slot(name, now);
        let released = slot.granted.take_if(|granted| only.is_none_or(|token| token == granted.token));
        locks.forget_if_empty(name);
        self.changed.notify_waiters();
        Ok(if released.is_some() { Release::Released } else { Release::NotHeld })
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let (locks, now) = self.locks();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let held = locks.by_name.range::<LockName, _>((start, Bound::Unbounded));
        let held =
            held.filter(|(name, _)| name.as_str().starts_with(prefix)).filter_map(|(_, slot)| slot.granted.as_ref());
        Ok(Page::last(held.filter(|granted| granted.until > now).map(|granted| granted.holder(now)).collect()))
    }
}

impl Granted {
    fn holder(&self, now: BootTime) -> Holder {
        Holder::new(self.claim.name.clone(), self.claim.owner.to_string())
            .with_token(self.token)
            .with_about(&self.claim.about)
            .with_remaining(self.until.since(now))
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").finish_non_exhaustive()
    }
}
