//! The rule about what is left at the service when nobody has it any more.
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lock_core::{BootTime, FencingToken, LockName};

use crate::history::{Event, History, Line, Probe, What};
use crate::lives::Life;
use crate::oracles::{Oracle, Violation};

/// How long things take at most that no history tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long a grant outlives the last call for it: the longest ttl that was asked for, the backend's slack, and what clocks
    /// may differ by.
    pub lives: Duration,
    /// How much later a client's last call may come than its last word in the history: on a busy machine its threads wait, and
    /// so do the service's.
    pub late: Duration,
}

impl Limits {
    /// A grant lives for `lives` without a call, and a client's last call is at most `late`.
    pub const fn new(lives: Duration, late: Duration) -> Self {
        Self { lives, late }
    }
}

/// One acquisition, as far as it matters for what it may leave at the service.
struct Op<'a> {
    events: Vec<&'a Event>,
    token: Option<FencingToken>,
    asked: BootTime,
    /// When nothing of it is there any more, whatever its token; none if that can't be told.
    gone: Option<BootTime>,
    /// The same for the grant that it was told of.
    grant_gone: Option<BootTime>,
}

/// The service showed a grant, or something without a token.
type Sight<'a> = (&'a LockName, Option<FencingToken>);

impl History {
    /// Every lock that the service was seen to keep although nobody could have it any more:
    ///
    /// - a grant whose release was confirmed, or anything of a process whose clients had closed, before the service was asked;
    /// - a grant whose acquisition had ended otherwise, or whose process was dead, for longer than the grant may live without
    ///   a call and the last call may be late;
    /// - a grant of which no client was told, when all acquisitions are over by these rules, or when it was first seen so long
    ///   ago that its client would have been told of it, or would have given it up.
    ///
    /// The time for which a process was stopped does not count.
    pub fn ghosts(&self, limits: &Limits) -> Vec<Violation> {
        let lives = self.lives();
        let mut ops: HashMap<&LockName, Vec<Op<'_>>> = HashMap::new();
        for events in self.by_acquisition().into_values() {
            let op = Op::new(events, &lives, limits);
            ops.entry(&op.events[0].name).or_default().push(op);
        }
        let mut sights: BTreeMap<Sight<'_>, Vec<&Probe>> = BTreeMap::new();
        for probe in self.probes() {
            for token in &probe.seen {
                sights.entry((&probe.name, *token)).or_default().push(probe);
            }
        }
        let everybody =
            Life { stops: lives.values().flat_map(|life| life.stops.iter().copied()).collect(), ..Life::default() };
        let mut ghosts = Vec::new();
        for ((name, token), probes) in sights {
            let ops = ops.get(name).map(Vec::as_slice).unwrap_or_default();
            let own: Vec<_> = ops.iter().filter(|op| token.is_some() && op.token == token).collect();
            let mut evidence: Vec<Line> = Vec::new();
            let worst = if own.is_empty() {
                let told = |first| everybody.last_call(first, limits.late) + limits.late;
                let ended = |told| everybody.last_call(told, limits.late) + limits.late + limits.lives;
                let known_by = token.map(|_| ended(told(probes[0].answered)));
                evidence.push(probes[0].clone().into());
                most_overdue(&probes, |probe| earlier(known_by, all_gone(ops, probe)))
            } else {
                evidence.extend(own.iter().flat_map(|op| &op.events).map(|event| Line::from((*event).clone())));
                let gone = latest(own.iter().map(|op| op.grant_gone));
                most_overdue(&probes, |_| gone)
            };
            if let Some((duration, probe)) = worst {
                evidence.push(probe.clone().into());
                ghosts.push(Violation { oracle: Oracle::GhostLock, duration, evidence });
            }
        }
        ghosts
    }
}

/// The last of the probes, by `gone`, that should not have seen what it saw, and how much too late it was.
fn most_overdue<'a>(probes: &[&'a Probe], gone: impl Fn(&Probe) -> Option<BootTime>) -> Option<(Duration, &'a Probe)> {
    let too_late = probes.iter().filter_map(|probe| {
        let gone = gone(probe).filter(|gone| probe.sent > *gone)?;
        Some((probe.sent.since(gone), *probe))
    });
    too_late.max_by_key(|(late, _)| *late)
}

