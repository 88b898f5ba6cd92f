use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Once;
use std::time::Duration;

use lock_core::Clock;
use rustix::process::{Pid, Signal, getpid, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::SignalKind;

/// Longer than anything takes that is not broken, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The end of a script that says "ready", then runs its traps as signals come and does nothing else. It waits, because signals
/// don't get lost in that: dash may lose one while it starts a program, or on its way into reading.
pub(crate) const STAY: &str =
    "(trap '' HUP INT QUIT TERM USR1 USR2; exec sleep 1000) & echo ready; while :; do wait $!; done";

/// The program under test. It is killed when the test lets go of it, and its guard process ends the command then.
pub(crate) fn lockctl() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockctl"));
    command.env_remove("LOCK_URL");
    watched(command)
}

fn watched(mut command: Command) -> Command {
    pass_on_no_ignored_signals();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// A directory of locks that nobody else uses. It goes when the test ends.
pub(crate) struct Locks(TempDir);

impl Locks {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("file:{}", self.path("locks").display())
    }

    /// A path beside the locks, for what they protect.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `lockctl` with these arguments, and these locks from its environment.
    pub(crate) fn lockctl(&self, args: &[&str]) -> Command {
        let mut command = lockctl();
        command.args(args).env("LOCK_URL", self.url());
        command
    }

    /// The same, by a shell that has run `first` before.
    pub(crate) fn lockctl_after(&self, first: &str, args: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!(r#"{first}; exec "$0" "$@""#), env!("CARGO_BIN_EXE_lockctl")]);
        shell.args(args).env("LOCK_URL", self.url());
        watched(shell)
    }

    /// A `lockctl run NAME` of a shell script, with further options.
    pub(crate) fn run(&self, name: &str, options: &[&str], script: &str) -> Command {
        let mut command = self.lockctl(&["run", name]);
        command.args(options).args(["sh", "-c", script]);
        command
    }

    /// A running holder of a lock: a shell and its child, which end when they are made to. Their process ids come with it.
    pub(crate) async fn holder(&self, name: &str, options: &[&str]) -> (Child, [Pid; 2]) {
        let mut holder = self.run(name, options, "sleep 1000 & echo $$ $!; wait").spawn().unwrap();
        let members = Output::of(&mut holder).pids().await;
        (holder, members.try_into().unwrap())
    }

    /// What `inspect` says of a lock in JSON.
    pub(crate) async fn inspect(&self, name: &str) -> Value {
        self.json(&["inspect", name, "--json"]).await
    }

    /// What `lockctl` prints in JSON.
    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        let done = done(&mut self.lockctl(args)).await;
        assert_eq!(done.status, Some(0), "{done:?}");
        serde_json::from_str(&done.stdout).unwrap()
    }
}

/// What has become of a process.
#[derive(Debug)]
pub(crate) struct Done {
    /// None when a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a process to its end.
pub(crate) async fn done(command: &mut Command) -> Done {
    finished(command.spawn().unwrap()).await
}

/// Waits for the end of a process.
pub(crate) async fn finished(child: Child) -> Done {
    let output = within(PATIENCE, child.wait_with_output()).await.unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Done { status: output.status.code(), stdout, stderr }
}

/// Lets no program of these tests inherit that a signal is ignored, as SIGINT is in the background of a script.
pub(crate) fn pass_on_no_ignored_signals() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT] {
            if has(getpid(), "SigIgn", signal) {
                // What is caught becomes the default in the programs that are started.
                let _ = tokio::signal::unix::signal(SignalKind::from_raw(signal.as_raw())).unwrap();
            }
        }
    });
}

/// What a process writes, line by line.
pub(crate) struct Output(Lines<BufReader<ChildStdout>>);

impl Output {
    pub(crate) fn of(child: &mut Child) -> Self {
        Self(BufReader::new(child.stdout.take().expect("standard output is piped")).lines())
    }

    /// The next line.
    pub(crate) async fn line(&mut self) -> String {
        within(PATIENCE, self.0.next_line()).await.unwrap().expect("one more line")
    }

    /// The lines up to the end.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Some(line) = within(PATIENCE, self.0.next_line()).await.unwrap() {
            rest.push(line);
        }
        rest
    }

    /// The process ids on the next line.
    pub(crate) async fn pids(&mut self) -> Vec<Pid> {
        let line = self.line().await;
        line.split(' ').map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
    }
}

/// Awaits what must come within `limit`.
#[track_caller]
pub(crate) fn within<T>(limit: Duration, what: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let done = tokio::time::timeout(limit, what).await;
        done.unwrap_or_else(|_| panic!("{caller}: not within {limit:?}"))
    }
}

/// Waits until `holds`, and says after how long.
#[track_caller]
pub(crate) fn until(holds: impl Fn() -> bool) -> impl Future<Output = Duration> {
    let clock = Clock::system();
    let start = clock.now();
    within(PATIENCE, async move {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        clock.now().since(start)
    })
}

/// Whether a process is there and has not ended.
pub(crate) fn lives(pid: Pid) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// The letter with which the kernel tells a process's state; None when there is no such process.
pub(crate) fn state(pid: Pid) -> Option<char> {
    stat(pid)?.chars().next()
}

/// Whether a process has a handler for a signal.
pub(crate) fn catches(pid: Pid, signal: Signal) -> bool {
    has(pid, "SigCgt", signal)
}

/// Whether a signal is in one of the sets of signals that the kernel shows of a process.
fn has(pid: Pid, set: &str, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t"));
    mask.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1)
}

/// The parent of a process: of a command, its guard process.
pub(crate) fn parent(pid: Pid) -> Pid {
    let stat = stat(pid).expect("the process is there");
    Pid::from_raw(stat.split(' ').nth(1).unwrap().parse().unwrap()).unwrap()
}

/// The children of a process and theirs in turn.
pub(crate) fn below(pid: Pid) -> Vec<Pid> {
    let number = pid.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap());
    children.flat_map(|child| [vec![child], below(child)].concat()).collect()
}

/// Whether a process is the first of its session. In a container the session of others may be 0, one from outside.
pub(crate) fn leads_a_session(pid: Pid) -> bool {
    let session = stat(pid).and_then(|stat| stat.split(' ').nth(3)?.parse().ok());
    session == Some(pid.as_raw_nonzero().get())
}

/// What the kernel tells of a process, from its state on.
fn stat(pid: Pid) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

/// Sends a signal to one process.
pub(crate) fn send(signal: Signal, pid: Pid) {
    kill_process(pid, signal).expect("the process is there");
}

/// The process id of a child that has not been awaited.
pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().expect("it was not awaited").cast_signed()).unwrap()
}
