use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use lock_core::{Backend, Capabilities};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::failure::{Evidence, Failure, Outcome, Raised};
use crate::need::Offer;
use crate::pace::Pace;
use crate::shared::Shared;
use crate::{Case, Need, Service, Trial};

/// How many cases run at once by default: they mostly wait for leases to end, and every one has names of its own.
const AT_ONCE: usize = 16;

/// How often a case is tried on a machine that is too slow for its times, with doubled times each time.
const TRIES: usize = 4;

/// The suite, set up for one backend.
pub struct Suite {
    pub(crate) name: String,
    start: Start,
    started: OnceLock<Result<Arc<Service>, String>>,
    pub(crate) connect: Option<Connect>,
    pub(crate) expected_skips: Vec<String>,
    pub(crate) version: u32,
    pub(crate) at_once: usize,
    pace: Pace,
    paused_time: bool,
    /// Held for writing by a case that restarts the service, which all others would notice.
    service_stays: RwLock<()>,
}

type Start = Box<dyn Fn() -> Result<Service, String> + Send + Sync>;

/// Opens a backend instance in another process, by the service's address.
pub(crate) type Connect = Box<dyn Fn(&str) -> Shared + Send + Sync>;

impl Suite {
    /// The newest version of the suite that this crate has.
    pub const VERSION: u32 = 1;

    /// A suite for a backend whose service is there: a [`Service`], or just the function that opens one more backend instance,
    /// as another client would have it. All instances must see the same locks.
    ///
    /// `name` is what the backend is called in messages.
    pub fn new(name: impl Into<String>, service: impl Into<Service>) -> Self {
        let service = Ok(Arc::new(service.into()));
        let start = Box::new(|| Err("with paused time each case has locks of its own: use Suite::starting".to_owned()));
        Self { started: OnceLock::from(service), ..Self::over(name.into(), start) }
    }

    /// A suite for a backend whose service has to be started first, or is perhaps not there.
    ///
    /// `start` is called before the first case and gives the [`Service`], or just the function that opens one more backend
    /// instance; what it owns (a server, a directory) lives until the last case has ended. When `start` fails, every case is
    /// shown as ignored with the error as the reason; where the environment says `CI` the run fails, so that a missing service
    /// is noticed.
    pub fn starting<S: Into<Service>, E: fmt::Display>(
        name: impl Into<String>,
        start: impl Fn() -> Result<S, E> + Send + Sync + 'static,
    ) -> Self {
        Self::over(name.into(), Box::new(move || start().map(Into::into).map_err(|error| error.to_string())))
    }

    fn over(name: String, start: Start) -> Self {
        Self {
            name,
            start,
            started: OnceLock::new(),
            connect: None,
            expected_skips: Vec::new(),
            version: 1,
            at_once: AT_ONCE,
            pace: Pace::from_environment(),
            paused_time: false,
            service_stays: RwLock::new(()),
        }
    }

