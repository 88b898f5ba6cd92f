//! Many at once, at random: what they saw, and what the service was seen to keep, is judged by the rules that hold of every
//! history.
use std::panic::Location;
use std::time::Duration;

use fastrand::Rng;
use lock_core::{BootTime, LockName};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::case::cases;
use crate::crowd::Crowd;
use crate::failure::{ensure, too_slow};
use crate::ghosts::Limits;
use crate::given::Given;
use crate::history::{Became, History, Line, ProcessEvent, What};
use crate::locking::Locking;
use crate::oracles::Violation;
use crate::orders::{Answer, Task};
use crate::prober::Probed;
use crate::process::Process;
use crate::recorder::Recorder;
use crate::{Seed, Trial};

cases! { "stress":
    the_history_of_a_crowd_is_sound,
    the_history_of_processes_that_are_stopped_and_killed_is_sound needs Processes,
}

/// On any machine the threads that matter run so often, if only now and then.
const LATE: Duration = Duration::from_secs(3);

/// 100 tasks of four clients fight for four locks.
async fn the_history_of_a_crowd_is_sound(t: &Trial) {
    const ROUNDS: usize = 12;
    let seed = Seed::from_environment("stress::the_history_of_a_crowd_is_sound");
    let recorder = Recorder::new(t.clock().clone());
    let names = ["/a", "/b", "/c", "/d"].map(|end| t.name_with(end)).to_vec();
    let crowd = Crowd {
        tasks: 100,
        rounds: Some(ROUNDS),
        moment: Duration::from_millis(3),
        ttl: t.steady_ttl(),
        ..crowd(t, seed, &names)
    };
    let prober = t.probing(&names);
    let clients: Vec<_> = (0..4).map(|_| t.client()).collect();
    let failures = crowd.lives(&clients, &recorder, &watch::Sender::new(false).subscribe()).await;
    for client in &clients {
        let left = client.close(t.patience()).await;
        ensure!(left.is_empty(), "a client could not give back {left:?}; {seed}");
    }
    recorder.becomes(Became::Closed);
    let grants = judged(t, recorder.lines(), prober.ends(t).await, crowd.ttl, seed);
    // After what all of them saw: that one of them failed may be no more than what follows from it.
    if let Some(failure) = failures.into_iter().next() {
        std::panic::resume_unwind(failure.into_panic());
    }
    let least = crowd.tasks * ROUNDS / 4;
    if grants < least {
        too_slow(format_args!("only {grants} acquisitions came about, and not even {least}; {seed}"));
    }
    all_can_be_had(t, &names).await;
}

/// Eight processes with four tasks each fight for three locks. One that holds a lock is stopped or killed, again and again.
async fn the_history_of_processes_that_are_stopped_and_killed_is_sound(t: &Trial) {
    let seed = Seed::from_environment("stress::the_history_of_processes_that_are_stopped_and_killed_is_sound");
    let names = ["/a", "/b", "/c"].map(|end| t.name_with(end)).to_vec();
    let crowd = Crowd { tasks: 4, ttl: t.ttl(), moment: t.ttl() / 8, ..crowd(t, seed, &names) };
    let prober = t.probing(&names);
    let mut town = Town::new(t, crowd);
    let mut rng = seed.rng(usize::MAX);
    for _ in 0..PROCESSES {
        town.one_more();
    }
    for _ in 0..DISTURBANCES {
        town.one_is_disturbed(&mut rng).await;
    }
    let undisturbed = t.clock().now();
    let failures = town.ends().await;
    let (ttl, Limits { lives, late }) = (town.crowd.ttl, limits(t, town.crowd.ttl, Duration::ZERO));
    // What the killed ones had is over by then.
    t.clock().sleep_until(undisturbed + late + lives).await;
    judged(t, town.lines, prober.ends(t).await, ttl, seed);
    ensure!(failures.is_empty(), "{}; {seed}", failures.join("; "));
    all_can_be_had(t, &names).await;
}

const PROCESSES: usize = 8;

/// Every second one of them takes about a ttl.
const DISTURBANCES: usize = 12;

/// The processes of a run, and what they and this one have told.
struct Town<'a> {
    t: &'a Trial,
    crowd: Crowd,
    processes: Vec<Citizen>,
    born: u32,
    tell: mpsc::UnboundedSender<Line>,
    told: mpsc::UnboundedReceiver<Line>,
    lines: Vec<Line>,
}

struct Citizen {
    number: u32,
    process: Process,
    life: Given,
}

impl<'a> Town<'a> {
    fn new(t: &'a Trial, crowd: Crowd) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        Self { t, crowd, processes: Vec::new(), born: 0, tell, told, lines: Vec::new() }
    }

