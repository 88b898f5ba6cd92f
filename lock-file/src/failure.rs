use std::path::Path;

use lock_core::{Error, ErrorKind};
use nix::errno::Errno;

/// The error for a system call that failed: `doing` as in "write", and what to do about it where that is known.
pub(crate) fn failed(doing: &str, path: &Path, errno: impl Into<std::io::Error>) -> Error {
    let error = errno.into();
    let (kind, remedy) = match Errno::from_raw(error.raw_os_error().unwrap_or_default()) {
        Errno::EACCES => (ErrorKind::Denied, "; give this user the right, or choose another directory"),
        Errno::EPERM => (ErrorKind::Denied, "; choose a directory of this user on a file system that has hard links"),
        Errno::EROFS => (ErrorKind::Denied, "; choose a directory on a file system that can be written"),
        Errno::ELOOP | Errno::ENOTDIR => (ErrorKind::Denied, "; a symbolic link or file is in the way: remove it"),
        Errno::ENAMETOOLONG => (ErrorKind::InvalidConfig, "; choose a shorter path"),
        Errno::ENOSPC | Errno::EDQUOT => (ErrorKind::Unavailable, "; make room there"),
        Errno::EMFILE | Errno::ENFILE => (ErrorKind::Unavailable, "; raise the limit of open files"),
        _ => (ErrorKind::Unavailable, ""),
    };
    Error::new(kind, format!("can't {doing} {}: {error}{remedy}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_path_and_what_to_do() {
        let error = failed("write", Path::new("/a/b"), Errno::ENOSPC);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.starts_with("can't write /a/b: ") && text.ends_with("; make room there"), "{text}");
        assert_eq!(failed("open", Path::new("/a"), Errno::EACCES).kind(), ErrorKind::Denied);
    }
}