    /// Pins the cases that this backend skips by its [`Capabilities`], by their full names. The run fails when it skips others,
    /// or fewer. A missing hook needs no pin.
    ///
    /// By default no skip is expected: a promise that is given up in passing does not go unnoticed.
    #[must_use]
    pub fn with_expected_skips<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.expected_skips = names.into_iter().map(Into::into).collect();
        self
    }

    /// Runs the cases of this version of the suite and of those before it; later ones are shown as ignored.
    ///
    /// By default it is 1: a minor release of this crate adds cases in a new version, which turns nobody's run red who has not
    /// asked for it. [`Suite::VERSION`] is always the newest.
    #[must_use]
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Makes every wait longer, for a service that is slow or far away. `LOCK_CONFORMANCE_TIME_SCALE` does the same from
    /// outside, and both multiply.
    ///
    /// By default it is 1: leases of 300 ms, or of the shortest ttl of the backend.
    ///
    /// # Panics
    ///
    /// When `scale` is not a number above zero.
    #[must_use]
    pub fn with_time_scale(mut self, scale: f64) -> Self {
        self.pace = self.pace.scaled(scale);
        self
    }

    /// How many cases run at once, unless `--test-threads` says otherwise.
    ///
    /// By default it is 16: they mostly wait for leases to end.
    #[must_use]
    pub fn with_parallelism(mut self, at_once: usize) -> Self {
        self.at_once = at_once;
        self
    }

    /// Lets time pass by itself whenever everybody waits, as tokio's paused clock does, so that a run takes no longer than its
    /// work. It is for a backend that does nothing but compute, and whose time is tokio's (`Clock::tokio`): not for one that
    /// waits for a network, a disk or a thread.
    ///
    /// `start` is called for each case, within the case's runtime: use [`Suite::starting`].
    #[must_use]
    pub fn with_paused_time(mut self) -> Self {
        self.paused_time = true;
        self
    }

    /// Unlocks the cases with other processes, which can be stopped and killed. Such a process is this test binary once more:
    /// [`run`](Self::run) finds out that it is one, and calls `connect` with the service's
    /// [address](Service::with_address) instead of starting anything. So `main` must neither start nor print anything before
    /// it; [`Suite::starting`] is the place for that.
    ///
    /// It needs real time: a suite with [paused time](Self::with_paused_time) runs none of these cases.
    #[must_use]
    pub fn with_processes<B: Backend>(mut self, connect: impl Fn(&str) -> B + Send + Sync + 'static) -> Self {
        self.connect = Some(Box::new(move |address| Shared::new(connect(address))));
        self
    }

    /// Runs one case.
    ///
    /// It blocks; call it outside of any runtime.
    pub fn outcome(&self, case: &Case) -> Outcome {
        if let Some(wrong) = self.misfit() {
            return Outcome::Failed(Failure::new(Evidence::Answer, wrong));
        }
        match self.skips(case) {
            Err(reason) => return Outcome::Unavailable(reason),
            Ok(Some(reason)) => return Outcome::Skipped(reason),
            Ok(None) => {}
        }
        // In paused time each case has a service of its own.
        let restarts = case.needs.contains(&Need::Restart) && !self.paused_time;
        let _alone = restarts.then(|| self.service_stays.write().unwrap_or_else(PoisonError::into_inner));
        let _with_others = (!restarts).then(|| self.service_stays.read().unwrap_or_else(PoisonError::into_inner));
        let mut pace = self.pace;
        let mut missed = String::new();
        for _ in 0..TRIES {
            match self.attempt(case, pace) {
                Ok(()) => return Outcome::Passed,
                Err(Raised::Failure(failure)) => return Outcome::Failed(failure),
                Err(Raised::TooSlow(late)) => (missed, pace) = (late, pace.slower()),
            }
        }
        Outcome::Failed(Failure::new(Evidence::Silence, format!("this machine is too slow for the case: {missed}")))
    }

    /// Why it does not run the case, if it does not.
    ///
    /// # Errors
    ///
    /// Why the service could not be started.
    pub(crate) fn skips(&self, case: &Case) -> Result<Option<String>, String> {
        if self.version < case.since {
            let newer = format!("came with version {} of the suite, and this run is of {}", case.since, self.version);
            return Ok(Some(newer));
        }
        self.offers(|offer| case.skipped_by(offer))
    }

    /// What the backend promises.
    ///
    /// # Errors
    ///
    /// Why the service could not be started.
    pub fn capabilities(&self) -> Result<Capabilities, String> {
        self.offers(|offer| offer.capabilities.clone())
    }

    /// Asks something of what there is.
    ///
    /// # Errors
    ///
    /// Why the service could not be started.
    pub(crate) fn offers<T>(&self, ask: impl FnOnce(&Offer<'_>) -> T) -> Result<T, String> {
        let service = self.service()?;
        let capabilities = (service.open)().capabilities();
        let has_processes = self.connect.is_some() && service.address.is_some() && !self.paused_time;
        let has_paused_time = self.paused_time;
        Ok(ask(&Offer { capabilities: &capabilities, service: &service, has_processes, has_paused_time }))
    }

    /// What of the set-up does not fit together.
    fn misfit(&self) -> Option<String> {
        let has_address = self.service().ok()?.address.is_some();
        let wrong = match (self.connect.is_some(), has_address) {
            (true, false) => {
                "Suite::with_processes needs Service::with_address: other processes don't find the service"
            }
            (false, true) => "Service::with_address needs Suite::with_processes: nothing else uses the address",
            _ => return None,
        };
        Some(format!("the suite of {} is set up wrongly: {wrong}", self.name))
    }

    fn service(&self) -> Result<Arc<Service>, String> {
        let started = self.started.get_or_init(|| (self.start)().map(Arc::new));
        started.clone().map_err(|reason| format!("{} is not available: {reason}", self.name))
    }

    /// Runs the case once, on a runtime of its own.
    fn attempt(&self, case: &Case, pace: Pace) -> Result<(), Raised> {
        let runtime = self.runtime();
        let trial = {
            let _within = runtime.enter();
            // Paused time is each runtime's own, and so must be the locks that end by it.
            let service = if self.paused_time { (self.start)().map(Arc::new) } else { self.service() };
            let service = service.map_err(|reason| Raised::Failure(Failure::new(Evidence::Panic, reason)))?;
            Trial::new(service, pace, self.paused_time)
        };
        let limit = pace.limit(trial.capabilities());
        let run =
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(async { timeout(limit, (case.body)(&trial)).await })));
        let ended = match run {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => {
                let message = format!("the case did not end within {limit:?}");
                Err(Raised::Failure(Failure::new(Evidence::Silence, message)))
            }
            Err(panic) => Err(Raised::from(panic)),
        };
        runtime.block_on(trial.end());
        runtime.shutdown_background();
        ended.map_err(|raised| match raised {
            Raised::Failure(failure) => Raised::Failure(Failure { story: trial.story().lines(), ..failure }),
            too_slow @ Raised::TooSlow(_) => too_slow,
        })
    }

    fn runtime(&self) -> Runtime {
        let mut builder = if self.paused_time { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        let builder = builder.worker_threads(2).enable_all().start_paused(self.paused_time);
        builder.build().expect("the operating system gives two threads")
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite").field("name", &self.name).field("pace", &self.pace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::MemoryBackend;

    use super::*;
    use crate::failure::too_slow;

    fn memory() -> Suite {
        let store = MemoryBackend::new();
        Suite::new("memory", move || store.clone())
    }

    fn case(needs: &'static [Need], body: crate::case::Body) -> Case {
        Case { group: "test", sentence: "a_case", since: 1, needs, body }
    }

    fn message(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed(failure) => failure.message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_case_of_a_later_version_is_skipped_until_it_is_asked_for() {
        let newer = Case { since: 2, ..case(&[], |_| Box::pin(async {})) };
        match memory().outcome(&newer) {
            Outcome::Skipped(reason) => assert_eq!(reason, "came with version 2 of the suite, and this run is of 1"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(memory().with_version(2).outcome(&newer), Outcome::Passed));
    }

    #[test]
    fn a_case_that_needs_a_hook_is_skipped_without_it() {
        let needs_a_hook = case(&[Need::Evict], |_| Box::pin(async {}));
        match memory().outcome(&needs_a_hook) {
            Outcome::Skipped(reason) => assert_eq!(reason, "needs the hook Service::with_evict"),
            other => panic!("{other:?}"),
        }
        let service = Service::new(MemoryBackend::new).with_evict(|_| async {});
        assert!(matches!(Suite::new("memory", service).outcome(&needs_a_hook), Outcome::Passed));
    }

    #[test]
    fn half_of_what_other_processes_need_is_an_error_and_no_skip() {
        let any = case(&[Need::Processes], |_| Box::pin(async {}));
        let without_address = memory().with_processes(|_| MemoryBackend::new());
        let wrong = message(without_address.outcome(&any));
        assert!(wrong.contains("Suite::with_processes needs Service::with_address"), "{wrong}");
        let without_processes = Suite::new("memory", Service::new(MemoryBackend::new).with_address("here"));
        let wrong = message(without_processes.outcome(&any));
        assert!(wrong.contains("Service::with_address needs Suite::with_processes"), "{wrong}");
        assert!(matches!(memory().outcome(&any), Outcome::Skipped(_)));
    }

    #[test]
    fn paused_time_passes_by_itself() {
        let suite = Suite::starting("memory", || Ok::<_, String>(MemoryBackend::new)).with_paused_time();
        let long = case(&[], |t| {
            Box::pin(async {
                let begin = t.clock().now();
                tokio::time::sleep(Duration::from_secs(60)).await;
                assert!(t.clock().now().since(begin) >= Duration::from_secs(60));
            })
        });
        let begin = lock_core::Clock::system().now();
        assert!(matches!(suite.outcome(&long), Outcome::Passed));
        assert!(lock_core::Clock::system().now().since(begin) < Duration::from_secs(60));
    }

    #[test]
    fn a_case_that_found_the_machine_too_slow_is_repeated_with_longer_times() {
        let slow = case(&[], |t| {
            Box::pin(async {
                if t.ttl() < Duration::from_secs(1) {
                    too_slow("something came too late");
                }
            })
        });
        assert!(matches!(memory().outcome(&slow), Outcome::Passed));
        let wrong = message(memory().outcome(&case(&[], |_| Box::pin(async { too_slow("nothing is quick enough") }))));
        assert!(wrong.contains("nothing is quick enough"), "{wrong}");
    }

    #[test]
    fn a_panic_is_a_failure_and_not_the_end_of_the_run() {
        let outcome = memory().outcome(&case(&[], |_| Box::pin(async { std::panic::resume_unwind(Box::new("oh")) })));
        assert!(matches!(&outcome, Outcome::Failed(failure) if failure.evidence == Evidence::Panic), "{outcome:?}");
    }
}
