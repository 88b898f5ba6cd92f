//! A suite's arguments, exit status and report, as a user and a runner such as cargo nextest see them: this program starts
//! itself as a suite.
#![allow(clippy::unwrap_used, reason = "a test that fails")]
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use lock_conformance::{Suite, cases};
use lock_core::{
    Attempt, Backend, Capabilities, Claim, Extension, Holder, LockName, MemoryBackend, Release, Result, Scope,
    async_trait,
};
use serde_json::Value;

/// Names the suite that this process shall be.
const SUITE: &str = "LOCK_CONFORMANCE_TEST_SUITE";

const QUICK: &str = "1_exclusion::a_second_owner_is_refused_while_the_first_holds";
const NEEDS_ORDER: &str = "7_no_trace::waiters_are_served_in_order";
const NEEDS_A_HOOK: &str = "8_tokens::tokens_rise_over_a_restart";

fn main() -> ExitCode {
    match std::env::var(SUITE).as_deref() {
        Ok("memory") => memory().run(),
        Ok("unordered") => unordered().run(),
        Ok("unordered and pinned") => unordered().with_expected_skips(skips_of_unordered()).run(),
        Ok("absent") => Suite::starting("absent", || Err::<fn() -> MemoryBackend, _>("no server")).run(),
        Ok(other) => panic!("there is no suite {other}"),
        Err(_) => libtest_mimic::run(&Arguments::from_args(), tests()).exit_code(),
    }
}

fn memory() -> Suite {
    let store = MemoryBackend::new();
    Suite::new("memory", move || store.clone())
}

/// Memory that promises the least.
fn unordered() -> Suite {
    let store = MemoryBackend::new();
    Suite::new("unordered", move || Unordered(store.clone()))
}

fn skips_of_unordered() -> Vec<String> {
    let needs_more = |need: &lock_conformance::Need| need.is_of_the_backend();
    cases().filter(|case| case.needs().iter().any(needs_more)).map(lock_conformance::Case::name).collect()
}

#[derive(Clone, Debug)]
struct Unordered(MemoryBackend);

