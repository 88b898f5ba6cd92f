//! The suite as a test program: its arguments, what it prints, and its report.
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed};

use crate::cases;
use crate::failure::Outcome;
use crate::report::Report;
use crate::serving::{ADDRESS, serve};
use crate::{Case, Suite};

/// What `--help` says of this crate's own option, before the runner says the rest.
const OWN_HELP: &str = "\
The conformance suite of a lock backend.

      --report <FILE>  Write what ran, what was skipped and why to FILE, as JSON
";

/// What the case that compares the skips with the pins is called.
const PINS: &str = "suite::the_skipped_cases_are_the_expected_ones";

impl Suite {
    /// Runs the cases as a test program does, by the arguments of this process: filters, `--list`, `--exact`, `--skip`,
    /// `--test-threads` and the like, and `--report FILE`. The exit status is for `main` to return.
    ///
    /// In a process that a case has started it does what that case says, and nothing else.
    pub fn run(self) -> ExitCode {
        if let Some(address) = std::env::var_os(ADDRESS) {
            return self.serve(&address.to_string_lossy());
        }
        let (file, rest) = match report_file(std::env::args_os()) {
            Ok(split) => split,
            Err(wrong) => {
                eprintln!("error: {wrong}");
                return ExitCode::from(2);
            }
        };
        if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
            println!("{OWN_HELP}");
        }
        let mut arguments = Arguments::from_iter(rest);
        arguments.test_threads.get_or_insert(self.at_once);
        let suite = Arc::new(self);
        let report = Arc::new(Report::new());
        let tests = cases::all().map(|case| test(&suite, case, &report, &arguments));
        let pins = Arc::clone(&suite);
        let pins = libtest_mimic::Trial::ignorable_test(PINS, move || completion(pins.check_skips(), in_ci()));
        let tests = tests.chain([pins]).collect();
        let conclusion = libtest_mimic::run(&arguments, tests);
        match file.map(|file| report.write(&suite, &file)) {
            Some(Err(error)) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
            _ => conclusion.exit_code(),
        }
    }

    fn serve(&self, address: &str) -> ExitCode {
        match &self.connect {
            Some(connect) => serve(connect(address)),
            None => {
                eprintln!("error: {ADDRESS} is set, and this suite has no Suite::with_processes");
                ExitCode::from(2)
            }
        }
    }
}

fn test(suite: &Arc<Suite>, case: &'static Case, report: &Arc<Report>, arguments: &Arguments) -> libtest_mimic::Trial {
    // A runner that starts each case as a process of its own (cargo nextest) asks beforehand what to ignore. In a run the
    // reason can be printed, which a flag can't have.
    let asked_before = arguments.list || arguments.ignored;
    let ignored = asked_before && matches!(suite.skips(case), Ok(Some(_)));
    let (suite, report) = (Arc::clone(suite), Arc::clone(report));
    let run = move || {
        let outcome = report.timed(case, || suite.outcome(case));
        completion(outcome, in_ci())
    };
    libtest_mimic::Trial::ignorable_test(case.name(), run).with_ignored_flag(ignored)
}

/// Takes `--report FILE` or `--report=FILE` out of the arguments: it is the suite's own.
fn report_file(arguments: impl Iterator<Item = OsString>) -> Result<(Option<PathBuf>, Vec<OsString>), String> {
    let (mut file, mut rest) = (None, Vec::new());
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--report") => {
                file = Some(PathBuf::from(arguments.next().ok_or("--report needs the name of a file")?));
            }
            Some(given) if given.starts_with("--report=") => file = Some(PathBuf::from(&given["--report=".len()..])),
            _ => rest.push(argument),
        }
    }
    Ok((file, rest))
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

#[cfg(test)]
mod tests {
    use lock_core::MemoryBackend;

    use super::*;

    #[test]
    fn a_missing_service_is_a_failure_only_in_ci() {
        let suite = Suite::starting("there", || Err::<fn() -> MemoryBackend, _>("no server on port 1"));
        let run = || suite.outcome(cases::all().next().unwrap());
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
    fn the_report_is_the_only_argument_of_our_own() {
        let split = |arguments: &[&str]| report_file(arguments.iter().map(OsString::from));
        let (file, rest) = split(&["test", "--exact", "a", "--report", "x.json", "--list"]).unwrap();
        assert_eq!(
            (file.unwrap(), rest),
            (PathBuf::from("x.json"), ["test", "--exact", "a", "--list"].map(Into::into).to_vec())
        );
        let (file, _) = split(&["test", "--report=y.json"]).unwrap();
        assert_eq!(file.unwrap(), PathBuf::from("y.json"));
        assert_eq!(split(&["test", "a"]).unwrap().0, None);
        split(&["test", "--report"]).unwrap_err();
    }
}
