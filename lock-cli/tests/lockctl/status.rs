//! Exit statuses, and the line that goes with each of lockctl's own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::support::{Done, Locks, done, lockctl};

async fn of_run(locks: &Locks, args: &[&str]) -> Done {
    done(locks.lockctl(&["run", "a"]).args(args)).await
}

/// One line of lockctl's own, with what it is about.
#[track_caller]
fn assert_told(done: &Done, status: i32, about: &str) {
    assert_eq!(done.status, Some(status), "{done:?}");
    assert!(done.stderr.starts_with("lockctl: ") && done.stderr.ends_with('\n'), "{done:?}");
    assert!(done.stderr.contains(about), "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
}

#[tokio::test]
async fn the_status_is_the_commands_own() {
    let locks = Locks::new();
    for status in [0, 1, 70, 255] {
        let done = of_run(&locks, &["sh", "-c", &format!("exit {status}")]).await;
        assert_eq!((done.status, done.stderr.as_str()), (Some(status), ""));
    }
    for (signal, status) in [("KILL", 137), ("TERM", 143), ("INT", 130)] {
        let done = of_run(&locks, &["sh", "-c", &format!("kill -{signal} $$")]).await;
        assert_eq!((done.status, done.stderr.as_str()), (Some(status), ""));
    }
}

#[tokio::test]
async fn a_command_that_can_not_run_has_the_status_that_a_shell_gives() {
    let locks = Locks::new();
    assert_told(&of_run(&locks, &["no-such-command-anywhere"]).await, 127, "\"no-such-command-anywhere\"");
    assert_told(&of_run(&locks, &["/etc/passwd"]).await, 126, "\"/etc/passwd\"");
    // And the lock was given back.
    assert_eq!(of_run(&locks, &["--no-wait", "true"]).await.status, Some(0));
}

#[tokio::test]
async fn wrong_usage_is_64_and_asked_for_help_is_0() {
    for args in [&[][..], &["run"], &["run", "a"], &["frobnicate"], &["run", "a", "--ttl", "3", "true"]] {
        let done = done(lockctl().args(args)).await;
        assert_eq!(done.status, Some(64), "{args:?}: {done:?}");
        assert!(done.stderr.contains("Usage") || done.stderr.contains("--help"), "{args:?}: {done:?}");
    }
    for args in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let done = done(lockctl().args(args)).await;
        assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[tokio::test]
async fn it_is_called_lockctl_whatever_its_file_is() {
    for (option, start) in [("--version", "lockctl "), ("--help", "Runs commands under locks")] {
        let done = done(lockctl().arg0("other").arg(option)).await;
        assert!(done.stdout.starts_with(start) && !done.stdout.contains("other "), "{done:?}");
    }
}

#[tokio::test]
async fn a_bad_name_is_64() {
    let locks = Locks::new();
    for name in ["", "a\nb"] {
        assert_told(&done(&mut locks.lockctl(&["run", name, "true"])).await, 64, "name");
        assert_told(&done(&mut locks.lockctl(&["inspect", name])).await, 64, "name");
    }
}

#[tokio::test]
async fn a_release_without_force_is_64_and_says_why() {
    assert_told(&done(&mut Locks::new().lockctl(&["release", "a"])).await, 64, "--force");
}

#[tokio::test]
async fn bad_configuration_is_78() {
    let locks = Locks::new();
    for (options, about) in [
        (&["--url", "nonsense://x"][..], "\"nonsense\""),
        (&["--url", "memory:"], "within one process"),
        (&["--ttl", "1ns"], "ttl of 1ns"),
        (&["--ttl", "1000y"], "ttl of"),
        (&["--label", &"x".repeat(100_000)], "256 bytes"),
    ] {
        let done = of_run(&locks, &[options, &["true"]].concat()).await;
        assert_told(&done, 78, about);
        assert!(done.stderr.len() < 500, "{done:?}");
    }
}

#[tokio::test]
async fn a_password_is_never_shown() {
    for url in ["file://me:hunter2@/x", "nonsense://me:hunter2@x", "file:/x?password=hunter2", "://:hunter2@"] {
        let done = done(lockctl().args(["run", "a", "true"]).env("LOCK_URL", url)).await;
        assert_eq!(done.status, Some(78), "{done:?}");
        assert!(!done.stderr.contains("hunter2"), "{done:?}");
    }
}

#[tokio::test]
async fn a_directory_that_others_may_write_is_refused_with_77() {
    let locks = Locks::new();
    let open = locks.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let url = format!("file:{}", open.display());
    assert_told(&of_run(&locks, &["--url", &url, "true"]).await, 77, "open");
}
