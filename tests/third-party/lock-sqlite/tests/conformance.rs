//! The SQLite backend passes the whole suite, but for what needs a queue, a push or a listing.
use std::process::ExitCode;

use lock_conformance::Suite;
use lock_sqlite::SqliteBackend;

const EXPECTED_SKIPS: [&str; 26] = [
    "2_floor::a_grant_to_a_waiter_lives_as_long_as_promised",
    "3_ceiling::a_place_in_the_queue_ends_of_itself",
    "3_ceiling::a_place_that_is_asked_for_again_lives_on",
    "4_idempotence::asking_again_keeps_one_place_in_the_queue",
    "6_own_only::a_lock_that_is_taken_away_leaves_the_waiters_their_places",
    "6_own_only::leaving_the_queue_leaves_the_other_waiters_alone",
    "7_no_trace::a_refused_try_does_not_stand_before_a_waiter",
    "7_no_trace::a_try_does_not_overtake_a_waiter",
    "7_no_trace::waiters_are_served_in_order",
    "7_no_trace::waiters_for_names_that_are_almost_the_same_are_independent",
    "10_honest_errors::a_listing_without_an_answer_is_not_empty",
    "looking::a_listing_goes_on_after_a_name",
    "looking::held_locks_are_listed_in_the_order_of_their_names",
    "looking::many_held_locks_are_all_listed",
    "looking::names_are_listed_in_the_order_of_their_bytes",
    "looking::what_ran_out_is_not_listed",
    "processes::waiters_of_several_processes_are_served_in_order",
    "watching::a_free_lock_calls_at_once",
    "watching::a_holder_is_called_when_its_lock_is_taken_away",
    "watching::a_holder_without_a_grant_is_called_at_once",
    "watching::a_place_that_is_gone_calls_at_once",
    "watching::a_release_calls_a_waiter",
    "watching::no_release_is_missed",
    "watching::one_watch_given_up_leaves_the_others",
    "watching::taking_a_lock_away_calls_a_waiter",
    "watching::the_next_in_line_is_called",
];

fn main() -> ExitCode {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let file = directory.path().join("locks.db");
    let suite = Suite::new("sqlite", move || SqliteBackend::new(&file));
    // One write at a time goes into the file, and waits for the disk.
    suite.with_parallelism(4).with_time_scale(2.0).with_expected_skips(EXPECTED_SKIPS).run()
}
