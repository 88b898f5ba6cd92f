use std::time::Duration;

use lock_core::BootTime;

/// The command is asked to end (SIGTERM) when a fifth of the ttl is left and no extension has come, but not earlier than five
/// seconds before the deadline. Extensions are tried from a third of the ttl on, so most of a ttl has gone without a yes.
const TERM_FRACTION: u32 = 5;
const TERM_AT_MOST: Duration = Duration::from_secs(5);

/// It is killed (SIGKILL) when a tenth is left, but not earlier than one second before: the rest is for the kernel, which
/// needs milliseconds to end a group of processes and more on a machine that is short of memory.
const KILL_FRACTION: u32 = 10;
const KILL_AT_MOST: Duration = Duration::from_secs(1);

/// How long the command may take to end after lockctl itself is gone. Everything shall be over within a second then.
pub(crate) const ORPHAN_GRACE: Duration = Duration::from_millis(400);

/// How long the rest of the group may take to end after the command itself has ended. The lock is kept meanwhile.
pub(crate) const REST_GRACE: Duration = Duration::from_secs(1);

/// How long after SIGKILL a group that still has members is given up: they belong to another user, or hang in the kernel.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(1);

/// What happens next to the command's process group, and when. The moments only ever move closer once the end has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) at: BootTime,
    kill_at: BootTime,
}

/// The steps, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask the group to end.
    Term,
    /// End it.
    Kill,
    /// Stop waiting for its end.
    GiveUp,
}

impl Plan {
    /// For a lease of `ttl` that ends at `deadline`: nobody is left in the group when the deadline comes.
    pub(crate) fn before(deadline: BootTime, ttl: Duration) -> Self {
        let at = deadline - (ttl / TERM_FRACTION).min(TERM_AT_MOST);
        Self { step: Step::Term, at, kill_at: deadline - (ttl / KILL_FRACTION).min(KILL_AT_MOST) }
    }

    /// The lease now ends later. An end that has begun goes on: the command has been asked and is on its way out.
    pub(crate) fn extend(&mut self, deadline: BootTime, ttl: Duration) {
        if self.step == Step::Term {
            *self = Self::before(deadline, ttl);
        }
    }

    /// Begins the end now, with SIGKILL after `grace` at the latest.
    pub(crate) fn end_within(&mut self, grace: Duration, now: BootTime) {
        self.kill_at = self.kill_at.min(now + grace);
        self.at = match self.step {
            Step::Term => self.at.min(now),
            Step::Kill => self.kill_at,
            Step::GiveUp => self.at,
        };
    }

    /// Kills now: the lock may be somebody else's already.
    pub(crate) fn kill(&mut self, now: BootTime) {
        if self.step == Step::Term {
            self.step = Step::Kill;
        }
        self.end_within(Duration::ZERO, now);
    }

    /// The step has been done; on to the next.
    pub(crate) fn advance(&mut self, now: BootTime) {
        (self.step, self.at) = match self.step {
            Step::Term => (Step::Kill, self.kill_at),
            Step::Kill | Step::GiveUp => (Step::GiveUp, now + GIVE_UP_AFTER),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(2);

    fn at(millis: u64) -> BootTime {
        BootTime::from_boot(Duration::from_millis(millis))
    }

    #[test]
    fn a_short_lease_keeps_fractions_and_a_long_one_seconds() {
        let plan = Plan::before(at(10_000), TTL);
        assert_eq!((plan.step, plan.at, plan.kill_at), (Step::Term, at(9_600), at(9_800)));
        let plan = Plan::before(at(100_000), Duration::from_secs(60));
        assert_eq!((plan.step, plan.at, plan.kill_at), (Step::Term, at(95_000), at(99_000)));
    }

    #[test]
    fn an_extension_moves_everything_until_the_end_has_begun() {
        let mut plan = Plan::before(at(10_000), TTL);
        plan.extend(at(12_000), TTL);
        assert_eq!(plan, Plan::before(at(12_000), TTL));
        plan.advance(at(11_600));
        plan.extend(at(14_000), TTL);
        assert_eq!((plan.step, plan.at), (Step::Kill, at(11_800)));
        plan.advance(at(11_801));
        assert_eq!((plan.step, plan.at), (Step::GiveUp, at(11_801) + GIVE_UP_AFTER));
    }

    #[test]
    fn an_early_end_never_comes_later_than_the_deadline_wants() {
        let mut plan = Plan::before(at(10_000), TTL);
        plan.end_within(ORPHAN_GRACE, at(5_000));
        assert_eq!((plan.step, plan.at, plan.kill_at), (Step::Term, at(5_000), at(5_400)));
        let mut plan = Plan::before(at(10_000), TTL);
        plan.end_within(ORPHAN_GRACE, at(9_700));
        assert_eq!((plan.step, plan.at, plan.kill_at), (Step::Term, at(9_600), at(9_800)));
    }

    #[test]
    fn a_lost_lock_means_kill_now() {
        let mut plan = Plan::before(at(10_000), TTL);
        plan.kill(at(5_000));
        assert_eq!((plan.step, plan.at), (Step::Kill, at(5_000)));
        let mut plan = Plan::before(at(10_000), TTL);
        plan.advance(at(9_600));
        plan.kill(at(9_650));
        assert_eq!((plan.step, plan.at), (Step::Kill, at(9_650)));
        plan.advance(at(9_650));
        let killed = plan;
        plan.kill(at(9_700));
        assert_eq!(plan, killed);
    }
}
