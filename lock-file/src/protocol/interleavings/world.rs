//! A directory in memory, and what the actors believe of their locks.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use lock_core::{BootTime, OwnerId};

use crate::generation::Generation;
use crate::record::Record;

/// A number that no other file has while it is open: who made it, and their how-manieth it is.
pub(super) type File = (usize, usize);

/// All that actors share, and all that is known of them.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) ticks: u64,
    pub(super) names: BTreeMap<Generation, File>,
    files: BTreeMap<File, Rc<Record>>,
    actors: Vec<Actor>,
    beliefs: BTreeMap<usize, Belief>,
    highest_token: u64,
    pub(super) violation: Option<&'static str>,
}

/// What one actor has done and seen.
#[derive(Clone, Default)]
struct Actor {
    /// All answers that it got: it does what they make it do, so they stand for where it is.
    answers: u64,
    files: usize,
    /// The last generation that it linked for itself, and the last one of these that was taken away.
    linked: u64,
    taken_away: u64,
    listing: Option<Listing>,
    choice: usize,
    released: bool,
}

/// A listing that has begun. It is no snapshot: what comes or goes meanwhile may be in it or not.
#[derive(Clone, Default, Hash)]
struct Listing {
    certain: BTreeSet<Generation>,
    uncertain: BTreeSet<Generation>,
}

/// That an actor holds the lock.
#[derive(Clone, Copy, Hash)]
struct Belief {
    token: u64,
    until: u64,
}

impl World {
    pub(super) fn new(actors: usize) -> Self {
        Self { actors: vec![Actor::default(); actors], ..Self::default() }
    }

    pub(super) fn now(&self) -> BootTime {
        BootTime::from_boot(Duration::from_secs(self.ticks))
    }

    pub(super) fn put(&mut self, actor: usize, record: Record) -> File {
        let generation = record.generation;
        let file = (actor, self.actors[actor].files);
        self.actors[actor].files += 1;
        if record.grant.is_some() {
            self.actors[actor].linked = generation.0;
        }
        self.files.insert(file, Rc::new(record));
        if self.names.insert(generation, file).is_none() {
            self.comes_or_goes(generation);
        }
        file
    }

    pub(super) fn read(&self, generation: Generation) -> Option<(File, Record)> {
        self.names.get(&generation).map(|file| (*file, (*self.files[file]).clone()))
    }

    pub(super) fn free(&mut self, generation: Generation, owner: OwnerId) -> bool {
        let file = self.names.get(&generation).and_then(|file| self.files.get_mut(file));
        let grant = file.and_then(|record| Rc::make_mut(record).grant.as_mut());
        grant.filter(|grant| grant.owner == owner).is_some_and(|grant| std::mem::take(&mut grant.held))
    }

    pub(super) fn remove(&mut self, generation: Generation) {
        if self.names.remove(&generation).is_some() {
            self.comes_or_goes(generation);
        }
    }

    fn comes_or_goes(&mut self, generation: Generation) {
        for listing in self.actors.iter_mut().filter_map(|actor| actor.listing.as_mut()) {
            listing.certain.remove(&generation);
            listing.uncertain.insert(generation);
        }
    }

    pub(super) fn begin_listing(&mut self, actor: usize) {
        let certain = self.names.keys().copied().collect();
        self.actors[actor].listing = Some(Listing { certain, uncertain: BTreeSet::new() });
    }

    pub(super) fn end_listing(&mut self, actor: usize) -> Vec<Generation> {
        let choice = self.actors[actor].choice;
        let Listing { mut certain, uncertain } = self.actors[actor].listing.take().unwrap_or_default();
        certain.extend(uncertain.into_iter().enumerate().filter(|(bit, _)| choice & (1 << bit) != 0).map(|(_, it)| it));
        certain.into_iter().collect()
    }

    /// Notes an answer that an actor got.
    pub(super) fn note(&mut self, actor: usize, answer: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.actors[actor].answers, answer).hash(&mut hasher);
        self.actors[actor].answers = hasher.finish();
    }

    /// In how many ways the actor's next step can end.
    pub(super) fn choices(&self, actor: usize) -> usize {
        self.actors[actor].listing.as_ref().map_or(1, |listing| 1 << listing.uncertain.len())
    }

    pub(super) fn choose(&mut self, actor: usize, choice: usize) {
        self.actors[actor].choice = choice;
    }

    pub(super) fn mark_released(&mut self, actor: usize) {
        self.actors[actor].released = true;
    }

    pub(super) fn is_released(&self, actor: usize) -> bool {
        self.actors[actor].released
    }

    pub(super) fn highest_token(&self) -> u64 {
        self.highest_token
    }

    /// An actor was told that it holds the lock for as long as `until`; `above` is what was known when it asked.
    pub(super) fn believes(&mut self, actor: usize, token: u64, until: u64, above: u64) {
        if until <= self.ticks || token == self.actors[actor].taken_away {
            return;
        }
        if self.beliefs.iter().any(|(other, belief)| *other != actor && belief.until > self.ticks) {
            self.violation = Some("two hold the lock");
        }
        if token <= above {
            self.violation = Some("a token is not above an earlier one");
        }
        self.highest_token = self.highest_token.max(token);
        self.beliefs.insert(actor, Belief { token, until });
    }

    /// An extension was granted.
    pub(super) fn goes_on_believing(&mut self, actor: usize, until: u64) {
        if let Some(belief) = self.beliefs.get(&actor).copied() {
            self.believes(actor, belief.token, until.max(belief.until), belief.token - 1);
        }
    }

    pub(super) fn stops_believing(&mut self, actor: usize) {
        self.beliefs.remove(&actor);
    }

    pub(super) fn is_taken_from_those_below(&mut self, generation: Generation) {
        // Its owner may not know of it yet.
        for actor in self.actors.iter_mut().filter(|actor| actor.linked < generation.0) {
            actor.taken_away = actor.linked;
        }
        self.beliefs.retain(|_, belief| belief.token > generation.0);
    }

    /// Two worlds with one fingerprint go on in the same ways.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.fingerprint_for_newcomers(), &self.beliefs).hash(&mut hasher);
        for actor in &self.actors {
            (actor.answers, actor.files, actor.taken_away, &actor.listing, actor.released).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Of what one sees who has seen nothing before.
    pub(super) fn fingerprint_for_newcomers(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.ticks, self.highest_token).hash(&mut hasher);
        for (generation, file) in &self.names {
            (generation, file, essence(&self.files[file])).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// What of a record decides anything.
pub(super) fn essence(record: &Record) -> impl Hash + use<> {
    let grant = record.grant.as_ref().map(|grant| (grant.owner, grant.held, grant.deadline));
    (record.generation, record.next, grant)
}
