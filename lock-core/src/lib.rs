//! One lock API over any lock service.
mod backend;
mod capabilities;
mod claim;
mod clock;
#[doc = include_str!("contract.md")]
pub mod contract {
    #[cfg(doc)]
    use crate::*;
}
mod error;
mod finding;
mod holder;
mod memory;
mod name;
mod owner;
mod secret;
mod settings;
mod token;
mod url;

pub use async_trait::async_trait;
pub use backend::{Attempt, Backend, Contention, Extension, Grant, Page, Release, Watching};
pub use capabilities::{Capabilities, Ceiling, ExpiryClock, Fencing, Notice, Order, Restart, Scope, TtlChange};
pub use claim::{About, Claim, Mode, Place};
pub use clock::{BootTime, Clock};
pub use error::{Error, ErrorKind, Result};
pub use finding::{Finding, Level};
pub use holder::Holder;
pub use memory::MemoryBackend;
pub use name::LockName;
pub use owner::OwnerId;
pub use secret::Secret;
pub use settings::Settings;
pub use token::FencingToken;
pub use url::{Host, LockUrl};
