use std::fmt;

use crate::{Error, ErrorKind};

/// One thing that a [`Backend::preflight`](crate::Backend::preflight) looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at, in a few words.
    pub check: &'static str,
    /// What was found.
    pub found: String,
    /// What it means for locks; empty when all is well.
    pub consequence: String,
    /// What to do about it; empty when there is nothing to do.
    pub remedy: String,
    /// Why connecting fails, for a finding of level [`Refused`](Level::Refused).
    pub error: Option<Error>,
}

impl Finding {
    /// All is well.
    pub fn good(check: &'static str, found: impl Into<String>) -> Self {
        let (consequence, remedy) = (String::new(), String::new());
        Self { level: Level::Good, check, found: found.into(), consequence, remedy, error: None }
    }

    /// Locks work, and something is worth knowing.
    pub fn note(check: &'static str, found: impl Into<String>, consequence: impl Into<String>) -> Self {
        Self { level: Level::Note, consequence: consequence.into(), ..Self::good(check, found) }
    }

    /// Locks work, and promise less than one would expect.
    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        consequence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warning, remedy: remedy.into(), ..Self::note(check, found, consequence) }
    }

    /// Locks would not work: connecting fails with `error`.
    pub fn refused(check: &'static str, error: Error, remedy: impl Into<String>) -> Self {
        let found = error.to_string();
        Self { level: Level::Refused, remedy: remedy.into(), error: Some(error), ..Self::good(check, found) }
    }

    /// The error that connecting fails with, if it fails because of this finding.
    pub fn into_error(self) -> Option<Error> {
        (self.level == Level::Refused)
            .then(|| self.error.unwrap_or_else(|| Error::new(ErrorKind::Denied, self.found)))
            .map(|error| if self.remedy.is_empty() { error } else { error.advising(&self.remedy) })
    }
}

/// How bad a [`Finding`] is. Greater is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// All is well.
    Good,
    /// Worth knowing.
    Note,
    /// Locks promise less than one would expect.
    Warning,
    /// Locks would not work.
    Refused,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Refused => "refused",
        })
    }
}
