use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use lock_core::{Clock, Result};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, fdatasync, linkat, unlinkat};

use crate::failure::failed;
use crate::origin::Origin;
use crate::root::{DIRECTORY, Root};

/// Where files are made complete before they get their names. It stands beside the locks' directories, so that a lock's own
/// holds its generations alone; no lock's begins with a dot.
const NAME: &str = ".tmp";

/// How old a file may get there, in seconds. No call takes so long; one that was stopped for longer finds its file gone and
/// fails. It needs no look at processes, whose numbers are used again and differ from container to container.
const OLDEST: u64 = 15 * 60;

/// The directory of files that have no names yet.
pub(crate) struct Temporaries<'a> {
    root: &'a Root<'a>,
    fd: OwnedFd,
    path: PathBuf,
    prefix: String,
    now: u64,
}

/// A file or directory without its name yet. It is removed if it never gets one.
struct Temporary<'a> {
    place: &'a Temporaries<'a>,
    name: String,
    flags: UnlinkatFlags,
    is_named: bool,
}

impl<'a> Temporaries<'a> {
    pub(crate) fn open(root: &'a Root<'a>) -> Result<Self> {
        let path = root.path().join(NAME);
        let fd = match openat(root, NAME, DIRECTORY, Mode::empty()) {
            Err(Errno::ENOENT) => {
                // It is the first thing made inside: as long as it is missing, nobody has relied on what is above.
                root.persist_itself();
                match mkdirat(root, NAME, root.mode_inside()) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(errno) => return Err(failed("make", &path, errno)),
                }
                let fd = openat(root, NAME, DIRECTORY, Mode::empty());
                if let (true, Ok(fd)) = (root.is_shared(), &fd) {
                    // Beyond the umask; where another user made it, that user does.
                    let _ = fchmod(fd, root.mode_inside());
                }
                fd
            }
            opened => opened,
        };
        let fd = fd.map_err(|errno| failed("open", &path, errno))?;
        Ok(Self {
            root,
            fd,
            path,
            prefix: format!("{}.", Origin::here()?.boot),
            now: Clock::system().now().since_boot().as_secs(),
        })
    }

    fn reserve(&self, flags: UnlinkatFlags) -> Temporary<'_> {
        let name = format!("{}{}.{:016x}", self.prefix, self.now, fastrand::u64(..));
        Temporary { place: self, name, flags, is_named: false }
    }

    /// Links a file with this content, once it is on disk, as `name` in `directory`; false when there is one.
    pub(crate) fn link(&self, content: &str, directory: impl AsFd, name: &str) -> Result<bool> {
        let file = self.reserve(UnlinkatFlags::NoRemoveDir);
        file.write(content)?;
        match linkat(&self.fd, file.name.as_str(), directory, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(failed("link", &self.path.join(&file.name), errno)),
        }
    }

    /// Puts a file with this content, once it is on disk, in the place of `name` in `directory`.
    pub(crate) fn replace(&self, content: &str, directory: impl AsFd, name: &str) -> Result<()> {
        let mut file = self.reserve(UnlinkatFlags::NoRemoveDir);
        file.write(content)?;
        renameat(&self.fd, file.name.as_str(), directory, name)
            .map_err(|errno| failed("rename", &self.path.join(&file.name), errno))?;
        file.is_named = true;
        Ok(())
    }

    /// Makes the directory `name` in the root, unless there is one.
    pub(crate) fn directory(&self, name: &str) -> Result<()> {
        let mode = self.root.mode_inside();
        let mut directory = self.reserve(UnlinkatFlags::RemoveDir);
        let path = self.path.join(&directory.name);
        let made = mkdirat(&self.fd, directory.name.as_str(), mode);
        made.map_err(|errno| failed("make", &path, errno))?;
        // Its rights must be complete before others find it, and the umask took some away.
        let opened = openat(&self.fd, directory.name.as_str(), DIRECTORY, Mode::empty());
        opened.and_then(|fd| fchmod(fd, mode)).map_err(|errno| failed("make", &path, errno))?;
        let renamed = match renameat2(&self.fd, directory.name.as_str(), self.root, name, RenameFlags::RENAME_NOREPLACE)
        {
            // Some file systems don't know the flag. Without it an empty directory is replaced: whoever was about to
            // use that one fails and asks again.
            Err(Errno::EINVAL) => renameat(&self.fd, directory.name.as_str(), self.root, name),
            renamed => renamed,
        };
        match renamed {
            Ok(()) => {
                directory.is_named = true;
                Ok(())
            }
            Err(Errno::EEXIST | Errno::ENOTEMPTY) => Ok(()),
            Err(errno) => Err(failed("make", &self.root.path().join(name), errno)),
        }
    }

    /// Makes a file, links it, and leaves nothing.
    pub(crate) fn try_out(&self) -> Result<()> {
        let linked = self.reserve(UnlinkatFlags::NoRemoveDir);
        self.link("", &self.fd, &linked.name).map(drop)
    }

    /// Removes what killed processes left behind: of another boot, or too old.
    pub(crate) fn sweep(&self) {
        let Ok(mut entries) = Dir::openat(&self.fd, ".", DIRECTORY, Mode::empty()) else { return };
        for entry in entries.iter().flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with('.') || !self.is_left_behind(name) {
                continue;
            }
            let is_directory = entry.file_type() == Some(Type::Directory);
            let flags = if is_directory { UnlinkatFlags::RemoveDir } else { UnlinkatFlags::NoRemoveDir };
            // What can't be removed is another user's, or removed already.
            let _ = unlinkat(&self.fd, name, flags);
        }
    }

    fn is_left_behind(&self, name: &str) -> bool {
        let made = name.strip_prefix(&self.prefix).and_then(|rest| rest.split_once('.'));
        made.and_then(|(seconds, _)| seconds.parse::<u64>().ok())
            .is_none_or(|seconds| self.now.saturating_sub(seconds) > OLDEST)
    }
}

impl Temporary<'_> {
    fn write(&self, content: &str) -> Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let path = || self.place.path.join(&self.name);
        let fd = openat(&self.place.fd, self.name.as_str(), flags, self.place.root.mode_of_records())
            .map_err(|errno| failed("make", &path(), errno))?;
        let mut file = File::from(fd);
        if self.place.root.is_shared() {
            fchmod(&file, self.place.root.mode_of_records()).map_err(|errno| failed("make", &path(), errno))?;
        }
        file.write_all(content.as_bytes()).map_err(|error| failed("write", &path(), error))?;
        fdatasync(&file).map_err(|errno| failed("sync", &path(), errno))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = unlinkat(&self.place.fd, self.name.as_str(), self.flags);
        }
    }
}
