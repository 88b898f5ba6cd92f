//! The suite catches what it is for: each backend here is the memory backend with one flaw, and the case that names the flaw
//! must find it, by an answer that is wrong and not by waiting in vain.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_conformance::{Evidence, Outcome, Suite, cases};
use lock_core::{
    Attempt, Backend, Capabilities, Claim, Contention, Error, ErrorKind, Extension, FencingToken, Grant, Holder,
    LockName, MemoryBackend, Page, Release, Result, Watching, async_trait,
};

/// What is wrong with a [`Mutant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    GrantsAlways,
    FoldsCase,
    PromisesTwiceTheTtl,
    NeverExpires,
    AddsExtensionsUp,
    ForgetsItsOwnGrant,
    ShortensByALateCall,
    RevivesByExtending,
    LandsAfterTheRelease,
    ReleasesNothing,
    ReleasesWhateverIsHeld,
    KeepsAPlaceForARefusedTry,
    GivesEveryGrantTheSameToken,
    IgnoresTheTokenSeen,
    ReportsContentionAsAnError,
}

#[derive(Clone, Debug)]
struct Mutant {
    flaw: Flaw,
    memory: MemoryBackend,
    /// Tokens of grants that memory knows nothing of.
    tokens: Arc<AtomicU64>,
}

const HOUR: Duration = Duration::from_secs(3600);

