use std::ffi::OsString;
use std::fmt::Display;
use std::future::{pending, ready};
use std::io;

use lock_core::{Error, LockGuard, LossReason};
use rustix::process::{Pid, Signal};
use tokio::time::Instant;

use crate::command::GuardedCommand;
use crate::exit::{Failure, Status};
use crate::link::{Ended, FromGuard, ToGuard};
use crate::plan::GIVE_UP_AFTER;
use crate::signals::Signals;
use crate::terminal::Terminal;

/// What has become of a command under a lock.
#[derive(Debug, Default)]
pub(crate) struct Course {
    not_started: Option<io::Error>,
    unguarded: bool,
    lost: Option<LossReason>,
    cut_short: bool,
    no_extension: Option<Error>,
    ended: Option<Ended>,
    left: bool,
}

impl Course {
    /// Starts the command and follows it to its end.
    pub(crate) async fn follow(
        command: &[OsString],
        guard: &LockGuard,
        signals: &mut Signals,
        terminal: &mut Terminal,
    ) -> Result<Self, Failure> {
        let variables = [
            ("LOCK_NAME", guard.name().to_string()),
            ("LOCK_TOKEN", guard.token().to_string()),
            ("LOCK_OWNER", guard.owner().to_string()),
        ];
        let cant_start = |error| Failure::system("can't start the guard process", &error);
        let mut command = GuardedCommand::new(command, variables).map_err(cant_start)?;
        let (mut course, lease, mut loss) = (Self::default(), guard.lease(), guard.lost());
        let mut deadline = lease.deadline();
        let mut give_up = Instant::now();
        let mut group = None;
        let mut wants_terminal = None;
        command.tell(ToGuard::Until { deadline, ttl: lease.ttl() });
        loop {
            tokio::select! {
                biased;
                report = command.report() => match report {
                    Some(FromGuard::Started(started)) => {
                        group = Some(started);
                        wants_terminal = group.filter(|_| Terminal::is_for_the_command());
                    }
                    Some(FromGuard::WantsTerminal) => wants_terminal = group,
                    Some(FromGuard::NotStarted(errno)) => {
                        course.not_started = Some(io::Error::from_raw_os_error(errno));
                    }
                    Some(FromGuard::CutShort) => course.cut_short = true,
                    Some(FromGuard::Ended(ended)) => course.ended = Some(ended),
                    Some(FromGuard::Left) => course.left = true,
                    None => break,
                },
                reason = &mut loss, if course.lost.is_none() => {
                    course.lost = Some(reason);
                    command.tell(ToGuard::Lost);
                    give_up = Instant::now() + 2 * GIVE_UP_AFTER;
                }
                () = lease.deadline_moved(deadline), if course.lost.is_none() => {
                    deadline = lease.deadline();
                    command.tell(ToGuard::Until { deadline, ttl: lease.ttl() });
                }
                signal = signals.next() => command.tell(ToGuard::Signal(signal)),
                () = give(terminal, wants_terminal) => wants_terminal = None,
                // Somebody has stopped the guard process.
                () = tokio::time::sleep_until(give_up), if course.lost.is_some() => break,
            }
        }
        // Whoever was stopped meanwhile hears of everything at once, and the loss is what counts.
        tokio::select! {
            biased;
            reason = &mut loss, if course.lost.is_none() => course.lost = Some(reason),
            () = ready(()) => {}
        }
        if course.ended.is_none() && course.not_started.is_none() {
            // It has told why on standard error. A command that it had started, it would not leave.
            course.unguarded = group.is_none() && command.guard_has_exited();
            course.left = !course.unguarded && !command.kill().await;
        }
        if course.cut_short && course.lost.is_none() {
            // Nobody has told why the others failed, and one more will tell. It takes no longer than the lease does.
            course.no_extension = guard.extend(lease.ttl()).await.err();
        }
        if let Some(group) = group {
            terminal.take_from(group, course.ended == Some(Ended::Killed(Signal::INT.as_raw())));
        }
        Ok(course)
    }

    /// The exit status, or why it is not the command's own.
    pub(crate) fn verdict(self, command: &[OsString], lock: &str) -> Result<Status, Failure> {
        if let Some(error) = self.not_started {
            let program = command[0].to_string_lossy();
            return Err(Failure::new(Status::of_start(&error), format!("can't run {program:?}: {error}")));
        }
        if self.left {
            let message = "what the command has started can't be ended, and may run on without the lock";
            return Err(Failure::new(Status::LOST, message));
        }
        match (self.lost, self.ended) {
            (Some(reason), _) => Err(lost(lock, reason)),
            (None, _) if self.cut_short => {
                let why = self.no_extension.map(|error| format!(": {error}")).unwrap_or_default();
                let message = format!("the command was ended because lock {lock:?} had not been extended in time{why}");
                Err(Failure::new(Status::LOST, message))
            }
            (None, Some(ended)) => Ok(ended.into()),
            (None, None) if self.unguarded => {
                let message = "the guard process ended by itself, and the command was not started";
                Err(Failure::new(Status::SYSTEM, message))
            }
            (None, None) => {
                Err(Failure::new(Status::LOST, "the command was killed because its guard process had died"))
            }
        }
    }
}

/// Gives the terminal to who wants it, when this process has it.
async fn give(terminal: &mut Terminal, to: Option<Pid>) {
    match to {
        Some(group) => terminal.give_to(group).await,
        None => pending().await,
    }
}

/// The failure of a command whose lock was not its own to the end.
pub(crate) fn lost(lock: &str, why: impl Display) -> Failure {
    Failure::new(Status::LOST, format!("lock {lock:?} was lost while the command ran: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(course: Course) -> Status {
        course.verdict(&["true".into()], "a").unwrap_or_else(|failure| failure.status)
    }

    #[test]
    fn without_a_guard_process_nothing_was_lost() {
        assert_eq!(verdict(Course { unguarded: true, ..Course::default() }), Status::SYSTEM);
        assert_eq!(verdict(Course::default()), Status::LOST);
        let lost = Some(LossReason::Closed);
        assert_eq!(verdict(Course { unguarded: true, lost, ..Course::default() }), Status::LOST);
    }
}
