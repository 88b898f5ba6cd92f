use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use lock_core::{Error, ErrorKind, Result};
use nix::unistd::gethostname;

/// Whose clock a record's deadline was read from: nobody can compare it with another clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The machine: its machine-id, or its name where it has none.
    pub(crate) host: String,
    /// The boot, by the kernel's random id.
    pub(crate) boot: String,
    /// The time namespace: a container may have been given another boot-time clock. 0 where the kernel knows none.
    pub(crate) time_namespace: u64,
}

impl Origin {
    /// Where this process is. It does not change while the process lives.
    ///
    /// # Errors
    ///
    /// Unavailable when the kernel does not tell.
    pub(crate) fn here() -> Result<&'static Self> {
        static HERE: OnceLock<Origin> = OnceLock::new();
        match HERE.get() {
            Some(here) => Ok(here),
            None => Self::read().map(|read| HERE.get_or_init(|| read)),
        }
    }

    fn read() -> Result<Self> {
        const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
        let boot = fs::read_to_string(BOOT_ID).map_err(|error| {
            let message = format!("can't read {BOOT_ID}, without which no record can be dated: {error}; mount /proc");
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        })?;
        let name = || gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let machine_id = fs::read_to_string("/etc/machine-id").map(|id| id.trim().to_owned()).unwrap_or_default();
        Ok(Self {
            host: if machine_id.is_empty() { name() } else { machine_id },
            boot: boot.trim().to_owned(),
            time_namespace: fs::metadata("/proc/self/ns/time").map_or(0, |namespace| namespace.ino()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_one_origin() {
        let here = Origin::here().unwrap();
        assert_eq!(here, &Origin::read().unwrap());
        assert!(!here.host.is_empty());
        assert_eq!(here.boot.len(), 36, "{here:?}");
    }
}
