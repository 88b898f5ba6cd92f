//! What is shown is not what is there, or is changed by looking.
use std::collections::HashMap;

use lock_core::{Attempt, Backend, Claim, Holder, LockName, Page, Result, async_trait};

use crate::mutant::{Flaw, Notes, mutants};
use crate::remote::Remote;

mutants! {
    ShowsTheKeyForTheName: "looking::a_holder_is_shown_with_what_it_said_of_itself",
    ExtendsByLooking: "looking::what_is_left_is_shown_and_falls",
    ListsAllLocks: "looking::held_locks_are_listed_in_the_order_of_their_names",
    ListsByPattern: "looking::held_locks_are_listed_in_the_order_of_their_names",
    ListsInNoOrder: "looking::held_locks_are_listed_in_the_order_of_their_names",
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