#[async_trait]
impl Backend for Unordered {
    fn capabilities(&self) -> Capabilities {
        let mut least = Capabilities::new(Scope::Process, "nothing else fails");
        least.ttl_change = lock_core::TtlChange::Fixed;
        least
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(claim).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.0.extend(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.0.release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.0.inspect(name).await
    }
}

fn tests() -> Vec<Trial> {
    let tests: [(&str, fn()); 10] = [
        ("help_tells_of_every_option", help_tells_of_every_option),
        ("every_case_is_listed", every_case_is_listed),
        ("a_runner_is_told_beforehand_what_will_be_skipped", a_runner_is_told_beforehand_what_will_be_skipped),
        ("a_filter_chooses_and_exact_chooses_one", a_filter_chooses_and_exact_chooses_one),
        ("skip_leaves_out", skip_leaves_out),
        ("a_skip_is_shown_with_its_reason", a_skip_is_shown_with_its_reason),
        ("a_failure_is_the_exit_status", a_failure_is_the_exit_status),
        ("the_report_says_what_ran", the_report_says_what_ran),
        ("a_report_that_can_not_be_written_is_a_failure", a_report_that_can_not_be_written_is_a_failure),
        ("a_missing_service_fails_the_run_in_ci_only", a_missing_service_fails_the_run_in_ci_only),
    ];
    tests
        .into_iter()
        .map(|(name, test)| {
            Trial::test(name, move || {
                test();
                Ok::<(), Failed>(())
            })
        })
        .collect()
}

fn suite(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(SUITE, name).env_remove("CI").args(arguments);
    command
}

fn run(name: &str, arguments: &[&str]) -> Output {
    suite(name, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn listed(name: &str, arguments: &[&str]) -> Vec<String> {
    let output = said(&run(name, arguments));
    output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

fn help_tells_of_every_option() {
    let output = said(&run("memory", &["--help"]));
    assert!(output.contains("--report <FILE>") && output.contains("--test-threads"), "{output}");
}

fn every_case_is_listed() {
    let listed = listed("memory", &["--list", "--format", "terse"]);
    let missing: Vec<_> = cases().map(|case| case.name()).filter(|name| !listed.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn a_runner_is_told_beforehand_what_will_be_skipped() {
    let ignored = listed("memory", &["--list", "--format", "terse", "--ignored"]);
    assert!(ignored.contains(&NEEDS_A_HOOK.to_owned()), "{ignored:?}");
    assert!(!ignored.contains(&NEEDS_ORDER.to_owned()), "{ignored:?}");
    let ignored = listed("unordered", &["--list", "--format", "terse", "--ignored"]);
    assert!(ignored.contains(&NEEDS_ORDER.to_owned()), "{ignored:?}");
}

fn a_filter_chooses_and_exact_chooses_one() {
    let output = run("memory", &["10_honest_errors::contention"]);
    assert!(output.status.success());
    assert!(said(&output).contains("running 1 test\n"), "{}", said(&output));
    let output = run("memory", &["--exact", QUICK, "--nocapture"]);
    assert!(said(&output).contains(&format!("test {QUICK} ... ok")), "{}", said(&output));
}

fn skip_leaves_out() {
    let output = run("memory", &["10_honest_errors", "--skip", "contention"]);
    assert!(output.status.success());
    assert!(!said(&output).contains("contention_is_an_answer"), "{}", said(&output));
}

fn a_skip_is_shown_with_its_reason() {
    let output = said(&run("unordered", &["--exact", NEEDS_ORDER]));
    assert!(output.contains("ignored (needs waiters that are served in order)"), "{output}");
    let output = said(&run("memory", &["--exact", NEEDS_A_HOOK]));
    assert!(output.contains("ignored (needs the hook Service::with_restart)"), "{output}");
}

fn a_failure_is_the_exit_status() {
    let pins = ["--exact", "suite::the_skipped_cases_are_the_expected_ones"];
    assert!(!run("unordered", &pins).status.success());
    assert!(run("unordered and pinned", &pins).status.success());
    assert_eq!(run("memory", &["--report"]).status.code(), Some(2));
    assert!(!run("memory", &["--no-such-flag"]).status.success());
}

fn the_report_says_what_ran() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    let filter = ["1_exclusion", "--report", file.to_str().unwrap()];
    assert!(run("unordered", &filter).status.success());
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["suite"]["version"], 1);
    assert_eq!(report["backend"]["name"], "unordered");
    assert_eq!(report["backend"]["capabilities"]["order"], "none");
    assert!(report["unexpected_skips"].as_str().unwrap().contains(NEEDS_ORDER), "{report}");
    let ended = |name: &str| {
        let case = report["cases"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
        (case["outcome"].as_str().unwrap().to_owned(), case["reason"].as_str().map(str::to_owned))
    };
    assert_eq!(ended(QUICK), ("passed".to_owned(), None));
    assert_eq!(ended(NEEDS_ORDER), ("skipped".to_owned(), Some("was not asked for".to_owned())));
    assert_eq!(report["cases"].as_array().unwrap().len(), cases().count());
}

fn a_report_that_can_not_be_written_is_a_failure() {
    let output = run("memory", &["--exact", QUICK, "--report=/proc/no/such/place"]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("the report /proc/no/such/place: "), "{error}");
}

fn a_missing_service_fails_the_run_in_ci_only() {
    let output = run("absent", &["--exact", QUICK]);
    assert!(output.status.success());
    assert!(said(&output).contains("ignored (absent is not available: no server)"), "{}", said(&output));
    let output = suite("absent", &["--exact", QUICK]).env("CI", "true").output().unwrap();
    assert!(!output.status.success());
    // Nor may a runner that asks beforehand be told to leave it out.
    let listed = suite("absent", &["--list", "--format", "terse", "--ignored"]).env("CI", "true").output().unwrap();
    assert!(!said(&listed).contains(QUICK), "{}", said(&listed));
}
