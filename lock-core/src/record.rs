use std::time::Duration;

use tokio::sync::watch;

use crate::{
    BootTime, Clock, Error, ErrorKind, FencingToken, LeaseState, LockName, LossReason, OwnerId, Release, Result,
};

/// By how much slower than the service's clock this machine's may run: one in 500, well above what quartz drifts.
const DRIFT: u32 = 500;

/// What is taken off besides, for clocks that count in milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// Until when a grant of `ttl`, asked for at `sent_at`, is certainly alive.
///
/// It counts from before the request was sent, never from the answer: model checking finds two holders in 17 steps with the
/// latter. See "Is the algorithm asynchronous?" in <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>.
pub(crate) fn deadline(sent_at: BootTime, ttl: Duration) -> BootTime {
    sent_at + ttl.saturating_sub(ttl / DRIFT).saturating_sub(ROUNDING)
}

/// What keeper, guard and views share about one grant.
pub(crate) struct Record {
    name: LockName,
    owner: OwnerId,
    token: FencingToken,
    clock: Clock,
    /// The process whose keeper extends the lease: a fork has a copy of the record, and no keeper.
    process: u32,
    terms: watch::Sender<Terms>,
}

struct Terms {
    deadline: BootTime,
    ttl: Duration,
    /// When the hold ends in any case.
    max_until: Option<BootTime>,
    extension_failed: bool,
    risk_was_told: bool,
    /// Whether somebody was given the guard.
    taken: bool,
    end: Option<End>,
    /// What came of giving the grant back.
    release: Option<Result<Release>>,
}

/// How a lease ended. The first end is the end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Lost(LossReason),
}

