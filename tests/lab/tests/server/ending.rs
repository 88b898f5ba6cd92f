//! Nothing is left of a server, however its process ends.
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, process};

use lock_lab::{Data, Relay, Server, redis};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{Connection, PATIENCE, ROLE, Watched, ask, runtime};

pub(crate) async fn a_server_outlives_the_thread_that_started_it() {
    let starting = std::thread::spawn(|| runtime().block_on(Server::start(redis)).unwrap());
    let server = starting.join().unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
    // Had the kernel killed it, it would have been at the end of the thread. That has been joined, but may not be over.
    tokio::time::sleep(Duration::from_millis(200)).await;
    ask(&server, "PING", "+PONG\r\n").await;
}

/// This binary in a role. It is killed at the end, also when the test fails before.
struct Player {
    process: Child,
    says: BufReader<ChildStdout>,
    /// For what a process leaves behind that can't tidy up.
    _directory: TempDir,
}

impl Player {
    fn new(role: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.env("TMPDIR", directory.path());
        // How a role ends by panic is no news for who reads the test's output.
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, says, _directory: directory }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) async fn play(role: &str) {
    if role == "leaves_nothing" {
        return leaves_nothing().await;
    }
    let running = Server::start(redis).await.unwrap();
    let stopped = Server::start(redis).await.unwrap();
    stopped.stop().unwrap();
    println!("{} {}", running.process_id(), stopped.process_id());
    std::io::stdout().flush().unwrap();
    // The test says when it is ready to see it.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let servers = [running, stopped];
    match role {
        "returns" => {}
        "forgets" => std::mem::forget(servers),
        "exits" => process::exit(0),
        "panics" => panic!("as intended"),
        "panics_and_forgets" => {
            std::mem::forget(servers);
            panic!("as intended");
        }
        "aborts" => process::abort(),
        "is_killed" => kill_process(rustix::process::getpid(), Signal::KILL).unwrap(),
        role => panic!("no role {role:?}"),
    }
}

pub(crate) async fn no_server_outlives_its_process_however_that_ends() {
    for role in ["returns", "forgets", "exits", "panics", "panics_and_forgets", "aborts", "is_killed"] {
        let mut player = Player::new(role);
        let line = player.line();
        let servers: Vec<_> = line.split(' ').map(|process| Watched::new(process.parse().unwrap())).collect();
        assert!(!servers.iter().any(|server| server.ends_within(Duration::ZERO)), "{role}: a server was never there");
        player.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        let status = player.process.wait().unwrap();
        assert_eq!(status.success(), ["returns", "forgets", "exits"].contains(&role), "{role}: {status}");
        assert!(servers.iter().all(|server| server.ends_within(PATIENCE)), "{role}: a server still lives");
    }
}

/// In a process of its own, where nothing else opens and closes.
pub(crate) async fn nothing_is_left_of_what_was_dropped() {
    let mut player = Player::new("leaves_nothing");
    assert_eq!(player.line(), "nothing");
}

async fn leaves_nothing() {
    // The thread that starts servers stays, and what the runtime opens for sockets and timers.
    use_everything().await;
    let before = left().await;
    for _ in 0..3 {
        use_everything().await;
    }
    // Tasks and their sockets end a little after the relay.
    for _ in 0..1000 {
        if left().await == before {
            return println!("nothing");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("before: {before:?}, after: {:?}", left().await);
}

async fn use_everything() {
    let server = Server::start(redis).await.unwrap();
    server.restart(Data::Lost).await.unwrap();
    let relay = Relay::to(server.address()).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = Connection(TcpStream::connect(relay.address()).await.unwrap());
        client.sends("PING").await;
        client.gets("+PONG\r\n").await;
        clients.push(client);
    }
    relay.black_hole();
    let process = Watched::new(server.process_id());
    let directory = server.directory();
    drop((relay, server));
    process.has_ended();
    assert!(!directory.exists());
    // The relay's end is that of its connections, also of held ones.
    for client in &mut clients {
        assert_eq!(client.0.read(&mut [0]).await.unwrap_or(0), 0);
    }
}

/// What this process has: children, open files by their kind, tasks.
async fn left() -> (String, HashMap<String, usize>, usize) {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let mut files = HashMap::new();
    for file in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let target = fs::read_link(file.path()).map(|target| target.display().to_string()).unwrap_or_default();
        let kind = target.split(':').next().unwrap_or_default().to_owned();
        *files.entry(kind).or_insert(0) += 1;
    }
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    (children.collect(), files, tasks)
}
