//! The guard process alone, told what to do through its pipes as lockctl tells it.

use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use lock_core::{BootTime, Clock};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::Child;

use crate::support::{Output, PATIENCE, STAY, below, leads_a_session, lives, lockctl, pid, send, until, within};

/// A command that ignores SIGTERM and has a child that does so too.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $$ $!; wait";

struct Guard {
    process: Child,
    output: Output,
    orders: Option<PipeWriter>,
    reports: Lines<BufReader<pipe::Receiver>>,
    theirs: Option<(PipeReader, PipeWriter)>,
}

impl Guard {
    fn of(command: &[&str]) -> Self {
        let (their_orders, orders) = pipe().unwrap();
        let (reports, their_reports) = pipe().unwrap();
        let numbers = [their_orders.as_raw_fd(), their_reports.as_raw_fd()].map(|number| number.to_string());
        let mut guard = lockctl();
        guard.args(["guard", &std::process::id().to_string()]).args(numbers).arg("--").args(command).process_group(0);
        let mut process = guard.spawn().unwrap();
        Self {
            output: Output::of(&mut process),
            process,
            orders: Some(orders),
            reports: BufReader::new(pipe::Receiver::from_owned_fd(OwnedFd::from(reports)).unwrap()).lines(),
            theirs: Some((their_orders, their_reports)),
        }
    }

    /// A guard of a shell script whose lease ends `left` from now.
    fn of_script(script: &str, left: Duration, ttl: Duration) -> Self {
        let mut guard = Self::of(&["sh", "-c", script]);
        guard.until(now() + left, ttl);
        guard
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
    }

    fn until(&mut self, deadline: BootTime, ttl: Duration) {
        self.tell(&format!("until {} {}", deadline.since_boot().as_nanos(), ttl.as_nanos()));
    }

    async fn report(&mut self) -> String {
        let line = within(PATIENCE, self.reports.next_line()).await.unwrap().expect("one more report");
        self.theirs = None;
        line
    }

    async fn started(&mut self) -> Pid {
        let report = self.report().await;
        let group = report.strip_prefix("started ").unwrap_or_else(|| panic!("{report}"));
        Pid::from_raw(group.parse().unwrap()).unwrap()
    }

    async fn ends(mut self) {
        assert!(within(PATIENCE, self.process.wait()).await.unwrap().success());
    }
}

