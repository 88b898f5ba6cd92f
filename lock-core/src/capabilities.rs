use std::fmt;
use std::time::Duration;

/// What a backend promises, in a form that programs read and the conformance suite checks.
///
/// It is known from the configuration alone, before any connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Between whom the lock excludes.
    pub scope: Scope,
    /// What exclusion rests on: the assumption beside the promise, as one sentence for people.
    pub assumption: &'static str,
    /// Whose clock ends a grant that nobody extends.
    pub expiry_clock: ExpiryClock,
    /// How much longer than its ttl a grant may live.
    pub expiry_slack: Duration,
    /// What the end of a grant without further calls belongs to.
    pub ceiling: Ceiling,
    /// The shortest ttl that may be asked for.
    pub ttl_min: Duration,
    /// The longest ttl that may be asked for.
    pub ttl_max: Duration,
    /// Whether a held lock's ttl can change.
    pub ttl_change: TtlChange,
    /// How far the growth of fencing tokens can be relied upon.
    pub fencing: Fencing,
    /// In what order waiting clients are served.
    pub order: Order,
    /// How a waiter learns that the way is free.
    pub wakeup: Notice,
    /// How a holder learns that its grant is gone before its ttl is over.
    pub loss: Notice,
    /// What is still there when the service has been restarted.
    pub restart: Restart,
    /// Whether locks can be listed.
    pub can_list: bool,
    /// Whether a lock can be taken away from its holder.
    pub can_force_release: bool,
}

impl Capabilities {
    /// The least that a backend can promise within `scope`: everything else says what it adds. The ttl may lie between 100 ms
    /// and a day.
    pub const fn new(scope: Scope, assumption: &'static str) -> Self {
        Self {
            scope,
            assumption,
            expiry_clock: ExpiryClock::ServerMonotonic,
            expiry_slack: Duration::ZERO,
            ceiling: Ceiling::Claim,
            ttl_min: Duration::from_millis(100),
            ttl_max: Duration::from_secs(24 * 60 * 60),
            ttl_change: TtlChange::Any,
            fencing: Fencing::BestEffort,
            order: Order::None,
            wakeup: Notice::Poll,
            loss: Notice::Poll,
            restart: Restart::Nothing,
            can_list: false,
            can_force_release: false,
        }
    }
}

/// As tables and reports of programs have it: each enum in one word, durations in whole milliseconds.
#[cfg(feature = "serde")]
impl serde::Serialize for Capabilities {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let mut fields = serializer.serialize_struct("Capabilities", 15)?;
        fields.serialize_field("scope", self.scope.as_str())?;
        fields.serialize_field("assumption", self.assumption)?;
        fields.serialize_field("expiry_clock", self.expiry_clock.as_str())?;
        fields.serialize_field("expiry_slack_ms", &millis(self.expiry_slack))?;
        fields.serialize_field("ceiling", self.ceiling.as_str())?;
        fields.serialize_field("ttl_min_ms", &millis(self.ttl_min))?;
        fields.serialize_field("ttl_max_ms", &millis(self.ttl_max))?;
        fields.serialize_field("ttl_change", self.ttl_change.as_str())?;
        fields.serialize_field("fencing", self.fencing.as_str())?;
        fields.serialize_field("order", self.order.as_str())?;
        fields.serialize_field("wakeup", self.wakeup.as_str())?;
        fields.serialize_field("loss", self.loss.as_str())?;
        fields.serialize_field("restart", self.restart.as_str())?;
        fields.serialize_field("can_list", &self.can_list)?;
        fields.serialize_field("can_force_release", &self.can_force_release)?;
        fields.end()
    }
}

/// Gives an enum of [`Capabilities`] its one word for tables and JSON.
macro_rules! words {
    ($name:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $name {
            /// The value in one word, as tables and JSON show it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

/// Between whom a lock excludes. Greater is wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// The tasks of one process.
    Process,
    /// The processes of one host.
    Host,
    /// All that reach the service.
    Network,
}

words!(Scope { Process => "process", Host => "host", Network => "network" });

/// Whose clock ends a grant that nobody extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExpiryClock {
    /// A clock of the service that nobody sets.
    ServerMonotonic,
    /// The service's wall clock: set forward, it ends grants early.
    ServerWall,
    /// The asking client's: there is no service with a clock of its own.
    Client,
}

words!(ExpiryClock { ServerMonotonic => "server-monotonic", ServerWall => "server-wall", Client => "client" });

/// What the end of a grant without further calls belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ceiling {
    /// The single claim.
    Claim,
    /// A session that several claims share: a grant ends when no call is made on the session.
    Session,
}

words!(Ceiling { Claim => "claim", Session => "session" });

/// Whether a held lock's ttl can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TtlChange {
    /// An extension may ask for another ttl.
    Any,
    /// It is fixed at the grant.
    Fixed,
}

words!(TtlChange { Any => "any", Fixed => "fixed" });

/// How far the growth of fencing tokens can be relied upon. Greater is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fencing {
    /// While the service keeps its memory and nobody touches it.
    BestEffort,
    /// As long as the process lives.
    Process,
    /// Over restarts and lost data, while the service's clock does not step back by more than an allowance.
    ClockAssisted,
    /// Over restarts of the service: a token is on disk before it is given out.
    Durable,
    /// Over the loss of a minority of the instances.
    Quorum,
    /// Over everything that the service's replicated log survives.
    Consensus,
}

words!(Fencing {
    BestEffort => "best-effort", Process => "process", ClockAssisted => "clock-assisted", Durable => "durable",
    Quorum => "quorum", Consensus => "consensus",
});

/// In what order waiting clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// Any order: who asks at the right moment.
    None,
    /// First in, first out.
    Fifo,
}

words!(Order { None => "none", Fifo => "fifo" });

/// How a change at the service becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notice {
    /// By asking again.
    Poll,
    /// The service pushes it.
    Push,
}

words!(Notice { Poll => "poll", Push => "push" });

/// What is still there when the service has been restarted. Greater is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Restart {
    /// Nothing: it is a new service, and two may hold the same lock.
    Nothing,
    /// Tokens go on rising, but grants are gone, and two may hold the same lock.
    Tokens,
    /// Tokens go on rising, and no holder outlives the service either: one host, one boot.
    TokensNoHolders,
    /// Grants and tokens.
    Everything,
}

words!(Restart {
    Nothing => "nothing", Tokens => "tokens", TokensNoHolders => "tokens, no holder", Everything => "everything",
});
