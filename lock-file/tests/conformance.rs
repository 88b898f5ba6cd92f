//! The file backend passes the whole suite, but for what needs waiters that are served in order.
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lock_conformance::{Entry, Service, Suite};
use lock_core::{Clock, LockName};
use lock_file::{FileBackend, FileConfig};

const EXPECTED_SKIPS: [&str; 13] = [
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
    "processes::waiters_of_several_processes_are_served_in_order",
    "watching::a_place_that_is_gone_calls_at_once",
    "watching::the_next_in_line_is_called",
];

fn main() -> ExitCode {
    Suite::starting("file", start)
        .with_processes(|address| FileBackend::new(FileConfig::new(address)))
        .with_expected_skips(EXPECTED_SKIPS)
        .with_version(Suite::VERSION)
        .run()
}

/// Locks in a directory of their own, with what an operator can do by hand: look into the records, and change one.
fn start() -> io::Result<Service> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().to_owned();
    let (evicted, looked) = (path.clone(), path.clone());
    let service = Service::new(move || FileBackend::new(FileConfig::new(directory.path())))
        .with_address(path.to_str().expect("a temporary directory has a readable path"))
        .with_evict(move |name| {
            let ended = end(&evicted, &name);
            async move { ended.expect("the record can be changed") }
        })
        .with_look(move |name| {
            let entry = look(&looked, &name);
            async move { entry.expect("the record can be read").into_iter().collect() }
        });
    Ok(service)
}

/// Says in the record of the lock that it is free.
fn end(locks: &Path, name: &LockName) -> io::Result<()> {
    let Some((path, record)) = highest_record(locks, name)? else { return Ok(()) };
    let digit = record.find(HELD).expect("a record says whether it is held") + HELD.len();
    File::options().write(true).open(path)?.write_all_at(b"0", digit as u64)
}

/// What the record of the lock says, if it is held.
fn look(locks: &Path, name: &LockName) -> io::Result<Option<Entry>> {
    let Some((_, record)) = highest_record(locks, name)? else { return Ok(None) };
    let value = |key: &str| record.lines().find_map(|line| line.strip_prefix(key));
    if value(HELD.trim_start()) != Some("1") {
        return Ok(None);
    }
    let deadline = value("deadline-ns ").expect("who holds it does so until then");
    let deadline = Duration::from_nanos(deadline.parse().expect("a deadline is a number"));
    let left = deadline.checked_sub(Clock::system().now().since_boot());
    Ok(left.map(|left| Entry::new().with_remaining(left)))
}

const HELD: &str = "\nheld ";

/// The record that counts, and where it is.
fn highest_record(locks: &Path, name: &LockName) -> io::Result<Option<(PathBuf, String)>> {
    // The names that the suite looks for need no other escape.
    let directory = locks.join(name.as_str().replace('/', "%2F"));
    loop {
        let records = match fs::read_dir(&directory) {
            Ok(records) => records,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let paths = records.map(|record| record.map(|record| record.path())).collect::<io::Result<Vec<_>>>()?;
        let Some(highest) = paths.into_iter().max() else { return Ok(None) };
        match fs::read_to_string(&highest) {
            Ok(record) => return Ok(Some((highest, record))),
            // A higher one has come meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}
