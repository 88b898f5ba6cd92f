use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use lock_core::{Error, ErrorKind};

use crate::link::Ended;

/// An exit status of lockctl's own; a command's status is handed through. The numbers are those of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u8);

impl Status {
    pub(crate) const DONE: Self = Self(0);
    /// The command line, or a name in it, is wrong.
    pub(crate) const USAGE: Self = Self(64);
    /// The service could not be reached.
    pub(crate) const UNAVAILABLE: Self = Self(69);
    /// The lock was lost, or could not be vouched for any more, while the command ran.
    pub(crate) const LOST: Self = Self(70);
    /// The operating system refused what lockctl needs.
    pub(crate) const SYSTEM: Self = Self(71);
    /// Somebody else has the lock.
    pub(crate) const CONTENDED: Self = Self(75);
    /// The service answered against its protocol.
    pub(crate) const PROTOCOL: Self = Self(76);
    /// The service refused.
    pub(crate) const DENIED: Self = Self(77);
    /// The URL or a setting is wrong.
    pub(crate) const CONFIG: Self = Self(78);
    /// The command can't be executed, as a shell says it.
    const NOT_EXECUTABLE: Self = Self(126);
    /// There is no such command, as a shell says it.
    const NOT_FOUND: Self = Self(127);

    /// The status for an error of the library.
    pub(crate) fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Timeout => Self::CONTENDED,
            ErrorKind::Lost => Self::LOST,
            ErrorKind::Unavailable => Self::UNAVAILABLE,
            ErrorKind::Denied => Self::DENIED,
            ErrorKind::InvalidName | ErrorKind::Unsupported => Self::USAGE,
            ErrorKind::InvalidConfig => Self::CONFIG,
            _ => Self::PROTOCOL,
        }
    }

    /// The status for a command that could not be started.
    pub(crate) fn of_start(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::NOT_FOUND } else { Self::NOT_EXECUTABLE }
    }

    /// The status for an end by `signal`.
    pub(crate) fn of_signal(signal: i32) -> Self {
        Self(128 + u8::try_from(signal).unwrap_or(0))
    }
}

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        match ended {
            // The kernel keeps eight bits.
            Ended::Exited(status) => Self(status.to_le_bytes()[0]),
            Ended::Killed(signal) => Self::of_signal(signal),
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.0)
    }
}

/// Why lockctl did not do what it was asked to: one line for people, and the status for scripts.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The operating system refused `what`.
    pub(crate) fn system(what: &str, error: &io::Error) -> Self {
        Self::new(Status::SYSTEM, format!("{what}: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(Status::of(error.kind()), error.to_string())
    }
}

/// Says something on standard error, which may be closed.
pub(crate) fn say(message: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "lockctl: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_status() {
        for (kind, status) in [
            (ErrorKind::Timeout, 75),
            (ErrorKind::Lost, 70),
            (ErrorKind::Unavailable, 69),
            (ErrorKind::Denied, 77),
            (ErrorKind::Unsupported, 64),
            (ErrorKind::InvalidName, 64),
            (ErrorKind::InvalidConfig, 78),
            (ErrorKind::Closed, 76),
            (ErrorKind::TokenRegression, 76),
            (ErrorKind::Unexpected, 76),
        ] {
            assert_eq!(Status::of(kind), Status(status), "{kind}");
        }
    }

    #[test]
    fn a_command_gives_its_own_status() {
        assert_eq!(Status::from(Ended::Exited(0)), Status(0));
        assert_eq!(Status::from(Ended::Exited(255)), Status(255));
        assert_eq!(Status::from(Ended::Killed(15)), Status(143));
        assert_eq!(Status::from(Ended::Killed(34)), Status(162));
    }

    #[test]
    fn a_command_that_does_not_start_is_told_as_a_shell_does() {
        for (errno, status) in [(2, 127), (13, 126), (8, 126)] {
            assert_eq!(Status::of_start(&io::Error::from_raw_os_error(errno)), Status(status));
        }
    }
}
