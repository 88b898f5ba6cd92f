use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind, Result};

/// The random 128-bit id of one acquisition, made before the first byte is sent.
///
/// It is what a service compares before it extends or releases, so that nobody gives back a lock that is not theirs. Two
/// tasks of one client are two owners, and so are two acquisitions by one task: locks are not re-entrant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// A fresh id from the operating system's randomness, also right after a fork.
    ///
    /// # Panics
    ///
    /// When the operating system has no randomness to give: a lock with a guessable owner is no lock.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self(u128::from_le_bytes(bytes))
    }

    /// The id as a number.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for OwnerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = Some(text).filter(|text| text.len() == 32 && !text.starts_with('+'));
        digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()).map(Self).ok_or_else(|| {
            Error::new(ErrorKind::Unexpected, format!("{text:?} is no owner id: it is not 32 hexadecimal digits"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_survives_text() {
        let owner = OwnerId::random();
        assert_eq!(owner.to_string().parse::<OwnerId>().unwrap(), owner);
        assert_ne!(owner, OwnerId::random());
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "0", "+0000000000000000000000000000001", &"g".repeat(32)] {
            assert!(text.parse::<OwnerId>().is_err(), "{text}");
        }
    }
}
