use std::time::Duration;

use lock_core::Capabilities;

/// How long the waits of a run are: everything is measured in the shortest ttl that the backend allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// 1 is for a machine of one's own.
    pub(crate) scale: f64,
}

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
        let pace = Self { scale: 1.0 };
        match std::env::var("LOCK_CONFORMANCE_TIME_SCALE") {
            Ok(scale) => pace.scaled(scale.parse().unwrap_or(f64::NAN)),
            Err(_) => pace,
        }
    }

    pub(crate) fn scaled(self, by: f64) -> Self {
        assert!(by.is_finite() && by > 0.0, "a time scale is a number above zero");
        Self { scale: self.scale * by }
    }

    pub(crate) fn short_ttl(self, capabilities: &Capabilities) -> Duration {
        capabilities.ttl_min.max(SHORTEST).mul_f64(self.scale).min(capabilities.ttl_max)
    }

    pub(crate) fn steady_ttl(self, capabilities: &Capabilities) -> Duration {
        capabilities.ttl_min.max(STEADY).mul_f64(self.scale).min(capabilities.ttl_max)
    }

    pub(crate) fn long_ttl(self, capabilities: &Capabilities) -> Duration {
        LONG.mul_f64(self.scale).clamp(capabilities.ttl_min, capabilities.ttl_max)
    }

    pub(crate) fn patience(self, capabilities: &Capabilities) -> Duration {
        (self.short_ttl(capabilities) * 10).max(Duration::from_secs(15))
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
