use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What lockctl hands on to the command. SIGCONT is the only one that does not end lockctl while there is no command yet.
pub(crate) const HANDED_ON: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::CONT];

/// Signals as they arrive at this process, instead of what they would do to it.
///
/// They are caught and not ignored, because a started program would inherit that they are ignored. What was ignored when this
/// process started stays so, here and in the command: `nohup lockctl run` means the command.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches `signals` from now on, also when this value is gone.
    pub(crate) fn catch(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored()?;
        // While SIGCHLD is ignored, the kernel forgets how children ended.
        let wanted = |signal: &&Signal| **signal == Signal::CHILD || ignored >> (signal.as_raw() - 1) & 1 == 0;
        let wanted = signals.iter().filter(wanted);
        let caught = wanted.map(|&signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)));
        Ok(Self { caught: caught.collect::<io::Result<_>>()? })
    }

    /// The next signal that means the end. Cancel safe, as [`next`](Self::next) is.
    pub(crate) async fn next_ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if signal != Signal::CONT {
                return signal;
            }
        }
    }

    /// The next signal.
    ///
    /// Cancel safe: a signal is not taken before it is returned.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            let arrived = self.caught.iter_mut().find_map(|(signal, arrivals)| {
                matches!(arrivals.poll_recv(cx), Poll::Ready(Some(()))).then_some(*signal)
            });
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// The signals that this process ignores, as the kernel's bit mask. SIGPIPE is among them, as in every Rust program.
fn ignored() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .ok_or_else(|| io::Error::other("/proc/self/status has no line SigIgn"))
}
