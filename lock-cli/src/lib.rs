//! lockctl: run a command under a lock.
//!
//! What it cannot do:
//!
//! - It cannot make sure that the command has the lock: no lock with a time limit can. Hand `LOCK_TOKEN` to the resource, and
//!   let the resource refuse an older one.
//! - It ends all that the command has started in its session. A process that leaves the session (`setsid`, a daemon) or belongs
//!   to another user (`sudo` in the command) is out of its reach: run `sudo lockctl run`, not `lockctl run ... sudo`.
//! - Nothing ends the command while lockctl and its guard process are both killed with SIGKILL, or stopped, or one killed and
//!   one stopped. Either of them does it alone.
//! - A command under a lock can't be suspended with Ctrl-Z: it would keep the lock from everybody else.
//! - It needs Linux: a clock that counts the time asleep, and `/proc`.
//!
//! The binary is [`main_with`] and the schemes that [`lock_config`] knows. A lockctl with one more is as short:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     let schemes = lock_config::Schemes::builtin(); // .with("postgres", ...)
//!     lock_cli::main_with(schemes)
//! }
//! ```
//!
//! `lockctl run` consists of two processes. The first holds the lock. The second, the guard process, is the same program
//! started again: it starts the command as the leader of a process group of its own, is told every new deadline of the lease
//! through a pipe, and ends the command with all that it has started before the deadline comes, when the lock is lost, and when
//! the first process is gone. So the command ends in time also when the first process is stopped, killed, or starved.

#[cfg(not(target_os = "linux"))]
compile_error!("lockctl needs Linux: its guard process relies on /proc and on a clock that counts the time asleep");

mod acquire;
mod args;
mod backends;
mod command;
mod course;
mod descendants;
mod exit;
mod family;
mod guard;
mod holder;
mod inspect;
mod link;
mod list;
mod output;
mod plan;
mod program;
mod release;
mod run;
mod service;
mod signals;
mod terminal;

pub use program::main_with;
