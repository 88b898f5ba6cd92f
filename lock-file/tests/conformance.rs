//! The file backend passes the whole suite, but for what needs waiters that are served in order.
use std::process::ExitCode;

use lock_conformance::Suite;
use lock_file::{FileBackend, FileConfig};

const EXPECTED_SKIPS: [&str; 8] = [
    "3_ceiling::a_place_in_the_queue_ends_of_itself",
    "4_idempotence::asking_again_keeps_one_place_in_the_queue",
    "7_no_trace::a_refused_try_does_not_stand_before_a_waiter",
    "7_no_trace::a_try_does_not_overtake_a_waiter",
    "7_no_trace::waiters_are_served_in_order",
    "7_no_trace::waiters_for_names_that_are_almost_the_same_are_independent",
    "watching::a_place_that_is_gone_calls_at_once",
    "watching::the_next_in_line_is_called",
];

fn main() -> ExitCode {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let config = FileConfig::new(directory.path());
    Suite::new("file", move || FileBackend::new(config.clone())).with_expected_skips(EXPECTED_SKIPS).run()
}
