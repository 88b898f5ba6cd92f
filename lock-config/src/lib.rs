//! From a URL to a lock client: where schemes meet backends.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> lock_core::Result<()> {
//! let locks = lock_config::connect("memory:").await?;
//! let guard = locks.lock("orders/4711").acquire().await?;
//! println!("mine, with token {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`connect`] knows the schemes that come with this crate, one for each backend whose feature is on:
//!
//! | scheme | feature | excludes |
//! | --- | --- | --- |
//! | `file:` | `file`, on by default | the processes of one host and one directory |
//! | `memory:` | none | the tasks of one process: for tests |
//!
//! A program with a backend of its own adds it to a [`Schemes`] and connects through that. There is no global registry: what
//! a URL can mean is a value that the program passes on.
mod builtin;
mod scheme;
mod schemes;

pub use scheme::Scheme;
pub use schemes::{Schemes, connect};

/// The front page's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
