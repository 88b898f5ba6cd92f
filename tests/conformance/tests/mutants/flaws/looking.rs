//! What is shown is not what is there, or is changed by looking.
use std::collections::HashMap;
use std::time::Duration;

use lock_core::{Attempt, Backend, Claim, Extension, Grant, Holder, LockName, Page, Release, Result, async_trait};
use tokio::time::Instant;

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    ShowsTheKeyForTheName: "looking::a_holder_is_shown_with_what_it_said_of_itself",
    ExtendsByLooking: "looking::what_is_left_is_shown_and_falls",
    KeepsNothingForMoreThanTenMinutes: "looking::what_is_left_of_the_longest_ttl_is_shown",
    ShowsTheEndOfTheGrantAsItWasMade: "looking::what_is_left_after_an_extension_is_shown",
    ListsAllLocks: "looking::held_locks_are_listed_in_the_order_of_their_names",
    ListsByPattern: "looking::held_locks_are_listed_in_the_order_of_their_names",
    ListsInNoOrder: "looking::held_locks_are_listed_in_the_order_of_their_names",
    ListsByCollation: "looking::names_are_listed_in_the_order_of_their_bytes",
    ListsOnePage: "looking::many_held_locks_are_all_listed",
    ListsWhatRanOut: "looking::what_ran_out_is_not_listed",
    ListsTheLastNameAgain: "looking::a_listing_goes_on_after_a_name",
}

/// It does not take its own prefix off.
#[derive(Clone, Default)]
struct ShowsTheKeyForTheName;

#[async_trait]
impl Flaw for ShowsTheKeyForTheName {
    async fn inspect(&self, sound: &Remote, name: &LockName) -> Result<Option<Holder>> {
        let mut holder = sound.inspect(name).await?;
        if let Some(holder) = &mut holder {
            holder.name = LockName::new(format!("lock:{name}"))?;
        }
        Ok(holder)
    }
}

/// It takes the lock's lease up to read it, and that keeps it alive.
#[derive(Clone, Default)]
struct ExtendsByLooking(Notes<HashMap<LockName, Claim>>);

#[async_trait]
impl Flaw for ExtendsByLooking {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Granted(_)) {
            self.0.now().insert(claim.name.clone(), claim.clone());
        }
        Ok(attempt)
    }

    async fn inspect(&self, sound: &Remote, name: &LockName) -> Result<Option<Holder>> {
        let last = self.0.now().get(name).cloned();
        if let Some(claim) = last {
            sound.extend(&claim).await?;
        }
        sound.inspect(name).await
    }
}

/// It lists what its own prefix has, and takes nothing out.
#[derive(Clone, Default)]
struct ListsAllLocks;

#[async_trait]
impl Flaw for ListsAllLocks {
    async fn list(&self, sound: &Remote, _: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        sound.list("", after).await
    }
}

/// The prefix goes into a pattern of the service, with whatever it means there.
#[derive(Clone, Default)]
struct ListsByPattern;

#[async_trait]
impl Flaw for ListsByPattern {
    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let begins = prefix.split('*').next().unwrap_or_default();
        sound.list(begins, after).await
    }
}

/// It lists in the order in which the service found them.
#[derive(Clone, Default)]
struct ListsInNoOrder;

#[async_trait]
impl Flaw for ListsInNoOrder {
    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let mut page = sound.list(prefix, after).await?;
        page.items.reverse();
        Ok(page)
    }
}

/// The next page begins with the name that it should come after.
#[derive(Clone, Default)]
struct ListsTheLastNameAgain;

#[async_trait]
impl Flaw for ListsTheLastNameAgain {
    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let mut page = sound.list(prefix, after).await?;
        if let Some(name) = after {
            page.items.extend(sound.inspect(name).await?);
            page.items.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(page)
    }
}

/// The service has a limit for its leases, and the capabilities know of none.
#[derive(Clone, Default)]
struct KeepsNothingForMoreThanTenMinutes;

impl KeepsNothingForMoreThanTenMinutes {
    fn cuts(claim: &Claim) -> Claim {
        let mut cut = claim.clone();
        cut.ttl = claim.ttl.min(Duration::from_secs(600));
        cut
    }
}

#[async_trait]
impl Flaw for KeepsNothingForMoreThanTenMinutes {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        Ok(match sound.try_acquire(&Self::cuts(claim)).await? {
            Attempt::Granted(grant) => Attempt::Granted(Grant::new(grant.token, grant.ttl.max(claim.ttl))),
            contended => contended,
        })
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        Ok(match sound.extend(&Self::cuts(claim)).await? {
            Extension::Extended { ttl, .. } => Extension::extended(ttl.max(claim.ttl)),
            Extension::Lost => Extension::Lost,
        })
    }
}

/// It writes down when the lease will end, and only for who looks.
#[derive(Clone, Default)]
struct ShowsTheEndOfTheGrantAsItWasMade(Notes<HashMap<String, Instant>>);

#[async_trait]
impl Flaw for ShowsTheEndOfTheGrantAsItWasMade {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if let Attempt::Granted(grant) = &attempt {
            self.0.now().entry(claim.owner.to_string()).or_insert_with(|| Instant::now() + grant.ttl);
        }
        Ok(attempt)
    }

    async fn inspect(&self, sound: &Remote, name: &LockName) -> Result<Option<Holder>> {
        let holder = sound.inspect(name).await?;
        let ends = self.0.now();
        Ok(holder.map(|holder| match ends.get(&holder.owner) {
            Some(end) => holder.with_remaining(end.saturating_duration_since(Instant::now())),
            None => holder,
        }))
    }
}

/// It has the database sort, by the letters of a language.
#[derive(Clone, Default)]
struct ListsByCollation;

#[async_trait]
impl Flaw for ListsByCollation {
    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let mut page = sound.list(prefix, after).await?;
        page.items.sort_by_key(|holder| holder.name.as_str().to_lowercase());
        Ok(page)
    }
}

/// The service's answer has a limit, and nobody asks for the rest.
#[derive(Clone, Default)]
struct ListsOnePage;

#[async_trait]
impl Flaw for ListsOnePage {
    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let mut page = sound.list(prefix, after).await?;
        page.items.truncate(100);
        Ok(page)
    }
}

/// It lists the records that there are, and does not look at their end.
#[derive(Clone, Default)]
struct ListsWhatRanOut(Notes<HashMap<LockName, Claim>>);

#[async_trait]
impl Flaw for ListsWhatRanOut {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let attempt = sound.try_acquire(claim).await?;
        if matches!(attempt, Attempt::Granted(_)) {
            self.0.now().insert(claim.name.clone(), claim.clone());
        }
        Ok(attempt)
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        self.0.now().retain(|_, holder| holder.owner != claim.owner);
        sound.release(claim).await
    }

    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let mut page = sound.list(prefix, after).await?;
        for (name, claim) in self.0.now().iter().filter(|(name, _)| name.as_str().starts_with(prefix)) {
            if after.is_none_or(|after| name > after) && page.items.iter().all(|holder| holder.name != *name) {
                page.items.push(Holder::new(name.clone(), claim.owner.to_string()));
            }
        }
        page.items.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(page)
    }
}
