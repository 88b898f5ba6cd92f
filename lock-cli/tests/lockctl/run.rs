//! What the command of `lockctl run` finds, and what it leaves.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::AsyncWriteExt;

use crate::support::{Locks, Output, STAY, done, finished, lives, lockctl, pid, send};

#[tokio::test]
async fn the_first_command_of_the_readme_runs() {
    let script = r#"echo "$LOCK_NAME is mine, fencing token $LOCK_TOKEN""#;
    let done = done(&mut Locks::new().run("hello", &["--"], script)).await;
    let token = done.stdout.strip_prefix("hello is mine, fencing token ").unwrap();
    assert!(token.trim_end().parse::<u64>().unwrap() > 0);
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn the_command_is_told_of_the_lock_and_not_of_the_url() {
    let locks = Locks::new();
    let script = r#"echo "$LOCK_NAME $LOCK_OWNER $LOCK_TOKEN ${LOCK_URL-unset}""#;
    let first = done(&mut locks.run("a b", &[], script)).await;
    let [owner, token, url] = first.stdout.strip_prefix("a b ").unwrap().split_whitespace().collect::<Vec<_>>()[..]
    else {
        panic!("{first:?}");
    };
    assert_eq!((owner.len(), url), (32, "unset"));
    let next = done(&mut locks.run("a b", &[], "echo $LOCK_TOKEN")).await;
    assert!(next.stdout.trim_end().parse::<u64>().unwrap() > token.parse().unwrap());
}

#[tokio::test]
async fn a_lock_within_a_lock_is_the_inner_one_for_the_inner_command() {
    let locks = Locks::new();
    let inner = format!(
        "{} run inner --url '{}' -- sh -c 'echo $LOCK_NAME'; echo $LOCK_NAME",
        env!("CARGO_BIN_EXE_lockctl"),
        locks.url()
    );
    let done = done(&mut locks.run("outer", &[], &inner)).await;
    assert_eq!((done.status, done.stdout.as_str()), (Some(0), "inner\nouter\n"));
}

#[tokio::test]
async fn the_inner_command_ends_with_the_outer_lock() {
    let locks = Locks::new();
    let inner = format!(
        "{} run inner --url '{}' -- sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000'; echo went on",
        env!("CARGO_BIN_EXE_lockctl"),
        locks.url()
    );
    let mut outer = locks.run("outer", &["--ttl", "3s"], &inner).spawn().unwrap();
    let inner = Output::of(&mut outer).pids().await;
    assert_eq!(done(&mut locks.lockctl(&["release", "outer", "--force"])).await.status, Some(0));
    assert_eq!(finished(outer).await.status, Some(70));
    assert!(!inner.into_iter().any(lives));
}

#[tokio::test]
async fn the_option_comes_before_the_variable() {
    let locks = Locks::new();
    let mut run = locks.run("a", &["--url", &locks.url()], "exit 3");
    assert_eq!(done(run.env("LOCK_URL", "nonsense:")).await.status, Some(3));
}

#[tokio::test]
async fn without_a_url_one_line_says_how_far_the_locks_reach() {
    let name = format!("lockctl-test/{:032x}", fastrand::u128(..));
    for unset in [None, Some("")] {
        let mut inspect = lockctl();
        inspect.args(["inspect", &name]).envs(unset.map(|url| ("LOCK_URL", url)));
        let told = done(&mut inspect).await.stderr;
        assert!(told.lines().next().unwrap().contains("on this host only"), "{told}");
    }
    let mut inspect = lockctl();
    let done = done(inspect.args(["inspect", &name]).env("LOCK_URL", "file:")).await;
    assert!(!done.stderr.contains("on this host only"), "{done:?}");
}

#[tokio::test]
async fn standard_input_reaches_the_command() {
    let locks = Locks::new();
    let mut cat = locks.run("a", &[], "exec cat").stdin(Stdio::piped()).spawn().unwrap();
    let mut input = cat.stdin.take().unwrap();
    let text = "0123456789abcdef\n".repeat(100_000);
    let (written, done) = tokio::join!(
        async {
            let written = input.write_all(text.as_bytes()).await;
            drop(input);
            written
        },
        finished(cat)
    );
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""), "{written:?}");
    assert!(done.stdout == text, "{} of {} bytes", done.stdout.len(), text.len());
}

#[tokio::test]
async fn signals_reach_the_command_and_its_status_is_the_answer() {
    let locks = Locks::new();
    let traps = "trap 'echo hup' HUP; trap 'echo int' INT; trap 'echo quit' QUIT; trap 'echo usr1' USR1; trap 'echo usr2' USR2; \
                 trap 'echo term; exit 9' TERM";
    let mut run = locks.run("a", &[], &format!("{traps}; {STAY}")).spawn().unwrap();
    let mut output = Output::of(&mut run);
    assert_eq!(output.line().await, "ready");
    for (signal, line) in [
        (Signal::HUP, "hup"),
        (Signal::INT, "int"),
        (Signal::QUIT, "quit"),
        (Signal::USR1, "usr1"),
        (Signal::USR2, "usr2"),
        (Signal::TERM, "term"),
    ] {
        send(signal, pid(&run));
        assert_eq!(output.line().await, line);
    }
    assert_eq!(finished(run).await.status, Some(9));
}

#[tokio::test]
async fn what_was_ignored_stays_ignored() {
    let locks = Locks::new();
    let script = format!(
        "trap '' HUP CHLD; exec {} run a -- sh -c 'kill -HUP $PPID $$; echo alive; exit 4'",
        env!("CARGO_BIN_EXE_lockctl")
    );
    let mut shell = tokio::process::Command::new("sh");
    let done = done(
        shell
            .args(["-c", &script])
            .env("LOCK_URL", locks.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true),
    )
    .await;
    assert_eq!((done.status, done.stdout.as_str()), (Some(4), "alive\n"), "{done:?}");
}

#[tokio::test]
async fn nothing_of_the_command_is_left_when_the_next_one_runs() {
    let locks = Locks::new();
    let first = done(&mut locks.run("a", &[], "(trap '' TERM; sleep 1000) & sleep 1000 & echo $$ $!")).await;
    assert_eq!(first.status, Some(0), "{first:?}");
    let left: Vec<_> = first.stdout.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(left.into_iter().all(|pid| !lives(rustix::process::Pid::from_raw(pid).unwrap())));
}
