//! A plain connection to Redis, and what all tests need.
use std::os::fd::OwnedFd;
use std::time::Duration;

use lock_lab::{Program, Server};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

pub(crate) const ROLE: &str = "LOCK_LAB_TEST_ROLE";

/// Longer than anything takes that is not broken, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A program that every Debian has and that listens nowhere.
pub(crate) const SH: Program = Program { name: "sh", package: "dash" };

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Awaits what has to come.
#[track_caller]
pub(crate) fn within<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    let at = std::panic::Location::caller();
    async move { timeout(2 * PATIENCE, what).await.unwrap_or_else(|_| panic!("{at}: not within {:?}", 2 * PATIENCE)) }
}

/// A plain connection to a Redis server.
pub(crate) struct Connection(pub(crate) TcpStream);

impl Connection {
    pub(crate) async fn to(server: &Server) -> Self {
        Self(TcpStream::connect(server.address()).await.unwrap())
    }

    pub(crate) async fn sends(&mut self, command: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn gets(&mut self, answer: &str) {
        let mut got = vec![0; answer.len()];
        self.0.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), answer);
    }
}

/// One command on a connection of its own.
pub(crate) async fn ask(server: &Server, command: &str, answer: &str) {
    let mut connection = Connection::to(server).await;
    connection.sends(command).await;
    connection.gets(answer).await;
}

pub(crate) const NOTHING: &str = "$-1\r\n";

/// A process that can be seen ending, whoever its parent is.
pub(crate) struct Watched(OwnedFd);

impl Watched {
    pub(crate) fn new(process: u32) -> Self {
        let process = Pid::from_raw(process.cast_signed()).unwrap();
        Self(pidfd_open(process, PidfdFlags::empty()).unwrap())
    }

    pub(crate) fn has_ended(&self) {
        assert!(self.ends_within(PATIENCE), "it still lives");
    }

    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        let limit = Timespec { tv_sec: patience.as_secs().try_into().unwrap(), tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)).unwrap() > 0
    }
}
