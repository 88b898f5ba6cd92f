use std::fs::File;
use std::io::{self, IsTerminal};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{self, Pid, kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::descendants::own_group;

/// How often to look whether this process has come to the foreground. Nobody tells: shells send no signal to a job that was
/// running in the background.
const FOREGROUND_POLL: Duration = Duration::from_millis(200);

/// The terminal that this process was started from, if any.
///
/// Who reads from it and gets its Ctrl-C is its foreground group. The command has a group of its own, which is put into the
/// foreground and back.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// The terminal, and this process's group.
    found: Option<(File, Pid)>,
    /// Whether the command has been in the foreground.
    given: bool,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        Self { found: File::open("/dev/tty").ok().zip(own_group()), given: false }
    }

    /// Whether a command should be in the foreground from its start. In a pipeline the terminal is rather for the last in it, a
    /// pager for example, and the command gets it when it asks.
    pub(crate) fn is_for_the_command() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Puts `group` into the foreground as soon as this process's group is there.
    ///
    /// Cancel safe: it is done at once or not at all.
    pub(crate) async fn give_to(&mut self, group: Pid) {
        let Some((device, own)) = &self.found else { return std::future::pending().await };
        while !hand_over(device, *own, group) {
            tokio::time::sleep(FOREGROUND_POLL).await;
        }
        self.given = true;
        // It may have touched the terminal before, and have been stopped for it.
        let _ = kill_process_group(group, process::Signal::CONT);
    }

    /// Puts this process's group into the foreground if `group` is there. The command was `interrupted` by a Ctrl-C perhaps,
    /// which is meant for all in the foreground, and was kept from this process's group.
    pub(crate) fn take_from(&self, group: Pid, interrupted: bool) {
        if let Some((device, own)) = &self.found
            && self.given
            && hand_over(device, group, *own)
            && interrupted
        {
            let _ = kill_process_group(*own, process::Signal::INT);
        }
    }

    /// If this process is in the foreground, ends it by SIGINT itself: a shell ends its script only if it sees that.
    pub(crate) fn end_by_interrupt(&self) {
        if let Some((device, own)) = &self.found
            && tcgetpgrp(device) == Ok(*own)
        {
            // If it fails, there is still the exit status.
            let _ = signal_hook::low_level::emulate_default_handler(process::Signal::INT.as_raw());
        }
    }
}

/// Whoever else was put there meanwhile, by the shell for example, stays there.
fn hand_over(device: &File, from: Pid, to: Pid) -> bool {
    tcgetpgrp(device) == Ok(from) && unstopped(|| tcsetpgrp(device, to)).is_ok()
}

/// Runs `body` without being stopped for touching the terminal from the background.
fn unstopped(body: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
    let touching = SigSet::from(Signal::SIGTTOU);
    let before = touching.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let done = body();
    before.thread_set_mask()?;
    Ok(done?)
}
