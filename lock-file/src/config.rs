use std::path::{Path, PathBuf};

use lock_core::{Clock, Error, ErrorKind, LockUrl, Result};
use nix::unistd::{Uid, User, geteuid};

/// Where the locks are, and who may share them.
#[derive(Clone, Debug)]
pub struct FileConfig {
    directory: PathBuf,
    shared: bool,
    clock: Clock,
}

impl FileConfig {
    /// Locks in `directory`, an absolute path. It is made, for this user alone, when the first lock is taken.
    pub fn new(directory: impl AsRef<Path>) -> Self {
        // Without a slash at the end, which would follow a symbolic link.
        let directory = directory.as_ref().components().collect();
        Self { directory, shared: false, clock: Clock::system() }
    }

    /// Allows a directory that others may write, if it is sticky, as `/tmp` is: the users of the host who may write it then
    /// exclude each other. It must exist: whoever makes it decides who they are.
    ///
    /// By default it is refused, because each of those users can hold every lock for ever, and the one who made a lock's
    /// directory can break that lock.
    #[must_use]
    pub fn with_shared(mut self, shared: bool) -> Self {
        self.shared = shared;
        self
    }

    /// Counts grants on `clock`. All who use a directory must count on the same one, which the default is for all processes
    /// of a host: the boot-time clock, which nobody sets.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Reads `file:` (the [default directory](Self::default_directory)) or `file:/path`, with the option `shared=true` for
    /// [`with_shared`](Self::with_shared).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] for any other part or option, or when this user has no default directory.
    pub fn from_url(url: &LockUrl) -> Result<Self> {
        let mut settings = url.settings();
        let path = settings.path();
        let shared = settings.flag("shared")?.unwrap_or(false);
        settings.finish()?;
        let directory = if path.is_empty() { Self::default_directory()? } else { PathBuf::from(path) };
        Ok(Self::new(directory).with_shared(shared))
    }

    /// The directory that every process of this user finds, whatever its environment: cron, ssh, sudo and a login shell
    /// agree. It is `/var/lib/lockctl` for root and `~/.local/state/lockctl` for others, where `~` is what the user database
    /// says of the effective user.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] when the user database knows no home for this user.
    pub fn default_directory() -> Result<PathBuf> {
        let user = geteuid();
        if user.is_root() {
            return Ok(PathBuf::from("/var/lib/lockctl"));
        }
        let home = User::from_uid(user).ok().flatten().map(|entry| entry.dir);
        directory_in(home, user)
    }

    /// Where the locks are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

fn directory_in(home: Option<PathBuf>, user: Uid) -> Result<PathBuf> {
    home.filter(|home| home.is_absolute()).map(|home| home.join(".local/state/lockctl")).ok_or_else(|| {
        let message = format!("the user database has no home for uid {user}; name a directory, as in file:/path");
        Error::new(ErrorKind::InvalidConfig, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<FileConfig> {
        FileConfig::from_url(&url.parse().unwrap())
    }

    #[test]
    fn a_url_names_the_directory_and_who_shares_it() {
        let config = parsed("file:/run/lock/app?shared=true").unwrap();
        assert_eq!((config.directory(), config.is_shared()), (Path::new("/run/lock/app"), true));
        assert!(!parsed("file:///a%20b").unwrap().is_shared());
        assert_eq!(parsed("file:").unwrap().directory(), FileConfig::default_directory().unwrap());
    }

    #[test]
    fn what_the_backend_does_not_know_is_refused() {
        for url in ["file:/a?share=true", "file:/a?shared=yes", "file://host/a", "file://user@host/a"] {
            assert_eq!(parsed(url).unwrap_err().kind(), ErrorKind::InvalidConfig, "{url}");
        }
    }

    #[test]
    fn the_default_directory_is_below_the_home_of_the_user_database() {
        let user = Uid::from_raw(1234);
        let home = |home: &str| directory_in(Some(PathBuf::from(home)), user);
        assert_eq!(home("/home/ann").unwrap(), Path::new("/home/ann/.local/state/lockctl"));
        for error in [home("").unwrap_err(), directory_in(None, user).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains("uid 1234"), "{error}");
        }
    }
}
