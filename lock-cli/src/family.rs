use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use lock_core::Clock;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, set_child_subreaper, wait,
};

use crate::descendants::{Process, descendants};
use crate::link::Ended;

/// How often to look whether a family is gone where nothing tells.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// A command and all that it has started, except what has left its session.
///
/// The command leads a process group of its own. `timeout`, a shell with job control and another lockctl put what they start
/// into further groups, so the family is found by descent. Orphans are handed to this process, hence nobody gets lost.
#[derive(Debug)]
pub(crate) struct Family {
    command: Child,
    ended: Option<Ended>,
    childless: bool,
}

/// Lets orphans below this process be handed to it, and not to init, which may be slow to ask how they ended, or never ask.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

impl Family {
    /// Starts `command` with the standard streams, environment and working directory of this process.
    pub(crate) fn start((program, args): (&OsString, &[OsString])) -> io::Result<Self> {
        let command = Command::new(program).args(args).process_group(0).spawn()?;
        Ok(Self { command, ended: None, childless: false })
    }

    /// The command's process group.
    pub(crate) fn group(&self) -> Pid {
        Pid::from_child(&self.command)
    }

    /// How the command itself ended, if it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Sends a signal to the command's process group.
    pub(crate) fn hand_on(&self, signal: Signal) {
        // Once the command has ended, the kernel may give the group's number to others.
        if self.ended.is_none() {
            // It fails when the group is another user's, who knows better.
            let _ = kill_process_group(self.group(), signal);
        }
    }

    /// Sends a signal to the whole family, once: to many programs a second SIGTERM means something else than the first.
    pub(crate) fn send(&self, signal: Signal) {
        self.hand_on(signal);
        let reached = Some(self.group()).filter(|_| self.ended.is_none());
        send(signal, reached);
    }

    /// Takes notice of every child that has ended or stopped: the command, and orphans. True if the command was stopped because
    /// it is in the background of its terminal.
    pub(crate) fn reap(&mut self) -> bool {
        let mut wants_terminal = false;
        while let Some((child, status)) = self.next_news() {
            if child != self.group() {
                continue;
            }
            match status.stopping_signal().and_then(Signal::from_named_raw) {
                // Ctrl-Z. A command that stands still would keep the lock from everybody else.
                Some(Signal::TSTP) => self.hand_on(Signal::CONT),
                Some(Signal::TTIN | Signal::TTOU) => wants_terminal = true,
                _ => {}
            }
            let killed = || status.terminating_signal().map(Ended::Killed);
            self.ended = status.exit_status().map(Ended::Exited).or_else(killed);
        }
        wants_terminal
    }

    fn next_news(&mut self) -> Option<(Pid, WaitStatus)> {
        let news = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED);
        self.childless = matches!(news, Err(Errno::CHILD));
        news.ok().flatten()
    }

    /// Whether nobody is left. To be asked after [`reap`](Self::reap).
    pub(crate) fn is_gone(&self) -> bool {
        // Without children there are no descendants, and /proc need not be searched.
        self.ended.is_some() && (self.childless || is_gone())
    }
}

/// Whatever ends the guard process early, the command does not go on without it.
impl Drop for Family {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.send(Signal::KILL);
        }
    }
}

/// Kills the family of a guard process that is gone, and waits until nobody is left, but no longer than `patience`. False when
/// somebody is.
pub(crate) async fn kill_adopted(patience: Duration, clock: &Clock) -> bool {
    let until = clock.now() + patience;
    while !is_gone() {
        if clock.now() >= until {
            return false;
        }
        send(Signal::KILL, None);
        tokio::time::sleep(POLL).await;
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
    true
}

/// Sends a signal to every descendant outside of the process group that it has reached already.
fn send(signal: Signal, reached: Option<Pid>) {
    let mut members = descendants().unwrap_or_default();
    members.retain(|member| reached.is_none() || member.group() != reached);
    for member in members.iter().filter_map(Process::id) {
        // It fails when the member has ended meanwhile or is another user's; `is_gone` will tell.
        let _ = kill_process(member, signal);
    }
}

fn is_gone() -> bool {
    descendants().is_ok_and(|left| left.is_empty())
}
