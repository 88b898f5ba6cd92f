use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use crate::{Clock, FencingToken, LockName, OwnerId};

/// The whole question, sent with every call: who wants what for how long, and what is known so far.
///
/// The core makes it and keeps it up to date; a backend reads it. It carries all that a call needs, so that a backend that
/// has forgotten everything it cached still answers rightly.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// What is to be locked.
    pub name: LockName,
    /// Whose claim it is. One claim, one owner; a later acquisition is another.
    pub owner: OwnerId,
    /// How long a grant shall live without further calls.
    pub ttl: Duration,
    /// How the lock is to be shared.
    pub mode: Mode,
    /// Whether the claim may stand in the service's queue. If not, a contended answer leaves nothing behind.
    pub may_queue: bool,
    /// Who asks, for people who inspect the lock.
    pub about: About,
    /// Whether some earlier call of this claim had no answer: it may have taken effect, or may still do so. `place` may be
    /// older than the truth then: look up by owner.
    pub unsure: bool,
    /// The token, once granted.
    pub token: Option<FencingToken>,
    /// The highest token of this name that the client has seen. A new grant's token must be above it.
    pub above: Option<FencingToken>,
    /// What the backend's last answer said of where this claim stands at the service.
    pub place: Option<Place>,
}

impl Claim {
    /// A new claim by a new owner, that may not queue.
    pub fn new(name: LockName, ttl: Duration) -> Self {
        Self {
            name,
            owner: OwnerId::random(),
            ttl,
            mode: Mode::Exclusive,
            may_queue: false,
            about: About::this_process(),
            unsure: false,
            token: None,
            above: None,
            place: None,
        }
    }
}

/// How a lock is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder at a time.
    #[default]
    Exclusive,
}

/// Who asks for a lock: for people who inspect it. Nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// What the caller wants to be known by.
    pub label: Option<String>,
    /// The machine's name.
    pub host: String,
    /// The process's id.
    pub pid: u32,
    /// When the claim was made, by this machine's wall clock.
    pub since: SystemTime,
}

impl About {
    /// This process, now, without a label.
    pub fn this_process() -> Self {
        static HOST: LazyLock<String> = LazyLock::new(|| {
            // Without it there are still pid and label.
            nix::unistd::gethostname().map(|host| host.to_string_lossy().into_owned()).unwrap_or_default()
        });
        Self { label: None, host: HOST.clone(), pid: std::process::id(), since: Clock::wall() }
    }
}

/// Where a claim stands at the service, in the backend's own words: a node's path, a lease's id.
///
/// The core keeps it and gives it back; it does not look inside.
#[derive(Clone, PartialEq, Eq)]
pub struct Place(Arc<[u8]>);

impl Place {
    /// A place from the backend's bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into())
    }

    /// The bytes it was made of.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.0.escape_ascii())
    }
}
