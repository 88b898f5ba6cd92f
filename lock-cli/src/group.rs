use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use lock_core::Clock;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, wait};

use crate::link::Ended;

/// A command that runs as the leader of a process group of its own, and what it started there.
///
/// The kernel gives the group's number to no new process while the group has a member, so signals to it hit nobody else.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Child,
    ended: Option<Ended>,
}

impl Group {
    /// Starts `command` with the standard streams, environment and working directory of this process.
    pub(crate) fn start((program, args): (&OsString, &[OsString])) -> io::Result<Self> {
        let leader = Command::new(program).args(args).process_group(0).spawn()?;
        Ok(Self { leader, ended: None })
    }

    pub(crate) fn id(&self) -> Pid {
        Pid::from_child(&self.leader)
    }

    /// How the command itself ended, if it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Sends a signal to everybody in the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // Nobody left is no failure, and of members that belong to another user `is_gone` will tell.
        let _ = kill_process_group(self.id(), signal);
    }

    /// Takes notice of every child that has ended or stopped: the command, and orphans that were handed to this process.
    /// True if the command was stopped because it is in the background of its terminal.
    pub(crate) fn reap(&mut self) -> bool {
        let mut wants_terminal = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid != self.id() {
                continue;
            }
            match status.stopping_signal().and_then(Signal::from_named_raw) {
                // Ctrl-Z. A command that stands still would keep the lock from everybody else.
                Some(Signal::TSTP) => self.signal(Signal::CONT),
                Some(Signal::TTIN | Signal::TTOU) => wants_terminal = true,
                _ => {}
            }
            let killed = || status.terminating_signal().map(Ended::Killed);
            self.ended = status.exit_status().map(Ended::Exited).or_else(killed);
        }
        wants_terminal
    }

    /// Whether nobody is left in the group.
    pub(crate) fn is_gone(&self) -> bool {
        self.ended.is_some() && test_kill_process_group(self.id()) == Err(Errno::SRCH)
    }
}

/// Whatever ends the guard process early, the command does not go on without it.
impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.signal(Signal::KILL);
        }
    }
}

/// Kills a group whose guard process is gone, and waits until nobody is left in it, but no longer than `patience`. This
/// process must be the one that orphans are handed to.
pub(crate) async fn kill(group: Pid, patience: Duration, clock: &Clock) -> bool {
    let until = clock.now() + patience;
    while kill_process_group(group, Signal::KILL) != Err(Errno::SRCH) {
        if clock.now() >= until {
            return false;
        }
        tokio::time::sleep(POLL).await;
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
    true
}

/// How often to look whether a group is gone where nothing tells.
pub(crate) const POLL: Duration = Duration::from_millis(10);
