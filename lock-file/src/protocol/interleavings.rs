//! Every order in which the steps of some actors can follow each other, tried out: no two ever hold the lock, tokens rise, and
//! whoever is killed wherever, one ttl later the lock can be had. Each of the steps is shown to be needed: without it an
//! order is found that breaks the lock.

mod view;
mod world;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::{Attempt, Claim, Extension, FencingToken, LockName};

use super::{Ask, acquire, extend, force_release, release};
use crate::generation::Generation;
use crate::origin::Origin;
use crate::record::Record;
use view::{Mutant, View};
use world::World;

const TTL: u64 = 2;

/// What an actor does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Acquire,
    AcquireAbove(u64),
    Extend,
    Release,
    TakeAway,
    /// Tells the first actor's calls that their claim has been released.
    MarkReleased,
}
use Call::*;

/// Who does what, from where.
struct Scenario {
    begin: Begin,
    actors: &'static [&'static [Call]],
    /// How often the clock may tick, at any moment.
    ticks: u64,
    /// Who has done how many steps before all orders are tried.
    before: &'static [(usize, usize)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Empty,
    Free,
    /// The first actor has been granted the lock.
    Held,
}

/// What comes next: a tick, or an actor's next step, which may end in several ways.
#[derive(Clone, Copy, Debug)]
enum Event {
    Tick,
    Step(usize, usize),
}

/// One order of events, run from the beginning.
struct Run<'a> {
    lab: &'a Lab,
    world: Rc<RefCell<World>>,
    actors: Vec<Option<Pin<Box<dyn Future<Output = ()> + 'a>>>>,
}

struct Lab {
    scenario: Scenario,
    mutant: Option<Mutant>,
    origin: Origin,
    claims: Vec<Claim>,
}

impl Lab {
    fn new(scenario: Scenario, mutant: Option<Mutant>) -> Self {
        let origin = Origin { host: String::new(), boot: String::new(), time_namespace: 0 };
        let claim = |actor: usize| {
            let mut claim = Claim::new(LockName::new("a").unwrap(), Duration::from_secs(TTL));
            claim.owner = format!("{actor:032x}").parse().unwrap();
            claim
        };
        // One more, who comes when the others are done.
        let claims = (0..=scenario.actors.len()).map(claim).collect();
        Self { scenario, mutant, origin, claims }
    }

    fn run(&self) -> Run<'_> {
        let mut world = World::new(self.claims.len());
        let first = Generation::FIRST;
        match self.scenario.begin {
            Begin::Empty => {}
            Begin::Free => {
                world.put(0, Record::free(&self.claims[0].name, first, first.next(), &self.origin));
            }
            Begin::Held => {
                world.put(0, Record::granted(first.next(), &self.claims[0], world.now(), &self.origin));
                world.believes(0, 1, TTL, 0);
            }
        }
        let world = Rc::new(RefCell::new(world));
        let actors = self.scenario.actors.iter().enumerate().map(|(actor, calls)| {
            let view = View::new(Rc::clone(&world), actor, self.mutant);
            let mut steps = Box::pin(self.act(view, calls)) as Pin<Box<dyn Future<Output = ()> + '_>>;
            assert!(steps.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "before its first step");
            Some(steps)
        });
        let mut run = Run { lab: self, actors: actors.collect(), world };
        for &(actor, steps) in self.scenario.before {
            (0..steps).for_each(|_| run.apply(Event::Step(actor, 0)));
        }
        run
    }

    async fn act(&self, view: View, calls: &[Call]) {
        let (world, actor) = (&view.world, view.actor);
        let asked = Cell::new(0);
        let released = || {
            asked.set(asked.get() + 1);
            let is_blind = view.mutant == Some(Mutant::IgnoresItsRelease) && asked.get() > 1;
            !is_blind && world.borrow().is_released(actor)
        };
        let mut claim = self.claims[actor].clone();
        for call in calls {
            let (sent, above) = view.send().await;
            view.takes_away.set(*call == TakeAway);
            match *call {
                Acquire | AcquireAbove(_) => {
                    if let AcquireAbove(token) = *call {
                        claim.above = Some(FencingToken::new(token).unwrap());
                        view.above.set(token);
                    }
                    let ask = Ask { claim: &claim, origin: &self.origin, released: &released, ended: &|| () };
                    if let Ok(Attempt::Granted(grant)) = acquire(&view, &ask).await {
                        let until = sent + grant.ttl.as_secs();
                        if world.borrow().is_released(actor) {
                            world.borrow_mut().violation = Some("a claim was granted after its release");
                        }
                        world.borrow_mut().believes(actor, grant.token.as_u64(), until, above.max(view.above.get()));
                    }
                }
                Extend => {
                    let ask = Ask { claim: &claim, origin: &self.origin, released: &released, ended: &|| () };
                    let answer = extend(&view, &ask).await.unwrap();
                    match answer {
                        Extension::Extended { ttl, .. } => {
                            world.borrow_mut().goes_on_believing(actor, sent + ttl.as_secs());
                        }
                        Extension::Lost => world.borrow_mut().stops_believing(actor),
                    }
                }
                Release => {
                    world.borrow_mut().stops_believing(actor);
                    release(&view, &claim, &self.origin).await.unwrap();
                }
                TakeAway => {
                    force_release(&view, &claim.name, None, &self.origin).await.unwrap();
                }
                MarkReleased => {
                    world.borrow_mut().mark_released(0);
                    world.borrow_mut().stops_believing(0);
                }
            }
        }
    }

    /// Somebody who comes `later` and is alone: the lock must be free then, and the token new.
    fn finds_it_free(&self, world: &World, later: u64) -> Result<(), &'static str> {
        let mut world = world.clone();
        world.ticks += later;
        let (above, actor) = (world.highest_token(), self.claims.len() - 1);
        let view = View::new(Rc::new(RefCell::new(world)), actor, None);
        let ask = Ask { claim: &self.claims[actor], origin: &self.origin, released: &|| false, ended: &|| () };
        let mut newcomer = Box::pin(acquire(&view, &ask));
        loop {
            match newcomer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => {}
                Poll::Ready(Ok(Attempt::Granted(grant))) if grant.token.as_u64() > above => return Ok(()),
                Poll::Ready(Ok(Attempt::Granted(_))) => return Err("a newcomer's token is not new"),
                Poll::Ready(_) => return Err("a newcomer does not get the lock"),
            }
        }
    }
}