impl Record {
    pub(crate) fn new(
        (name, owner, token): (LockName, OwnerId, FencingToken),
        clock: Clock,
        (sent_at, ttl): (BootTime, Duration),
        max_until: Option<BootTime>,
    ) -> Self {
        let until = deadline(sent_at, ttl);
        let terms = watch::Sender::new(Terms {
            deadline: max_until.map_or(until, |max| until.min(max)),
            ttl,
            max_until,
            extension_failed: false,
            risk_was_told: false,
            taken: false,
            end: None,
            release: None,
        });
        Self { name, owner, token, clock, process: std::process::id(), terms }
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.owner
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn deadline(&self) -> BootTime {
        self.terms.borrow().deadline
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.terms.borrow().ttl
    }

    /// Moves the deadline after a yes to what was sent at `sent_at`. False when the yes came too late to count.
    pub(crate) fn extend(&self, sent_at: BootTime, ttl: Duration) -> bool {
        let mut extended = false;
        self.terms.send_modify(|terms| {
            extended = self.clock.now() < terms.deadline && !matches!(terms.end, Some(End::Lost(_)));
            if extended {
                let until = deadline(sent_at, ttl).max(terms.deadline);
                terms.deadline = terms.max_until.map_or(until, |max| until.min(max));
                terms.ttl = ttl;
                (terms.extension_failed, terms.risk_was_told) = (false, false);
            }
        });
        extended
    }

    /// Notes a failed extension. True when the lease is at risk by now, and that was not told before.
    pub(crate) fn extension_failed(&self) -> bool {
        let mut news = false;
        self.terms.send_modify(|terms| {
            terms.extension_failed = true;
            news = terms.state(self.clock.now()) == LeaseState::AtRisk && !terms.risk_was_told;
            terms.risk_was_told |= news;
        });
        news
    }

    /// Notes that somebody has the guard: from here on a release is theirs.
    pub(crate) fn take(&self) {
        self.terms.send_modify(|terms| terms.taken = true);
    }

    pub(crate) fn was_taken(&self) -> bool {
        self.terms.borrow().taken
    }

    /// Ends the lease, if nothing has ended it before. The loss, if it was or is now lost.
    pub(crate) fn end(&self, end: End) -> Option<LossReason> {
        let (mut news, mut loss) = (false, None);
        self.terms.send_modify(|terms| {
            if terms.end.is_none() {
                // What comes too late, a release or another loss, does not change what the deadline has decided: whoever
                // looked in between was told so.
                terms.end = Some(terms.loss(self.clock.now()).map_or(end, End::Lost));
                news = true;
            }
            loss = terms.loss(self.clock.now());
        });
        if let (true, Some(reason)) = (news, loss) {
            let (name, token) = (&self.name, self.token.as_u64());
            tracing::event!(name: "lock.lost", tracing::Level::WARN, %name, owner = %self.owner, token, %reason, "lock lost");
        }
        loss
    }

    /// Notes what came of giving the grant back.
    pub(crate) fn note_release(&self, release: &Result<Release>) {
        self.terms.send_modify(|terms| terms.release = Some(release.clone()));
    }

    /// What came of giving the grant back, as it is known once the keeper has come to its end.
    pub(crate) fn release(&self) -> Result<Release> {
        match &self.terms.borrow().release {
            Some(Ok(_)) => Ok(Release::NotHeld),
            Some(Err(error)) => Err(error.clone()),
            None => {
                let message = format!(
                    "lock {:?} was not given back: the client's runtime was shut down, or its backend panicked; it ends by its ttl",
                    self.name
                );
                Err(Error::new(ErrorKind::Closed, message))
            }
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state(), LeaseState::Held | LeaseState::AtRisk)
    }

    pub(crate) fn remaining(&self) -> Duration {
        if self.is_held() { self.deadline().since(self.clock.now()) } else { Duration::ZERO }
    }

    pub(crate) fn state(&self) -> LeaseState {
        if self.is_here() { self.terms.borrow().state(self.clock.now()) } else { LeaseState::Lost }
    }

    pub(crate) fn loss(&self) -> Option<LossReason> {
        if self.is_here() { self.terms.borrow().loss(self.clock.now()) } else { Some(LossReason::Abandoned) }
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Resolves when the lease is lost and somebody has noticed; never after a release.
    pub(crate) async fn lost(&self) -> LossReason {
        let mut terms = self.terms.subscribe();
        loop {
            terms.mark_unchanged();
            if let Some(reason) = self.loss() {
                return reason;
            }
            // The sender lives in `self`: it can't fail.
            let _ = terms.changed().await;
        }
    }

    /// Whether the lease has ended, in whatever way, and somebody has noticed.
    pub(crate) fn has_ended(&self) -> bool {
        self.terms.borrow().end.is_some()
    }

    /// Resolves when the lease [has ended](Self::has_ended).
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`: it can't fail.
        let _ = self.terms.subscribe().wait_for(|terms| terms.end.is_some()).await;
    }

    /// Resolves when the deadline has moved away from `known`, or the lease has ended.
    pub(crate) async fn deadline_moved(&self, known: BootTime) {
        let mut terms = self.terms.subscribe();
        // The sender lives in `self`: it can't fail.
        let _ = terms.wait_for(|terms| terms.deadline != known || terms.end.is_some()).await;
    }

    /// The error for a holder who asks for something after the end.
    pub(crate) fn ended_error(&self) -> Error {
        let why = self.loss().map_or_else(|| "it has been released".to_owned(), |reason| reason.to_string());
        Error::new(ErrorKind::Lost, format!("lock {:?} is not held any more: {why}", self.name))
    }
}

impl Terms {
    /// Time alone decides, whether or not anybody was there to notice.
    fn loss(&self, now: BootTime) -> Option<LossReason> {
        match self.end {
            Some(End::Lost(reason)) => Some(reason),
            Some(End::Released) => None,
            None if now < self.deadline => None,
            None if self.max_until == Some(self.deadline) => Some(LossReason::MaxHold),
            None => Some(LossReason::Expired),
        }
    }

    fn state(&self, now: BootTime) -> LeaseState {
        match self.end {
            _ if self.loss(now).is_some() => LeaseState::Lost,
            Some(_) => LeaseState::Released,
            None if self.extension_failed && self.deadline.since(now) < self.ttl / 2 => LeaseState::AtRisk,
            None => LeaseState::Held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_has_a_copy_that_is_lost() {
        let (clock, ttl) = (Clock::system(), Duration::from_secs(30));
        let identity = (LockName::new("a").unwrap(), OwnerId::random(), FencingToken::MAX);
        let mut record = Record::new(identity, clock.clone(), (clock.now(), ttl), None);
        assert!(record.is_held() && record.remaining() > Duration::ZERO);
        record.process += 1;
        assert!(!record.is_held() && record.remaining().is_zero());
        assert_eq!((record.state(), record.loss()), (LeaseState::Lost, Some(LossReason::Abandoned)));
    }

    #[test]
    fn nothing_is_left_of_a_ttl_that_the_allowances_eat() {
        let sent_at = BootTime::from_boot(Duration::from_secs(1));
        assert_eq!(deadline(sent_at, Duration::from_millis(2)), sent_at);
        assert_eq!(deadline(sent_at, Duration::from_secs(1)).since(sent_at), Duration::from_millis(996));
    }
}
