use inotify::Inotify;
use lock_core::{Finding, Result};

use crate::config::FileConfig;
use crate::file_system::FileSystem;
use crate::root::Root;
use crate::temporaries::Temporaries;

/// Looks whether a directory is fit for locks, by doing there what a lock needs.
pub(crate) fn preflight(config: &FileConfig) -> Vec<Finding> {
    let root = match Root::open_or_create(config) {
        Ok(root) => root,
        Err(error) => return vec![Finding::refused("directory", error, "")],
    };
    let mut findings = vec![Finding::good("directory", root.path().display().to_string())];
    if root.is_shared() {
        findings.push(Finding::note(
            "sharing",
            "the directory is shared",
            "each of its users can hold any lock as long as it wants",
        ));
    }
    findings.push(match try_out(&root) {
        Ok(()) => Finding::good("writing", "files are made, linked and brought to disk"),
        Err(error) => Finding::refused("writing", error, ""),
    });
    findings.push(match root.file_system {
        FileSystem::Volatile => Finding::warning(
            "file system",
            "its files live in memory",
            "fencing tokens start again after a reboot",
            "choose a directory on a disk, unless the resources that check tokens end with the boot as well",
        ),
        _ => Finding::good("file system", "its files outlive a reboot"),
    });
    findings.push(match Inotify::init() {
        Ok(_) => Finding::good("notification", "changes are told by inotify"),
        Err(error) => Finding::warning(
            "notification",
            format!("inotify can't be had: {error}"),
            "waiters and holders learn of changes only when they ask again",
            "raise fs.inotify.max_user_instances",
        ),
    });
    findings
}

fn try_out(root: &Root<'_>) -> Result<()> {
    let temporaries = Temporaries::open(root)?;
    temporaries.try_out()?;
    root.persist()
}
