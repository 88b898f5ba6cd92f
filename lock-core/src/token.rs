use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::{Error, ErrorKind, Result};

/// A number that grows with every grant of a name.
///
/// Send it with every write to the protected resource, and let the resource refuse a token older than the newest one it has
/// seen: then a holder that lost its lock without noticing cannot do harm. How far the growth can be relied upon depends on
/// the backend: see [`Fencing`](crate::Fencing). Tokens of two backends, or of two names, are not comparable.
///
/// A token is above 0 and below 2^53, so that it survives JSON, Lua and a signed column of a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "u64", into = "u64"))]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The largest token, 2^53 - 1: the largest integer that a double holds exactly, and Lua in Redis has only doubles.
    pub const MAX: Self = Self(NonZeroU64::new((1 << 53) - 1).expect("not zero"));

    /// Checks a number from a service.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unexpected`] for 0 and from 2^53 on.
    pub fn new(token: u64) -> Result<Self> {
        NonZeroU64::new(token).map(Self).filter(|token| *token <= Self::MAX).ok_or_else(|| {
            Error::new(
                ErrorKind::Unexpected,
                format!("{token} is no fencing token: tokens lie between 1 and {}", Self::MAX),
            )
        })
    }

    /// The token as a number.
    pub const fn as_u64(self) -> u64 {
        self.0.get()
    }

    /// The token as a signed number, for SQL.
    pub const fn as_i64(self) -> i64 {
        self.as_u64().cast_signed()
    }

    /// The token in 20 digits, zero-padded: sorted as text it is sorted by size. For stores that compare only text.
    pub fn to_padded(self) -> String {
        format!("{:020}", self.as_u64())
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for FencingToken {
    type Err = Error;

    fn from_str(token: &str) -> Result<Self> {
        let number = token.parse().map_err(|_| {
            Error::new(ErrorKind::Unexpected, format!("{token:?} is no fencing token: it is not a whole number"))
        })?;
        Self::new(number)
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = Error;

    fn try_from(token: u64) -> Result<Self> {
        Self::new(token)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.as_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lies_between_one_and_two_to_the_53() {
        assert_eq!(FencingToken::new(1).unwrap().as_u64(), 1);
        assert_eq!(FencingToken::new((1 << 53) - 1).unwrap(), FencingToken::MAX);
        for wrong in [0, 1 << 53, u64::MAX] {
            assert_eq!(FencingToken::new(wrong).unwrap_err().kind(), ErrorKind::Unexpected);
        }
    }

    #[test]
    fn padded_tokens_sort_as_text() {
        let [small, large] = [9, 10].map(|n| FencingToken::new(n).unwrap().to_padded());
        assert!(small < large);
        assert_eq!(large.len(), 20);
        assert_eq!(large.parse::<FencingToken>().unwrap().as_i64(), 10);
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
        for text in ["", "-1", "1.5", "x", "0"] {
            assert!(text.parse::<FencingToken>().is_err(), "{text}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_holds_the_plain_number() {
        let token: FencingToken = serde_json::from_str("7").unwrap();
        assert_eq!(serde_json::to_string(&token).unwrap(), "7");
        assert!(serde_json::from_str::<FencingToken>("0").is_err());
    }
}
