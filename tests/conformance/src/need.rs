use std::fmt;

use lock_core::{Capabilities, Notice, Order, TtlChange};

/// What a case needs a backend to be able to do. A backend that can't skips the case, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// Waiting clients are served first in, first out.
    Fifo,
    /// A lock can be taken away from its holder.
    ForceRelease,
    /// Locks can be listed.
    List,
    /// A holder is told of its loss.
    PushedLoss,
    /// A waiter is told that the way is free.
    PushedWakeup,
    /// A held lock's ttl can change.
    TtlChange,
}

impl Need {
    /// Whether these capabilities meet it.
    pub fn is_met_by(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::Fifo => capabilities.order == Order::Fifo,
            Self::ForceRelease => capabilities.can_force_release,
            Self::List => capabilities.can_list,
            Self::PushedLoss => capabilities.loss == Notice::Push,
            Self::PushedWakeup => capabilities.wakeup == Notice::Push,
            Self::TtlChange => capabilities.ttl_change == TtlChange::Any,
        }
    }
}

/// The reason of a skip.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "needs waiters that are served in order",
            Self::ForceRelease => "needs locks that can be taken away",
            Self::List => "needs locks that can be listed",
            Self::PushedLoss => "needs a loss that is pushed to the holder",
            Self::PushedWakeup => "needs a wake-up that is pushed to waiters",
            Self::TtlChange => "needs a ttl that can change while the lock is held",
        })
    }
}
