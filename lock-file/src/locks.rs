use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use lock_core::{Attempt, Claim, Clock, Extension, FencingToken, Holder, LockName, Page, Release, Result, Watching};

use crate::changes::{Armed, Changes};
use crate::config::FileConfig;
use crate::directory_name::{Named, directory_name};
use crate::lock_directory::LockDirectory;
use crate::origin::Origin;
use crate::owners;
use crate::protocol::{self, Ask};
use crate::root::Root;
use crate::standing::Standing;
use crate::temporaries::Temporaries;

/// How many locks one answer of a listing has: each costs a few system calls.
const PAGE: usize = 256;

/// How often what killed processes left behind is looked for, in seconds.
const SWEEP: u64 = 15 * 60;

/// The locks of one directory, by system calls, which may block.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) config: FileConfig,
    pub(crate) changes: Changes,
    /// When the temporary files were last looked through, in seconds since the boot.
    swept: AtomicU64,
}

impl Locks {
    pub(crate) fn new(config: FileConfig) -> Self {
        Self { config, changes: Changes::default(), swept: AtomicU64::new(0) }
    }

    pub(crate) fn acquire(&self, claim: &Claim) -> Result<Attempt> {
        let root = Root::open_or_create(&self.config)?;
        self.sweep(&root)?;
        let directory = LockDirectory::open_or_create(&root, &claim.name)?;
        with_ask(claim, |ask| at_once(protocol::acquire(&directory, ask)))
    }

    pub(crate) fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.in_directory(&claim.name, Extension::Lost, |directory| {
            with_ask(claim, |ask| at_once(protocol::extend(directory, ask)))
        })
    }

    pub(crate) fn release(&self, claim: &Claim) -> Result<Release> {
        let released = self.in_directory(&claim.name, Release::NotHeld, |directory| {
            at_once(protocol::release(directory, claim, Origin::here()?))
        })?;
        // An extension that was left behind found that the claim is being released, and was the first to do it.
        Ok(if owners::take_ended(claim.owner) { Release::Released } else { released })
    }

    pub(crate) fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.in_directory(name, Release::NotHeld, |directory| {
            at_once(protocol::force_release(directory, name, only, Origin::here()?))
        })
    }

    pub(crate) fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.in_directory(name, None, |directory| holder(directory, Some(name)))
    }

    /// Watches the directory of a lock.
    pub(crate) fn arm(&self, name: &LockName) -> io::Result<Armed> {
        self.changes.arm(&self.config.directory().join(directory_name(name)))
    }

    /// Whether asking again may give another answer.
    pub(crate) fn has_come(&self, claim: &Claim, what: Watching) -> Result<bool> {
        self.in_directory(&claim.name, true, |directory| {
            let Some(seen) = at_once(protocol::look(directory))? else { return Ok(true) };
            let is_own = match seen.standing(Origin::here()?) {
                Standing::Free(_) => return Ok(true),
                Standing::Held(record, _) => record.is_granted_to(claim.owner),
                Standing::Unknown(_) => false,
            };
            Ok(is_own == (what == Watching::Turn))
        })
    }

    pub(crate) fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        let Some(root) = Root::open(&self.config)? else { return Ok(Page::last(Vec::new())) };
        let is_wanted = |name: &LockName| name.as_str().starts_with(prefix) && after.is_none_or(|after| name > after);
        let (mut names, mut with_long_names) = (Vec::new(), Vec::new());
        for directory in root.directories()? {
            match directory {
                Named::Lock(name) if is_wanted(&name) => names.push(name),
                // Only the records tell whether these are wanted.
                Named::Hashed(directory) => {
                    let holder = Self::holder_in(&root, directory, None);
                    with_long_names.extend(holder.filter(|holder| is_wanted(&holder.name)));
                }
                _ => {}
            }
        }
        names.sort_unstable();
        with_long_names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut with_long_names = with_long_names.into_iter().peekable();
        let mut items = Vec::new();
        for name in names {
            while let Some(earlier) = with_long_names.next_if(|holder| holder.name < name) {
                items.push(earlier);
            }
            if items.len() > PAGE {
                break;
            }
            items.extend(Self::holder_in(&root, directory_name(&name), Some(&name)));
        }
        items.extend(with_long_names);
        if items.len() <= PAGE {
            return Ok(Page::last(items));
        }
        items.truncate(PAGE);
        let last = items[PAGE - 1].name.clone();
        Ok(Page::and_more(items, last))
    }

    /// Who holds the lock of one directory among many. One that can't be read must not hide the others.
    fn holder_in(root: &Root<'_>, directory: String, name: Option<&LockName>) -> Option<Holder> {
        let found = LockDirectory::open(root, directory);
        let found = found.and_then(|found| found.map_or(Ok(None), |directory| holder(&directory, name)));
        found.unwrap_or_else(|error| name.map(|name| Holder::new(name.clone(), format!("unknown: {error}"))))
    }

    /// Does something in the directory of a lock, or gives `otherwise` where there is none.
    fn in_directory<T>(
        &self,
        name: &LockName,
        otherwise: T,
        act: impl FnOnce(&LockDirectory<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(root) = Root::open(&self.config)? else { return Ok(otherwise) };
        match LockDirectory::open(&root, directory_name(name))? {
            Some(directory) => act(&directory),
            None => Ok(otherwise),
        }
    }

    fn sweep(&self, root: &Root<'_>) -> Result<()> {
        let now = Clock::system().now().since_boot().as_secs().max(1);
        let last = self.swept.load(Ordering::Relaxed);
        if (last == 0 || now - last > SWEEP)
            && self.swept.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            Temporaries::open(root)?.sweep();
        }
        Ok(())
    }
}

