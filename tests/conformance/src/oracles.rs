use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use lock_core::{BootTime, FencingToken, LockName};

use crate::history::{Event, History, Line, What};

/// A rule that every history of locks obeys.
///
/// Together they say what a mutex with tokens and spontaneous release is: no grant before the promised end of the one before,
/// and tokens in the order of the grants. Linearizability says less here, since a lease that ran out is a release that nobody
/// called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oracle {
    /// No two acquisitions of one lock take themselves for its holder at the same time.
    ClaimOverlap,
    /// No grant is told while an earlier holder is still one, even if the new one ends at once.
    PrematureGrant,
    /// No two grants of one lock have the same token.
    TokenTwice,
    /// A grant that was asked for after another one was told has the higher token.
    TokenOrder,
    /// The service keeps nothing of a grant that was given back, and lets what nobody extends any more end in time.
    GhostLock,
}

/// A broken rule, with what proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule.
    pub oracle: Oracle,
    /// For how long, where that says something.
    pub duration: Duration,
    /// Every event of the acquisitions, by time, and what was seen at the service.
    pub evidence: Vec<Line>,
}

/// One acquisition that was granted, from its events.
#[derive(Clone, Copy, Debug)]
struct Hold {
    op: u64,
    token: FencingToken,
    asked: BootTime,
    granted: BootTime,
    /// When its holder ceased to take itself for one.
    end: BootTime,
}

impl History {
    /// Every broken rule of those that need no look at the service: [`ghosts`](Self::ghosts) has that one. None of a sound
    /// history.
    pub fn violations(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for holds in self.holds_by_lock().values_mut() {
            holds.sort_by_key(|hold| hold.granted);
            violations.extend(self.overlaps(holds));
            violations.extend(self.tokens_twice(holds));
            violations.extend(self.tokens_out_of_order(holds));
        }
        violations
    }

    fn holds_by_lock(&self) -> HashMap<&LockName, Vec<Hold>> {
        let mut holds: HashMap<_, Vec<_>> = HashMap::new();
        for events in self.by_acquisition().values() {
            if let Some(hold) = Hold::of(events) {
                holds.entry(&events[0].name).or_default().push(hold);
            }
        }
        holds
    }

    /// The events of each acquisition, by time.
    pub(crate) fn by_acquisition(&self) -> HashMap<u64, Vec<&Event>> {
        let mut by_op: HashMap<u64, Vec<&Event>> = HashMap::new();
        for event in self.events() {
            by_op.entry(event.op).or_default().push(event);
        }
        by_op
    }

    /// `holds` by grant: each is compared with the one before it that lasts longest.
    fn overlaps(&self, holds: &[Hold]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut longest: Option<Hold> = None;
        for hold in holds {
            if let Some(before) = longest.filter(|before| hold.granted < before.end) {
                let both_hold = before.end.min(hold.end).since(hold.granted);
                let early = before.end.since(hold.granted);
                violations.push(self.violation(Oracle::PrematureGrant, early, before, *hold));
                if !both_hold.is_zero() {
                    violations.push(self.violation(Oracle::ClaimOverlap, both_hold, before, *hold));
                }
            }
            if longest.is_none_or(|before| before.end < hold.end) {
                longest = Some(*hold);
            }
        }
        violations
    }

    fn tokens_twice(&self, holds: &[Hold]) -> Vec<Violation> {
        let mut seen: HashMap<FencingToken, Hold> = HashMap::new();
        let mut violations = Vec::new();
        for hold in holds {
            if let Some(before) = seen.insert(hold.token, *hold) {
                violations.push(self.violation(Oracle::TokenTwice, Duration::ZERO, before, *hold));
            }
        }
        violations
    }

    /// `holds` by grant: each is compared with the highest token that was told before it asked.
    fn tokens_out_of_order(&self, holds: &[Hold]) -> Vec<Violation> {
        let mut highest: Vec<Hold> = Vec::with_capacity(holds.len());
        for hold in holds {
            highest.push(match highest.last() {
                Some(before) if before.token >= hold.token => *before,
                _ => *hold,
            });
        }
        let mut violations = Vec::new();
        for hold in holds {
            let told_before = holds.partition_point(|other| other.granted < hold.asked);
            let before = told_before.checked_sub(1).map(|last| highest[last]);
            if let Some(before) = before.filter(|before| before.token >= hold.token) {
                violations.push(self.violation(Oracle::TokenOrder, Duration::ZERO, before, *hold));
            }
        }
        violations
    }

    fn violation(&self, oracle: Oracle, duration: Duration, before: Hold, after: Hold) -> Violation {
        let evidence = self.events().iter().filter(|event| event.op == before.op || event.op == after.op);
        Violation { oracle, duration, evidence: evidence.cloned().map(Line::from).collect() }
    }
}

impl Violation {
    /// Of each rule that was broken how often, and the worst that there was.
    pub(crate) fn summary(violations: &[Self]) -> String {
        let mut by_oracle: Vec<Vec<&Self>> = Vec::new();
        for violation in violations {
            match by_oracle.iter_mut().find(|others| others[0].oracle == violation.oracle) {
                Some(others) => others.push(violation),
                None => by_oracle.push(vec![violation]),
            }
        }
        let lines = by_oracle.iter().filter_map(|others| {
            let worst = others.iter().max_by_key(|violation| violation.duration)?;
            Some(format!("{} times {worst}", others.len()))
        });
        lines.collect::<Vec<_>>().join("\n  ")
    }
}

