//! The memory backend passes the whole suite in real time, where threads and their scheduling are real too.
mod remote;

use std::process::ExitCode;

use lock_conformance::Suite;

fn main() -> ExitCode {
    Suite::new("memory", remote::memory()).with_version(Suite::VERSION).run()
}
