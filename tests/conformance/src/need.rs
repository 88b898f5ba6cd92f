use std::fmt;

use lock_core::{Capabilities, Notice, Order, TtlChange};

use crate::Service;

/// What a case needs. Where it is not met the case is skipped, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// A backend whose waiting clients are served first in, first out.
    Fifo,
    /// A backend that can take a lock away from its holder.
    ForceRelease,
    /// A backend that can list locks.
    List,
    /// A backend that tells a holder of its loss.
    PushedLoss,
    /// A backend that tells a waiter that the way is free.
    PushedWakeup,
    /// A backend that can change a held lock's ttl.
    TtlChange,
    /// A service that can be made to forget a holder: [`Service::with_evict`].
    Evict,
    /// A service that can be asked what it keeps: [`Service::with_look`].
    Look,
    /// A network that can be hurt: [`Service::with_link`].
    Link,
    /// Other processes, in real time: [`Suite::with_processes`](crate::Suite::with_processes).
    Processes,
    /// A service that can be restarted: [`Service::with_restart`].
    Restart,
    /// Time that goes on while a thread is blocked: not [`Suite::with_paused_time`](crate::Suite::with_paused_time).
    RealTime,
}

/// What a suite has to offer to its cases.
#[derive(Clone, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) capabilities: &'a Capabilities,
    pub(crate) service: &'a Service,
    pub(crate) has_processes: bool,
    pub(crate) has_paused_time: bool,
}

impl Need {
    /// Whether a backend's [`Capabilities`] decide it, and not how its suite was set up.
    pub const fn is_of_the_backend(self) -> bool {
        matches!(
            self,
            Self::Fifo | Self::ForceRelease | Self::List | Self::PushedLoss | Self::PushedWakeup | Self::TtlChange
        )
    }

    pub(crate) fn is_met_by(self, offer: &Offer<'_>) -> bool {
        let Offer { capabilities, service, .. } = offer;
        match self {
            Self::Fifo => capabilities.order == Order::Fifo,
            Self::ForceRelease => capabilities.can_force_release,
            Self::List => capabilities.can_list,
            Self::PushedLoss => capabilities.loss == Notice::Push,
            Self::PushedWakeup => capabilities.wakeup == Notice::Push,
            Self::TtlChange => capabilities.ttl_change == TtlChange::Any,
            Self::Evict => service.evict.is_some(),
            Self::Look => service.look.is_some(),
            Self::Link => service.link.is_some(),
            Self::Processes => offer.has_processes,
            Self::Restart => service.restart.is_some(),
            Self::RealTime => !offer.has_paused_time,
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
            Self::Evict => "needs the hook Service::with_evict",
            Self::Look => "needs the hook Service::with_look",
            Self::Link => "needs the hook Service::with_link",
            Self::Processes => "needs Suite::with_processes and Service::with_address, in real time",
            Self::Restart => "needs the hook Service::with_restart",
            Self::RealTime => "needs time that goes on by itself",
        })
    }
}
