//! One lock API over any lock service.
mod backend;
mod caller;
mod capabilities;
mod claim;
mod client;
mod clock;
#[doc = include_str!("contract.md")]
pub mod contract {
    #[cfg(doc)]
    use crate::*;
}
mod error;
mod finding;
mod guard;
mod holder;
mod holding;
mod home;
mod keeper;
mod lease;
mod line;
mod lock;
mod memory;
mod name;
mod owner;
mod secret;
mod seen;
mod settings;
#[cfg(feature = "test-util")]
mod test_locks;
mod token;
mod url;
mod waiting;

pub use async_trait::async_trait;
pub use backend::{Attempt, Backend, Contention, Extension, Grant, Page, Release, Watching};
pub use capabilities::{Capabilities, Ceiling, ExpiryClock, Fencing, Notice, Order, Restart, Scope, TtlChange};
pub use claim::{About, Claim, Mode, Place};
pub use client::{LockClient, LockClientBuilder};
pub use clock::{BootTime, Clock};
pub use error::{Error, ErrorKind, Result};
pub use finding::{Finding, Level};
pub use guard::LockGuard;
pub use holder::Holder;
pub use lease::{Lease, LeaseState, LossReason, Lost};
pub use lock::Lock;
pub use memory::MemoryBackend;
pub use name::LockName;
pub use owner::OwnerId;
pub use secret::Secret;
pub use settings::Settings;
#[cfg(feature = "test-util")]
pub use test_locks::{Op, TestLocks};
pub use token::FencingToken;
pub use url::{Host, LockUrl};
