use std::sync::LazyLock;

use lock_core::{LockUrl, MemoryBackend, Result};

use crate::Scheme;

/// The schemes of this crate whose feature is off. The feature has the scheme's name.
pub(crate) const LEFT_OUT: &[&str] = &[
    #[cfg(not(feature = "file"))]
    "file",
];

/// The schemes of this crate whose feature is on.
pub(crate) fn schemes() -> Vec<Scheme> {
    vec![
        #[cfg(feature = "file")]
        Scheme::new("file", file)
            .with_about("a directory of this host: excludes its processes")
            // Its promises are known also to a user without a home, who has no default directory.
            .with_example("file:/var/lib/lockctl"),
        Scheme::new("memory", memory).with_about("this process's memory: excludes its tasks, for tests"),
    ]
}

#[cfg(feature = "file")]
fn file(url: &LockUrl) -> Result<lock_file::FileBackend> {
    Ok(lock_file::FileBackend::new(lock_file::FileConfig::from_url(url)?))
}

fn memory(url: &LockUrl) -> Result<MemoryBackend> {
    /// One for the process: a URL means the same locks wherever it is used, and the promised scope is the process.
    static LOCKS: LazyLock<MemoryBackend> = LazyLock::new(MemoryBackend::new);

    url.settings().finish()?;
    Ok(LOCKS.clone())
}
