//! What only this backend can get wrong: its file.
use std::path::PathBuf;

use lock_core::{Attempt, Backend, Claim, ErrorKind, FencingToken, LockName, Result};
use lock_sqlite::SqliteBackend;
use rusqlite::Connection;
use tempfile::TempDir;

fn claim() -> Claim {
    Claim::new(LockName::new("job").unwrap(), std::time::Duration::from_secs(60))
}

fn file() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("locks.db");
    (directory, file)
}

fn token(attempt: Result<Attempt>) -> Option<FencingToken> {
    match attempt.unwrap() {
        Attempt::Granted(grant) => Some(grant.token),
        Attempt::Contended(_) => None,
    }
}

#[tokio::test]
async fn a_reboot_ends_all_grants_and_no_token_comes_twice() {
    let (_directory, file) = file();
    let before = token(SqliteBackend::new(&file).try_acquire(&claim()).await);
    assert_eq!(token(SqliteBackend::new(&file).try_acquire(&claim()).await), None, "it is held");
    Connection::open(&file).unwrap().execute("UPDATE fence SET boot = 'an earlier one'", []).unwrap();
    let after = token(SqliteBackend::new(&file).try_acquire(&claim()).await);
    assert!(before < after, "{before:?} before the reboot, {after:?} after it");
}

#[tokio::test]
async fn a_free_lock_leaves_nothing_in_the_file() {
    let (_directory, file) = file();
    let (backend, claim) = (SqliteBackend::new(&file), claim());
    assert!(token(backend.try_acquire(&claim).await).is_some());
    backend.release(&claim).await.unwrap();
    let rows = |table| {
        let count = format!("SELECT count(*) FROM {table}");
        Connection::open(&file).unwrap().query_row(&count, [], |row| row.get::<_, u64>(0)).unwrap()
    };
    assert_eq!((rows("locks"), rows("fence")), (0, 1));
}

#[tokio::test]
async fn a_file_that_somebody_keeps_to_himself_is_unavailable() {
    let (_directory, file) = file();
    let backend = SqliteBackend::new(&file);
    assert!(token(backend.try_acquire(&claim()).await).is_some());
    let selfish = Connection::open(&file).unwrap();
    selfish.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(backend.inspect(&claim().name).await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(selfish);
    assert!(backend.inspect(&claim().name).await.unwrap().is_some(), "the backend goes on where it was");
}

#[tokio::test]
async fn a_file_of_another_kind_is_refused_with_its_name() {
    let (_directory, file) = file();
    std::fs::write(&file, "a shopping list, and as long as the header of a database: milk, bread, ".repeat(20))
        .unwrap();
    let refused = SqliteBackend::new(&file).try_acquire(&claim()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert!(refused.to_string().contains("locks.db"), "{refused}");
}
