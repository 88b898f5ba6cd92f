use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Error, ErrorKind, Result};

/// What is locked: one string, under the same rules on every backend.
///
/// A name is not empty, at most [`LockName::MAX_BYTES`] bytes of UTF-8 and free of control characters. Everything else is
/// allowed: slashes, braces, blanks, any script. Names are compared byte by byte: `A` is not `a`, and a composed `é` is not a
/// decomposed one. A backend whose service is narrower escapes what it must, so that two names never meet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "String", into = "String")
)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes of UTF-8. It leaves room for escaping and prefixes under the limits of every service (a
    /// file name's 255 bytes aside, where long names are hashed).
    pub const MAX_BYTES: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] when it is empty, too long, or holds a control character.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        if name.is_empty() {
            return Err(invalid("a lock name must not be empty".to_owned()));
        }
        if name.len() > Self::MAX_BYTES {
            return Err(invalid(format!(
                "a lock name has at most {} bytes, this one has {} and begins with {:?}",
                Self::MAX_BYTES,
                name.len(),
                name.chars().take(40).collect::<String>(),
            )));
        }
        match name.char_indices().find(|(_, c)| c.is_control()) {
            Some((at, c)) => Err(invalid(format!("lock name {name:?} has the control character {c:?} at byte {at}"))),
            None => Ok(Self(name.into())),
        }
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidName, message)
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for LockName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<String> for LockName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&str> for LockName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl From<LockName> for String {
    fn from(name: LockName) -> Self {
        name.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_accepted() {
        let longest = "x".repeat(LockName::MAX_BYTES);
        for name in [
            " ",
            "a/b",
            "/a",
            "a//b",
            ".",
            "..",
            "file:///x",
            "%2F",
            "{a}",
            "*?",
            "🔒",
            "e\u{301}",
            "\u{ffff}",
            &longest,
        ] {
            assert_eq!(LockName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        let too_long = "x".repeat(LockName::MAX_BYTES + 1);
        for (name, why) in
            [("", "empty"), ("a\0b", "'\\0' at byte 1"), ("a\n", "'\\n' at byte 1"), (&too_long, "has 513")]
        {
            let error = LockName::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName);
            assert!(error.to_string().contains(why), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn names_are_compared_byte_by_byte() {
        assert_ne!(LockName::new("a").unwrap(), LockName::new("A").unwrap());
        assert_ne!(LockName::new("\u{e9}").unwrap(), LockName::new("e\u{301}").unwrap());
    }
}