/// Who holds the lock of this directory, as far as its records tell.
fn holder(directory: &LockDirectory<'_>, name: Option<&LockName>) -> Result<Option<Holder>> {
    let Some(seen) = at_once(protocol::look(directory))? else { return Ok(None) };
    Ok(match seen.standing(Origin::here()?) {
        Standing::Free(_) => None,
        Standing::Held(record, deadline) => record.holder(Some(deadline.since(seen.now))),
        Standing::Unknown(_) => match &seen.record {
            Ok(record) => record.holder(None),
            Err(damage) => name.map(|name| {
                let mut holder = Holder::new(name.clone(), format!("unknown, the record is damaged: {damage}"));
                holder.token = seen.generation.token().ok();
                holder
            }),
        },
    })
}

fn with_ask<T>(claim: &Claim, call: impl FnOnce(&Ask<'_>) -> Result<T>) -> Result<T> {
    let (released, ended) = (|| owners::is_released(claim.owner), || owners::note_ended(claim.owner));
    call(&Ask { claim, origin: Origin::here()?, released: &released, ended: &ended })
}

/// The output of steps that never wait, since they are system calls.
fn at_once<T>(steps: impl Future<Output = T>) -> T {
    match pin!(steps).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("no step on disk waits"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_release_says_that_the_lock_was_held_also_when_an_extension_has_ended_it_before() {
        let directory = tempfile::tempdir().unwrap();
        let locks = Locks::new(FileConfig::new(directory.path()));
        let mut claim = Claim::new(LockName::new("a").unwrap(), Duration::from_secs(60));
        assert!(matches!(locks.acquire(&claim).unwrap(), Attempt::Granted(_)));
        // As when the extension is under way, and its future is dropped for the release.
        owners::mark_released(claim.owner);
        claim.ttl *= 2;
        assert_eq!(locks.extend(&claim).unwrap(), Extension::Lost);
        assert_eq!(locks.inspect(&claim.name).unwrap(), None);
        assert_eq!(locks.release(&claim).unwrap(), Release::Released);
        assert_eq!(locks.release(&claim).unwrap(), Release::NotHeld);
    }
}
