use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

/// How often a client with locks compares the clock with the timers' clock, to wake everything that sleeps when the
/// machine has slept. A tenth of a second is below every ttl worth having and costs nothing that could be measured.
const JUMP_CHECK: Duration = Duration::from_millis(100);

/// By how much the clocks may differ from one check to the next before it is a jump and not noise.
const JUMP: Duration = Duration::from_millis(20);

/// A moment on the machine's boot-time clock: it goes on while the machine sleeps and knows nothing of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Duration);

impl BootTime {
    /// The moment that is this long after the machine's start.
    pub const fn from_boot(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the machine's start.
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Saturates: a wait without limit is a moment that never comes.
impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Saturates at the machine's start.
impl Sub<Duration> for BootTime {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

/// The one place where time is read.
///
/// Leases are counted on `CLOCK_BOOTTIME`: [`std::time::Instant`] and tokio's timers stand still while a machine is
/// suspended (<https://github.com/rust-lang/rust/issues/87906>), and the service's ttl does not. Where the system has no such
/// clock (it is Linux's) the monotonic clock is used, and a suspended holder learns of its loss late.
///
/// A virtual machine that is paused from outside may find that even this clock stood still: only a fencing token protects
/// then.
#[derive(Clone)]
pub struct Clock {
    source: Source,
    /// Nanoseconds that tests added, as a suspended machine does.
    jumped: Arc<AtomicU64>,
    woken: Arc<Notify>,
}

#[derive(Clone, Copy)]
enum Source {
    System,
    #[cfg(feature = "test-util")]
    Tokio(tokio::time::Instant),
}

impl Clock {
    /// The machine's boot-time clock.
    pub fn system() -> Self {
        Self::from_source(Source::System)
    }

    /// Tokio's clock, so that a test's paused time is the time of its leases.
    #[cfg(feature = "test-util")]
    pub fn tokio() -> Self {
        Self::from_source(Source::Tokio(tokio::time::Instant::now()))
    }

    fn from_source(source: Source) -> Self {
        Self { source, jumped: Arc::default(), woken: Arc::default() }
    }

    /// Now.
    pub fn now(&self) -> BootTime {
        let read = match self.source {
            Source::System => system_now(),
            #[cfg(feature = "test-util")]
            Source::Tokio(start) => start.elapsed(),
        };
        BootTime(read) + Duration::from_nanos(self.jumped.load(Ordering::Relaxed))
    }

    /// Lets this clock, but no timer, jump forward, as when the machine was suspended for so long.
    #[cfg(feature = "test-util")]
    pub fn jump(&self, by: Duration) {
        self.jumped.fetch_add(by.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sleeps until `moment`, also when the machine is suspended meanwhile, given that somebody runs
    /// [`notice_jumps`](Self::notice_jumps).
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn sleep_until(&self, moment: BootTime) {
        loop {
            let mut woken = std::pin::pin!(self.woken.notified());
            // Before the clock is read: a jump between the two must not be missed.
            woken.as_mut().enable();
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = woken => {}
            }
        }
    }

    /// Wakes every [`sleep_until`](Self::sleep_until) of this clock and its clones when the clock has run ahead of the
    /// timers, for as long as it is polled. A client runs it while it has locks; a backend needs not.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect but that jumps go unnoticed.
    pub async fn notice_jumps(&self) {
        loop {
            let (timers, clock) = (tokio::time::Instant::now(), self.now());
            tokio::time::sleep(JUMP_CHECK).await;
            if self.now().since(clock) > timers.elapsed() + JUMP {
                self.woken.notify_waiters();
            }
        }
    }

    /// The wall clock, for people to read: nothing is decided by it.
    #[expect(clippy::disallowed_methods, reason = "this is the place to ask")]
    pub fn wall() -> SystemTime {
        SystemTime::now()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            Source::System => "system",
            #[cfg(feature = "test-util")]
            Source::Tokio(_) => "tokio",
        };
        f.debug_tuple("Clock").field(&source).finish()
    }
}

fn system_now() -> Duration {
    #[cfg(target_os = "linux")]
    let id = nix::time::ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let id = nix::time::ClockId::CLOCK_MONOTONIC;
    id.now().expect("the kernel has this clock").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokio_time_is_followed() {
        let clock = Clock::tokio();
        let start = clock.now();
        clock.sleep_until(start + Duration::from_secs(5)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_wakes_a_sleeper_at_the_next_check() {
        let clock = Clock::tokio();
        let started = tokio::time::Instant::now();
        let moment = clock.now() + Duration::from_secs(3600);
        tokio::select! {
            biased;
            () = clock.sleep_until(moment) => {}
            () = clock.notice_jumps() => unreachable!("it has no end"),
            () = async { clock.jump(Duration::from_secs(3600)); std::future::pending().await } => unreachable!("it has no end"),
        }
        assert!(started.elapsed() <= JUMP_CHECK, "{:?}", started.elapsed());
    }

    #[test]
    fn arithmetic_saturates() {
        let never = BootTime::from_boot(Duration::MAX);
        assert_eq!(Clock::system().now() + Duration::MAX, never);
        assert_eq!(BootTime::from_boot(Duration::ZERO) - Duration::MAX, BootTime::from_boot(Duration::ZERO));
        assert_eq!(BootTime::from_boot(Duration::ZERO).since(never), Duration::ZERO);
    }
}
