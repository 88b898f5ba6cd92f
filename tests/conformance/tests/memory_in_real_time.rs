//! The memory backend passes the whole suite.
use std::process::ExitCode;

use lock_conformance::Suite;
use lock_core::MemoryBackend;

fn main() -> ExitCode {
    let store = MemoryBackend::new();
    Suite::new("memory", move || store.clone()).with_version(Suite::VERSION).run()
}
