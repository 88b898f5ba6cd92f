//! Real servers and real faults, for the tests of the backends.
//!
//! - [`Server`] is a server's process: started on a free port in a directory of its own, stopped, killed and restarted, and
//!   ended with the test however the test ends. What is started is a [`Setup`], such as [`redis()`].
//! - [`Relay`] is the network between a client and a server: it delays, holds, loses, cuts and refuses, and counts what goes
//!   through.
//!
//! Everything stays on 127.0.0.1. Linux only: it takes `/proc`, `setpriv` and what Linux does with ports.
mod connection;
mod counts;
mod flow;
mod home;
mod lifeline;
mod listener;
mod port;
mod probe;
mod program;
mod redis;
mod relay;
mod server;
mod server_error;
mod setup;

pub use counts::{Counts, Traffic};
pub use flow::{Direction, Flow};
pub use port::Port;
pub use probe::Probe;
pub use program::Program;
pub use redis::{REDIS, REDIS_DURABLE, redis};
pub use relay::Relay;
pub use server::{Data, Server};
pub use server_error::{Said, ServerError};
pub use setup::Setup;

pub(crate) use flow::Settings;
