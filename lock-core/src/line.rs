use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::hold::Command;
use crate::record::Record;
use crate::{Error, LockName};

/// The claims of one client, by name: one may hold, the others stand in line, and only the head asks the service.
///
/// So a thousand waiting tasks cost the service no more than one, and they are served in the order in which they came.
#[derive(Default)]
pub(crate) struct Line {
    names: Mutex<HashMap<LockName, Queue>>,
    last_ticket: AtomicU64,
}

#[derive(Default)]
struct Queue {
    holder: Option<LocalHolder>,
    waiting: BTreeMap<u64, Arc<Notify>>,
    /// What the head was last told instead of an answer.
    trouble: Option<Error>,
}

struct LocalHolder {
    ticket: u64,
    record: Arc<Record>,
    /// Weak: that the guard drops its sender is how a keeper learns of the drop.
    commands: mpsc::WeakUnboundedSender<Command>,
}

/// A claim's place in the line, given up by dropping it.
pub(crate) struct Ticket {
    line: Arc<Line>,
    name: LockName,
    number: u64,
    turn: Arc<Notify>,
}

impl Line {
    fn names(&self) -> MutexGuard<'_, HashMap<LockName, Queue>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket that stands at the end of the line.
    pub(crate) fn join(self: &Arc<Self>, name: &LockName) -> Ticket {
        let ticket = self.beside(name);
        self.names().entry(name.clone()).or_default().waiting.insert(ticket.number, Arc::clone(&ticket.turn));
        ticket
    }

    /// A ticket for a claim that asks once and does not wait.
    pub(crate) fn beside(self: &Arc<Self>, name: &LockName) -> Ticket {
        let number = self.last_ticket.fetch_add(1, Ordering::Relaxed);
        Ticket { line: Arc::clone(self), name: name.clone(), number, turn: Arc::default() }
    }

    /// Whether this client holds the lock for certain.
    pub(crate) fn is_held(&self, name: &LockName) -> bool {
        self.names().get(name).and_then(|queue| queue.holder.as_ref()).is_some_and(|holder| holder.record.is_held())
    }

    /// Lets the local holder of a name, if any, ask the service whether it still is one.
    pub(crate) fn verify(&self, name: &LockName) {
        let commands = self.names().get(name).and_then(|queue| queue.holder.as_ref()?.commands.upgrade());
        if let Some(commands) = commands {
            // A keeper that is gone has nothing to verify.
            let _ = commands.send(Command::Verify);
        }
    }
}

impl Ticket {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until nobody of this client holds the lock or stands before this ticket.
    pub(crate) async fn turn(&self) {
        loop {
            let mut called = pin!(self.turn.notified());
            called.as_mut().enable();
            if self.is_head() {
                return;
            }
            called.await;
        }
    }

    fn is_head(&self) -> bool {
        self.line.names().get(&self.name).is_some_and(|queue| {
            queue.holder.is_none() && queue.waiting.first_key_value().is_some_and(|(head, _)| *head == self.number)
        })
    }

    /// Makes this ticket's claim the holder.
    pub(crate) fn hold(&self, record: Arc<Record>, commands: mpsc::WeakUnboundedSender<Command>) {
        let mut names = self.line.names();
        let queue = names.entry(self.name.clone()).or_default();
        queue.waiting.remove(&self.number);
        queue.trouble = None;
        queue.holder = Some(LocalHolder { ticket: self.number, record, commands });
    }

    /// Leaves the line, so that the next one can ask.
    pub(crate) fn leave(&self) {
        let mut names = self.line.names();
        let Some(queue) = names.get_mut(&self.name) else { return };
        queue.waiting.remove(&self.number);
        queue.holder.take_if(|holder| holder.ticket == self.number);
        match queue.waiting.first_key_value() {
            Some((_, head)) if queue.holder.is_none() => head.notify_one(),
            None if queue.holder.is_none() => {
                names.remove(&self.name);
            }
            _ => {}
        }
    }

    /// Tells those behind whether the service answers.
    pub(crate) fn report(&self, trouble: Option<&Error>) {
        if let Some(queue) = self.line.names().get_mut(&self.name) {
            queue.trouble = trouble.cloned();
        }
    }

    /// What the head was last told instead of an answer.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.line.names().get(&self.name).and_then(|queue| queue.trouble.clone())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.names().iter().map(|(name, queue)| (name, queue.waiting.len()))).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;

    fn has_turn(ticket: &Ticket) -> bool {
        pin!(ticket.turn()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_line_moves_on_when_its_head_leaves() {
        let (line, name) = (Arc::<Line>::default(), LockName::new("a").unwrap());
        let [first, second, third] = std::array::from_fn(|_| line.join(&name));
        assert_eq!([&first, &second, &third].map(has_turn), [true, false, false]);
        drop(second);
        assert!(!has_turn(&third));
        drop(first);
        assert!(has_turn(&third));
        drop(third);
        assert!(line.names().is_empty());
    }

    #[test]
    fn trouble_is_told_to_those_behind_and_forgotten_with_the_line() {
        let (line, name) = (Arc::<Line>::default(), LockName::new("a").unwrap());
        let (first, second) = (line.join(&name), line.join(&name));
        first.report(Some(&Error::unsupported("fly")));
        assert!(second.trouble().is_some());
        first.report(None);
        assert!(second.trouble().is_none());
    }
}
