use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use lock_core::{Clock, Result};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod};
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

/// A file without its name yet. It is removed if it never gets one.
struct Temporary<'a> {
    place: &'a Temporaries<'a>,
    name: String,
    is_named: bool,
}

impl<'a> Temporaries<'a> {
    pub(crate) fn open(root: &'a Root<'a>) -> Result<Self> {
        let path = root.path().join(NAME);
        let mut opened = openat(root, NAME, DIRECTORY, Mode::empty());
        if matches!(opened, Err(Errno::ENOENT)) {
            // It is the first thing made inside: as long as it is missing, nobody has relied on what is above.
            root.persist_itself();
            root.make_directory(NAME, root, &format!("{NAME}-{:016x}", fastrand::u64(..)))?;
            opened = openat(root, NAME, DIRECTORY, Mode::empty());
        }
        let fd = opened.map_err(|errno| failed("open", &path, errno))?;
        let prefix = format!("{}.", Origin::here()?.boot);
        Ok(Self { root, fd, path, prefix, now: Clock::system().now().since_boot().as_secs() })
    }

    fn new_name(&self) -> String {
        format!("{}{}.{:016x}", self.prefix, self.now, fastrand::u64(..))
    }

    /// Makes a file with this content and brings it to disk.
    fn file(&self, content: &str) -> Result<Temporary<'_>> {
        let file = Temporary { place: self, name: self.new_name(), is_named: false };
        file.write(content)?;
        Ok(file)
    }

    /// Links a file with this content, once it is on disk, as `name` in `directory`; false when there is one.
    pub(crate) fn link(&self, content: &str, directory: impl AsFd, name: &str) -> Result<bool> {
        let file = self.file(content)?;
        match linkat(&self.fd, file.name.as_str(), directory, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(failed("link", &self.path.join(&file.name), errno)),
        }
    }

    /// Puts a file with this content, once it is on disk, in the place of `name` in `directory`.
    pub(crate) fn replace(&self, content: &str, directory: impl AsFd, name: &str) -> Result<()> {
        let mut file = self.file(content)?;
        renameat(&self.fd, file.name.as_str(), directory, name)
            .map_err(|errno| failed("rename", &self.path.join(&file.name), errno))?;
        file.is_named = true;
        Ok(())
    }

    /// Makes the directory `name` in the root, unless there is one.
    pub(crate) fn directory(&self, name: &str) -> Result<()> {
        self.root.make_directory(name, &self.fd, &self.new_name())
    }

    /// Makes a file, links it, and leaves nothing.
    pub(crate) fn try_out(&self) -> Result<()> {
        let linked = Temporary { place: self, name: self.new_name(), is_named: false };
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
            let _ = unlinkat(&self.place.fd, self.name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}
