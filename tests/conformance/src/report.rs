use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Capabilities, Clock};
use serde::Serialize;

use crate::failure::Outcome;
use crate::{Case, Suite, cases};

/// What a run found, for programs to read: `--report FILE` writes it as JSON.
#[derive(Debug, Default)]
pub(crate) struct Report {
    outcomes: Mutex<HashMap<String, (Outcome, Duration)>>,
}

#[derive(Serialize)]
struct Written<'a> {
    suite: SuiteWritten,
    backend: BackendWritten<'a>,
    /// What of the skips is not as it was pinned; null where all is.
    unexpected_skips: Option<String>,
    cases: Vec<CaseWritten>,
}

#[derive(Serialize)]
struct SuiteWritten {
    name: &'static str,
    release: &'static str,
    version: u32,
}

#[derive(Serialize)]
struct BackendWritten<'a> {
    name: &'a str,
    /// Null where the service was not there.
    capabilities: Option<Capabilities>,
    /// Why the service was not there.
    unavailable: Option<String>,
}

#[derive(Serialize)]
struct CaseWritten {
    name: String,
    since: u32,
    outcome: &'static str,
    /// Why it did not pass.
    reason: Option<String>,
    seconds: Option<f64>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Runs the case and takes down how that ended.
    pub(crate) fn timed(&self, case: &Case, run: impl FnOnce() -> Outcome) -> Outcome {
        let clock = Clock::system();
        let begin = clock.now();
        let outcome = run();
        let took = clock.now().since(begin);
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.insert(case.name(), (outcome.clone(), took));
        outcome
    }

    /// Writes the report of a run of `suite`.
    ///
    /// # Errors
    ///
    /// The file, and why it can't be written.
    pub(crate) fn write(&self, suite: &Suite, file: &Path) -> Result<(), String> {
        let json = serde_json::to_string_pretty(&self.written(suite)).map_err(|error| error.to_string())?;
        std::fs::write(file, json + "\n").map_err(|error| format!("the report {}: {error}", file.display()))
    }

    fn written<'a>(&self, suite: &'a Suite) -> Written<'a> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let (capabilities, unavailable) = match suite.capabilities() {
            Ok(capabilities) => (Some(capabilities), None),
            Err(reason) => (None, Some(reason)),
        };
        Written {
            suite: SuiteWritten {
                name: env!("CARGO_PKG_NAME"),
                release: env!("CARGO_PKG_VERSION"),
                version: suite.version,
            },
            backend: BackendWritten { name: &suite.name, capabilities, unavailable },
            unexpected_skips: match suite.check_skips() {
                Outcome::Failed(failure) => Some(failure.message),
                _ => None,
            },
            cases: cases::all().map(|case| CaseWritten::of(case, outcomes.get(&case.name()))).collect(),
        }
    }
}

impl CaseWritten {
    fn of(case: &Case, outcome: Option<&(Outcome, Duration)>) -> Self {
        let (word, reason) = match outcome.map(|(outcome, _)| outcome) {
            Some(Outcome::Passed) => ("passed", None),
            Some(Outcome::Skipped(reason)) => ("skipped", Some(reason.clone())),
            Some(Outcome::Unavailable(reason)) => ("unavailable", Some(reason.clone())),
            Some(Outcome::Failed(failure)) => ("failed", Some(failure.to_string())),
            None => ("skipped", Some("was not asked for".to_owned())),
        };
        let seconds = outcome.map(|(_, took)| took.as_secs_f64());
        Self { name: case.name(), since: case.since(), outcome: word, reason, seconds }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::MemoryBackend;

    use super::*;
    use crate::failure::{Evidence, Failure};

    #[test]
    fn it_says_what_ran_and_what_did_not_and_why() {
        let store = MemoryBackend::new();
        let suite = Suite::new("memory", move || store.clone());
        let report = Report::new();
        let mut cases = cases::all();
        let mut next = |outcome: Outcome| report.timed(cases.next().unwrap(), || outcome);
        next(Outcome::Passed);
        next(Outcome::Skipped("needs more".to_owned()));
        next(Outcome::Failed(Failure::new(Evidence::Answer, "a wrong answer".to_owned())));
        let json = serde_json::to_value(report.written(&suite)).unwrap();
        assert_eq!(json["suite"]["version"], 1);
        assert_eq!(json["backend"]["name"], "memory");
        assert_eq!(json["backend"]["capabilities"]["order"], "fifo");
        assert_eq!(json["backend"]["unavailable"], serde_json::Value::Null);
        assert_eq!(json["unexpected_skips"], serde_json::Value::Null);
        let ended = |number: usize| (&json["cases"][number]["outcome"], &json["cases"][number]["reason"]);
        assert_eq!(ended(0), (&"passed".into(), &serde_json::Value::Null));
        assert_eq!(ended(1), (&"skipped".into(), &"needs more".into()));
        assert_eq!(ended(2), (&"failed".into(), &"a wrong answer".into()));
        assert_eq!(ended(3), (&"skipped".into(), &"was not asked for".into()));
    }

    #[test]
    fn a_service_that_is_not_there_is_said_to_be_so() {
        let suite = Suite::starting("there", || Err::<fn() -> MemoryBackend, _>("no server on port 1"));
        let json = serde_json::to_value(Report::new().written(&suite)).unwrap();
        assert_eq!(json["backend"]["unavailable"], "there is not available: no server on port 1");
        assert_eq!(json["backend"]["capabilities"], serde_json::Value::Null);
    }
}
