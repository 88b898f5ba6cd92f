//! The directory as one actor sees it, who may get the steps wrong.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::hash::Hash;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use lock_core::{BootTime, OwnerId, Result};

use super::super::Directory;
use super::world::{File, World, essence};
use crate::generation::Generation;
use crate::record::{Damage, Record};

/// How the steps may be got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    ReadsTheRecordBeforeTheClock,
    ListsOnlyOnce,
    LooksNotAgainAtThePredecessor,
    LinksOverAName,
    RemovesTheHighestFirst,
    RemovesItsRecordToReleaseIt,
    ExtendsWhateverTheClockSays,
    TakesAHigherNumberAtOnce,
    IgnoresItsRelease,
}

impl Mutant {
    /// All of them, with a scenario that each breaks.
    pub(super) const ALL: [(Self, &str); 9] = [
        (Self::ReadsTheRecordBeforeTheClock, "a holder extends while another asks"),
        (Self::ListsOnlyOnce, "one is slow while another goes on"),
        (Self::LooksNotAgainAtThePredecessor, "one is slow while another goes on"),
        (Self::LinksOverAName, "a new lock is asked for by two"),
        (Self::RemovesTheHighestFirst, "some were stopped half-way"),
        (Self::RemovesItsRecordToReleaseIt, "a new lock is asked for by two"),
        (Self::ExtendsWhateverTheClockSays, "a holder extends while another asks"),
        (Self::TakesAHigherNumberAtOnce, "higher tokens were seen"),
        (Self::IgnoresItsRelease, "it is released while it is asked for"),
    ];
}

/// The directory as one actor sees it.
pub(super) struct View {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) actor: usize,
    pub(super) mutant: Option<Mutant>,
    /// Whether this actor takes locks away.
    pub(super) takes_away: Cell<bool>,
    pub(super) above: Cell<u64>,
    listed: RefCell<Vec<Generation>>,
    read_early: RefCell<Option<(File, Record)>>,
    linked: Cell<Option<Generation>>,
    removed: Cell<usize>,
    replaced: Cell<bool>,
}

impl View {
    pub(super) fn new(world: Rc<RefCell<World>>, actor: usize, mutant: Option<Mutant>) -> Self {
        Self {
            world,
            actor,
            mutant,
            takes_away: Cell::default(),
            above: Cell::default(),
            listed: RefCell::default(),
            read_early: RefCell::default(),
            linked: Cell::default(),
            removed: Cell::default(),
            replaced: Cell::default(),
        }
    }

    /// Begins a call: the moment, and the highest token known.
    pub(super) async fn send(&self) -> (u64, u64) {
        self.step(|world| (world.ticks, world.highest_token()), |sent| *sent).await
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Lets the others act, then does one thing in the world and notes its answer.
    async fn step<T, N: Hash>(&self, act: impl FnOnce(&mut World) -> T, note: impl FnOnce(&T) -> N) -> T {
        let mut waited = false;
        poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        let mut world = self.world.borrow_mut();
        let answer = act(&mut world);
        world.note(self.actor, note(&answer));
        answer
    }
}

fn noted(read: &Option<(File, Record)>) -> Option<impl Hash + use<>> {
    read.as_ref().map(|(file, record)| (*file, essence(record)))
}

impl Directory for View {
    type File = File;

    async fn list(&self) -> Result<Vec<Generation>> {
        if let (true, Some(own)) = (self.is(Mutant::ListsOnlyOnce), self.linked.take()) {
            let mut listed = self.listed.borrow().clone();
            listed.push(own);
            return Ok(listed);
        }
        self.step(|world| world.begin_listing(self.actor), |()| ()).await;
        let end = |world: &mut World| {
            let listed = world.end_listing(self.actor);
            let is_early = self.is(Mutant::ReadsTheRecordBeforeTheClock);
            let early = listed.last().filter(|_| is_early).and_then(|highest| world.read(*highest));
            (listed, early)
        };
        let (listed, early) = self.step(end, |(listed, early)| (listed.clone(), noted(early))).await;
        self.listed.replace(listed.clone());
        self.read_early.replace(early);
        Ok(listed)
    }

    async fn now(&self) -> BootTime {
        if self.is(Mutant::ExtendsWhateverTheClockSays) && self.replaced.take() {
            return BootTime::from_boot(Duration::ZERO);
        }
        self.step(|world| world.now(), |now| *now).await
    }

    async fn open(&self, generation: Generation) -> Result<Option<(File, Result<Record, Damage>)>> {
        let early = self.read_early.take();
        let read = self.step(|world| early.or_else(|| world.read(generation)), noted).await;
        Ok(read.map(|(file, mut record)| {
            if self.is(Mutant::TakesAHigherNumberAtOnce) {
                record.next = record.next.max(Generation(self.above.get() + 1));
            }
            (file, Ok(record))
        }))
    }

    async fn link(&self, record: &Record) -> Result<bool> {
        let link = |world: &mut World| {
            let is_linked = self.is(Mutant::LinksOverAName) || !world.names.contains_key(&record.generation);
            if is_linked {
                world.put(self.actor, record.clone());
            }
            if is_linked && self.takes_away.get() {
                world.is_taken_from_those_below(record.generation);
            }
            is_linked
        };
        let is_linked = self.step(link, |is_linked| *is_linked).await;
        self.linked.set(record.grant.as_ref().filter(|_| is_linked).map(|_| record.generation));
        self.removed.set(0);
        Ok(is_linked)
    }

    async fn replace(&self, record: &Record) -> Result<()> {
        self.step(|world| world.put(self.actor, record.clone()), |_| ()).await;
        self.replaced.set(true);
        Ok(())
    }

    async fn leads_to(&self, generation: Generation, file: &File) -> Result<bool> {
        if self.is(Mutant::LooksNotAgainAtThePredecessor) {
            return Ok(true);
        }
        Ok(self.step(|world| world.names.get(&generation) == Some(file), |is| *is).await)
    }

    async fn free(&self, generation: Generation, owner: OwnerId) -> Result<bool> {
        let free = |world: &mut World| {
            let freed = world.free(generation, owner);
            if freed && self.is(Mutant::RemovesItsRecordToReleaseIt) {
                world.remove(generation);
            }
            freed
        };
        Ok(self.step(free, |freed| *freed).await)
    }

    async fn persist(&self, _itself: bool) -> Result<()> {
        Ok(())
    }

    async fn remove(&self, generation: Generation) {
        let mut generation = generation;
        if self.is(Mutant::RemovesTheHighestFirst) {
            let listed = self.listed.borrow();
            // The last one listed is the own.
            generation = listed[listed.len() - 2 - self.removed.replace(self.removed.get() + 1)];
        }
        self.step(|world| world.remove(generation), |()| ()).await;
    }
}
