//! The harness around a real server, and around programs that fail as servers do.
//!
//! The test's own binary is also the process whose servers have to end with it: with a role in its environment it plays that
//! instead of running tests.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

mod ending;
mod failing;
mod running;
mod support;

use std::env;

use libtest_mimic::{Arguments, Completion, Trial};
use lock_lab::REDIS;

use crate::support::{ROLE, runtime, within};

fn main() {
    if let Ok(role) = env::var(ROLE) {
        return runtime().block_on(within(ending::play(&role)));
    }
    let reason_to_skip = REDIS.reason_to_skip();
    let trial = |name: &str, test: fn()| {
        let reason_to_skip = reason_to_skip.clone();
        Trial::ignorable_test(name, move || {
            Ok(match reason_to_skip {
                Some(reason) => Completion::ignored_with(reason),
                None => {
                    test();
                    Completion::Completed
                }
            })
        })
    };
    macro_rules! trials {
        ($($group:ident::$test:ident),* $(,)?) => {
            vec![$(trial(concat!(stringify!($group), "::", stringify!($test)), || runtime().block_on(within($group::$test())))),*]
        };
    }
    let trials = trials![
        running::a_started_server_answers_and_its_directory_is_its_own,
        running::a_stopped_server_accepts_and_answers_once_it_is_continued,
        running::a_stopped_server_can_be_killed,
        running::a_killed_server_comes_back_with_its_data,
        running::a_server_that_still_loads_its_data_is_not_ready,
        running::a_killed_server_comes_back_without_its_data,
        running::a_server_without_persistence_comes_back_empty,
        running::a_running_server_is_restarted,
        running::the_files_of_a_setup_are_there_at_each_start,
        running::servers_that_know_each_other_are_started_together,
        running::none_of_several_is_waited_for_when_one_has_ended,
        running::a_server_behind_a_relay_answers,
        failing::a_port_that_somebody_took_is_replaced_by_another,
        failing::a_port_that_was_taken_while_the_server_was_down_is_an_error,
        failing::the_port_of_a_server_that_is_down_is_not_given_away,
        failing::a_missing_program_is_an_error_that_names_its_package,
        failing::a_server_that_ends_at_once_is_an_error_that_shows_what_it_said,
        failing::a_server_that_is_never_ready_is_an_error_that_shows_what_it_said,
        failing::a_server_that_has_ended_can_be_neither_stopped_nor_continued,
        ending::a_server_outlives_the_thread_that_started_it,
        ending::no_server_outlives_its_process_however_that_ends,
        ending::nothing_is_left_of_what_was_dropped,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
