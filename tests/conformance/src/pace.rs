use std::time::Duration;

use lock_core::Capabilities;

/// How long the waits of a run are: everything is measured in the shortest ttl that the backend allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// 1 is for a machine of one's own.
    pub(crate) scale: f64,
}

/// The variable that makes every wait longer.
const VARIABLE: &str = "LOCK_CONFORMANCE_TIME_SCALE";

/// The shortest ttl of any case. Below it a busy machine's hiccups are longer than the lease.
const SHORTEST: Duration = Duration::from_millis(300);

/// A third of it, in which the core extends, is much longer than a busy machine's hiccups.
const STEADY: Duration = Duration::from_millis(1500);

/// A ttl that nobody waits out must outlive a case on any machine.
const LONG: Duration = Duration::from_secs(120);

impl Pace {
    /// By `LOCK_CONFORMANCE_TIME_SCALE`, or 1.
    ///
    /// # Panics
    ///
    /// When the variable is not a number above zero.
    pub(crate) fn from_environment() -> Self {
        match std::env::var(VARIABLE) {
            Ok(text) => {
                let scale = text.parse().ok().and_then(|by| Self { scale: 1.0 }.try_scaled(by));
                scale.unwrap_or_else(|| panic!("{VARIABLE} is {text:?}; expected a number above zero, such as 2.5"))
            }
            Err(_) => Self { scale: 1.0 },
        }
    }

    pub(crate) fn scaled(self, by: f64) -> Self {
        self.try_scaled(by).unwrap_or_else(|| panic!("the time scale is {by}; expected a number above zero"))
    }

    fn try_scaled(self, by: f64) -> Option<Self> {
        (by.is_finite() && by > 0.0).then_some(Self { scale: self.scale * by })
    }

    pub(crate) fn short_ttl(self, capabilities: &Capabilities) -> Duration {
        whole(capabilities.ttl_min.max(SHORTEST).mul_f64(self.scale), capabilities)
    }

    pub(crate) fn steady_ttl(self, capabilities: &Capabilities) -> Duration {
        whole(capabilities.ttl_min.max(STEADY).mul_f64(self.scale), capabilities)
    }

    pub(crate) fn long_ttl(self, capabilities: &Capabilities) -> Duration {
        LONG.mul_f64(self.scale).clamp(capabilities.ttl_min, capabilities.ttl_max)
    }

    pub(crate) fn patience(self, capabilities: &Capabilities) -> Duration {
        let least = Duration::from_secs(15).mul_f64(self.scale.max(1.0));
        (self.short_ttl(capabilities) * 10).max(least) + capabilities.expiry_slack
    }

    /// How long a whole case may take.
    pub(crate) fn limit(self, capabilities: &Capabilities) -> Duration {
        self.patience(capabilities) * 8
    }

    /// For another try on a machine that was too slow.
    pub(crate) fn slower(self) -> Self {
        self.scaled(2.0)
    }
}

/// A ttl that this backend takes, and that a service which counts in whole seconds does not round up: what it grants to a
/// queue place, or in an answer that gets lost, nobody is told.
fn whole(ttl: Duration, capabilities: &Capabilities) -> Duration {
    let counts_seconds = capabilities.ttl_min >= Duration::from_secs(1);
    let ttl = if counts_seconds { Duration::from_secs(ttl.as_secs_f64().ceil() as u64) } else { ttl };
    ttl.clamp(capabilities.ttl_min, capabilities.ttl_max)
}
