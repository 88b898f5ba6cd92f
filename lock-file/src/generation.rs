use std::fmt;

use lock_core::{FencingToken, Result};

/// The number of a record of one lock, and the name of its file. A grant's generation is its fencing token.
///
/// Generation 0 is no grant: it is the free record that a new lock's directory begins with, so that every grant has a
/// predecessor to be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub(crate) u64);

/// As many digits as the largest token has, so that the files of a lock are listed in order.
const DIGITS: usize = 16;

impl Generation {
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// # Errors
    ///
    /// Unexpected when the numbers are used up.
    pub(crate) fn token(self) -> Result<FencingToken> {
        FencingToken::new(self.0)
    }

    pub(crate) fn file_name(self) -> String {
        format!("{:0DIGITS$}", self.0)
    }

    /// The generation of a file, if its name is one. Other files are none of this crate's.
    pub(crate) fn of_file(name: &[u8]) -> Option<Self> {
        let digits = str::from_utf8(name).ok()?;
        let is_one = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse().ok().map(Self).filter(|generation| is_one && generation.0 <= FencingToken::MAX.as_u64())
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_read_back_and_sort_by_size() {
        let numbers = [0, 1, 9, 10, FencingToken::MAX.as_u64()].map(Generation);
        for generation in numbers {
            assert_eq!(Generation::of_file(generation.file_name().as_bytes()), Some(generation));
        }
        assert!(numbers.map(Generation::file_name).is_sorted());
    }

    #[test]
    fn other_file_names_are_no_generations() {
        let too_large = (FencingToken::MAX.as_u64() + 1).to_string();
        for name in ["", ".", "..", "1", "00000000000000001", "+000000000000001", "000000000000000x", &too_large] {
            assert_eq!(Generation::of_file(name.as_bytes()), None, "{name}");
        }
        assert_eq!(Generation::of_file(b"\xff"), None);
    }
}