impl Hold {
    /// From the grant that was told to the first of: the release that was sent, the loss that was told, the deadline.
    fn of(events: &[&Event]) -> Option<Self> {
        let (granted, token, mut until) = events.iter().find_map(|event| match event.what {
            What::Granted { token, until } => Some((event.at, token, until)),
            _ => None,
        })?;
        let mut ended = None;
        for event in events {
            match event.what {
                What::Extended { until: extended } => until = until.max(extended),
                What::Releases | What::Lost => ended = ended.or(Some(event.at)),
                _ => {}
            }
        }
        let asked = events.iter().find(|event| event.what == What::Asks).map_or(granted, |event| event.at);
        let end = ended.map_or(until, |ended| ended.min(until));
        Some(Self { op: events[0].op, token, asked, granted, end })
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaimOverlap => "two held one lock at the same time",
            Self::PrematureGrant => "a lock was granted while its holder still had it",
            Self::TokenTwice => "two grants of one lock have the same token",
            Self::TokenOrder => "a later grant does not have the higher token",
            Self::GhostLock => "the service keeps a lock that nobody can have any more",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.oracle)?;
        if !self.duration.is_zero() {
            write!(f, ", for {:?}", self.duration)?;
        }
        self.evidence.iter().try_for_each(|event| write!(f, "\n    {event}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> BootTime {
        BootTime::from_boot(Duration::from_millis(millis))
    }

    /// An acquisition that asks at `asks`, and what happens to it afterwards.
    fn op(number: u64, asks: u64, then: &[(u64, What)]) -> Vec<Event> {
        let name = LockName::new("a").unwrap();
        let asks = Event::new(at(asks), number, name.clone(), What::Asks);
        let then = then.iter().map(|(millis, what)| Event::new(at(*millis), number, name.clone(), *what));
        std::iter::once(asks).chain(then).collect()
    }

    fn granted(token: u64, until: u64) -> What {
        What::Granted { token: FencingToken::new(token).unwrap(), until: at(until) }
    }

    fn broken(ops: &[Vec<Event>]) -> Vec<Oracle> {
        History::new(ops.concat()).violations().into_iter().map(|violation| violation.oracle).collect()
    }

    #[test]
    fn a_sound_history_has_no_violations() {
        let released = op(1, 0, &[(10, granted(1, 1000)), (20, What::Releases)]);
        let refused = op(2, 5, &[(15, What::Refused)]);
        let ran_out = op(3, 15, &[(21, granted(2, 100))]);
        let extended =
            op(4, 30, &[(100, granted(3, 200)), (150, What::Extended { until: at(300) }), (250, What::Lost)]);
        let last = op(5, 30, &[(250, granted(4, 400))]);
        assert_eq!(broken(&[released, refused, ran_out, extended, last]), []);
    }

    #[test]
    fn claims_that_overlap_are_found() {
        let first = op(1, 0, &[(10, granted(1, 100))]);
        let second = op(2, 5, &[(60, granted(2, 1000)), (90, What::Releases)]);
        let history = History::new([first, second].concat());
        let overlap = &history.violations()[1];
        assert_eq!((overlap.oracle, overlap.duration), (Oracle::ClaimOverlap, Duration::from_millis(30)));
        assert_eq!(overlap.evidence.len(), 5);
        assert!(overlap.to_string().contains("is granted token 2"), "{overlap}");
    }

    #[test]
    fn a_claim_overlaps_with_the_longest_before_it_and_not_only_with_the_last() {
        let long = op(1, 0, &[(10, granted(1, 1000))]);
        let short = op(2, 0, &[(20, granted(2, 30))]);
        let third = op(3, 0, &[(50, granted(3, 60))]);
        let overlaps =
            broken(&[long, short, third]).into_iter().filter(|oracle| *oracle == Oracle::ClaimOverlap).count();
        assert_eq!(overlaps, 2);
    }

    #[test]
    fn a_grant_that_comes_too_early_is_found_even_if_it_ends_at_once() {
        let first = op(1, 0, &[(10, granted(1, 100))]);
        let second = op(2, 5, &[(60, granted(2, 60))]);
        assert_eq!(broken(&[first, second]), [Oracle::PrematureGrant]);
    }

    #[test]
    fn an_extension_moves_the_end() {
        let first = op(1, 0, &[(10, granted(1, 50)), (30, What::Extended { until: at(100) })]);
        let second = op(2, 5, &[(60, granted(2, 60))]);
        assert_eq!(broken(&[first, second]), [Oracle::PrematureGrant]);
    }

    #[test]
    fn a_token_given_twice_is_found() {
        let first = op(1, 0, &[(10, granted(7, 1000)), (20, What::Releases)]);
        // It asked before the first was told of its grant: no order is known between the two.
        let second = op(2, 5, &[(30, granted(7, 1000))]);
        assert_eq!(broken(&[first, second]), [Oracle::TokenTwice]);
    }

    #[test]
    fn a_token_that_fell_is_found() {
        let first = op(1, 0, &[(10, granted(2, 1000)), (20, What::Releases)]);
        let second = op(2, 15, &[(30, granted(1, 1000))]);
        assert_eq!(broken(&[first, second]), [Oracle::TokenOrder]);
    }

    #[test]
    fn tokens_of_acquisitions_under_way_together_may_come_in_any_order() {
        let first = op(1, 0, &[(10, granted(2, 1000)), (20, What::Releases)]);
        let second = op(2, 5, &[(30, granted(1, 1000))]);
        assert_eq!(broken(&[first, second]), []);
    }

    #[test]
    fn locks_are_judged_apart() {
        let mut other = op(2, 15, &[(20, granted(1, 1000))]);
        other.iter_mut().for_each(|event| event.name = LockName::new("b").unwrap());
        assert_eq!(broken(&[op(1, 0, &[(10, granted(1, 1000))]), other]), []);
    }
}
