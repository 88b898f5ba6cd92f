//! A token is not above all those before it.
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_conformance::Service;
use lock_core::{
    Attempt, Backend, Capabilities, Claim, Contention, Extension, FencingToken, Holder, LockName, OwnerId, Release,
    Restart, Result, async_trait,
};

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    GivesAConstantToken: "8_tokens::tokens_rise_from_grant_to_grant",
    CountsInEachClient: "8_tokens::tokens_rise_from_grant_to_grant",
    CountsInARecordThatExpires: "8_tokens::tokens_rise_when_a_lease_ran_out",
    CountsInARecordThatIsForced: "8_tokens::tokens_rise_when_a_lock_was_taken_away",
    CountsOwnersAndNotGrants: "8_tokens::tokens_rise_when_a_claim_comes_back_after_its_end",
    TakesARevisionForAToken: "8_tokens::extending_keeps_the_token",
    IgnoresTheTokenSeen: "8_tokens::a_grant_is_above_the_highest_token_seen",
    ForgetsTheTokenSeen: "8_tokens::a_grant_is_above_the_highest_token_seen",
    ShowsTheNextToken: "8_tokens::the_holder_is_shown_with_its_token",
    RefusesWithTheNextToken: "8_tokens::a_refusal_tells_of_no_token_that_nobody_was_granted",
    CountsAnewAfterARestart: "8_tokens::tokens_rise_over_a_restart",
}

/// The attempt, with another token if it is granted.
fn with_token(attempt: Attempt, token: impl FnOnce(u64) -> u64) -> Result<Attempt> {
    Ok(match attempt {
        Attempt::Granted(mut grant) => {
            grant.token = FencingToken::new(token(grant.token.as_u64()))?;
            Attempt::Granted(grant)
        }
        contended => contended,
    })
}

/// The trait wants one, and the service has none.
#[derive(Clone, Default)]
struct GivesAConstantToken;

#[async_trait]
impl Flaw for GivesAConstantToken {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        with_token(sound.try_acquire(claim).await?, |_| 1)
    }
}

/// Each instance has a counter of its own.
#[derive(Clone, Default)]
struct CountsInEachClient(Notes<HashMap<OwnerId, u64>>);

#[async_trait]
impl Flaw for CountsInEachClient {
    fn opened(&self) -> Self {
        Self::default()
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        let mut counted = self.0.now();
        let next = counted.len() as u64 + 1;
        with_token(attempt, |_| *counted.entry(claim.owner).or_insert(next))
    }
}

/// A counter for each name, which somebody may lose.
#[derive(Clone, Default)]
struct Counters(Notes<HashMap<LockName, Counter>>);

#[derive(Clone, Default)]
struct Counter {
    owner: Option<OwnerId>,
    count: u64,
    outlives_its_grant: bool,
}

impl Counters {
    /// The owner's count, which is lost with the grant or not.
    fn counts(&self, claim: &Claim, outlives_its_grant: bool) -> u64 {
        let mut counters = self.0.now();
        let counter = counters.entry(claim.name.clone()).or_default();
        if counter.owner != Some(claim.owner) {
            let before = if counter.outlives_its_grant { counter.count } else { 0 };
            *counter = Counter { owner: Some(claim.owner), count: before + 1, outlives_its_grant };
        }
        counter.count
    }

    /// The counter of this name will be lost, or not.
    fn set(&self, name: &LockName, outlives_its_grant: bool) {
        self.0.now().entry(name.clone()).or_default().outlives_its_grant = outlives_its_grant;
    }
}

/// The counter is part of the lock's record: a release leaves it there, and the record's end does not.
#[derive(Clone, Default)]
struct CountsInARecordThatExpires(Counters);

#[async_trait]
impl Flaw for CountsInARecordThatExpires {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        with_token(sound.try_acquire(claim).await?, |_| self.0.counts(claim, false))
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        self.0.set(&claim.name, true);
        sound.release(claim).await
    }

    async fn force_release(&self, sound: &Remote, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.0.set(name, true);
        sound.force_release(name, only).await
    }
}

