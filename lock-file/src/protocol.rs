//! The steps of every call. Their order is the protocol.
//!
//! A lock is a directory of records, one per generation, of which the highest counts. Nobody waits inside an operating
//! system's lock; two that act at once meet in one of three atomic steps: a name is linked once, a name is replaced as a
//! whole, and one digit says that a record is free. Everything else is an order in which to look:
//!
//! - The clock is read before the record. Who reads a deadline that has passed by an earlier look at the clock knows that no
//!   extension came before that look; and an extension counts only if its clock, read after it took effect, is still before
//!   the old deadline. So never both.
//! - After a record is linked, the directory is listed again: somebody slow may have linked a name that was long used and
//!   removed. Whoever is not the highest then steps back.
//! - Then the predecessor is looked at again: it must be the very file that was read. A listing is no snapshot where it takes
//!   several system calls: of a directory in which others add and remove, it may miss the highest. But they remove the lowest
//!   first, so whoever was missed has removed the predecessor before.
//! - The highest record is never removed, so its generation, the token, is never given out twice.
//!
//! The steps are `async` for one reason: a test runs this very code over a directory in memory and stops it between any two
//! of them, in every possible order. On disk no step waits.

use lock_core::{
    Attempt, BootTime, Claim, Contention, Error, ErrorKind, Extension, FencingToken, Grant, LockName, OwnerId, Release,
    Result,
};

use crate::generation::Generation;
use crate::origin::Origin;
use crate::record::{Damage, Record};
use crate::standing::{Seen, Standing};

/// How often a call starts over. Each time somebody else has got on, so that this many times say that they are many.
const ROUNDS: usize = 16;

/// The directory of one lock, as far as the steps need it.
pub(crate) trait Directory {
    /// An opened record. While it is open, no other file is given its inode number.
    type File;

    /// The generations that are there, in order.
    async fn list(&self) -> Result<Vec<Generation>>;

    /// The moment on the clock that all records are dated by.
    async fn now(&self) -> BootTime;

    /// Reads a record, unless it is gone.
    async fn open(&self, generation: Generation) -> Result<Option<(Self::File, Result<Record, Damage>)>>;

    /// Puts a complete record, which is on disk, under its name, unless the name is taken.
    async fn link(&self, record: &Record) -> Result<bool>;

    /// Puts a complete record, which is on disk, under its name in place of the one that is there.
    async fn replace(&self, record: &Record) -> Result<()>;

    /// Whether the name of this generation still leads to `file`.
    async fn leads_to(&self, generation: Generation, file: &Self::File) -> Result<bool>;

    /// Says in the record of this generation that it is free, if it is this owner's; whether it was and held.
    async fn free(&self, generation: Generation, owner: OwnerId) -> Result<bool>;

    /// Makes the names on disk what they are here; with `itself`, also the directory's own name.
    async fn persist(&self, itself: bool) -> Result<()>;

    /// Removes a record that counts no more, if that is possible.
    async fn remove(&self, generation: Generation);
}

/// Who asks, and from where.
pub(crate) struct Ask<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) origin: &'a Origin,
    /// Whether the claim has been released meanwhile.
    pub(crate) released: &'a dyn Fn() -> bool,
    /// Told when the call has ended a grant in the place of that release.
    pub(crate) ended: &'a dyn Fn(),
}

/// Looks at the highest record; `None` when there is none at all.
pub(crate) async fn look<D: Directory>(directory: &D) -> Result<Option<Seen<D::File>>> {
    for _ in 0..ROUNDS {
        let Some(generation) = directory.list().await?.pop() else { return Ok(None) };
        let now = directory.now().await;
        // A record goes away when a higher one has come.
        if let Some((file, record)) = directory.open(generation).await? {
            return Ok(Some(Seen { generation, now, record, file }));
        }
    }
    Err(restless())
}

/// Takes the lock if the way is free.
pub(crate) async fn acquire<D: Directory>(directory: &D, ask: &Ask<'_>) -> Result<Attempt> {
    let Ask { claim, origin, released, .. } = *ask;
    for _ in 0..ROUNDS {
        let Some(seen) = look(directory).await? else {
            // Where several do it at once, one succeeds.
            let first = Record::free(&claim.name, Generation::FIRST, Generation::FIRST.next(), origin);
            directory.link(&first).await?;
            continue;
        };
        let predecessor = match seen.standing(origin) {
            Standing::Held(record, deadline) => {
                let (left, token) = (deadline.since(seen.now), seen.generation.token()?);
                if !record.is_granted_to(claim.owner) {
                    return Ok(Attempt::Contended(Contention::new().with_retry_after(left).with_token(token)));
                }
                if claim.unsure {
                    // The call that took it may have failed before it had done this.
                    directory.persist(true).await?;
                }
                return Ok(Attempt::Granted(Grant::new(token, left)));
            }
            Standing::Unknown(why) => return Err(unknown(&why)),
            Standing::Free(record) => record,
        };
        let next = predecessor.next;
        let token = next.token()?;
        if let Some(above) = claim.above.filter(|above| *above >= token) {
            // One may not just take a higher number: the next name is where all who ask must meet.
            let higher = Generation(above.as_u64()).next();
            higher.token()?;
            directory.link(&Record::free(&claim.name, next, higher, origin)).await?;
            continue;
        }
        if released() {
            return Err(already_released());
        }
        if !directory.link(&Record::granted(next, claim, seen.now, origin)).await? {
            continue;
        }
        // From here on an error no longer means that nothing happened.
        let settled = settle(directory, &seen, next).await;
        if matches!(settled, Ok(true)) && !released() {
            return Ok(Attempt::Granted(Grant::new(token, claim.ttl)));
        }
        directory.free(next, claim.owner).await.map_err(in_doubt)?;
        settled.map_err(in_doubt)?;
    }
    Ok(Attempt::Contended(Contention::new()))
}

