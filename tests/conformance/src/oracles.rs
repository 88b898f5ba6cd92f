use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use lock_core::LockName;

use crate::history::{Event, History, Line, Probe};

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
    /// No grant is told, or seen at the service, while an earlier holder is still one, even if the new one ends at once.
    PrematureGrant,
    /// No acquisition takes itself for the holder again once it was told of its loss.
    ClaimAfterLoss,
    /// No two grants of one lock have the same token.
    TokenTwice,
    /// No acquisition is granted two tokens.
    TokenChanged,
    /// A grant that was asked for after another one was told, or seen at the service, has the higher token.
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

impl History {
    /// Every broken rule of those that need no [`Limits`](crate::Limits): [`ghosts`](Self::ghosts) has the other one. None of
    /// a sound history.
    ///
    /// A slow machine breaks none: who is told late, or asks the service late, proves less and never more. So nothing is
    /// concluded from
    ///
    /// - an extension that comes after the deadline before it: the client may have extended the lease meanwhile on its own;
    /// - one that comes after the release: its answer may have been on the way. The hold ends when the release is sent all the
    ///   same;
    /// - a look at the service that shows nobody, or an older token, while somebody holds the lock: a service may answer from
    ///   a copy that lags behind.
    pub fn violations(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for events in self.by_acquisition().values() {
            violations.extend(self.changed_token(events));
            violations.extend(self.claim_after_loss(events));
        }
        let probes = self.probes_by_lock();
        for (name, holds) in &self.holds_by_lock() {
            let probes = probes.get(name).map(Vec::as_slice).unwrap_or_default();
            violations.extend(self.overlaps(holds));
            violations.extend(self.successors_seen(holds, probes));
            violations.extend(self.tokens_twice(holds));
            violations.extend(self.tokens_out_of_order(holds, probes));
        }
        violations
    }

    /// The events of each acquisition, by time.
    pub(crate) fn by_acquisition(&self) -> HashMap<u64, Vec<&Event>> {
        let mut by_op: HashMap<u64, Vec<&Event>> = HashMap::new();
        for event in self.events() {
            by_op.entry(event.op).or_default().push(event);
        }
        by_op
    }

    fn probes_by_lock(&self) -> HashMap<&LockName, Vec<&Probe>> {
        let mut by_lock: HashMap<_, Vec<_>> = HashMap::new();
        for probe in self.probes() {
            by_lock.entry(&probe.name).or_default().push(probe);
        }
        by_lock
    }

