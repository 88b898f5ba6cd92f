//! Waiting for a lock that somebody else has.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Locks, PATIENCE, catches, done, finished, lives, pid, send, until, within};

#[tokio::test]
async fn whoever_does_not_want_to_wait_is_told_at_once() {
    let locks = Locks::new();
    let (_holder, members) = locks.holder("a", &[]).await;
    for options in [&["--no-wait"][..], &["--wait", "100ms"], &["--wait", "0s"]] {
        let done = done(&mut locks.run("a", options, "echo ran")).await;
        assert_eq!((done.status, done.stdout.as_str()), (Some(75), ""), "{done:?}");
        assert!(done.stderr.starts_with("lockctl: lock \"a\""), "{done:?}");
    }
    assert!(members.into_iter().all(lives));
    assert_eq!(done(&mut locks.run("b", &["--no-wait"], "exit 5")).await.status, Some(5));
}

#[tokio::test]
async fn the_lock_goes_to_the_next_when_the_command_is_interrupted() {
    let locks = Locks::new();
    let (holder, members) = locks.holder("a", &["--ttl", "1h"]).await;
    let waiter = locks.run("a", &["--ttl", "1h"], "echo mine").spawn().unwrap();
    until(|| catches(pid(&waiter), Signal::INT)).await;
    send(Signal::INT, pid(&holder));
    assert_eq!(finished(holder).await.status, Some(130));
    assert!(!members.into_iter().any(lives));
    assert_eq!(finished(waiter).await.stdout, "mine\n");
}

#[tokio::test]
async fn a_signal_ends_the_waiting_and_leaves_nothing_behind() {
    let locks = Locks::new();
    let (holder, _) = locks.holder("a", &["--ttl", "1h"]).await;
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let waiter = locks.run("a", &["--ttl", "1h"], "echo ran").spawn().unwrap();
        until(|| catches(pid(&waiter), signal)).await;
        // It should have asked by now; if not, the signal is as good a moment earlier.
        tokio::time::sleep(Duration::from_millis(300)).await;
        send(signal, pid(&waiter));
        let waiter = finished(waiter).await;
        assert_eq!((waiter.status, waiter.stdout.as_str()), (Some(status), ""), "{waiter:?}");
    }
    send(Signal::TERM, pid(&holder));
    finished(holder).await;
    assert_eq!(locks.inspect("a").await, Value::Null);
    assert_eq!(done(&mut locks.run("a", &["--no-wait"], "exit 5")).await.status, Some(5));
}

#[tokio::test]
async fn whoever_waits_long_is_told_for_whom() {
    let locks = Locks::new();
    let (_holder, _) = locks.holder("a", &["--label", "nightly report"]).await;
    let mut waiter = locks.run("a", &[], "true").spawn().unwrap();
    let mut told = BufReader::new(waiter.stderr.take().unwrap()).lines();
    let line = within(PATIENCE, told.next_line()).await.unwrap().unwrap();
    assert!(line.starts_with("lockctl: waiting for lock \"a\", held by nightly report process "), "{line}");
}

#[tokio::test]
async fn whoever_waits_for_a_free_lock_is_told_what_is_in_the_way() {
    let locks = Locks::new();
    // As on a full disk.
    let mut waiter = locks.lockctl_after("trap '' XFSZ; ulimit -f 0", &["run", "a", "true"]).spawn().unwrap();
    let mut told = BufReader::new(waiter.stderr.take().unwrap()).lines();
    let line = within(PATIENCE, told.next_line()).await.unwrap().unwrap();
    assert!(line.starts_with("lockctl: waiting although nobody has the lock: lock \"a\": can't write "), "{line}");
    send(Signal::TERM, pid(&waiter));
    assert_eq!(finished(waiter).await.status, Some(143));
}

#[tokio::test]
async fn whoever_never_had_the_lock_is_not_told_that_it_has_it() {
    let locks = Locks::new();
    let (_holder, _) = locks.holder("a", &["--ttl", "1h"]).await;
    let waiter = locks.run("a", &["--ttl", "1h"], "true").spawn().unwrap();
    until(|| catches(pid(&waiter), Signal::INT)).await;
    // It should have asked by now; if not, it is refused at once.
    tokio::time::sleep(Duration::from_millis(300)).await;
    fs::set_permissions(locks.path("locks"), Permissions::from_mode(0o777)).unwrap();
    let waiter = finished(waiter).await;
    assert_eq!(waiter.status, Some(77), "{waiter:?}");
    assert!(!waiter.stderr.contains("given back"), "{waiter:?}");
}
