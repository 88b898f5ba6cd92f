use std::fs::DirBuilder;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use lock_core::{Clock, Error, ErrorKind, Result};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, open, openat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, mkdirat};
use nix::sys::statfs::fstatfs;
use nix::unistd::{Uid, UnlinkatFlags, fsync, geteuid, unlinkat};

use crate::config::FileConfig;
use crate::directory_name::Named;
use crate::failure::failed;
use crate::file_system::FileSystem;

/// Nothing else than a directory is opened, and no symbolic link followed: it might lead to where others write.
pub(crate) const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Who writes the directory can break its locks. So only its user may, unless it is shared.
const PRIVATE: u32 = 0o700;

const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// All rights, the sticky bit, and the bit that hands the directory's group on to what is made inside.
const SHARED: u32 = 0o3777;

/// The directory that holds the locks, opened and found fit for them.
///
/// It is opened anew for each call: a directory that was renamed or replaced meanwhile is not the one where others look.
#[derive(Debug)]
pub(crate) struct Root<'a> {
    config: &'a FileConfig,
    fd: OwnedFd,
    mode: u32,
    pub(crate) file_system: FileSystem,
}

impl<'a> Root<'a> {
    /// Opens the directory, and makes it where that is allowed.
    pub(crate) fn open_or_create(config: &'a FileConfig) -> Result<Self> {
        if let Some(root) = Self::open(config)? {
            return Ok(root);
        }
        let path = config.directory();
        if config.is_shared() {
            let message = format!(
                "the shared directory {0} does not exist; make it with the rights that its users need, for all of them: \
                 install -d -m 1777 {0}",
                path.display()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        DirBuilder::new().recursive(true).mode(PRIVATE).create(path).map_err(|error| failed("make", path, error))?;
        Self::open(config)?.ok_or_else(|| failed("open", path, Errno::ENOENT))
    }

    /// Opens the directory; `None` when there is none.
    pub(crate) fn open(config: &'a FileConfig) -> Result<Option<Self>> {
        let path = config.directory();
        if !path.is_absolute() {
            let message =
                format!("the directory {path:?} is relative, so every process would find another one; name it from /");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let fd = match open(path, DIRECTORY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(failed("open", path, errno)),
        };
        let found = fstat(&fd).map_err(|errno| failed("examine", path, errno))?;
        trust(&found, geteuid(), config.is_shared())
            .map_err(|why| Error::new(ErrorKind::Denied, format!("{} {why}", path.display())))?;
        let kind = fstatfs(&fd).map_err(|errno| failed("examine", path, errno))?.filesystem_type();
        let file_system = FileSystem::from(kind);
        if let FileSystem::Unfit(name) = file_system {
            let message = format!(
                "{} is on a file system of kind {name}, which is not this host's alone or keeps no files; choose a \
                 directory on a local disk",
                path.display()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        Ok(Some(Self { config, fd, mode: found.st_mode, file_system }))
    }

    pub(crate) fn path(&self) -> &Path {
        self.config.directory()
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.config.clock()
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.config.is_shared()
    }

    /// The rights of what is made inside: those of the directory itself, so that whoever may write it may write there.
    pub(crate) fn mode_inside(&self) -> Mode {
        Mode::from_bits_truncate(if self.is_shared() { self.mode & SHARED } else { PRIVATE })
    }

    /// The rights of a record: in a shared directory others must read it, and nobody else ever writes it.
    pub(crate) fn mode_of_records(&self) -> Mode {
        Mode::from_bits_truncate(if self.is_shared() { 0o644 } else { 0o600 })
    }

    /// Makes the directory `name` inside, unless there is one: first as `temporary` in `place`, since its rights must be
    /// complete before others find it, and the umask takes some away.
    pub(crate) fn make_directory(&self, name: &str, place: impl AsFd, temporary: &str) -> Result<()> {
        let mode = self.mode_inside();
        let made = mkdirat(&place, temporary, mode)
            .and_then(|()| openat(&place, temporary, DIRECTORY, Mode::empty()))
            .and_then(|fd| fchmod(fd, mode))
            .and_then(|()| match renameat2(&place, temporary, self, name, RenameFlags::RENAME_NOREPLACE) {
                // Some file systems don't know the flag. Without it an empty directory is replaced: whoever was about to use
                // that one fails and asks again.
                Err(Errno::EINVAL) => renameat(&place, temporary, self, name),
                renamed => renamed,
            });
        let Err(errno) = made else { return Ok(()) };
        let _ = unlinkat(&place, temporary, UnlinkatFlags::RemoveDir);
        match errno {
            Errno::EEXIST | Errno::ENOTEMPTY => Ok(()),
            errno => Err(failed("make", &self.path().join(name), errno)),
        }
    }

    /// The directories inside.
    pub(crate) fn directories(&self) -> Result<Vec<Named>> {
        let failed = |errno| failed("list", self.path(), errno);
        let mut entries = Dir::openat(&self.fd, ".", DIRECTORY, Mode::empty()).map_err(failed)?;
        let mut found = Vec::new();
        for entry in entries.iter() {
            let entry = entry.map_err(failed)?;
            // Some file systems don't tell what it is.
            if entry.file_type().is_none_or(|kind| kind == Type::Directory) {
                found.push(Named::from_directory(entry.file_name().to_bytes()));
            }
        }
        Ok(found)
    }

    /// Brings the names inside to disk.
    pub(crate) fn persist(&self) -> Result<()> {
        fsync(&self.fd).map_err(|errno| failed("sync", self.path(), errno))
    }

    /// Brings the directory's own name to disk, and those above it: any of them may be as new. What may not be opened was
    /// not made by this user.
    pub(crate) fn persist_itself(&self) {
        for parent in self.path().ancestors().skip(1) {
            if let Ok(fd) = open(parent, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()) {
                let _ = fsync(&fd);
            }
        }
    }
}

impl AsFd for Root<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Refuses a directory that others can tamper with, and says why.
fn trust(found: &FileStat, user: Uid, shared: bool) -> Result<(), String> {
    let (owner, mode) = (found.st_uid, found.st_mode & 0o7777);
    if owner != user.as_raw() && owner != 0 {
        return Err(format!("belongs to uid {owner}, who could break its locks; give it to uid {user} or to root"));
    }
    if mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    if !shared {
        return Err(format!(
            "may be written by others (mode {mode:o}); take that right away with chmod go-w, or make it sticky and allow \
             it with the option shared=true"
        ));
    }
    if mode & STICKY == 0 {
        return Err(format!(
            "may be written by others and is not sticky (mode {mode:o}), so that each could remove another's locks; \
             chmod +t it"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_that_others_cannot_tamper_with_is_trusted() {
        let (root, user, other) = (0, Uid::from_raw(1000), 1001);
        let found = |owner, mode| {
            let mut found = fstat(std::fs::File::open("/").unwrap()).unwrap();
            (found.st_uid, found.st_mode) = (owner, mode);
            found
        };
        for (owner, mode, shared, trusted) in [
            (1000, 0o700, false, true),
            (1000, 0o755, false, true),
            (root, 0o755, false, true),
            (other, 0o700, false, false),
            (other, 0o1777, true, false),
            (1000, 0o770, false, false),
            (1000, 0o1777, false, false),
            (1000, 0o777, true, false),
            (1000, 0o770, true, false),
            (root, 0o1777, true, true),
            (1000, 0o1770, true, true),
            (1000, 0o700, true, true),
        ] {
            let verdict = trust(&found(owner, mode), user, shared);
            assert_eq!(verdict.is_ok(), trusted, "uid {owner}, mode {mode:o}, shared {shared}: {verdict:?}");
        }
    }
}
