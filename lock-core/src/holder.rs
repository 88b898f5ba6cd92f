use std::time::{Duration, SystemTime};

use crate::{About, FencingToken, LockName};

/// Who has a lock, as the service shows it. What a service can't tell is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The lock's name.
    pub name: LockName,
    /// The owner as the service shows it. A client of another kind may have written anything here.
    pub owner: String,
    /// The grant's fencing token.
    pub token: Option<FencingToken>,
    /// What the holder wants to be known by.
    pub label: Option<String>,
    /// The holder's machine.
    pub host: Option<String>,
    /// The holder's process.
    pub pid: Option<u32>,
    /// When the holder began to ask for the lock, by its own wall clock.
    pub since: Option<SystemTime>,
    /// What is left of the grant if it is not extended.
    pub remaining: Option<Duration>,
}

impl Holder {
    /// A holder of whom nothing more is known.
    pub fn new(name: LockName, owner: impl Into<String>) -> Self {
        let owner = owner.into();
        Self { name, owner, token: None, label: None, host: None, pid: None, since: None, remaining: None }
    }

    /// Adds the grant's fencing token.
    #[must_use]
    pub fn with_token(mut self, token: FencingToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Adds what the claim said of itself.
    #[must_use]
    pub fn with_about(mut self, about: &About) -> Self {
        self.label.clone_from(&about.label);
        self.host = Some(about.host.clone());
        self.pid = Some(about.pid);
        self.since = Some(about.since);
        self
    }

    /// Adds what is left of the grant.
    #[must_use]
    pub fn with_remaining(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }
}
