use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Completion, Failed};
use lock_core::{Backend, Capabilities};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::cases;
use crate::failure::{Evidence, Failure, Outcome, Raised};
use crate::pace::Pace;
use crate::shared::Shared;
use crate::{Case, Trial};

/// How many cases run at once unless `--test-threads` says otherwise: they mostly wait for leases to end, and every one has
/// names of its own.
const AT_ONCE: usize = 16;

/// How often a case is tried on a machine that is too slow for its times, with doubled times each time.
const TRIES: usize = 4;

/// The suite, set up for one backend.
pub struct Suite {
    name: String,
    service: Box<dyn Fn() -> Result<Open, String> + Send + Sync>,
    started: OnceLock<Result<Open, String>>,
    expected_skips: Vec<String>,
    pace: Pace,
}

/// Opens one more backend instance.
type Open = Arc<dyn Fn() -> Shared + Send + Sync>;

impl Suite {
    /// A suite for the backend that `open` makes. Every call of it must give one more instance, as another client would have,
    /// and all of them must see the same locks.
    ///
    /// `name` is what the backend is called in messages.
    pub fn new<B: Backend>(name: impl Into<String>, open: impl Fn() -> B + Send + Sync + 'static) -> Self {
        let open: Open = Arc::new(move || Shared::new(open()));
        Self::over(name.into(), Box::new(move || Ok(Arc::clone(&open))))
    }

