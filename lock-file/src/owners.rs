use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{BootTime, Clock, OwnerId};
use tokio::sync::OwnedMutexGuard;

/// How long the end of a claim is remembered: longer than any call of it can still be under way.
const DEAD_MARK: Duration = Duration::from_secs(15 * 60);

/// What this process knows of the claims it acts for, across all backends and runtimes.
///
/// A system call that has begun goes on when its future is dropped. So one claim's calls take turns, and a call that was left
/// behind finds out that its claim has been released meanwhile.
#[derive(Debug, Default)]
struct Owners {
    turns: HashMap<OwnerId, Arc<tokio::sync::Mutex<()>>>,
    /// And whether a call that was left behind has ended the grant, so that the release finds nothing to end.
    released: HashMap<OwnerId, bool>,
    /// In the order of their ends.
    marks: VecDeque<(BootTime, OwnerId)>,
}

static OWNERS: LazyLock<Mutex<Owners>> = LazyLock::new(Mutex::default);

fn owners() -> MutexGuard<'static, Owners> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of one call among those of its claim. The next one's comes when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    owner: OwnerId,
    line: Arc<tokio::sync::Mutex<()>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    /// Waits until no other call of this claim is under way.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in the line.
    pub(crate) async fn of(owner: OwnerId) -> Self {
        let line = Arc::clone(owners().turns.entry(owner).or_default());
        let mut turn = Self { owner, line, guard: None };
        turn.guard = Some(Arc::clone(&turn.line).lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut owners = owners();
        self.guard = None;
        // The map's and this one: nobody else is in the line.
        if Arc::strong_count(&self.line) == 2 {
            owners.turns.remove(&self.owner);
        }
    }
}

/// Whether a call of this claim is under way.
pub(crate) fn is_busy(owner: OwnerId) -> bool {
    owners().turns.contains_key(&owner)
}

/// Remembers that this claim has been released.
pub(crate) fn mark_released(owner: OwnerId) {
    let now = Clock::system().now();
    let mut owners = owners();
    while let Some((_, old)) = owners.marks.pop_front_if(|(end, _)| *end <= now) {
        owners.released.remove(&old);
    }
    if let Entry::Vacant(vacant) = owners.released.entry(owner) {
        vacant.insert(false);
        owners.marks.push_back((now + DEAD_MARK, owner));
    }
}

pub(crate) fn is_released(owner: OwnerId) -> bool {
    owners().released.contains_key(&owner)
}

/// Remembers that a call of this claim has ended its grant for the release that has to come.
pub(crate) fn note_ended(owner: OwnerId) {
    if let Some(ended) = owners().released.get_mut(&owner) {
        *ended = true;
    }
}

/// Whether a call of this claim has ended its grant in the place of the release. It says so once.
pub(crate) fn take_ended(owner: OwnerId) -> bool {
    owners().released.get_mut(&owner).is_some_and(std::mem::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_of_one_claim_take_turns_and_leave_nothing() {
        let owner = OwnerId::random();
        let first = Turn::of(owner).await;
        let mut second = Box::pin(Turn::of(owner));
        let mut third = Box::pin(Turn::of(owner));
        assert!(ready_now(&mut second).await.is_none());
        assert!(ready_now(&mut third).await.is_none());
        drop(second);
        assert!(is_busy(owner));
        drop(first);
        drop(third.await);
        assert!(!is_busy(owner));
    }

    async fn ready_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! { biased; output = future => Some(output), () = std::future::ready(()) => None }
    }

    #[test]
    fn a_release_is_remembered() {
        let (released, other) = (OwnerId::random(), OwnerId::random());
        mark_released(released);
        mark_released(released);
        assert!(is_released(released) && !is_released(other));
    }

    #[test]
    fn that_a_call_ended_the_grant_is_told_once() {
        let (released, other) = (OwnerId::random(), OwnerId::random());
        mark_released(released);
        assert!(!take_ended(released));
        note_ended(released);
        note_ended(other);
        assert!(take_ended(released) && !take_ended(released));
        assert!(is_released(released) && !take_ended(other));
    }
}
