//! The rules about those who hold a lock, or take themselves for its holder.
use std::collections::HashMap;
use std::time::Duration;

use lock_core::{BootTime, FencingToken, LockName};

use crate::history::{Event, History, Probe, What};
use crate::oracles::{Oracle, Violation};

/// One acquisition that was granted, from its events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    op: u64,
    token: FencingToken,
    /// Where that is not told, it may have been at any time.
    asked: BootTime,
    granted: BootTime,
    /// When its holder ceased to take itself for one.
    end: BootTime,
}

/// A token that was granted, by somebody's word.
#[derive(Clone, Copy)]
struct Known<'a> {
    since: BootTime,
    token: FencingToken,
    by: Word<'a>,
}

#[derive(Clone, Copy)]
enum Word<'a> {
    Holder(u64),
    Service(&'a Probe),
}

impl History {
    /// The acquisitions that were granted, by grant.
    pub(crate) fn holds_by_lock(&self) -> HashMap<&LockName, Vec<Hold>> {
        let mut by_lock: HashMap<_, Vec<_>> = HashMap::new();
        for events in self.by_acquisition().values() {
            if let Some(hold) = Hold::of(events) {
                by_lock.entry(&events[0].name).or_default().push(hold);
            }
        }
        by_lock.values_mut().for_each(|holds| holds.sort_by_key(|hold| hold.granted));
        by_lock
    }

    pub(crate) fn changed_token(&self, events: &[&Event]) -> Option<Violation> {
        let mut tokens = events.iter().filter_map(|event| match event.what {
            What::Granted { token, .. } => Some(token),
            _ => None,
        });
        let first = tokens.next()?;
        let changed = tokens.any(|token| token != first);
        changed.then(|| self.violation(Oracle::TokenChanged, Duration::ZERO, &[events[0].op], None))
    }

    /// A loss is final: who was told of it is not told later that it has the lock beyond that moment.
    pub(crate) fn claim_after_loss(&self, events: &[&Event]) -> Option<Violation> {
        let lost = events.iter().find(|event| event.what == What::Lost)?.at;
        let ends = events.iter().filter(|event| event.at > lost).filter_map(|event| match event.what {
            What::Granted { until, .. } | What::Extended { until } => Some(until),
            _ => None,
        });
        let end = ends.max().filter(|until| *until > lost)?;
        Some(self.violation(Oracle::ClaimAfterLoss, end.since(lost), &[events[0].op], None))
    }

    /// `holds` by grant: each is compared with the one before it that lasts longest. One that was over before its holder was
    /// told of it has nothing to say: the holder slept meanwhile, and never took itself for one.
    pub(crate) fn overlaps(&self, holds: &[Hold]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut longest: Option<Hold> = None;
        for hold in holds.iter().filter(|hold| hold.granted <= hold.end) {
            if let Some(before) = longest.filter(|before| hold.granted < before.end) {
                let (ops, early) = ([before.op, hold.op], before.end.since(hold.granted));
                let both_hold = before.end.min(hold.end).since(hold.granted);
                violations.push(self.violation(Oracle::PrematureGrant, early, &ops, None));
                if !both_hold.is_zero() {
                    violations.push(self.violation(Oracle::ClaimOverlap, both_hold, &ops, None));
                }
            }
            if longest.is_none_or(|before| before.end < hold.end) {
                longest = Some(*hold);
            }
        }
        violations
    }

    /// A higher token that the service shows while somebody holds the lock is a grant that came too early, whether or not a
    /// client was told of it. `probes` by time. Of each hold the first that tells, if it was asked for and came within the
    /// hold: at the very moment of its beginning or end, the order is not known.
    pub(crate) fn successors_seen(&self, holds: &[Hold], probes: &[&Probe]) -> Vec<Violation> {
        let of = |hold: &Hold| {
            let first = probes.partition_point(|probe| probe.sent <= hold.granted);
            let mut within = probes[first..].iter().take_while(|probe| probe.sent < hold.end);
            let seen = within.find(|probe| {
                probe.answered < hold.end && probe.seen.iter().flatten().any(|token| *token > hold.token)
            })?;
            let early = hold.end.since(seen.answered);
            Some(self.violation(Oracle::PrematureGrant, early, &[hold.op], Some(seen)))
        };
        holds.iter().filter_map(of).collect()
    }

    pub(crate) fn tokens_twice(&self, holds: &[Hold]) -> Vec<Violation> {
        let mut seen: HashMap<FencingToken, Hold> = HashMap::new();
        let mut violations = Vec::new();
        for hold in holds {
            if let Some(before) = seen.insert(hold.token, *hold) {
                violations.push(self.violation(Oracle::TokenTwice, Duration::ZERO, &[before.op, hold.op], None));
            }
        }
        violations
    }

    /// Each hold is compared with the highest token that was known before it asked: a holder was told of it, or the service
    /// had shown it.
    pub(crate) fn tokens_out_of_order(&self, holds: &[Hold], probes: &[&Probe]) -> Vec<Violation> {
        let told = holds.iter().map(|hold| Known { since: hold.granted, token: hold.token, by: Word::Holder(hold.op) });
        let shown = probes.iter().flat_map(|probe| {
            let tokens = probe.seen.iter().flatten();
            tokens.map(|token| Known { since: probe.answered, token: *token, by: Word::Service(probe) })
        });
        let mut highest: Vec<_> = told.chain(shown).collect();
        highest.sort_by_key(|known| known.since);
        for at in 1..highest.len() {
            if highest[at].token <= highest[at - 1].token {
                highest[at] = Known { since: highest[at].since, ..highest[at - 1] };
            }
        }
        let mut violations = Vec::new();
        for hold in holds {
            let known_before = highest.partition_point(|known| known.since < hold.asked);
            let before = known_before.checked_sub(1).map(|last| highest[last]);
            if let Some(before) = before.filter(|before| before.token >= hold.token) {
                let (ops, seen) = match before.by {
                    Word::Holder(op) => (vec![op, hold.op], None),
                    Word::Service(probe) => (vec![hold.op], Some(probe)),
                };
                violations.push(self.violation(Oracle::TokenOrder, Duration::ZERO, &ops, seen));
            }
        }
        violations
    }
}

impl Hold {
    /// From the grant that was told to the first of: the release that was sent, the loss that was told, the deadline.
    fn of(events: &[&Event]) -> Option<Self> {
        let (granted, token, mut until) = events.iter().find_map(|event| match event.what {
            What::Granted { token, until } => Some((event.at, token, until)),
            _ => None,
        })?;
        let (mut asked, mut ended) = (None, None);
        for event in events {
            match event.what {
                What::Asks => asked = asked.or(Some(event.at)),
                What::Extended { until: extended } => until = until.max(extended),
                What::Releases | What::Lost => ended = ended.or(Some(event.at)),
                _ => {}
            }
        }
        let asked = asked.unwrap_or(BootTime::from_boot(Duration::ZERO));
        let end = ended.map_or(until, |ended| ended.min(until));
        Some(Self { op: events[0].op, token, asked, granted, end })
    }
}
