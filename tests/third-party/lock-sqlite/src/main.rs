//! lockctl, with one more scheme: `sqlite:/path/to/file.db`.
use std::process::ExitCode;

use lock_config::{Scheme, Schemes};
use lock_sqlite::SqliteBackend;

fn main() -> ExitCode {
    let sqlite = Scheme::new("sqlite", SqliteBackend::from_url)
        .with_about("a SQLite file of this host: excludes its processes")
        .with_example("sqlite:/var/lib/locks.db");
    lock_cli::main_with(Schemes::builtin().with_scheme(sqlite))
}
