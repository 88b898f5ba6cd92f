//! A directory of its own and a clock that the test sets.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "each test program uses its part of it"
)]
#![allow(clippy::unwrap_used, reason = "a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lock_core::{Attempt, Claim, Clock, Grant, LockName, Result};
use lock_file::{FileBackend, FileConfig};
use tempfile::TempDir;

/// So long that only a jump of the clock ends a grant.
pub const TTL: Duration = Duration::from_secs(3600);

pub struct Lab {
    pub directory: TempDir,
    pub clock: Clock,
}

impl Lab {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), clock: Clock::system() }
    }

    pub fn backend(&self) -> FileBackend {
        FileBackend::new(FileConfig::new(self.directory.path()).with_clock(self.clock.clone()))
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.directory.path().join(inside)
    }

    /// The only record of a lock.
    pub fn record(&self, directory: &str) -> PathBuf {
        let records = files(&self.path(directory));
        assert_eq!(records.len(), 1, "{records:?}");
        records[0].clone()
    }
}

pub fn files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

pub fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub fn claim(on: &str) -> Claim {
    Claim::new(name(on), TTL)
}

/// The same claim, asking for another ttl.
pub fn for_ttl(claim: &Claim, ttl: Duration) -> Claim {
    let mut claim = claim.clone();
    claim.ttl = ttl;
    claim
}

pub fn granted(attempt: Result<Attempt>) -> Grant {
    match attempt {
        Ok(Attempt::Granted(grant)) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub fn is_contended(attempt: &Result<Attempt>) -> bool {
    matches!(attempt, Ok(Attempt::Contended(_)))
}
