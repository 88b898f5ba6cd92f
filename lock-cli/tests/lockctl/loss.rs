//! The command ends when its lock does, whatever has happened to lockctl.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tokio::net::unix::pipe;

use crate::support::{Locks, Output, done, finished, lives, parent, pid, send, state, until};

/// A stopped process, which goes on when this is dropped: nothing could end what a stopped guard process watches over.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: Pid) -> Self {
        send(Signal::STOP, pid);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A next holder, which says which of `members` it still meets.
async fn next_holder(locks: &Locks, members: [Pid; 2]) -> String {
    let members = members.map(|pid| pid.to_string()).join(" ");
    let script = format!("for pid in {members}; do kill -0 $pid 2>/dev/null && echo $pid; done; echo entered");
    done(&mut locks.run("a", &["--ttl", "2s"], &script)).await.stdout
}

#[tokio::test]
async fn the_command_of_a_stopped_lockctl_is_dead_before_the_next_holder_runs() {
    let locks = Locks::new();
    let (holder, members) = locks.holder("a", &["--ttl", "2s"]).await;
    let stopped = Stopped::new(pid(&holder));
    assert_eq!(next_holder(&locks, members).await, "entered\n");
    assert_eq!(state(pid(&holder)), Some('T'));
    // For longer than the lease could have been extended by anything sent before.
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop(stopped);
    let holder = finished(holder).await;
    assert_eq!(holder.status, Some(70), "{holder:?}");
    assert!(holder.stderr.starts_with("lockctl: lock \"a\" was lost while the command ran: "), "{holder:?}");
}

#[tokio::test]
async fn the_command_of_a_killed_lockctl_is_dead_within_a_second() {
    let locks = Locks::new();
    let (holder, members) = locks.holder("a", &["--ttl", "2s"]).await;
    send(Signal::KILL, pid(&holder));
    assert!(until(|| !members.into_iter().any(lives)).await < Duration::from_secs(1));
    assert_eq!(next_holder(&locks, members).await, "entered\n");
}

#[tokio::test]
async fn the_command_of_a_killed_guard_process_is_killed_and_the_lock_given_back() {
    let locks = Locks::new();
    let (holder, members) = locks.holder("a", &["--ttl", "1h"]).await;
    send(Signal::KILL, parent(members[0]));
    let holder = finished(holder).await;
    assert_eq!(holder.status, Some(70), "{holder:?}");
    assert!(holder.stderr.contains("guard process"), "{holder:?}");
    assert!(!members.into_iter().any(lives));
    assert_eq!(done(&mut locks.run("a", &["--no-wait"], "exit 5")).await.status, Some(5));
}

#[tokio::test]
async fn a_stopped_guard_process_does_not_keep_the_command_of_a_lost_lock_alive() {
    let locks = Locks::new();
    let (holder, members) = locks.holder("a", &["--ttl", "2s"]).await;
    let guard = parent(members[0]);
    let _stopped = Stopped::new(guard);
    assert_eq!(done(&mut locks.lockctl(&["release", "a", "--force"])).await.status, Some(0));
    assert_eq!(finished(holder).await.status, Some(70));
    until(|| !members.into_iter().chain([guard]).any(lives)).await;
}

/// The pipes that a process has open.
fn pipes(pid: Pid) -> Vec<pipe::Receiver> {
    let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
    files.filter_map(|file| pipe::OpenOptions::new().open_receiver(file.unwrap().path()).ok()).collect()
}

#[tokio::test]
async fn a_guard_process_that_has_not_listened_for_long_does_not_either() {
    let locks = Locks::new();
    let (holder, members) = locks.holder("a", &["--ttl", "10s"]).await;
    let guard = parent(members[0]);
    let _stopped = Stopped::new(guard);
    let pipes = pipes(guard);
    for pipe in &pipes {
        fcntl_setpipe_size(pipe, 4096).unwrap();
    }
    // The orders in the pipe, until no more fit in.
    let filled = || pipes.iter().map(|pipe| ioctl_fionread(pipe).unwrap()).max();
    let mut before = None;
    while before != filled() {
        before = filled();
        for _ in 0..20 {
            for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2] {
                send(signal, pid(&holder));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(before > Some(0));
    assert_eq!(done(&mut locks.lockctl(&["release", "a", "--force"])).await.status, Some(0));
    assert_eq!(finished(holder).await.status, Some(70));
    until(|| !members.into_iter().chain([guard]).any(lives)).await;
}

#[tokio::test]
async fn whose_lease_can_not_be_extended_is_told_why() {
    let locks = Locks::new();
    let command = ["run", "a", "--ttl", "2s", "sh", "-c", "echo ready; exec sleep 1000"];
    let mut holder = locks.lockctl_after("trap '' XFSZ", &command).spawn().unwrap();
    assert_eq!(Output::of(&mut holder).line().await, "ready");
    // As on a full disk.
    prlimit(Some(pid(&holder)), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
    let holder = finished(holder).await;
    assert_eq!(holder.status, Some(70), "{holder:?}");
    assert!(
        holder.stderr.contains("had not been extended in time: ") && holder.stderr.contains("File too large"),
        "{holder:?}"
    );
}

#[tokio::test]
async fn a_guard_process_that_goes_on_after_a_stop_hears_of_the_extensions_first() {
    let locks = Locks::new();
    // Longer than the command may run without an extension, and longer than it may without any answer.
    for stop in [Duration::from_millis(2900), Duration::from_secs(6)] {
        let mut run = locks.run("a", &["--ttl", "3s"], "echo $$; read -r word; exit 3");
        let mut run = run.stdin(Stdio::piped()).spawn().unwrap();
        let command = Output::of(&mut run).pids().await[0];
        let stopped = Stopped::new(parent(command));
        tokio::time::sleep(stop).await;
        drop(stopped);
        // Time to do the wrong thing.
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(run.stdin.take());
        let run = finished(run).await;
        assert_eq!((run.status, run.stderr.as_str()), (Some(3), ""));
    }
}

#[tokio::test]
async fn a_lease_is_extended_for_as_long_as_the_command_runs() {
    let locks = Locks::new();
    let done = done(&mut locks.run("a", &["--ttl", "3s"], "sleep 4; exit 3")).await;
    assert_eq!((done.status, done.stderr.as_str()), (Some(3), ""));
}
