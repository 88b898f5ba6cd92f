use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::id;

use lock_core::Clock;
use rustix::io::ioctl_fionbio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::args::GUARD;
use crate::family::{self, adopt_orphans};
use crate::link::{FromGuard, ToGuard};
use crate::plan::GIVE_UP_AFTER;
use crate::service;

/// A command under its guard process, as lockctl sees it.
#[derive(Debug)]
pub(crate) struct GuardedCommand {
    guard: Child,
    orders: PipeWriter,
    reports: Lines<BufReader<pipe::Receiver>>,
    /// The guard process's ends of the pipes, until it has opened them for itself through `/proc`.
    theirs: Option<(PipeReader, PipeWriter)>,
}

impl GuardedCommand {
    /// Starts a guard process that starts `command` once it has been told a deadline.
    ///
    /// The pipes are handed over by name, and so nothing else that is started meanwhile inherits one.
    pub(crate) fn new<'a>(
        command: &[OsString],
        variables: impl IntoIterator<Item = (&'a str, String)>,
    ) -> io::Result<Self> {
        // Should the guard process die, the command is for this process to end.
        adopt_orphans()?;
        let (their_orders, orders) = io::pipe()?;
        ioctl_fionbio(&orders, true)?;
        let (reports, their_reports) = io::pipe()?;
        let mut guard = Command::new("/proc/self/exe");
        guard.arg0("lock-guard").arg(GUARD);
        guard.args([id().to_string(), their_orders.as_raw_fd().to_string(), their_reports.as_raw_fd().to_string()]);
        guard.arg("--").args(command).env_remove(service::VARIABLE).envs(variables);
        // A group of its own: what is sent to the command's group, or to lockctl's, must not hit it.
        let guard = guard.process_group(0).spawn()?;
        Ok(Self {
            guard,
            orders,
            reports: BufReader::new(pipe::Receiver::from_owned_fd(OwnedFd::from(reports))?).lines(),
            theirs: Some((their_orders, their_reports)),
        })
    }

    /// Tells the guard process something. It does not wait for one that was stopped until the pipe was full: so short a line is
    /// written whole or not at all.
    pub(crate) fn tell(&mut self, order: ToGuard) {
        // It fails too when the guard process is gone, which the end of the reports tells.
        let _ = self.orders.write_all(order.to_line().as_bytes());
    }

    /// The guard process's next report; None when there will be no more.
    ///
    /// Cancel safe, as reading lines and waiting for a child are.
    pub(crate) async fn report(&mut self) -> Option<FromGuard> {
        loop {
            tokio::select! {
                biased;
                line = self.reports.next_line() => {
                    self.theirs = None;
                    return FromGuard::from_line(&line.ok()??);
                }
                // While lockctl has their end of the reports open too, only this tells that there will be no more.
                _ = self.guard.wait(), if self.theirs.is_some() => self.theirs = None,
            }
        }
    }

    /// Whether the guard process has ended by itself.
    pub(crate) fn guard_has_exited(&mut self) -> bool {
        matches!(self.guard.try_wait(), Ok(Some(status)) if status.code().is_some())
    }

    /// Kills the guard process and what is left of the command. False when somebody is left.
    pub(crate) async fn kill(&mut self) -> bool {
        // It fails when it is gone.
        let _ = self.guard.kill().await;
        family::kill_adopted(GIVE_UP_AFTER, &Clock::system()).await
    }
}
