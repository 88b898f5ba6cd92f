//! What lockctl and its guard process say to each other: one line each, so that it can be read with strace.

use std::time::Duration;

use lock_core::BootTime;
use rustix::process::{Pid, Signal};

/// From lockctl to its guard process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToGuard {
    /// The lease ends then. The first one starts the command.
    Until { deadline: BootTime, ttl: Duration },
    /// Send this to the command.
    Signal(Signal),
    /// The lock is lost: end the command now.
    Lost,
}

/// From the guard process to lockctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FromGuard {
    /// The command runs, as the leader of this process group.
    Started(Pid),
    /// The command could not be started: the system's error number.
    NotStarted(i32),
    /// The command stands still until it is in the terminal's foreground.
    WantsTerminal,
    /// The guard process begins to end the command.
    CutShort,
    /// The command has ended, and its group with it.
    Ended(Ended),
    /// Members of the group are left that can't be ended.
    Left,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl ToGuard {
    pub(crate) fn to_line(self) -> String {
        match self {
            Self::Until { deadline, ttl } => {
                format!("until {} {}\n", deadline.since_boot().as_nanos(), ttl.as_nanos())
            }
            Self::Signal(signal) => format!("signal {}\n", signal.as_raw()),
            Self::Lost => "lost\n".to_owned(),
        }
    }

    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words {
            ["until", deadline, ttl] => {
                let [deadline, ttl] = [deadline, ttl].map(|nanos| nanos.parse().map(Duration::from_nanos));
                Some(Self::Until { deadline: BootTime::from_boot(deadline.ok()?), ttl: ttl.ok()? })
            }
            ["signal", number] => Signal::from_named_raw(number.parse().ok()?).map(Self::Signal),
            ["lost"] => Some(Self::Lost),
            _ => None,
        }
    }
}

impl FromGuard {
    pub(crate) fn to_line(self) -> String {
        match self {
            Self::Started(group) => format!("started {}\n", group.as_raw_nonzero()),
            Self::NotStarted(errno) => format!("not-started {errno}\n"),
            Self::WantsTerminal => "wants-terminal\n".to_owned(),
            Self::CutShort => "cut-short\n".to_owned(),
            Self::Ended(Ended::Exited(status)) => format!("exited {status}\n"),
            Self::Ended(Ended::Killed(signal)) => format!("killed {signal}\n"),
            Self::Left => "left\n".to_owned(),
        }
    }

    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ').map_or((line, None), |(word, rest)| (word, rest.parse().ok()));
        match (word, number) {
            ("started", Some(group)) => Pid::from_raw(group).map(Self::Started),
            ("not-started", Some(errno)) => Some(Self::NotStarted(errno)),
            ("wants-terminal", None) => Some(Self::WantsTerminal),
            ("cut-short", None) => Some(Self::CutShort),
            ("exited", Some(status)) => Some(Self::Ended(Ended::Exited(status))),
            ("killed", Some(signal)) => Some(Self::Ended(Ended::Killed(signal))),
            ("left", None) => Some(Self::Left),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_its_line() {
        let deadline = BootTime::from_boot(Duration::from_nanos(86_400_000_000_001));
        for message in [
            ToGuard::Until { deadline, ttl: Duration::from_millis(1500) },
            ToGuard::Signal(Signal::USR2),
            ToGuard::Lost,
        ] {
            assert_eq!(ToGuard::from_line(message.to_line().strip_suffix('\n').unwrap()), Some(message));
        }
        for message in [
            FromGuard::Started(Pid::from_raw(4711).unwrap()),
            FromGuard::NotStarted(2),
            FromGuard::WantsTerminal,
            FromGuard::CutShort,
            FromGuard::Ended(Ended::Exited(3)),
            FromGuard::Ended(Ended::Killed(34)),
            FromGuard::Left,
        ] {
            assert_eq!(FromGuard::from_line(message.to_line().strip_suffix('\n').unwrap()), Some(message));
        }
    }

    #[test]
    fn other_lines_are_no_messages() {
        for line in
            ["", "until", "until 1", "until x 1", "signal 0", "signal 99", "lost 1", "started 0", "exited", "left 1"]
        {
            assert_eq!(ToGuard::from_line(line), None, "{line}");
            assert_eq!(FromGuard::from_line(line), None, "{line}");
        }
    }
}
