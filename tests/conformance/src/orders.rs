//! What a case says to a process of its, and what that answers: lines of JSON on the process's standard input and output.
use std::time::Duration;

use lock_core::{ErrorKind, FencingToken, LockName};
use serde::{Deserialize, Serialize};

use crate::crowd::Crowd;
use crate::history::Line;
use crate::written::kind;

/// A line on a process's standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) task: Task,
}

/// What a process is told to do. It has one lock at most, beside those of its crowd.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Wait for the lock as long as it takes, and hold it.
    Acquire { name: LockName, ttl: Duration },
    /// Ask for the lock once, and hold it.
    TryAcquire { name: LockName, ttl: Duration },
    /// Say how it stands with the lock.
    Stand,
    /// Extend the lease by the ttl that it has.
    Extend,
    /// Give the lock back.
    Release,
    /// Take the lock and give it back, as fast as it goes, for ever. `process` is who does it in the history.
    Churn { process: u32, name: LockName, ttl: Duration },
    /// Be a crowd, until told to end.
    Crowd { process: u32, crowd: Crowd },
    /// End the crowd and close its client.
    EndCrowd,
    /// End as a program does that returns from `main`, and give nothing back.
    Exit,
}

/// A line on a process's standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// Of an order.
    Answer { number: u64, answer: Answer },
    /// Of the history.
    Told(Line),
}

/// How an order goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The service knows of the claim, which waits. Another answer follows.
    Waits,
    Granted {
        token: FencingToken,
    },
    Refused,
    Stands {
        is_held: bool,
        is_lost: bool,
    },
    Extended,
    Released {
        was_held: bool,
    },
    Failed {
        #[serde(with = "kind")]
        kind: ErrorKind,
        message: String,
    },
    /// The crowd has ended, and this went wrong in it.
    CrowdEnded {
        failure: Option<String>,
    },
}