/// The end of the orders ends the command, then the guard process: killed itself, it would leave the command behind.
impl Drop for Guard {
    fn drop(&mut self) {
        self.orders = None;
        for _ in 0..500 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

fn now() -> BootTime {
    Clock::system().now()
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_command_leads_a_group_of_its_own_and_its_status_is_reported() {
    let mut guard = Guard::of_script("cut -d' ' -f5 /proc/$$/stat; exit 7", HOUR, HOUR);
    let group = guard.started().await;
    assert_eq!(guard.output.pids().await, [group]);
    assert_eq!(guard.report().await, "exited 7");
    guard.ends().await;
}

#[tokio::test]
async fn a_command_that_a_signal_ended_is_reported_by_its_number() {
    for signal in ["15", "34"] {
        let mut guard = Guard::of_script(&format!("kill -{signal} $$"), HOUR, HOUR);
        guard.started().await;
        assert_eq!(guard.report().await, format!("killed {signal}"));
    }
}

#[tokio::test]
async fn what_can_not_be_started_is_reported_with_the_reason() {
    for (program, report) in [("/nowhere/to/be/found", "not-started 2"), ("/etc/passwd", "not-started 13")] {
        let mut guard = Guard::of(&[program]);
        guard.until(now() + HOUR, HOUR);
        assert_eq!(guard.report().await, report);
        guard.ends().await;
    }
}

#[tokio::test]
async fn nothing_is_started_when_the_deadline_is_near() {
    let mut guard = Guard::of_script("echo started", Duration::from_secs(1), Duration::from_secs(10));
    assert_eq!(guard.report().await, "cut-short");
    guard.ends().await;
}

#[tokio::test]
async fn the_whole_group_is_gone_when_the_deadline_comes() {
    let deadline = now() + Duration::from_secs(3);
    let mut guard = Guard::of(&["sh", "-c", STUBBORN]);
    guard.until(deadline, Duration::from_secs(10));
    guard.started().await;
    let members = guard.output.pids().await;
    assert_eq!(guard.report().await, "cut-short");
    assert_eq!(guard.report().await, "killed 9");
    assert!(!members.into_iter().any(lives));
    assert!(now() < deadline);
    guard.ends().await;
}

#[tokio::test]
async fn a_command_is_asked_before_it_is_killed() {
    let left = Duration::from_secs(3);
    let mut guard = Guard::of_script("trap 'exit 3' TERM; sleep 1000 & wait", left, Duration::from_secs(10));
    guard.started().await;
    assert_eq!(guard.report().await, "cut-short");
    assert_eq!(guard.report().await, "exited 3");
}

#[tokio::test]
async fn everybody_is_asked_once_in_whatever_group() {
    let [outer, inner] = ["outer", "inner"].map(|name| format!("trap 'echo {name}' TERM; {STAY}"));
    let mut guard = Guard::of(&["bash", "-c", r#"set -m; sh -c "$1" & set +m; eval "$2""#, "bash", &inner, &outer]);
    guard.until(now() + HOUR, HOUR);
    guard.started().await;
    for _ in 0..2 {
        assert_eq!(guard.output.line().await, "ready");
    }
    // The moment to ask, and four seconds before the moment to kill.
    guard.until(now() + Duration::from_secs(5), HOUR);
    let mut asked = [guard.output.line().await, guard.output.line().await];
    asked.sort();
    assert_eq!(asked, ["inner", "outer"]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    guard.tell("lost");
    assert_eq!(guard.output.rest().await, [""; 0]);
}

#[tokio::test]
async fn an_extension_keeps_the_command_running() {
    let start = now();
    let mut guard = Guard::of_script("sleep 1.5", Duration::from_secs(3), Duration::from_secs(10));
    guard.until(start + HOUR, Duration::from_secs(10));
    guard.started().await;
    assert_eq!(guard.report().await, "exited 0");
    assert!(now() > start + Duration::from_secs(1), "without the extension it would have been asked to end");
}

#[tokio::test]
async fn the_whole_group_is_gone_within_a_second_when_lockctl_is() {
    let mut guard = Guard::of_script(STUBBORN, HOUR, HOUR);
    guard.started().await;
    let members = guard.output.pids().await;
    guard.orders = None;
    assert!(until(|| !members.iter().copied().any(lives)).await < Duration::from_secs(1));
    guard.ends().await;
}

#[tokio::test]
async fn a_lost_lock_is_the_end_at_once() {
    let mut guard = Guard::of_script(STUBBORN, HOUR, HOUR);
    guard.started().await;
    let members = guard.output.pids().await;
    guard.tell("lost");
    assert_eq!(guard.report().await, "killed 9");
    assert!(!members.into_iter().any(lives));
}

#[tokio::test]
async fn what_the_command_leaves_in_its_group_is_ended_before_its_end_is_reported() {
    let mut guard = Guard::of_script("(trap '' TERM; sleep 1000) & sleep 1000 & echo $$ $!", HOUR, HOUR);
    let group = guard.started().await;
    let members = guard.output.pids().await;
    assert_eq!(guard.report().await, "exited 0");
    assert!(!members.into_iter().any(lives));
    assert!(kill_process_group(group, Signal::KILL).is_err(), "nobody is left to be waited for either");
    guard.ends().await;
}

#[tokio::test]
async fn what_moved_into_a_group_of_its_own_is_ended_too_but_not_what_left_the_session() {
    let script = "setsid sleep 60 & set -m; sleep 1000 & timeout 1000 sleep 1000 & echo $$ $!; wait";
    let mut guard = Guard::of_script(script, HOUR, HOUR);
    let group = guard.started().await;
    guard.output.pids().await;
    let has_left = |pid: &Pid| leads_a_session(*pid);
    until(|| below(group).len() == 4 && below(group).iter().any(has_left)).await;
    let (daemon, rest): (Vec<_>, Vec<_>) = below(group).into_iter().partition(has_left);
    guard.tell("lost");
    assert_eq!(guard.report().await, "killed 9");
    assert!(!rest.into_iter().any(lives));
    assert!(lives(daemon[0]));
    send(Signal::KILL, daemon[0]);
    guard.ends().await;
}

#[tokio::test]
async fn signals_are_for_the_command_and_not_for_the_guard_process() {
    let mut guard = Guard::of_script(&format!("trap 'echo usr1; exit 5' USR1; {STAY}"), HOUR, HOUR);
    guard.started().await;
    assert_eq!(guard.output.line().await, "ready");
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::TSTP] {
        send(signal, pid(&guard.process));
    }
    guard.tell(&format!("signal {}", Signal::USR1.as_raw()));
    assert_eq!(guard.output.line().await, "usr1");
    assert_eq!(guard.report().await, "exited 5");
}

#[tokio::test]
async fn a_command_can_not_be_suspended_from_the_terminal() {
    let mut guard = Guard::of_script(&format!("trap 'echo continued' CONT; {STAY}"), HOUR, HOUR);
    let group = guard.started().await;
    assert_eq!(guard.output.line().await, "ready");
    for _ in 0..3 {
        kill_process_group(group, Signal::TSTP).unwrap();
        assert_eq!(guard.output.line().await, "continued");
    }
}
