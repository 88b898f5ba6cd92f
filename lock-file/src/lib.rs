//! Locks in a directory of one host, without any server.
//!
//! # What it cannot do
//!
//! - It excludes the processes of one host only. A directory on a network file system is refused, not trusted.
//! - Two users do not exclude each other by default: each has a directory of its own.
//! - A holder that is paused past its deadline does not know it when it goes on. Let the resource check the fencing token.
//! - Whoever may write the directory, or replace it, can break its locks: hold them for ever, or remove their records.
//! - Waiters are served in no order, and on a disk an acquire costs as much as two writes that reach it.
//!
//! ```
//! use std::time::Duration;
//!
//! use lock_core::LockClient;
//! use lock_file::{FileBackend, FileConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lock_core::Result<()> {
//! # let temporary = tempfile::tempdir().expect("there is room");
//! # let directory = temporary.path().join("locks");
//! let locks = LockClient::new(FileBackend::new(FileConfig::new(directory)));
//! let guard = locks.lock("orders/4711").ttl(Duration::from_secs(30)).acquire().await?;
//! println!("fencing token {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - Exclusion among all who use the directory, also when processes are killed or stopped at any instruction: nobody ever
//!   waits inside an operating system's lock, and no file is ever seen half-written.
//! - A grant that nobody extends ends exactly at its deadline, on the boot-time clock, which goes on while the machine sleeps
//!   and which nobody sets.
//! - Fencing tokens that rise over crashes and reboots: a token is on disk before it is given out. Where the directory's file
//!   system lives in memory the tokens end with the boot; [`preflight`](lock_core::Backend::preflight) warns.
//! - A reboot frees all locks, since no holder outlives it. A record that was made on another machine, or under another
//!   boot-time clock in a container, is never taken for an expired one: it is refused until it is released by force.
//!
//! # What it does with files
//!
//! A lock is a directory in the configured one, named after the lock: `orders%2F4711`. Letters, digits and `-_.+=,:@` stand
//! for themselves and all else is `%XX`; what would get longer than 140 bytes is `%sha256-` and a hash. In it is one file per
//! generation, as `0000000000000007`: the record of a grant, whose number is the fencing token. The highest counts.
//!
//! | call | on disk |
//! | --- | --- |
//! | acquire | list, read the clock, read the highest record. Where it is free: write a record in `.tmp`, fdatasync (no crash leaves half a record), link it as the next generation (fails where one is), list again and compare the predecessor's inode, fsync the directory (the token stays), unlink the lower ones. Else mark the own record free and start over |
//! | extend | the same look; write a record in `.tmp`, fdatasync, rename it over the own one; read the clock and list again |
//! | release | the same look; write the one digit that says that the record is free |
//! | take away | the same look; link a free record as the next generation, after fdatasync |
//! | inspect, list | the same look |
//! | watch | inotify on the lock's directory, then the same look |
//!
//! The first grant of a lock also fsyncs the directory around, so that the lock's own name stays. A contended acquire writes nothing.
//!
//! What stays: the highest record of each lock, some 300 bytes, because it remembers the last token. Remove a lock's directory
//! only if its tokens may start again at 1 and nobody uses it. A process that was killed may leave a file in `.tmp`; the
//! next ones remove it when it is fifteen minutes old.
//!
//! # Options
//!
//! | URL | configuration | default |
//! | --- | --- | --- |
//! | `file:` | [`FileConfig::default_directory`] | root: `/var/lib/lockctl`, others: `~/.local/state/lockctl`, by the user database and never by the environment, so that cron, ssh and sudo agree |
//! | `file:/path` | [`FileConfig::new`] | |
//! | `shared=true` | [`FileConfig::with_shared`] | `false`: a directory that others may write is refused |
//!
//! The directory is made with mode 0700. It must belong to this user or to root, be no symbolic link, and be on a file system
//! of this host. The directories above it are taken as they are: who may change one of them can put another in its place.

#[cfg(not(target_os = "linux"))]
compile_error!("lock-file needs Linux: its boot-time clock, its boot id and inotify");

mod backend;
mod changes;
mod config;
mod directory_name;
mod failure;
mod file_system;
mod generation;
mod lock_directory;
mod locks;
mod origin;
mod owners;
mod preflight;
mod protocol;
mod record;
mod root;
mod standing;
mod temporaries;

pub use backend::FileBackend;
pub use config::FileConfig;
