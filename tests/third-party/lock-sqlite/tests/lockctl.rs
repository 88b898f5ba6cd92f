//! The lockctl of this crate, as it is used: processes of their own, and a SQLite file between them.
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A directory with a SQLite file, which goes when the test ends.
struct Locks(TempDir);

impl Locks {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn directory(&self) -> &Path {
        self.0.path()
    }

    fn lockctl(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockctl"));
        command.args(args).env("LOCK_URL", format!("sqlite:{}/locks.db", self.directory().display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn done(&self, args: &[&str]) -> Output {
        self.lockctl(args).output().unwrap()
    }

    /// Holds a lock until it is dropped, or told to go by the end of its input.
    fn holder(&self, name: &str) -> Holder {
        let script = r#"echo "$LOCK_TOKEN"; cat"#;
        let mut holding = self.lockctl(&["run", name, "--label", "the test", "--", "sh", "-c", script]);
        let mut lockctl = holding.stdin(Stdio::piped()).spawn().unwrap();
        let mut token = String::new();
        BufReader::new(lockctl.stdout.take().unwrap()).read_line(&mut token).unwrap();
        Holder { lockctl, token: token.trim().to_owned() }
    }
}

struct Holder {
    lockctl: Child,
    token: String,
}

impl Holder {
    fn goes(mut self) -> Option<i32> {
        drop(self.lockctl.stdin.take());
        self.lockctl.wait().unwrap().code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.lockctl.kill();
        let _ = self.lockctl.wait();
    }
}

#[track_caller]
fn assert_prints(output: &Output, expected: &str) {
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains(expected), "expected {expected:?}: {output:?}");
}

#[test]
fn a_command_runs_under_the_lock_and_gives_it_back() {
    let locks = Locks::new();
    assert_prints(&locks.done(&["run", "job", "--", "sh", "-c", "echo token $LOCK_TOKEN"]), "token 1\n");
    assert_prints(&locks.done(&["inspect", "job", "--json"]), "null");
    assert_prints(&locks.done(&["run", "job", "--", "sh", "-c", "echo token $LOCK_TOKEN"]), "token 2\n");
}

#[test]
fn a_lock_that_is_held_is_shown_and_refused_until_its_holder_goes() {
    let locks = Locks::new();
    let holder = locks.holder("job");
    let shown = locks.done(&["inspect", "job", "--json"]);
    assert_prints(&shown, r#""label": "the test""#);
    assert_prints(&shown, &format!(r#""token": {}"#, holder.token));
    assert_eq!(locks.done(&["run", "job", "--no-wait", "--", "true"]).status.code(), Some(75));
    assert_prints(&locks.done(&["run", "another job", "--no-wait", "--", "echo", "free"]), "free");
    assert_eq!(holder.goes(), Some(0));
    assert_prints(&locks.done(&["run", "job", "--no-wait", "--", "echo", "mine"]), "mine");
}

#[test]
fn a_holder_whose_lock_is_taken_away_learns_it() {
    let locks = Locks::new();
    let mut holder = locks.holder("job");
    assert_prints(&locks.done(&["release", "job", "--force", "--if-token", &holder.token]), "");
    assert_eq!(
        holder.lockctl.wait().unwrap().code(),
        Some(70),
        "an extension finds it out, long before the test gives up"
    );
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_and_not_a_lock_to_wait_for() {
    let locks = Locks::new();
    let mut lockctl = locks.lockctl(&["run", "job", "--", "true"]);
    let refused = lockctl.env("LOCK_URL", "sqlite:/no/such/directory/locks.db").output().unwrap();
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
    let nowhere = locks.lockctl(&["inspect", "job"]).env("LOCK_URL", "sqlite:").output().unwrap();
    assert_eq!(nowhere.status.code(), Some(78), "{nowhere:?}");
}

#[test]
fn eight_processes_that_count_under_one_lock_lose_no_step() {
    const PROCESSES: usize = 8;
    const ROUNDS: usize = 5;
    let locks = Locks::new();
    let counter = locks.directory().join("counter");
    fs::write(&counter, "0").unwrap();
    let script = r#"number=$(cat "$0"); echo $((number + 1)) >"$0""#;
    let count = || {
        for _ in 0..ROUNDS {
            let counted = locks.done(&["run", "counter", "--", "sh", "-c", script, counter.to_str().unwrap()]);
            assert!(counted.status.success(), "{counted:?}");
        }
    };
    std::thread::scope(|scope| (0..PROCESSES).for_each(|_| drop(scope.spawn(count))));
    assert_eq!(fs::read_to_string(&counter).unwrap().trim(), (PROCESSES * ROUNDS).to_string());
}
