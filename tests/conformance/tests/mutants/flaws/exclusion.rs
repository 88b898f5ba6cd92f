//! Two hold one lock, or one lock is taken for another.
use lock_core::{
    Attempt, Backend, Claim, Contention, Extension, FencingToken, Grant, OwnerId, Release, Result, async_trait,
};

use crate::mutant::{Flaw, mutants};
use crate::remote::Remote;

mutants! {
    GrantsAlways: "1_exclusion::a_second_owner_is_refused_while_the_first_holds",
    TakesAClientForAnOwner: "1_exclusion::two_owners_of_one_client_exclude_each_other",
    LooksAndThenGrants: "1_exclusion::of_many_who_ask_at_once_no_two_are_granted",
    GrantsAlways: "stress::the_history_of_a_crowd_is_sound",
    ReleasesNothing: "1_exclusion::a_released_lock_can_be_had_at_once",
    HoldsALockBackAfterItsRelease: "1_exclusion::a_released_lock_can_be_had_at_once",
    FoldsCase: "1_exclusion::names_that_are_almost_the_same_are_independent",
    CutsNames: "1_exclusion::names_that_are_almost_the_same_are_independent",
    ComposesNames: "1_exclusion::names_that_are_almost_the_same_are_independent",
    DecodesNames: "1_exclusion::names_that_are_almost_the_same_are_independent",
    TakesNamesForPaths: "1_exclusion::names_that_are_almost_the_same_are_independent",
    FoldsAccents: "1_exclusion::names_that_are_almost_the_same_are_independent",
    DecodesPlus: "1_exclusion::names_that_are_almost_the_same_are_independent",
    CutsAtHash: "1_exclusion::names_that_are_almost_the_same_are_independent",
    TakesAHashForTheName: "1_exclusion::names_that_are_almost_the_same_are_independent",
    RefusesBelowAHeldPrefix: "1_exclusion::names_that_are_almost_the_same_are_independent",
    ReleasesAllBelowAPrefix: "1_exclusion::names_that_are_almost_the_same_are_independent",
}

/// A token that no grant of memory has.
fn token_of_its_own(claim: &Claim) -> Result<FencingToken> {
    FencingToken::new(claim.above.map_or(1 << 40, FencingToken::as_u64) + 1)
}

/// It never says no.
#[derive(Clone, Default)]
struct GrantsAlways;

#[async_trait]
impl Flaw for GrantsAlways {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        match sound.try_acquire(claim).await? {
            Attempt::Contended(_) => Ok(Attempt::Granted(Grant::new(token_of_its_own(claim)?, claim.ttl))),
            granted => Ok(granted),
        }
    }
}

/// One owner for each connection, so that a client's tasks do not exclude each other.
#[derive(Clone, Default)]
struct TakesAClientForAnOwner(Option<OwnerId>);

impl TakesAClientForAnOwner {
    fn as_the_client(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        claim.owner = self.0.unwrap_or(claim.owner);
        claim
    }
}

#[async_trait]
impl Flaw for TakesAClientForAnOwner {
    fn opened(&self) -> Self {
        Self(Some(OwnerId::random()))
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        sound.try_acquire(&self.as_the_client(claim)).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        sound.extend(&self.as_the_client(claim)).await
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        sound.release(&self.as_the_client(claim)).await
    }
}

/// It reads that the lock is free, and writes itself down as the holder, in two steps.
#[derive(Clone, Default)]
struct LooksAndThenGrants;

#[async_trait]
impl Flaw for LooksAndThenGrants {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        if sound.inspect(&claim.name).await?.is_some() {
            return sound.try_acquire(claim).await;
        }
        GrantsAlways.try_acquire(sound, claim).await
    }
}

/// Its deletion never gets through, and nobody looks at the answer.
#[derive(Clone, Default)]
struct ReleasesNothing;

