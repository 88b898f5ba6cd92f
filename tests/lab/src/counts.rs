use crate::Direction;

/// What has gone through a relay since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The connections that clients have made.
    pub connections: u64,
    /// Those of them that are not over. One that is closed by both sides counts until the relay has passed both closings on.
    pub open: u64,
    /// Requests.
    pub to_server: Traffic,
    /// Replies.
    pub to_client: Traffic,
}

/// What has gone through a relay in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The bytes that have arrived at the relay.
    pub bytes: u64,
    /// In how many pieces they have arrived. A message that waits for its answer is one piece, if it has at most 16 KiB.
    pub chunks: u64,
    /// The bytes that the relay has passed on.
    pub delivered: u64,
    /// The bytes that the relay has thrown away.
    pub swallowed: u64,
}

impl Counts {
    /// The traffic in one direction.
    pub fn traffic(&self, direction: Direction) -> &Traffic {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    pub(crate) fn traffic_mut(&mut self, direction: Direction) -> &mut Traffic {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}