    /// A suite for a backend whose service has to be started first, or is perhaps not there.
    ///
    /// `start` is called before the first case and gives the function that opens one more instance; what that function owns
    /// (a server, a directory) lives until the last case has ended. When `start` fails, every case is shown as ignored with
    /// the error as the reason; where the environment says `CI` the run fails, so that a missing service is noticed.
    pub fn starting<B, O, E>(name: impl Into<String>, start: impl Fn() -> Result<O, E> + Send + Sync + 'static) -> Self
    where
        B: Backend,
        O: Fn() -> B + Send + Sync + 'static,
        E: fmt::Display,
    {
        let service = move || match start() {
            Ok(open) => Ok(Arc::new(move || Shared::new(open())) as Open),
            Err(error) => Err(error.to_string()),
        };
        Self::over(name.into(), Box::new(service))
    }

    fn over(name: String, service: Box<dyn Fn() -> Result<Open, String> + Send + Sync>) -> Self {
        Self { name, service, started: OnceLock::new(), expected_skips: Vec::new(), pace: Pace::from_environment() }
    }

    /// Pins the cases that this backend skips, by their full names. The run fails when it skips others, or fewer.
    ///
    /// By default no skip is expected: a promise that is given up in passing does not go unnoticed.
    #[must_use]
    pub fn with_expected_skips<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.expected_skips = names.into_iter().map(Into::into).collect();
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

    /// Runs the cases as a test binary does, by the arguments of this process: filters, `--list`, `--exact`, `--skip`,
    /// `--test-threads` and the like. The exit status is for `main` to return.
    pub fn run(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(AT_ONCE);
        let suite = Arc::new(self);
        let pins = Arc::clone(&suite);
        let pins = libtest_mimic::Trial::ignorable_test("suite::the_skipped_cases_are_the_expected_ones", move || {
            completion(pins.check_skips(), in_ci())
        });
        let tests = cases::all().map(|case| {
            let suite = Arc::clone(&suite);
            libtest_mimic::Trial::ignorable_test(case.name(), move || completion(suite.outcome(case), in_ci()))
        });
        let tests = tests.chain([pins]).collect();
        libtest_mimic::run(&arguments, tests).exit_code()
    }

    /// Runs one case.
    ///
    /// It blocks; call it outside of any runtime.
    pub fn outcome(&self, case: &Case) -> Outcome {
        let open = match self.service() {
            Ok(open) => open,
            Err(reason) => return Outcome::Unavailable(reason),
        };
        if let Some(reason) = case.skipped_by(&open().capabilities()) {
            return Outcome::Skipped(reason);
        }
        let mut pace = self.pace;
        let mut missed = String::new();
        for _ in 0..TRIES {
            match attempt(&open, case, pace) {
                Ok(()) => return Outcome::Passed,
                Err(Raised::Failure(failure)) => return Outcome::Failed(failure),
                Err(Raised::TooSlow(late)) => (missed, pace) = (late, pace.slower()),
            }
        }
        Outcome::Failed(Failure::new(Evidence::Silence, format!("this machine is too slow for the case: {missed}")))
    }

    /// What the backend promises.
    ///
    /// # Errors
    ///
    /// Why the service could not be started.
    pub fn capabilities(&self) -> Result<Capabilities, String> {
        self.service().map(|open| open().capabilities())
    }

    fn service(&self) -> Result<Open, String> {
        let started = self.started.get_or_init(|| (self.service)());
        started.clone().map_err(|reason| format!("{} is not available: {reason}", self.name))
    }

    /// Whether exactly those cases are skipped that were pinned.
    fn check_skips(&self) -> Outcome {
        let capabilities = match self.capabilities() {
            Ok(capabilities) => capabilities,
            Err(reason) => return Outcome::Unavailable(reason),
        };
        let mut pinned = self.expected_skips.clone();
        let mut wrong = Vec::new();
        for case in cases::all() {
            let name = case.name();
            let before = pinned.len();
            pinned.retain(|pin| *pin != name);
            match (case.skipped_by(&capabilities), pinned.len() < before) {
                (Some(reason), false) => wrong.push(format!("{name:?} is skipped and not expected to be: it {reason}")),
                (None, true) => wrong.push(format!("{name:?} is expected to be skipped and runs")),
                _ => {}
            }
        }
        wrong.extend(pinned.iter().map(|pin| format!("{pin:?} is expected to be skipped and is no case")));
        if wrong.is_empty() {
            return Outcome::Passed;
        }
        let message = format!(
            "the skips of {} are not the expected ones; correct the backend's capabilities, or pin what is right with \
             Suite::with_expected_skips:\n  {}",
            self.name,
            wrong.join("\n  "),
        );
        Outcome::Failed(Failure::new(Evidence::Answer, message))
    }
}

/// Runs the case once, on a runtime of its own.
fn attempt(open: &Open, case: &Case, pace: Pace) -> Result<(), Raised> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("the operating system gives two threads");
    let trial = Trial::new(Arc::clone(open), pace);
    let limit = pace.limit(trial.capabilities());
    let run = catch_unwind(AssertUnwindSafe(|| runtime.block_on(async { timeout(limit, (case.body)(&trial)).await })));
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

/// The outcome in the words of the test runner. A service that is not there is no failure on somebody's laptop.
fn completion(outcome: Outcome, in_ci: bool) -> Result<Completion, Failed> {
    match outcome {
        Outcome::Passed => Ok(Completion::Completed),
        Outcome::Skipped(reason) => Ok(Completion::ignored_with(reason)),
        Outcome::Unavailable(reason) if in_ci => Err(format!("{reason}; in CI that is a failure").into()),
        Outcome::Unavailable(reason) => Ok(Completion::ignored_with(reason)),
        Outcome::Failed(failure) => Err(failure.into()),
    }
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"))
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
    use crate::Need;
    use crate::failure::too_slow;

    fn memory() -> Suite {
        let store = MemoryBackend::new();
        Suite::new("memory", move || store.clone())
    }

    fn case(needs: &'static [Need], body: crate::case::Body) -> Case {
        Case { group: "test", sentence: "a_case", needs, body }
    }

    fn message(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed(failure) => failure.message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_expected_skips_are_compared_both_ways() {
        assert!(matches!(memory().check_skips(), Outcome::Passed));
        let runs = "7_no_trace::waiters_are_served_in_order";
        let wrong = message(memory().with_expected_skips([runs, "no::such_case"]).check_skips());
        assert!(wrong.contains(&format!("{runs:?} is expected to be skipped and runs")), "{wrong}");
        assert!(wrong.contains("\"no::such_case\" is expected to be skipped and is no case"), "{wrong}");
    }

    #[test]
    fn a_missing_service_is_a_failure_only_in_ci() {
        let suite = Suite::starting("there", || Err::<fn() -> MemoryBackend, _>("no server on port 1"));
        let run = || suite.outcome(&case(&[], |_| Box::pin(async {})));
        match completion(run(), false) {
            Ok(Completion::Ignored { reason: Some(reason) }) => {
                assert_eq!(reason, "there is not available: no server on port 1");
            }
            _ => panic!("not ignored"),
        }
        let failed = completion(run(), true).err().unwrap();
        assert!(failed.message().unwrap().contains("no server on port 1"));
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
