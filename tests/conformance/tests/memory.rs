//! The memory backend passes the whole suite in paused time, with every hook but other processes.
mod remote;

use std::process::ExitCode;

use lock_conformance::Suite;

fn main() -> ExitCode {
    let start = || Ok::<_, String>(remote::memory());
    Suite::starting("memory", start).with_paused_time().with_version(Suite::VERSION).run()
}
