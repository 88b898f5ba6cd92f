//! One lock API over any lock service: an application takes a lock by name, and does not know which service keeps it.
//!
//! # What a lock can't do
//!
//! A lock that ends by itself can't be absolutely safe. A holder that is paused for longer than its ttl, a service that loses
//! its memory, a clock that jumps: each lets two in. Looking at [`LockGuard::is_held`] narrows the gap and can't close it,
//! since time passes between the look and the deed. What closes it is the [`FencingToken`]: the protected resource keeps the
//! highest one it has seen, and refuses lower ones, in one step with the write.
//!
//! # What this crate does
//!
//! A service's crate implements [`Backend`], questions and answers under ten numbered [promises](contract). Everything about
//! holding a lock is here, once for all services:
//!
//! - a lease is valid until a deadline that counts from before the request was sent, on a clock that goes on while the
//!   machine sleeps ([`Clock`]); past it [`LockGuard::is_held`] says no and [`LockGuard::lost`] resolves, also while a call hangs;
//! - it is extended at a third of its ttl, and tried again sooner after a failure;
//! - what is dropped, cancelled or timed out is given back, also when the answer comes late;
//! - the waiting tasks of one client cost the service no more than one, and are served in their order;
//! - all of that runs on a thread of its own, so that a busy application does not lose its locks.
//!
//! ```
//! use std::time::Duration;
//! use lock_core::{LockClient, MemoryBackend};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lock_core::Result<()> {
//! # async fn write_with(_: lock_core::FencingToken) {}
//! let locks = LockClient::new(MemoryBackend::new());
//! let guard = locks.lock("orders/4711").ttl(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire().await?;
//! write_with(guard.token()).await; // the resource refuses an older token
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Events
//!
//! Through `tracing`: `lock.waiting` (once a minute while waiting), `lock.acquired`, `lock.at_risk`, `lock.lost` with its
//! `reason`, `lock.released`. They carry `name`, and where there is one `owner` and `token`.
//!
//! # Features
//!
//! - `test-util`: `TestLocks`, in-memory locks with injected faults on tokio's paused clock, and `Clock::tokio`; the page
//!   `docs/test-your-own-code.md` has examples.
//! - `serde`: (de)serialization of [`FencingToken`] and [`LockName`], and serialization of [`Capabilities`].
//!
//! Linux is the supported platform. Elsewhere there is no clock that counts a suspended machine's sleep, and a holder learns
//! late that it lost its lock while the machine slept.

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
mod hold;
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
mod record;
mod releasing;
mod secret;
mod seen;
mod settings;
mod shared;
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

/// The examples of the page on tests run.
#[cfg(all(doctest, feature = "test-util"))]
#[doc = include_str!("../../docs/test-your-own-code.md")]
struct TestYourOwnCode;
