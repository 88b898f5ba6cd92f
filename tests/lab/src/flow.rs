use std::net::SocketAddr;
use std::time::Duration;

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: replies.
    ToClient,
}

/// What a relay does with what is sent in one direction.
///
/// The order of what is sent is kept in all of them, and the end of the stream (a closing or a reset) has its place in it: it is
/// never lost, only late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Passes it on at once.
    #[default]
    Pass,
    /// Passes it on this long after it arrived. That is latency and no limit of the throughput: up to 1024 chunks are under
    /// way in a direction of a connection.
    Delay(Duration),
    /// Throws the bytes away, also those that were held or delayed when this was set. The end of the stream is held.
    Swallow,
    /// Keeps it until another flow is set. Beyond 1024 chunks nothing more is read, so that the sender is slowed down as by a
    /// receiver that doesn't read.
    Hold,
}

/// What a relay does at present.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where new connections go.
    pub(crate) target: SocketAddr,
    pub(crate) to_server: Flow,
    pub(crate) to_client: Flow,
    pub(crate) black_hole: bool,
    /// How often all connections have been reset. A connection that has seen fewer resets has to end.
    pub(crate) resets: u64,
    /// How many more bytes of reply reach their clients before a connection is reset.
    pub(crate) cut_after: Option<usize>,
}

impl Settings {
    pub(crate) fn passing_to(target: SocketAddr) -> Self {
        let (to_server, to_client) = Default::default();
        Self { target, to_server, to_client, black_hole: false, resets: 0, cut_after: None }
    }

    pub(crate) fn flow(&self, direction: Direction) -> Flow {
        match direction {
            _ if self.black_hole => Flow::Hold,
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }

    pub(crate) fn set(&mut self, direction: Direction, flow: Flow) {
        match direction {
            Direction::ToServer => self.to_server = flow,
            Direction::ToClient => self.to_client = flow,
        }
    }

    /// Where in the next `reply` bytes of reply the connection has to be cut, if it has to.
    pub(crate) fn cut_within(&mut self, reply: usize) -> Option<usize> {
        let left = self.cut_after.take()?;
        if left <= reply {
            return Some(left);
        }
        self.cut_after = Some(left - reply);
        None
    }
}