impl Mutant {
    fn new(flaw: Flaw) -> Self {
        Self { flaw, memory: MemoryBackend::new(), tokens: Arc::new(AtomicU64::new(1)) }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// The claim as the flawed backend takes it.
    fn misread(&self, claim: &Claim) -> Result<Claim> {
        let mut claim = claim.clone();
        match self.flaw {
            Flaw::FoldsCase => claim.name = LockName::new(claim.name.as_str().to_lowercase())?,
            Flaw::NeverExpires => claim.ttl = HOUR,
            Flaw::KeepsAPlaceForARefusedTry => claim.may_queue = true,
            Flaw::IgnoresTheTokenSeen => claim.above = None,
            Flaw::LandsAfterTheRelease => claim.unsure = false,
            _ => {}
        }
        Ok(claim)
    }

    /// A token that memory has not given, above the one that the claim has seen.
    fn token_of_its_own(&self, claim: &Claim) -> Result<FencingToken> {
        self.tokens.fetch_max(claim.above.map_or(1 << 40, FencingToken::as_u64), Ordering::Relaxed);
        FencingToken::new(self.tokens.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets the grant, if it is this claim's, live for just `ttl` from now.
    async fn set_ttl(&self, claim: &Claim, ttl: Duration) -> Result<Extension> {
        let mut again = claim.clone();
        again.ttl = ttl;
        if self.memory.extend(claim).await? == Extension::Lost {
            return Ok(Extension::Lost);
        }
        self.memory.release(claim).await?;
        self.memory.try_acquire(&again).await?;
        Ok(Extension::extended(ttl))
    }

    /// Asks over a slow network: what was sent arrives, also when the caller has given up.
    async fn ask_slowly(&self, claim: Claim) -> Result<Attempt> {
        let memory = self.memory.clone();
        let arriving = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            memory.try_acquire(&claim).await
        });
        arriving.await.expect("memory does not panic")
    }

    fn answered_ttl(&self, asked: Duration, granted: Duration) -> Duration {
        match self.flaw {
            Flaw::PromisesTwiceTheTtl => granted * 2,
            Flaw::NeverExpires => asked,
            _ => granted,
        }
    }
}

#[async_trait]
impl Backend for Mutant {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let read = self.misread(claim)?;
        if self.has(Flaw::ForgetsItsOwnGrant) && claim.unsure {
            let holder = self.memory.inspect(&read.name).await?;
            if holder.is_some_and(|holder| holder.owner == claim.owner.to_string()) {
                return Ok(Attempt::Contended(Contention::new()));
            }
        }
        let attempt = match self.flaw {
            Flaw::LandsAfterTheRelease => self.ask_slowly(read).await?,
            _ => self.memory.try_acquire(&read).await?,
        };
        match attempt {
            Attempt::Granted(mut grant) => {
                grant.ttl = self.answered_ttl(claim.ttl, grant.ttl);
                if self.has(Flaw::GivesEveryGrantTheSameToken) {
                    grant.token = FencingToken::new(1)?;
                }
                Ok(Attempt::Granted(grant))
            }
            Attempt::Contended(_) if self.has(Flaw::GrantsAlways) => {
                Ok(Attempt::Granted(Grant::new(self.token_of_its_own(claim)?, claim.ttl)))
            }
            Attempt::Contended(_) if self.has(Flaw::ReportsContentionAsAnError) => {
                Err(Error::new(ErrorKind::Unavailable, "somebody else has it"))
            }
            contended => Ok(contended),
        }
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        let read = self.misread(claim)?;
        if self.has(Flaw::ShortensByALateCall) {
            return self.set_ttl(&read, claim.ttl).await;
        }
        if self.has(Flaw::AddsExtensionsUp) {
            let holder = self.memory.inspect(&read.name).await?;
            let left = holder.and_then(|holder| holder.remaining).unwrap_or_default();
            let mut more = read.clone();
            more.ttl += left;
            return self.memory.extend(&more).await;
        }
        match self.memory.extend(&read).await? {
            Extension::Extended { ttl, .. } => Ok(Extension::extended(self.answered_ttl(claim.ttl, ttl))),
            Extension::Lost if self.has(Flaw::RevivesByExtending) => match self.memory.try_acquire(&read).await? {
                Attempt::Granted(grant) => Ok(Extension::extended(grant.ttl)),
                Attempt::Contended(_) => Ok(Extension::Lost),
            },
            Extension::Lost => Ok(Extension::Lost),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let read = self.misread(claim)?;
        if self.has(Flaw::ReleasesNothing) {
            return Ok(Release::Released);
        }
        let released = self.memory.release(&read).await?;
        if released == Release::NotHeld && self.has(Flaw::ReleasesWhateverIsHeld) {
            return self.memory.force_release(&read.name, None).await;
        }
        Ok(released)
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.memory.inspect(name).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        if let Ok(read) = self.misread(claim) {
            self.memory.watch(&read, what).await;
        }
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.memory.force_release(name, only).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        self.memory.list(prefix, after).await
    }
}

/// The flaws, and the case that names each.
const TABLE: &[(Flaw, &str)] = &[
    (Flaw::GrantsAlways, "1_exclusion::a_second_owner_is_refused_while_the_first_holds"),
    (Flaw::FoldsCase, "1_exclusion::names_that_are_almost_the_same_are_independent"),
    (Flaw::PromisesTwiceTheTtl, "2_floor::a_grant_lives_as_long_as_promised"),
    (Flaw::NeverExpires, "3_ceiling::a_grant_ends_of_itself"),
    (Flaw::AddsExtensionsUp, "3_ceiling::extensions_do_not_add_up"),
    (Flaw::ForgetsItsOwnGrant, "4_idempotence::a_lost_answer_is_found_by_asking_again"),
    (Flaw::ShortensByALateCall, "4_idempotence::an_extension_by_less_shortens_nothing"),
    (Flaw::RevivesByExtending, "5_no_resurrection::an_extension_after_the_end_is_lost"),
    (Flaw::LandsAfterTheRelease, "5_no_resurrection::an_ask_given_up_at_any_point_does_not_land_after_the_release"),
    (Flaw::ReleasesNothing, "1_exclusion::a_released_lock_can_be_had_at_once"),
    (Flaw::ReleasesWhateverIsHeld, "6_own_only::a_late_release_leaves_the_successor_alone"),
    (Flaw::KeepsAPlaceForARefusedTry, "7_no_trace::refused_tries_leave_nothing_behind"),
    (Flaw::GivesEveryGrantTheSameToken, "8_tokens::tokens_rise_from_grant_to_grant"),
    (Flaw::IgnoresTheTokenSeen, "8_tokens::a_grant_is_above_the_highest_token_seen"),
    (Flaw::ReportsContentionAsAnError, "10_honest_errors::contention_is_an_answer"),
];

fn run(flaw: Flaw, name: &str) -> Outcome {
    let mutant = Mutant::new(flaw);
    let case = cases().find(|case| case.name() == name).unwrap_or_else(|| panic!("{name} is no case"));
    Suite::new(format!("{flaw:?}"), move || mutant.clone()).outcome(case)
}

#[test]
fn every_flaw_is_caught_by_the_case_that_names_it() {
    let running = TABLE.iter().map(|(flaw, name)| (flaw, name, std::thread::spawn(|| run(*flaw, name))));
    let mut missed = Vec::new();
    for (flaw, name, outcome) in running.collect::<Vec<_>>() {
        match outcome.join().unwrap() {
            Outcome::Failed(failure) if failure.evidence == Evidence::Answer => {
                assert!(failure.at.is_some() && !failure.story.is_empty(), "{failure}");
                println!("{:<28} {name}\n{:28} {}", format!("{flaw:?}"), "", failure.message);
            }
            other => missed.push(format!("{flaw:?} by {name}: {other:?}")),
        }
    }
    assert!(missed.is_empty(), "not caught:\n{}", missed.join("\n"));
}

/// Else the stress would prove nothing.
#[test]
fn the_history_of_a_backend_that_grants_always_is_not_sound() {
    match run(Flaw::GrantsAlways, "stress::the_history_of_a_crowd_is_sound") {
        Outcome::Failed(failure) if failure.message.contains("two held one lock at the same time") => {}
        other => panic!("{other:?}"),
    }
}
