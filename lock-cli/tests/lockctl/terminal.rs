//! `lockctl run` at a terminal, which `script` (util-linux) provides.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::support::{Locks, PATIENCE, pass_on_no_ignored_signals, within};

/// A shell command at a terminal of its own.
fn at_terminal(locks: &Locks, command: &str) -> Child {
    pass_on_no_ignored_signals();
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", command, "/dev/null"]).env("LOCK_URL", locks.url()).env("SHELL", "/bin/sh");
    script
        .env("LOCKCTL", env!("CARGO_BIN_EXE_lockctl"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    script.spawn().expect("script of util-linux is installed")
}

/// Reads what the terminal shows until it shows `text`.
async fn shows(terminal: &mut Child, text: &str) {
    let mut shown = String::new();
    let output = terminal.stdout.as_mut().unwrap();
    within(PATIENCE, async {
        while !shown.contains(text) {
            let byte = output.read_u8().await.unwrap_or_else(|_| panic!("no {text:?} in {shown:?}"));
            shown.push(byte.into());
        }
    })
    .await;
}

async fn types(terminal: &mut Child, keys: &str) {
    terminal.stdin.as_mut().unwrap().write_all(keys.as_bytes()).await.unwrap();
}

/// What the terminal shows to its end, and the status then.
async fn rest(mut terminal: Child) -> (Option<i32>, String) {
    let mut shown = String::new();
    within(PATIENCE, terminal.stdout.as_mut().unwrap().read_to_string(&mut shown)).await.unwrap();
    (within(PATIENCE, terminal.wait()).await.unwrap().code(), shown)
}

/// Types a word when the terminal shows `ready`, and expects the answer and a good end.
async fn assert_answers(mut terminal: Child) {
    shows(&mut terminal, "ready").await;
    types(&mut terminal, "word\n").await;
    let (status, shown) = rest(terminal).await;
    assert!(status == Some(0) && shown.contains("got word"), "{status:?}: {shown}");
}

#[tokio::test]
async fn a_command_reads_from_the_terminal() {
    let locks = Locks::new();
    let command = r#"$LOCKCTL run a sh -c 'echo ready; read -r x </dev/tty; echo "got $x"'"#;
    assert_answers(at_terminal(&locks, command)).await;
}

#[tokio::test]
async fn the_terminal_comes_back_after_the_command() {
    let locks = Locks::new();
    let command = r#"$LOCKCTL run a true; echo ready; read -r x </dev/tty; echo "got $x""#;
    assert_answers(at_terminal(&locks, command)).await;
}

/// A script of bash, which goes on after a command that exits, whatever its status, and ends with one that SIGINT has ended.
const SCRIPT: &str = r#"exec bash -c "echo ready; $LOCKCTL run a sh -c 'sleep 1000 & echo runs; wait'; echo went on""#;

#[tokio::test]
async fn control_c_ends_the_command_and_the_script_around_lockctl() {
    let locks = Locks::new();
    let mut terminal = at_terminal(&locks, SCRIPT);
    shows(&mut terminal, "runs").await;
    types(&mut terminal, "\u{3}").await;
    let (status, shown) = rest(terminal).await;
    assert!(status == Some(130) && !shown.contains("went on"), "{status:?}: {shown}");
    assert_eq!(locks.inspect("a").await, Value::Null);
}

#[tokio::test]
async fn control_c_ends_the_waiting_and_the_script_around_lockctl() {
    let locks = Locks::new();
    let _holder = locks.holder("a", &[]).await;
    let mut terminal = at_terminal(&locks, SCRIPT);
    shows(&mut terminal, "ready").await;
    // Not before lockctl catches the signal, nor before its first notice.
    shows(&mut terminal, "waiting for lock").await;
    types(&mut terminal, "\u{3}").await;
    let (status, shown) = rest(terminal).await;
    assert!(status == Some(130) && !shown.contains("went on"), "{status:?}: {shown}");
}

#[tokio::test]
async fn control_z_has_no_effect() {
    let locks = Locks::new();
    let mut terminal = at_terminal(&locks, "$LOCKCTL run a sh -c 'echo ready; read -r x </dev/tty; exit 3'");
    shows(&mut terminal, "ready").await;
    types(&mut terminal, "\u{1a}").await;
    types(&mut terminal, "word\n").await;
    assert_eq!(rest(terminal).await.0, Some(3));
}

#[tokio::test]
async fn in_a_pipeline_the_terminal_is_for_the_last() {
    let locks = Locks::new();
    let command = "$LOCKCTL run a sh -c 'echo ready; until [ -e got ]; do sleep 0.05; done'";
    let pager = r#"{ read -r x; echo "$x"; read -r x </dev/tty; echo "got $x"; >got; cat; }"#;
    assert_answers(at_terminal(&locks, &format!("cd {}; {command} | {pager}", locks.path("").display()))).await;
}

#[tokio::test]
async fn a_command_in_the_background_gets_the_terminal_when_its_job_comes_to_the_foreground() {
    let locks = Locks::new();
    let job = r#"set -m; $LOCKCTL run a sh -c "echo ready; read -r x; echo got \$x" & sleep 1; fg"#;
    assert_answers(at_terminal(&locks, &format!("exec bash -c '{job}'"))).await;
}
