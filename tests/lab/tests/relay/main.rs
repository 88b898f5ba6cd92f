//! The relay between clients and a server that sends back what it gets.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

mod faults;
mod flows;
mod passing;
mod support;
