use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use lock_core::{BootTime, LockName, OwnerId, Result};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use crate::directory_name::directory_name;
use crate::failure::failed;
use crate::generation::Generation;
use crate::protocol::Directory;
use crate::record::{Damage, FREE, HELD_AT, LONGEST, Record};
use crate::root::{DIRECTORY, Root};
use crate::temporaries::Temporaries;

/// What a record usually fits in, so that it is read at once.
const USUAL: usize = 1024;

/// The directory of one lock on disk.
#[derive(Debug)]
pub(crate) struct LockDirectory<'a> {
    root: &'a Root<'a>,
    name: String,
    /// Read from its start at each listing.
    entries: RefCell<Dir>,
}

impl<'a> LockDirectory<'a> {
    /// Opens the directory of a lock, and makes it if there is none.
    pub(crate) fn open_or_create(root: &'a Root<'a>, name: &LockName) -> Result<Self> {
        if let Some(directory) = Self::open(root, directory_name(name))? {
            return Ok(directory);
        }
        Temporaries::open(root)?.directory(&directory_name(name))?;
        let directory = Self::open(root, directory_name(name))?;
        directory.ok_or_else(|| failed("open", &root.path().join(directory_name(name)), Errno::ENOENT))
    }

    /// Opens the directory with this name; `None` when there is none.
    pub(crate) fn open(root: &'a Root<'a>, name: String) -> Result<Option<Self>> {
        match Dir::openat(root, name.as_str(), DIRECTORY, Mode::empty()) {
            Ok(entries) => Ok(Some(Self { root, name, entries: RefCell::new(entries) })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(failed("open", &root.path().join(name), errno)),
        }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join(&self.name)
    }

    fn path_of(&self, generation: Generation) -> PathBuf {
        self.path().join(generation.file_name())
    }

    fn open_file(&self, generation: Generation, access: OFlag) -> Result<Option<File>> {
        // A pipe in the place of a record must not stop the process.
        let flags = access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&*self.entries.borrow(), generation.file_name().as_str(), flags, Mode::empty()) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(failed("open", &self.path_of(generation), errno)),
        }
    }

    fn read(&self, file: &File, generation: Generation) -> Result<Result<Record, Damage>> {
        let failed = |error| failed("read", &self.path_of(generation), error);
        if !file.metadata().map_err(failed)?.is_file() {
            return Ok(Err(Damage("it is no regular file")));
        }
        let mut bytes = Vec::with_capacity(USUAL);
        file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Record::parse(&bytes).and_then(|record| {
            if directory_name(&record.name) != self.name {
                return Err(Damage("it is of a lock with another name"));
            }
            if record.generation != generation {
                return Err(Damage("it is of another generation"));
            }
            Ok(record)
        }))
    }
}