#[async_trait]
impl Flaw for ReleasesNothing {
    async fn release(&self, _: &Remote, _: &Claim) -> Result<Release> {
        Ok(Release::Released)
    }
}

/// A delay after each release, as some services have it by default, for holders that do not know yet that they lost.
#[derive(Clone, Default)]
struct HoldsALockBackAfterItsRelease;

#[async_trait]
impl Flaw for HoldsALockBackAfterItsRelease {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        let released = sound.release(claim).await?;
        if released == Release::Released {
            sound.try_acquire(&Claim::new(claim.name.clone(), claim.ttl / 10)).await?;
        }
        Ok(released)
    }
}

/// A file system or a collation that does not tell upper from lower case.
#[derive(Clone, Default)]
struct FoldsCase;

impl Flaw for FoldsCase {
    fn reads(&self, name: &str) -> String {
        name.to_lowercase()
    }
}

/// A column of 64 bytes.
#[derive(Clone, Default)]
struct CutsNames;

impl Flaw for CutsNames {
    fn reads(&self, name: &str) -> String {
        name[..name.floor_char_boundary(64)].to_owned()
    }
}

/// A file system that composes letters and accents.
#[derive(Clone, Default)]
struct ComposesNames;

impl Flaw for ComposesNames {
    fn reads(&self, name: &str) -> String {
        name.replace("e\u{301}", "\u{e9}")
    }
}

/// It escapes names in URLs, and forgets to escape the escape.
#[derive(Clone, Default)]
struct DecodesNames;

impl Flaw for DecodesNames {
    fn reads(&self, name: &str) -> String {
        name.replace("%2F", "/")
    }
}

/// A tree of nodes or directories, in which two slashes are one.
#[derive(Clone, Default)]
struct TakesNamesForPaths;

impl Flaw for TakesNamesForPaths {
    fn reads(&self, name: &str) -> String {
        name.replace("//", "/")
    }
}

/// A collation that does not tell letters with and without accents apart.
#[derive(Clone, Default)]
struct FoldsAccents;

impl Flaw for FoldsAccents {
    fn reads(&self, name: &str) -> String {
        name.replace('\u{e9}', "e").replace('\u{df}', "s")
    }
}

/// It decodes names as a form's fields are decoded.
#[derive(Clone, Default)]
struct DecodesPlus;

impl Flaw for DecodesPlus {
    fn reads(&self, name: &str) -> String {
        name.replace('+', " ")
    }
}

/// A URL, whose fragment is not sent.
#[derive(Clone, Default)]
struct CutsAtHash;

impl Flaw for CutsAtHash {
    fn reads(&self, name: &str) -> String {
        name.split('#').next().filter(|cut| !cut.is_empty()).unwrap_or(name).to_owned()
    }
}

/// A lock of the service has a number and no name, and CRC-32 makes the one of the other.
#[derive(Clone, Default)]
struct TakesAHashForTheName;

impl Flaw for TakesAHashForTheName {
    fn reads(&self, name: &str) -> String {
        let crc = name.bytes().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
        });
        format!("{crc:08x}")
    }
}

/// It asks for the range that begins with the name, and takes the first key of it for the holder.
#[derive(Clone, Default)]
struct RefusesBelowAHeldPrefix;

#[async_trait]
impl Flaw for RefusesBelowAHeldPrefix {
    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        let held = sound.list(claim.name.as_str(), Some(&claim.name)).await?.items;
        match held.first() {
            Some(_) => Ok(Attempt::Contended(Contention::new())),
            None => sound.try_acquire(claim).await,
        }
    }
}

/// It deletes the range that begins with the name.
#[derive(Clone, Default)]
struct ReleasesAllBelowAPrefix;

#[async_trait]
impl Flaw for ReleasesAllBelowAPrefix {
    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        for holder in sound.list(claim.name.as_str(), Some(&claim.name)).await?.items {
            sound.force_release(&holder.name, None).await?;
        }
        sound.release(claim).await
    }
}
