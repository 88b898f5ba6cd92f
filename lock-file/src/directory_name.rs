use lock_core::LockName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};

/// What stands for itself in a directory's name. Everything else is written `%XX`, the `%` and all that is not ASCII
/// included: some file systems take two spellings of a letter for the same one.
const READABLE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'+')
    .remove(b'=')
    .remove(b',')
    .remove(b':')
    .remove(b'@');

/// The longest readable name. File systems allow 255 bytes; encrypted ones less, which are 143 with eCryptfs.
const LONGEST: usize = 140;

/// Before the hash of a long name: no escape begins so.
const HASHED: &str = "%sha256-";

/// The name of a lock's directory: the lock's name as far as it is safe in a path, the rest escaped, so that two names never
/// meet and none leaves its directory or is hidden. Long names are hashed; their records tell them.
pub(crate) fn directory_name(name: &LockName) -> String {
    let name = name.as_str();
    let escaped = match name.strip_prefix('.') {
        Some(rest) => format!("%2E{}", utf8_percent_encode(rest, READABLE)),
        None => utf8_percent_encode(name, READABLE).to_string(),
    };
    if escaped.len() <= LONGEST {
        return escaped;
    }
    let hash = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{HASHED}{hash}")
}

/// What the name of a directory tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// It belongs to this lock.
    Lock(LockName),
    /// It belongs to a lock with a long name, which is in its records.
    Hashed(String),
    /// It is no lock's.
    Foreign,
}

impl Named {
    pub(crate) fn from_directory(directory: &[u8]) -> Self {
        let Ok(directory) = str::from_utf8(directory) else { return Self::Foreign };
        if directory.starts_with(HASHED) {
            return Self::Hashed(directory.to_owned());
        }
        let name = percent_decode_str(directory).decode_utf8().ok().and_then(|name| LockName::new(name).ok());
        // One lock, one spelling: what this crate would not have written is not its own.
        name.filter(|name| directory_name(name) == directory).map_or(Self::Foreign, Self::Lock)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(name: &str) -> String {
        directory_name(&LockName::new(name).unwrap())
    }

    #[test]
    fn plain_names_stay_readable() {
        for name in ["nightly", "a-b_c.d", "job:7", "a@b", "1", "x=1,y+2", "A"] {
            assert_eq!(of(name), name);
        }
    }

    #[test]
    fn nothing_leaves_the_directory_or_is_hidden() {
        let escaped = [
            (".", "%2E"),
            ("..", "%2E."),
            (".tmp", "%2Etmp"),
            ("a/b", "a%2Fb"),
            ("/a", "%2Fa"),
            ("a/../b", "a%2F..%2Fb"),
            ("%2F", "%252F"),
            (" ", "%20"),
            ("é", "%C3%A9"),
        ];
        for (name, directory) in escaped {
            assert_eq!(of(name), directory);
        }
    }

    #[test]
    fn long_names_are_hashed() {
        let [one, other] = ["a", "b"].map(|last| of(&("x".repeat(LockName::MAX_BYTES - 1) + last)));
        assert_ne!(one, other);
        assert!(one.len() <= LONGEST, "{one}");
        assert_eq!(Named::from_directory(one.as_bytes()), Named::Hashed(one));
    }

    #[test]
    fn other_spellings_are_foreign() {
        for directory in ["", ".", "..", ".tmp", "%2f", "%41", "%", "%2", "a b", "%ff", "%00", "lost+found/"] {
            assert_eq!(Named::from_directory(directory.as_bytes()), Named::Foreign, "{directory}");
        }
        assert_eq!(Named::from_directory(b"\xff"), Named::Foreign);
    }

    proptest! {
        #[test]
        fn every_name_has_a_directory_of_its_own(name in "\\PC{1,60}", other in "[%./a2EF]{1,6}") {
            for name in [name, other] {
                let name = LockName::new(name).unwrap();
                let directory = directory_name(&name);
                prop_assert!(directory.len() <= LONGEST);
                prop_assert!(!directory.starts_with('.') && !directory.contains(['/', '\0']));
                if !directory.starts_with(HASHED) {
                    prop_assert_eq!(Named::from_directory(directory.as_bytes()), Named::Lock(name));
                }
            }
        }
    }
}