    /// With what these acquisitions did, and what was seen, for evidence.
    pub(crate) fn violation(&self, oracle: Oracle, duration: Duration, ops: &[u64], seen: Option<&Probe>) -> Violation {
        let events = self.events().iter().filter(|event| ops.contains(&event.op)).cloned().map(Line::from);
        Violation { oracle, duration, evidence: events.chain(seen.cloned().map(Line::from)).collect() }
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

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaimOverlap => "two held one lock at the same time",
            Self::PrematureGrant => "a lock was granted while its holder still had it",
            Self::ClaimAfterLoss => "a holder went on after it was told of its loss",
            Self::TokenTwice => "two grants of one lock have the same token",
            Self::TokenChanged => "one acquisition was granted two tokens",
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
    use lock_core::{BootTime, FencingToken};

    use super::*;
    use crate::history::What;

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

    /// What the service shows in an answer that takes from `sent` to `answered`.
    fn shows(sent: u64, answered: u64, token: u64) -> Probe {
        let name = LockName::new("a").unwrap();
        Probe::new(at(sent), at(answered), name, vec![Some(FencingToken::new(token).unwrap())])
    }

    fn broken(ops: &[Vec<Event>]) -> Vec<Oracle> {
        broken_with(ops, None)
    }

    fn broken_with(ops: &[Vec<Event>], seen: impl IntoIterator<Item = Probe>) -> Vec<Oracle> {
        let lines = ops.concat().into_iter().map(Line::from).chain(seen.into_iter().map(Line::from));
        History::new(lines).violations().into_iter().map(|violation| violation.oracle).collect()
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
    fn a_grant_that_was_over_when_it_was_told_comes_not_too_early() {
        let second = || op(2, 1, &[(10, granted(2, 1000))]);
        assert_eq!(broken(&[op(1, 0, &[(12, granted(1, 9))]), second()]), []);
        assert_eq!(broken(&[op(1, 0, &[(12, granted(1, 12))]), second()]), [Oracle::PrematureGrant]);
    }

    #[test]
    fn a_grant_that_only_the_service_shows_may_come_too_early_too() {
        let held = [op(1, 0, &[(10, granted(1, 1000)), (100, What::Releases)])];
        // Its own token, an older one, and the next one at the very moment of its beginning or end.
        let sound = [shows(20, 30, 1), shows(10, 30, 2), shows(90, 100, 2)];
        assert_eq!(broken_with(&held, sound), []);
        assert_eq!(broken_with(&held, [shows(11, 99, 2)]), [Oracle::PrematureGrant]);
        // An answer that took longer than the hold hides no other one.
        assert_eq!(broken_with(&held, [shows(11, 200, 2), shows(12, 20, 2)]), [Oracle::PrematureGrant]);
        let late = [op(1, 0, &[(120, granted(1, 100))])];
        assert_eq!(broken_with(&late, [shows(105, 110, 2)]), []);
    }

    #[test]
    fn an_older_token_may_be_seen_while_somebody_holds_the_lock() {
        let first = op(1, 0, &[(10, granted(1, 1000)), (20, What::Releases)]);
        let second = op(2, 5, &[(30, granted(2, 1000))]);
        assert_eq!(broken_with(&[first, second], [shows(40, 50, 1)]), []);
    }

    #[test]
    fn a_holder_that_goes_on_after_its_loss_is_found() {
        let lost = |then: u64, until| {
            op(1, 0, &[(10, granted(1, 1000)), (500, What::Lost), (then, What::Extended { until: at(until) })])
        };
        assert_eq!(broken(&[lost(600, 501)]), [Oracle::ClaimAfterLoss]);
        // What it was told up to then, and what was no longer than that.
        assert_eq!(broken(&[lost(499, 2000)]), []);
        assert_eq!(broken(&[lost(500, 2000)]), []);
        assert_eq!(broken(&[lost(600, 500)]), []);
    }

    #[test]
    fn an_extension_that_is_told_after_the_deadline_or_the_release_proves_nothing() {
        let late = op(1, 0, &[(10, granted(1, 100)), (150, What::Extended { until: at(300) })]);
        assert_eq!(broken(&[late]), []);
        let extended = (21, What::Extended { until: at(1500) });
        let first = op(1, 0, &[(10, granted(1, 1000)), (20, What::Releases), extended, (22, What::Released)]);
        assert_eq!(broken(&[first, op(2, 5, &[(30, granted(2, 900))])]), []);
    }

    #[test]
    fn two_tokens_for_one_acquisition_are_found() {
        let told_twice = |token| op(1, 0, &[(10, granted(1, 1000)), (50, granted(token, 1000))]);
        assert_eq!(broken(&[told_twice(1)]), []);
        assert_eq!(broken(&[told_twice(2)]), [Oracle::TokenChanged]);
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
    fn a_token_that_the_service_showed_is_known() {
        let gave_up = op(1, 0, &[(20, What::GaveUp)]);
        let next = |token| op(2, 30, &[(40, granted(token, 1000))]);
        assert_eq!(broken_with(&[gave_up.clone(), next(4)], [shows(10, 29, 3)]), []);
        assert_eq!(broken_with(&[gave_up.clone(), next(3)], [shows(10, 29, 3)]), [Oracle::TokenOrder]);
        // Before it was shown, nobody knew.
        assert_eq!(broken_with(&[gave_up, next(3)], [shows(10, 30, 3)]), []);
    }

    #[test]
    fn one_who_may_have_asked_at_any_time_may_have_any_token() {
        let first = op(1, 0, &[(10, granted(2, 1000)), (20, What::Releases)]);
        let mut second = op(2, 15, &[(30, granted(1, 1000))]);
        second.remove(0);
        assert_eq!(broken_with(&[first, second], [shows(16, 18, 2)]), []);
    }

    #[test]
    fn locks_are_judged_apart() {
        let mut other = op(2, 15, &[(20, granted(1, 1000))]);
        other.iter_mut().for_each(|event| event.name = LockName::new("b").unwrap());
        assert_eq!(broken(&[op(1, 0, &[(10, granted(1, 1000))]), other]), []);
    }
}