    fn one_more(&mut self) {
        self.born += 1;
        let (number, tell) = (self.born, self.tell.clone());
        // The receiver lives as long as the processes.
        let mut process = self.t.process_telling(move |line| _ = tell.send(line));
        let crowd = Crowd { first: number as usize * self.crowd.tasks, ..self.crowd.clone() };
        let life = process.gives("live as a crowd", Task::Crowd { process: number, crowd });
        let life = life.with_patience(self.t.patience() * 4);
        self.processes.push(Citizen { number, process, life });
    }

    /// Somebody who has just got a lock is killed, or stopped for a while.
    async fn one_is_disturbed(&mut self, rng: &mut Rng) {
        sleep(self.t.ttl().mul_f64(rng.f64() / 2.0)).await;
        let t = self.t;
        let holder = t.soon(self.next_holder(), "the next grant to any of the processes").await;
        let is_holder = |citizen: &Citizen| citizen.number == holder;
        let Some(at) = self.processes.iter().position(is_holder) else { return };
        if rng.bool() {
            let mut dead = self.processes.swap_remove(at);
            let at = dead.process.is_killed();
            self.lines.push(ProcessEvent::new(at, dead.number, Became::Dead).into());
            self.one_more();
            return;
        }
        self.lines.push(ProcessEvent::new(t.clock().now(), holder, Became::Stopped).into());
        self.processes[at].process.is_stopped();
        sleep(t.ttl().mul_f64(rng.f64() * 2.0)).await;
        self.processes[at].process.goes_on();
        self.lines.push(ProcessEvent::new(t.clock().now(), holder, Became::Running).into());
    }

    /// Who gets a lock next, of those who are there.
    async fn next_holder(&mut self) -> u32 {
        while let Ok(line) = self.told.try_recv() {
            self.lines.push(line);
        }
        loop {
            let line = self.told.recv().await.expect("this end can tell too");
            let holder = match &line {
                Line::Event(event) if matches!(event.what, What::Granted { .. }) => Some(event.process()),
                _ => None,
            };
            self.lines.push(line);
            let is_there = |number: &u32| self.processes.iter().any(|citizen| citizen.number == *number);
            if let Some(holder) = holder.filter(is_there) {
                return holder;
            }
        }
    }

    /// All of them end and give back what they have. What went wrong in them.
    async fn ends(&mut self) -> Vec<String> {
        for citizen in &mut self.processes {
            citizen.process.gives("end", Task::EndCrowd);
        }
        let mut failures = Vec::new();
        for mut citizen in std::mem::take(&mut self.processes) {
            let at = Location::caller();
            match citizen.life.answer(at).await {
                Answer::CrowdEnded { failure } => failures.extend(failure),
                other => citizen.life.fail(at, "to be told that the crowd has ended", &other),
            }
            let at = citizen.process.exits().await;
            self.lines.push(ProcessEvent::new(at, citizen.number, Became::Dead).into());
        }
        while let Ok(line) = self.told.try_recv() {
            self.lines.push(line);
        }
        failures
    }
}

/// A crowd on these locks, as both cases have it.
fn crowd(t: &Trial, seed: Seed, names: &[LockName]) -> Crowd {
    Crowd {
        seed,
        first: 0,
        tasks: 0,
        rounds: None,
        names: names.to_vec(),
        ttl: t.ttl(),
        short_ttl: t.ttl(),
        moment: Duration::ZERO,
        wait: t.patience() * 4,
    }
}

/// Ends the case unless everything is as it has to be. How often a lock was granted.
fn judged(t: &Trial, lines: Vec<Line>, probed: Probed, ttl: Duration, seed: Seed) -> usize {
    let probes = probed.probes.into_iter().map(Line::from);
    let history = History::new(lines.into_iter().chain(probes));
    let mut violations = history.violations();
    violations.extend(history.ghosts(&limits(t, ttl, probed.lag)));
    ensure!(violations.is_empty(), "rules were broken; {seed}\n  {}", Violation::summary(&violations));
    history.grants()
}

/// What a grant of `ttl` may outlive, on a machine that was behind by `lag` at some moment.
fn limits(t: &Trial, ttl: Duration, lag: Duration) -> Limits {
    let lives = t.over_at(BootTime::from_boot(Duration::ZERO), ttl).since_boot();
    Limits { lives, late: LATE + lag * 4 }
}

async fn all_can_be_had(t: &Trial, names: &[LockName]) {
    for name in names {
        t.client().lock(name.as_str()).ttl(t.long_ttl()).wait(t.patience()).can_be_had().await;
    }
}
