use std::fs::File;
use std::io;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{self, Pid, getpgrp, kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that this process was started from, if any.
///
/// Who reads from it and gets its Ctrl-C is its foreground group. The command has a group of its own, and is handed the
/// foreground for as long as it runs.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: Option<File>,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        Self { device: File::open("/dev/tty").ok() }
    }

    /// Puts `group` into the foreground if this process's group is there. True if it did.
    pub(crate) fn give_to(&self, group: Pid) -> bool {
        let given = self.hand_over(getpgrp(), group);
        if given {
            // It may have touched the terminal before, and have been stopped for it.
            let _ = kill_process_group(group, process::Signal::CONT);
        }
        given
    }

    /// Puts this process's group into the foreground if `group` is there. True if it did.
    pub(crate) fn take_from(&self, group: Pid) -> bool {
        self.hand_over(group, getpgrp())
    }

    /// Whoever else was put there meanwhile, by the shell for example, stays there.
    fn hand_over(&self, from: Pid, to: Pid) -> bool {
        let Some(device) = &self.device else { return false };
        tcgetpgrp(device) == Ok(from) && unstopped(|| tcsetpgrp(device, to)).is_ok()
    }

    /// After a Ctrl-C at this terminal: ends this process by SIGINT itself. A shell ends its script only if it sees that.
    pub(crate) fn end_by_interrupt(&self) {
        if self.device.as_ref().is_some_and(|device| tcgetpgrp(device) == Ok(getpgrp())) {
            // If it fails, there is still the exit status.
            let _ = signal_hook::low_level::emulate_default_handler(process::Signal::INT.as_raw());
        }
    }
}

/// Runs `body` without being stopped for touching the terminal from the background.
fn unstopped(body: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
    let touching = SigSet::from(Signal::SIGTTOU);
    let before = touching.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let done = body();
    before.thread_set_mask()?;
    Ok(done?)
}