impl Directory for LockDirectory<'_> {
    type File = File;

    async fn list(&self) -> Result<Vec<Generation>> {
        let mut entries = self.entries.borrow_mut();
        let mut listed = Vec::new();
        for entry in entries.iter() {
            let entry = entry.map_err(|errno| failed("list", &self.path(), errno))?;
            listed.extend(Generation::of_file(entry.file_name().to_bytes()));
        }
        listed.sort_unstable();
        Ok(listed)
    }

    async fn now(&self) -> BootTime {
        self.root.clock().now()
    }

    async fn open(&self, generation: Generation) -> Result<Option<(File, Result<Record, Damage>)>> {
        let Some(file) = self.open_file(generation, OFlag::O_RDONLY)? else { return Ok(None) };
        let record = self.read(&file, generation)?;
        Ok(Some((file, record)))
    }

    async fn link(&self, record: &Record) -> Result<bool> {
        let temporaries = Temporaries::open(self.root)?;
        temporaries.link(&record.to_text(), &*self.entries.borrow(), &record.generation.file_name())
    }

    async fn replace(&self, record: &Record) -> Result<()> {
        let temporaries = Temporaries::open(self.root)?;
        temporaries.replace(&record.to_text(), &*self.entries.borrow(), &record.generation.file_name())
    }

    async fn leads_to(&self, generation: Generation, file: &File) -> Result<bool> {
        let failed = |error| failed("examine", &self.path_of(generation), error);
        let read = file.metadata().map_err(failed)?;
        let found = fstatat(&*self.entries.borrow(), generation.file_name().as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        match found {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (read.dev(), read.ino())),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    async fn free(&self, generation: Generation, owner: OwnerId) -> Result<bool> {
        // It is opened by its name, not kept open: only so the change is told to those who watch the directory.
        let Some(file) = self.open_file(generation, OFlag::O_RDWR)? else { return Ok(false) };
        let record = self.read(&file, generation)?;
        let is_held = |record: &Record| record.grant.as_ref().is_some_and(|grant| grant.owner == owner && grant.held);
        if !record.as_ref().is_ok_and(is_held) {
            return Ok(false);
        }
        // It needs no way to the disk: after a crash of the machine nobody holds what was held before.
        file.write_all_at(FREE, HELD_AT as u64).map_err(|error| failed("write", &self.path_of(generation), error))?;
        Ok(true)
    }

    async fn persist(&self, itself: bool) -> Result<()> {
        fsync(&*self.entries.borrow()).map_err(|errno| failed("sync", &self.path(), errno))?;
        if itself { self.root.persist() } else { Ok(()) }
    }

    async fn remove(&self, generation: Generation) {
        // In a shared directory only its owner can; others leave it for that one's next grant.
        let _ = unlinkat(&*self.entries.borrow(), generation.file_name().as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::Claim;
    use tempfile::TempDir;

    use super::*;
    use crate::config::FileConfig;
    use crate::origin::Origin;

    struct Lab {
        _temporary: TempDir,
        config: FileConfig,
        claim: Claim,
    }

    impl Lab {
        fn new() -> Self {
            let temporary = tempfile::tempdir().unwrap();
            let config = FileConfig::new(temporary.path());
            let claim = Claim::new(LockName::new("a").unwrap(), Duration::from_secs(30));
            Self { _temporary: temporary, config, claim }
        }

        fn root(&self) -> Root<'_> {
            Root::open_or_create(&self.config).unwrap()
        }

        fn record(&self, generation: u64) -> Record {
            let now = self.config.clock().now();
            Record::granted(Generation(generation), &self.claim, now, Origin::here().unwrap())
        }
    }

    #[tokio::test]
    async fn a_name_is_linked_once_and_a_record_reads_back() {
        let lab = Lab::new();
        let root = lab.root();
        let directory = LockDirectory::open_or_create(&root, &lab.claim.name).unwrap();
        let record = lab.record(7);
        assert!(directory.link(&record).await.unwrap());
        assert!(!directory.link(&lab.record(7)).await.unwrap());
        assert!(directory.link(&lab.record(3)).await.unwrap());
        assert_eq!(directory.list().await.unwrap(), [Generation(3), Generation(7)]);
        assert_eq!(directory.open(Generation(7)).await.unwrap().unwrap().1, Ok(record));
        assert!(directory.open(Generation(8)).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_name_leads_to_its_file_until_that_is_replaced_or_removed() {
        let lab = Lab::new();
        let root = lab.root();
        let directory = LockDirectory::open_or_create(&root, &lab.claim.name).unwrap();
        let (record, generation) = (lab.record(1), Generation(1));
        directory.link(&record).await.unwrap();
        let (file, _) = directory.open(generation).await.unwrap().unwrap();
        assert!(directory.leads_to(generation, &file).await.unwrap());
        // However many files come and go, none is taken for one that is still open.
        for _ in 0..20 {
            directory.replace(&record).await.unwrap();
            assert!(!directory.leads_to(generation, &file).await.unwrap());
        }
        directory.remove(generation).await;
        assert!(!directory.leads_to(generation, &file).await.unwrap());
    }

    #[tokio::test]
    async fn only_its_owner_frees_a_record_and_only_once() {
        let lab = Lab::new();
        let root = lab.root();
        let directory = LockDirectory::open_or_create(&root, &lab.claim.name).unwrap();
        directory.link(&lab.record(1)).await.unwrap();
        assert!(!directory.free(Generation(1), OwnerId::random()).await.unwrap());
        assert!(directory.free(Generation(1), lab.claim.owner).await.unwrap());
        assert!(!directory.free(Generation(1), lab.claim.owner).await.unwrap());
        assert!(!directory.free(Generation(2), lab.claim.owner).await.unwrap());
    }

    #[tokio::test]
    async fn nothing_is_done_in_a_directory_that_was_removed() {
        let lab = Lab::new();
        let root = lab.root();
        let directory = LockDirectory::open_or_create(&root, &lab.claim.name).unwrap();
        std::fs::remove_dir(lab.config.directory().join("a")).unwrap();
        assert!(directory.link(&lab.record(1)).await.is_err());
    }
}