/// Whether the record just linked is the highest and its predecessor the one that was read: only then it is a grant. It is on
/// disk then, and what lies below is gone.
async fn settle<D: Directory>(directory: &D, seen: &Seen<D::File>, own: Generation) -> Result<bool> {
    let mut listed = directory.list().await?;
    if listed.pop() != Some(own) || !directory.leads_to(seen.generation, &seen.file).await? {
        return Ok(false);
    }
    // The first record is removed only after the directory's own name has been on disk.
    let itself = listed.first() == Some(&Generation::FIRST);
    directory.persist(itself).await?;
    for lower in listed {
        directory.remove(lower).await;
    }
    Ok(true)
}

/// Lets the grant live for another ttl.
pub(crate) async fn extend<D: Directory>(directory: &D, ask: &Ask<'_>) -> Result<Extension> {
    let Ask { claim, origin, released, ended } = *ask;
    let Some(seen) = look(directory).await? else { return Ok(Extension::Lost) };
    let old_deadline = match seen.standing(origin) {
        Standing::Held(record, deadline) if record.is_granted_to(claim.owner) => deadline,
        _ => return Ok(Extension::Lost),
    };
    let left = old_deadline.since(seen.now);
    if claim.ttl <= left {
        return Ok(Extension::extended(left));
    }
    directory.replace(&Record::granted(seen.generation, claim, seen.now, origin)).await?;
    let in_time = directory.now().await < old_deadline;
    let is_highest = directory.list().await.map_err(in_doubt)?.last() == Some(&seen.generation);
    let is_extended = in_time && is_highest;
    if is_extended && !released() {
        return Ok(Extension::extended(claim.ttl));
    }
    if directory.free(seen.generation, claim.owner).await.map_err(in_doubt)? && is_extended {
        ended();
    }
    Ok(Extension::Lost)
}

/// Ends the claim's grant.
pub(crate) async fn release<D: Directory>(directory: &D, claim: &Claim, origin: &Origin) -> Result<Release> {
    let Some(seen) = look(directory).await? else { return Ok(Release::NotHeld) };
    if !seen.record.as_ref().is_ok_and(|record| record.is_granted_to(claim.owner)) {
        return Ok(Release::NotHeld);
    }
    let is_held = matches!(seen.standing(origin), Standing::Held(..));
    // Also where it has run out: a call that was stopped half-way may yet have made it live again.
    let freed = directory.free(seen.generation, claim.owner).await?;
    Ok(if is_held && freed { Release::Released } else { Release::NotHeld })
}

/// Takes the lock away: the next generation is nobody's, and whoever had the last one finds it above.
pub(crate) async fn force_release<D: Directory>(
    directory: &D,
    name: &LockName,
    only: Option<FencingToken>,
    origin: &Origin,
) -> Result<Release> {
    for _ in 0..ROUNDS {
        let Some(seen) = look(directory).await? else { return Ok(Release::NotHeld) };
        let next = match seen.standing(origin) {
            Standing::Free(_) => return Ok(Release::NotHeld),
            Standing::Held(record, _) => record.next,
            // What the files don't tell only a person can know, and has said so.
            Standing::Unknown(_) => seen.generation.next(),
        };
        if only.is_some_and(|only| only.as_u64() != seen.generation.0) {
            return Ok(Release::NotHeld);
        }
        next.token()?;
        // Once it is there, the grant that was seen is over: this record ended it, or an earlier one above.
        if directory.link(&Record::free(name, next, next.next(), origin)).await? {
            return Ok(Release::Released);
        }
    }
    Err(restless())
}

fn already_released() -> Error {
    Error::new(ErrorKind::Unexpected, "this claim has been released: a new try needs a new owner")
}

fn unknown(why: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("{why}; if its holder is gone, release the lock by force"))
}

fn in_doubt(error: Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("it is not known whether the lock was taken: {error}"))
        .with_source(error)
}

fn restless() -> Error {
    Error::new(ErrorKind::Unavailable, format!("the lock changed hands {ROUNDS} times within one call; try again"))
}

#[cfg(test)]
mod interleavings;