/// The counter is part of the lock's record, and the operator deletes all of it.
#[derive(Clone, Default)]
struct CountsInARecordThatIsForced(Counters);

#[async_trait]
impl Flaw for CountsInARecordThatIsForced {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        with_token(sound.try_acquire(claim).await?, |_| self.0.counts(claim, true))
    }

    async fn force_release(&self, sound: &Remote, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.0.set(name, false);
        sound.force_release(name, only).await
    }
}

/// The record's last revision and not its first: it rises with each extension.
#[derive(Clone, Default)]
struct TakesARevisionForAToken(Arc<AtomicU64>);

#[async_trait]
impl Flaw for TakesARevisionForAToken {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        with_token(sound.try_acquire(claim).await?, |token| token + self.0.load(Ordering::Relaxed))
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        self.0.fetch_add(1, Ordering::Relaxed);
        sound.extend(claim).await
    }
}

/// It counts on from what it has itself.
#[derive(Clone, Default)]
struct IgnoresTheTokenSeen;

#[async_trait]
impl Flaw for IgnoresTheTokenSeen {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let mut claim = claim.clone();
        claim.above = None;
        sound.try_acquire(&claim).await
    }
}

/// It takes the larger of its counter and what was seen, and counts on from its counter.
#[derive(Clone, Default)]
struct ForgetsTheTokenSeen;

#[async_trait]
impl Flaw for ForgetsTheTokenSeen {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let seen = claim.above.map_or(0, FencingToken::as_u64);
        with_token(IgnoresTheTokenSeen.try_acquire(sound, claim).await?, |token| token.max(seen + 1))
    }
}

/// It knows an owner again, and gives it the token that it had.
#[derive(Clone, Default)]
struct CountsOwnersAndNotGrants(Notes<HashMap<OwnerId, u64>>);

#[async_trait]
impl Flaw for CountsOwnersAndNotGrants {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        with_token(sound.try_acquire(claim).await?, |token| *self.0.now().entry(claim.owner).or_insert(token))
    }
}

/// It tells of the counter, which stands at the token to come.
#[derive(Clone, Default)]
struct RefusesWithTheNextToken;

#[async_trait]
impl Flaw for RefusesWithTheNextToken {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let mut attempt = sound.try_acquire(claim).await?;
        if let Attempt::Contended(Contention { token: Some(token), .. }) = &mut attempt {
            *token = FencingToken::new(token.as_u64() + 1)?;
        }
        Ok(attempt)
    }
}

/// It shows the counter, which stands at the token to come.
#[derive(Clone, Default)]
struct ShowsTheNextToken;

#[async_trait]
impl Flaw for ShowsTheNextToken {
    async fn inspect(&self, sound: &Remote, name: &LockName) -> Result<Option<Holder>> {
        let mut holder = sound.inspect(name).await?;
        if let Some(Holder { token: Some(token), .. }) = &mut holder {
            *token = FencingToken::new(token.as_u64() + 1)?;
        }
        Ok(holder)
    }
}

/// The counter is not on disk, and the capabilities say that it is.
#[derive(Clone, Default)]
struct CountsAnewAfterARestart {
    last: Arc<AtomicU64>,
    before_the_restart: Arc<AtomicU64>,
}

#[async_trait]
impl Flaw for CountsAnewAfterARestart {
    fn promises(&self, mut sound: Capabilities) -> Capabilities {
        sound.restart = Restart::Tokens;
        sound
    }

    fn behind(&self, service: Service) -> Service {
        let flaw = self.clone();
        service.with_restart(move || {
            flaw.before_the_restart.store(flaw.last.load(Ordering::Relaxed), Ordering::Relaxed);
            async {}
        })
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        with_token(sound.try_acquire(claim).await?, |token| {
            self.last.fetch_max(token, Ordering::Relaxed);
            token.saturating_sub(self.before_the_restart.load(Ordering::Relaxed)).max(1)
        })
    }
}
