use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in one line without secrets, with a [kind](ErrorKind) for programs.
///
/// That somebody else holds a lock is no error where it is an answer
/// ([`Lock::try_acquire`](crate::Lock::try_acquire) gives `None`).
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    retry_after: Option<Duration>,
    #[source]
    source: Option<Source>,
}

/// Shared, because several waiters may be told the same error.
type Source = Arc<dyn std::error::Error + Send + Sync>;

/// The kind of an [`Error`]: what a program can decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The time given for waiting is over, and somebody else has the lock.
    Timeout,
    /// The lease ended before its holder ended it.
    Lost,
    /// The service gave no answer, or said that it can't serve now. Whether the call took effect is not known.
    Unavailable,
    /// The service refused: rights, or something foreign where the lock is kept. Repeating won't help.
    Denied,
    /// This backend can't do that.
    Unsupported,
    /// The lock's name is not allowed.
    InvalidName,
    /// A setting, URL, option or duration is not allowed.
    InvalidConfig,
    /// The client has been closed, its runtime is gone, or this process is a fork of the one that opened it.
    Closed,
    /// The service granted a token that is not above one already seen: its memory went back. The grant was given back.
    TokenRegression,
    /// The service answered something that its protocol does not allow, or the library erred.
    Unexpected,
}

impl ErrorKind {
    /// Whether a call that ended so certainly did nothing at the service.
    pub(crate) fn is_an_answer(self) -> bool {
        matches!(self, Self::Denied | Self::Unsupported | Self::InvalidName | Self::InvalidConfig)
    }

    /// Whether asking again may help.
    pub(crate) fn is_transient(self) -> bool {
        self == Self::Unavailable
    }
}

impl Error {
    /// An error with its kind and one line for people: what was wrong, with which value, and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        // One error, one line: a log must not be broken up by what a service put into its answer.
        let message = if message.contains(char::is_control) { message.replace(char::is_control, " ") } else { message };
        Self { kind, message, retry_after: None, source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Says when a repetition may succeed.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Puts `context` and a colon before the message.
    #[must_use]
    pub fn in_context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Puts what to do about it behind the message.
    #[must_use]
    pub(crate) fn advising(mut self, remedy: &str) -> Self {
        self.message = format!("{}; {remedy}", self.message);
        self
    }

    /// This backend can't do `what`.
    pub(crate) fn unsupported(what: &str) -> Self {
        Self::new(ErrorKind::Unsupported, format!("this backend can't {what}"))
    }

    /// What a program can decide by.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// When a repetition may succeed, where the service said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Unsupported => "unsupported",
            Self::InvalidName => "invalid name",
            Self::InvalidConfig => "invalid configuration",
            Self::Closed => "closed",
            Self::TokenRegression => "token regression",
            Self::Unexpected => "unexpected",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_is_one_line_and_keeps_its_source() {
        let error = Error::new(ErrorKind::Denied, "no\nway").with_source("because").in_context("lock \"a\"");
        assert_eq!(error.to_string(), "lock \"a\": no way");
        assert_eq!(error.source().unwrap().to_string(), "because");
        assert_eq!(error.kind(), ErrorKind::Denied);
    }

    #[test]
    fn an_error_says_when_to_try_again() {
        let error = Error::new(ErrorKind::Unavailable, "starting").with_retry_after(Duration::from_secs(3));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    }
}
