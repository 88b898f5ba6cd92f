use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::record::{End, Record};
use crate::{Release, Result};

/// What a keeper hands out, and a guard is made of: dropping it lets the keeper release.
pub(crate) struct Hold {
    pub(crate) record: Arc<Record>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        // At once, and not when the keeper comes to it: the views of the lease must not say "held" after this.
        self.record.end(End::Released);
    }
}

/// What a guard asks of its keeper. The end of the channel means that the guard was dropped.
#[derive(Debug)]
pub(crate) enum Command {
    Extend {
        ttl: Duration,
        reply: oneshot::Sender<Result<()>>,
    },
    Release {
        reply: oneshot::Sender<Result<Release>>,
    },
    /// Ask the service whether the grant is still there.
    Verify,
}