impl Run<'_> {
    fn events(&self) -> Vec<Event> {
        let world = self.world.borrow();
        let alive = self.actors.iter().enumerate().filter(|(_, steps)| steps.is_some());
        let steps =
            alive.flat_map(|(actor, _)| (0..world.choices(actor)).map(move |choice| Event::Step(actor, choice)));
        let tick = (world.ticks < self.lab.scenario.ticks).then_some(Event::Tick);
        steps.chain(tick).collect()
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Tick => self.world.borrow_mut().ticks += 1,
            Event::Step(actor, choice) => {
                self.world.borrow_mut().choose(actor, choice);
                let steps = self.actors[actor].as_mut().unwrap();
                if steps.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    self.actors[actor] = None;
                }
            }
        }
    }

    /// Whether all is well, with `met` the worlds that a newcomer has been sent to before.
    fn check(&self, met: &mut HashSet<(u64, u64)>) -> Result<(), &'static str> {
        let world = self.world.borrow();
        if let Some(violation) = world.violation {
            return Err(violation);
        }
        let gives_back = |calls: &&[Call]| [Release, MarkReleased].contains(calls.last().unwrap());
        let is_given_back = self.actors.iter().all(Option::is_none) && self.lab.scenario.actors.iter().all(gives_back);
        // Whoever is not done may have been killed here.
        let later = if is_given_back { 0 } else { TTL };
        if met.insert((world.fingerprint_for_newcomers(), later)) {
            self.lab.finds_it_free(&world, later)
        } else {
            Ok(())
        }
    }
}

/// Tries all orders; the number of different states, or what was violated.
fn explore(scenario: Scenario, mutant: Option<Mutant>) -> Result<usize, String> {
    let lab = Lab::new(scenario, mutant);
    let (mut seen, mut met, mut to_do) = (HashSet::new(), HashSet::new(), vec![Vec::new()]);
    while let Some(mut order) = to_do.pop() {
        let mut run = lab.run();
        for event in &order {
            run.apply(*event);
        }
        while seen
            .insert((run.world.borrow().fingerprint(), run.actors.iter().map(Option::is_some).collect::<Vec<_>>()))
        {
            run.check(&mut met).map_err(|violation| format!("{violation} after {order:?}"))?;
            let mut events = run.events();
            let Some(next) = events.pop() else { break };
            for event in events {
                let mut other = order.clone();
                other.push(event);
                to_do.push(other);
            }
            order.push(next);
            run.apply(next);
        }
    }
    Ok(seen.len())
}

fn scenarios() -> Vec<(&'static str, Scenario)> {
    let scenario = |begin, ticks, actors| Scenario { begin, actors, ticks, before: &[] };
    // The first has found the lock free. The second has just been granted it and not yet removed anything, when it was taken
    // away and granted to the third. That has removed two of three, when it was taken away as well.
    let half_way = Scenario {
        begin: Begin::Free,
        ticks: 0,
        actors: &[&[Acquire], &[Acquire], &[Acquire], &[TakeAway, TakeAway, Acquire]],
        before: &[(0, 5), (1, 9), (3, 6), (2, 11), (3, 7)],
    };
    vec![
        ("a new lock is asked for by two", scenario(Begin::Empty, 0, &[&[Acquire, Release], &[Acquire, Release]])),
        ("a holder extends while another asks", scenario(Begin::Held, 3, &[&[Extend], &[Acquire]])),
        (
            "one is slow while another goes on",
            scenario(Begin::Free, 0, &[&[Acquire], &[Acquire, Release, Acquire, Release, Acquire]]),
        ),
        ("a lock is taken away", scenario(Begin::Held, 1, &[&[Extend], &[TakeAway], &[Acquire]])),
        ("higher tokens were seen", scenario(Begin::Free, 0, &[&[AcquireAbove(3), Release], &[AcquireAbove(1)]])),
        ("it is released while it is asked for", scenario(Begin::Free, 0, &[&[Acquire], &[MarkReleased], &[Acquire]])),
        ("some were stopped half-way", half_way),
        ("three ask at once", scenario(Begin::Free, 0, &[&[Acquire], &[Acquire], &[Acquire]])),
    ]
}

#[test]
fn in_no_order_is_the_lock_broken() {
    for (what, scenario) in scenarios() {
        let states = explore(scenario, None).unwrap_or_else(|violation| panic!("{what}: {violation}"));
        assert!(states > 1000, "{what}: only {states} states");
    }
}

#[test]
fn without_any_of_the_steps_the_lock_is_broken() {
    for (mutant, where_it_matters) in Mutant::ALL {
        let (_, scenario) = scenarios().into_iter().find(|(what, _)| *what == where_it_matters).unwrap();
        assert!(explore(scenario, Some(mutant)).is_err(), "{mutant:?} breaks nothing");
    }
}