/// When nothing is left of any acquisition that may have brought about what was seen.
fn all_gone(ops: &[Op<'_>], seen: &Probe) -> Option<BootTime> {
    latest(ops.iter().filter(|op| op.asked <= seen.answered).map(|op| op.gone))
}

/// The last of them, unless there is none or one can't be told.
fn latest(moments: impl Iterator<Item = Option<BootTime>>) -> Option<BootTime> {
    moments.reduce(|one, other| Some(one?.max(other?))).flatten()
}

/// The first of those that can be told.
fn earlier(one: Option<BootTime>, other: Option<BootTime>) -> Option<BootTime> {
    one.into_iter().chain(other).min()
}

impl<'a> Op<'a> {
    fn new(events: Vec<&'a Event>, lives: &HashMap<u32, Life>, limits: &Limits) -> Self {
        let alone = Life::default();
        let life = lives.get(&events[0].process()).unwrap_or(&alone);
        let (asked, mut token) = (events[0].at, None);
        let (mut over, mut released) = (None, None);
        for event in &events {
            match event.what {
                What::Granted { token: granted, .. } => token = Some(granted),
                What::Releases | What::Lost | What::GaveUp | What::Refused => over = over.or(Some(event.at)),
                // That an extension failed ends no grant.
                What::Failed(_) if token.is_none() => over = over.or(Some(event.at)),
                What::Released => released = Some(event.at),
                What::Asks | What::Extended { .. } | What::Failed(_) => {}
            }
        }
        let last_call = earlier(over.map(|over| life.last_call(over, limits.late)), life.dead);
        let ended = last_call.map(|call| call + limits.late + limits.lives);
        let gone = earlier(ended, life.closed.filter(|closed| asked <= *closed));
        Self { events, token, asked, gone, grant_gone: earlier(gone, released) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Became, ProcessEvent};

    /// A grant is over a second after its last call, which is no more than a tenth of a second late.
    const LIMITS: Limits = Limits::new(Duration::from_millis(1000), Duration::from_millis(100));

    fn at(millis: u64) -> BootTime {
        BootTime::from_boot(Duration::from_millis(millis))
    }

    fn name() -> LockName {
        LockName::new("a").unwrap()
    }

    fn token(token: u64) -> FencingToken {
        FencingToken::new(token).unwrap()
    }

    /// An acquisition by process 1 that asks at 0, and what happens to it afterwards.
    fn op(then: &[(u64, What)]) -> Vec<Line> {
        let all = [(0, What::Asks)].into_iter().chain(then.iter().copied());
        all.map(|(millis, what)| Event::new(at(millis), 1 << u32::BITS, name(), what).into()).collect()
    }

    const fn granted() -> What {
        What::Granted { token: FencingToken::MAX, until: BootTime::from_boot(Duration::from_millis(1000)) }
    }

    /// Grants that were seen at these moments, in answers that took two milliseconds.
    fn seen(token: Option<FencingToken>, when: &[u64]) -> Vec<Line> {
        when.iter().map(|millis| Probe::new(at(*millis), at(millis + 2), name(), vec![token]).into()).collect()
    }

    fn became(became: Became, millis: u64) -> Line {
        ProcessEvent::new(at(millis), 1, became).into()
    }

    /// For how long there was a ghost, in milliseconds, if there was one.
    fn ghost(lines: &[&[Line]]) -> Option<u128> {
        let ghosts = History::new(lines.concat()).ghosts(&LIMITS);
        assert!(ghosts.len() <= 1, "{ghosts:?}");
        ghosts.first().map(|ghost| ghost.duration.as_millis())
    }

    const OWN: Option<FencingToken> = Some(FencingToken::MAX);

    #[test]
    fn a_held_lock_may_be_seen_for_ever() {
        assert_eq!(ghost(&[&op(&[(10, granted())]), &seen(OWN, &[5, 20, 100_000])]), None);
        let failed = op(&[(10, granted()), (50, What::Failed(lock_core::ErrorKind::Unavailable))]);
        assert_eq!(ghost(&[&failed, &seen(OWN, &[100_000])]), None);
    }

    #[test]
    fn nothing_may_be_seen_of_a_grant_whose_release_was_confirmed() {
        let released = op(&[(10, granted()), (20, What::Releases), (25, What::Released)]);
        // The answer to a question that was sent before may be older than the release.
        assert_eq!(ghost(&[&released, &seen(OWN, &[24, 25])]), None);
        assert_eq!(ghost(&[&released, &seen(OWN, &[24, 25, 26, 30])]), Some(5));
    }

    #[test]
    fn what_was_not_confirmed_has_its_time() {
        for end in [What::Releases, What::Lost] {
            let ended = op(&[(10, granted()), (20, end)]);
            assert_eq!(ghost(&[&ended, &seen(OWN, &[1120])]), None);
            assert_eq!(ghost(&[&ended, &seen(OWN, &[1121])]), Some(1));
        }
    }

    #[test]
    fn a_dead_process_extends_nothing() {
        let held = op(&[(10, granted())]);
        assert_eq!(ghost(&[&held, &[became(Became::Dead, 500)], &seen(OWN, &[1600])]), None);
        assert_eq!(ghost(&[&held, &[became(Became::Dead, 500)], &seen(OWN, &[1601])]), Some(1));
    }

    #[test]
    fn nothing_may_be_seen_of_a_process_that_has_closed_its_clients() {
        for op in [op(&[(10, What::GaveUp)]), op(&[(10, granted()), (20, What::Releases)])] {
            for token in [OWN, Some(token(7)), None] {
                assert_eq!(ghost(&[&op, &[became(Became::Closed, 30)], &seen(token, &[30])]), None);
                assert_eq!(ghost(&[&op, &[became(Became::Closed, 30)], &seen(token, &[31])]), Some(1));
            }
        }
    }

    #[test]
    fn the_time_that_a_process_is_stopped_does_not_count() {
        let stopped = |from, until| [became(Became::Stopped, from), became(Became::Running, until)];
        let released = op(&[(10, granted()), (20, What::Releases)]);
        // Its last call may be caught by the stop, also by a second one, and goes out when the process goes on.
        let (one, other) = (stopped(120, 600), stopped(650, 900));
        assert_eq!(ghost(&[&released, &one, &other, &seen(OWN, &[2000])]), None);
        assert_eq!(ghost(&[&released, &one, &other, &seen(OWN, &[2001])]), Some(1));
        // By then it was through.
        assert_eq!(ghost(&[&released, &stopped(121, 600), &seen(OWN, &[1121])]), Some(1));
        // Once it goes on it does, however often it was stopped.
        let twice = [became(Became::Stopped, 120), became(Became::Stopped, 130), became(Became::Running, 600)];
        assert_eq!(ghost(&[&released, &twice, &seen(OWN, &[1700])]), None);
        assert_eq!(ghost(&[&released, &twice, &seen(OWN, &[1701])]), Some(1));
        // What is stopped when it dies goes on no more.
        let killed = [became(Became::Stopped, 100), became(Became::Dead, 200)];
        assert_eq!(ghost(&[&released, &killed, &seen(OWN, &[1300])]), None);
        assert_eq!(ghost(&[&released, &killed, &seen(OWN, &[1301])]), Some(1));
    }

    #[test]
    fn a_grant_that_nobody_was_told_of_ends_when_all_who_may_have_it_have_ended() {
        let gave_up = op(&[(10, What::GaveUp)]);
        for token in [Some(token(7)), None] {
            assert_eq!(ghost(&[&gave_up, &seen(token, &[1110])]), None);
            assert_eq!(ghost(&[&gave_up, &seen(token, &[1111])]), Some(1));
        }
        // Whoever asks later has nothing to do with what was seen before.
        let mut later = op(&[]);
        later.iter_mut().for_each(|line| {
            if let Line::Event(event) = line {
                (event.at, event.op) = (at(1200), 2 << u32::BITS);
            }
        });
        assert_eq!(ghost(&[&gave_up, &later, &seen(None, &[1111])]), Some(1));
        assert_eq!(ghost(&[&gave_up, &later, &seen(None, &[1200])]), None);
    }

    #[test]
    fn a_grant_that_nobody_was_told_of_does_not_outlive_everybody_s_patience() {
        // One who still waits may have it, but would have been told of it long ago.
        let waits = op(&[]);
        assert_eq!(ghost(&[&waits, &seen(Some(token(7)), &[100, 1302])]), None);
        assert_eq!(ghost(&[&waits, &seen(Some(token(7)), &[100, 1303])]), Some(1));
        // A place in a queue has no token, and lasts as long as somebody waits.
        assert_eq!(ghost(&[&waits, &seen(None, &[100, 100_000])]), None);
    }

    #[test]
    fn the_evidence_is_what_happened_and_what_was_seen() {
        let released = op(&[(10, granted()), (20, What::Releases), (25, What::Released)]);
        let ghosts = History::new([released, seen(OWN, &[30, 40])].concat()).ghosts(&LIMITS);
        let text = ghosts[0].to_string();
        assert_eq!(ghosts[0].evidence.len(), 5, "{text}");
        assert!(text.contains("was given back") && text.contains("0.040000 s  the service is asked"), "{text}");
    }

    /// Random histories of a service that does what it promises, and of one that keeps something a little too long.
    #[test]
    fn random_histories_are_judged_by_what_the_service_did() {
        for seed in 0..500 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut lines = Vec::new();
            let (mut now, mut last) = (0, None);
            for number in 1..=20_u64 {
                let op = (rng.u64(1..4) << u32::BITS) + number;
                let mut event = |millis, what| lines.push(Event::new(at(millis), op, name(), what).into());
                event(now, What::Asks);
                now += rng.u64(1..50);
                let (from, confirmed) = (now, rng.bool());
                let is_told = confirmed || rng.bool();
                if is_told {
                    event(now + 1, What::Granted { token: token(number), until: at(now + 900) });
                }
                now += if is_told { rng.u64(10..300) } else { rng.u64(0..100) };
                event(now, if is_told { What::Releases } else { What::GaveUp });
                now += if confirmed { rng.u64(0..50) } else { rng.u64(0..1100) };
                let gone = now;
                if confirmed {
                    event(now, What::Released);
                }
                lines.extend((from..=gone).step_by(50).flat_map(|millis| seen(Some(token(number)), &[millis])));
                last = Some((number, gone, confirmed));
            }
            assert_eq!(History::new(lines.clone()).ghosts(&LIMITS), [], "seed {seed}");
            let (number, gone, confirmed) = last.unwrap();
            let too_late = if confirmed { gone + 1 } else { gone + 1101 };
            lines.extend(seen(Some(token(number)), &[too_late]));
            let ghosts = History::new(lines).ghosts(&LIMITS);
            assert_eq!(ghosts.len(), 1, "seed {seed}");
        }
    }
}
