use std::fmt;
use std::io::Write;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Where the randomness of a case comes from, so that a run can be repeated.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Seed(u64);

/// The variable that sets it.
const VARIABLE: &str = "LOCK_CONFORMANCE_SEED";

impl Seed {
    /// The seed from the environment, or a new one. It is printed at once: a run that is killed can't do so any more.
    ///
    /// # Panics
    ///
    /// When the variable is not a whole number.
    pub(crate) fn from_environment(case: &str) -> Self {
        let seed = match std::env::var(VARIABLE) {
            Ok(text) => {
                Self(text.parse().unwrap_or_else(|_| panic!("{VARIABLE} is {text:?}; expected a whole number")))
            }
            Err(_) => Self(fastrand::u64(..)),
        };
        // In one piece, since other threads print too; without a standard error there is nobody to tell.
        let _ = std::io::stderr().write_all(format!("{case}: {seed}\n").as_bytes());
        seed
    }

    /// The randomness of one of many, which does not depend on what the others do.
    pub(crate) fn rng(self, number: usize) -> Rng {
        Rng::with_seed(self.0.wrapping_add(number as u64))
    }
}

/// What to set for a repetition.
impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VARIABLE}={}", self.0)
    }
}
