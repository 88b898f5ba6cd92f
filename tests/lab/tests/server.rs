//! The harness around a real server, and around programs that fail as servers do.
//!
//! The test's own binary is also the process whose servers have to end with it: with a role in its environment it plays that
//! instead of running tests.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, process};

use libtest_mimic::{Arguments, Completion, Trial};
use lock_lab::{
    Data, Direction, Flow, Port, Probe, Program, REDIS, REDIS_DURABLE, Relay, Server, ServerError, Setup, redis,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const ROLE: &str = "LOCK_LAB_TEST_ROLE";

/// Longer than anything takes that is not broken, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that every Debian has and that listens nowhere.
const SH: Program = Program { name: "sh", package: "dash" };

fn main() {
    if let Ok(role) = env::var(ROLE) {
        return runtime().block_on(within(play(&role)));
    }
    let reason_to_skip = REDIS.reason_to_skip();
    let trial = |name: &str, test: fn()| {
        let reason_to_skip = reason_to_skip.clone();
        Trial::ignorable_test(name, move || {
            Ok(match reason_to_skip {
                Some(reason) => Completion::ignored_with(reason),
                None => {
                    test();
                    Completion::Completed
                }
            })
        })
    };
    macro_rules! trials {
        ($($test:ident),* $(,)?) => {
            vec![$(trial(stringify!($test), || runtime().block_on(within($test())))),*]
        };
    }
    let trials = trials![
        a_started_server_answers_and_its_directory_is_its_own,
        a_stopped_server_accepts_and_answers_once_it_is_continued,
        a_stopped_server_can_be_killed,
        a_killed_server_comes_back_with_its_data,
        a_server_that_still_loads_its_data_is_not_ready,
        a_killed_server_comes_back_without_its_data,
        a_server_without_persistence_comes_back_empty,
        a_running_server_is_restarted,
        the_files_of_a_setup_are_there_at_each_start,
        servers_that_know_each_other_are_started_together,
        none_of_several_is_waited_for_when_one_has_ended,
        a_server_behind_a_relay_answers,
        a_port_that_somebody_took_is_replaced_by_another,
        a_port_that_was_taken_while_the_server_was_down_is_an_error,
        the_port_of_a_server_that_is_down_is_not_given_away,
        a_missing_program_is_an_error_that_names_its_package,
        a_server_that_ends_at_once_is_an_error_that_shows_what_it_said,
        a_server_that_is_never_ready_is_an_error_that_shows_what_it_said,
        a_server_that_has_ended_can_be_neither_stopped_nor_continued,
        a_server_outlives_the_thread_that_started_it,
        no_server_outlives_its_process_however_that_ends,
        nothing_is_left_of_what_was_dropped,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Awaits what has to come.
#[track_caller]
fn within<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    let at = std::panic::Location::caller();
    async move { timeout(2 * PATIENCE, what).await.unwrap_or_else(|_| panic!("{at}: not within {:?}", 2 * PATIENCE)) }
}

/// A plain connection to a Redis server.
struct Connection(TcpStream);

impl Connection {
    async fn to(server: &Server) -> Self {
        Self(TcpStream::connect(server.address()).await.unwrap())
    }

    async fn sends(&mut self, command: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    }

    async fn gets(&mut self, answer: &str) {
        let mut got = vec![0; answer.len()];
        self.0.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), answer);
    }
}

/// One command on a connection of its own.
async fn ask(server: &Server, command: &str, answer: &str) {
    let mut connection = Connection::to(server).await;
    connection.sends(command).await;
    connection.gets(answer).await;
}

const NOTHING: &str = "$-1\r\n";

async fn a_started_server_answers_and_its_directory_is_its_own() {
    let server = Server::start(redis).await.unwrap();
    let other = Server::start(redis).await.unwrap();
    ask(&server, "SET k v", "+OK\r\n").await;
    ask(&server, "GET k", "$1\r\nv\r\n").await;
    ask(&other, "GET k", NOTHING).await;
    let directory = server.directory();
    let path = directory.to_str().unwrap();
    ask(&server, "CONFIG GET dir", &format!("*2\r\n$3\r\ndir\r\n${}\r\n{path}\r\n", path.len())).await;
    assert!(server.output().unwrap().contains("Ready to accept connections"));
    drop(server);
    assert!(!directory.exists());
    assert!(other.directory().exists());
}

async fn a_stopped_server_accepts_and_answers_once_it_is_continued() {
    let server = Server::start(redis).await.unwrap();
    for _ in 0..3 {
        server.stop().unwrap();
        // Twice is not too often.
        server.stop().unwrap();
        let mut connection = Connection::to(&server).await;
        connection.sends("PING").await;
        assert!(connection.0.try_read(&mut [0]).is_err(), "a stopped server has answered");
        server.continue_().unwrap();
        connection.gets("+PONG\r\n").await;
    }
}

async fn a_stopped_server_can_be_killed() {
    let server = Server::start(redis).await.unwrap();
    server.stop().unwrap();
    server.kill().unwrap();
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
}

async fn a_killed_server_comes_back_with_its_data() {
    let server = Server::start(|port| redis(port).with_args(REDIS_DURABLE)).await.unwrap();
    let address = server.address();
    ask(&server, "SET k v", "+OK\r\n").await;
    server.kill().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "a killed server has accepted a connection");
    server.restart(Data::Kept).await.unwrap();
    assert_eq!(server.address(), address);
    ask(&server, "GET k", "$1\r\nv\r\n").await;
}

async fn a_server_that_still_loads_its_data_is_not_ready() {
    // It takes two seconds and looks after its clients at every 1024th command of the file.
    let slowly = ["--key-load-delay", "1000"];
    let server = Server::start(|port| redis(port).with_args(REDIS_DURABLE).with_args(slowly)).await.unwrap();
    ask(&server, r#"EVAL "for key = 1, 2000 do redis.call('SET', key, 'v') end" 0"#, NOTHING).await;
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "DBSIZE", ":2000\r\n").await;
}

async fn a_killed_server_comes_back_without_its_data() {
    let server = Server::start(|port| redis(port).with_args(REDIS_DURABLE)).await.unwrap();
    ask(&server, "SET k v", "+OK\r\n").await;
    server.kill().unwrap();
    server.restart(Data::Lost).await.unwrap();
    ask(&server, "GET k", NOTHING).await;
}

async fn a_server_without_persistence_comes_back_empty() {
    let server = Server::start(redis).await.unwrap();
    ask(&server, "SET k v", "+OK\r\n").await;
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "GET k", NOTHING).await;
}

async fn a_running_server_is_restarted() {
    let server = Server::start(redis).await.unwrap();
    let before = Watched::new(server.process_id());
    let mut connection = Connection::to(&server).await;
    server.restart(Data::Kept).await.unwrap();
    before.has_ended();
    // A server that is killed closes its connections.
    assert_eq!(connection.0.read(&mut [0]).await.unwrap_or(0), 0);
    ask(&server, "PING", "+PONG\r\n").await;
}

async fn the_files_of_a_setup_are_there_at_each_start() {
    let server = Server::start(|port| {
        let configuration = format!("port {}\nbind 127.0.0.1\nsave \"\"\ndatabases 17\n", port.number());
        Setup::new(REDIS, port).with_args(["etc/redis.conf"]).with_file("etc/redis.conf", configuration)
    })
    .await
    .unwrap();
    for data in [Data::Kept, Data::Lost] {
        ask(&server, "CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$2\r\n17\r\n").await;
        fs::write(server.directory().join("something"), "").unwrap();
        server.restart(data).await.unwrap();
        assert_eq!(server.directory().join("something").exists(), data == Data::Kept);
    }
    ask(&server, "CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$2\r\n17\r\n").await;
}

async fn servers_that_know_each_other_are_started_together() {
    let [primary, replica] = Server::start_together(|[first, second]| {
        let of_first = ["--replicaof".to_owned(), "127.0.0.1".to_owned(), first.number().to_string()];
        [redis(first), redis(second).with_args(of_first)]
    })
    .await
    .unwrap();
    let mut connection = Connection::to(&primary).await;
    connection.sends("SET k v").await;
    connection.gets("+OK\r\n").await;
    // Without limit: the replica tries once a second.
    connection.sends("WAIT 1 0").await;
    connection.gets(":1\r\n").await;
    ask(&replica, "GET k", "$1\r\nv\r\n").await;
}

async fn none_of_several_is_waited_for_when_one_has_ended() {
    let never_ready = |port| Setup::new(SH, port).with_args(["-c", "exec sleep 1000"]);
    let ends = |port| Setup::new(SH, port).with_args(["-c", "echo no >&2; exit 3"]);
    let error = Server::start_together(|[first, second]| [never_ready(first), ends(second)]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "sh ended with exit status: 3 before it was ready; the last that it has written:\n  no"
    );
}

async fn a_server_behind_a_relay_answers() {
    let server = Server::start(redis).await.unwrap();
    let relay = Relay::to(server.address()).await.unwrap();
    let mut connection = Connection(TcpStream::connect(relay.address()).await.unwrap());
    relay.set(Direction::ToClient, Flow::Swallow);
    connection.sends("SET k v").await;
    relay.until(|counts| counts.to_client.swallowed == 5).await;
    relay.heal();
    connection.sends("GET k").await;
    connection.gets("$1\r\nv\r\n").await;
}

/// Takes a port, as somebody who doesn't know that it is reserved, and answers as Redis does.
fn usurper(port: &Port) -> tokio::task::JoinHandle<()> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(port.address()).unwrap();
    let listener = socket.listen(16).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let _ = client.write_all(b"+PONG\r\n").await;
        }
    })
}

async fn a_port_that_somebody_took_is_replaced_by_another() {
    let usurped = RefCell::new(Vec::new());
    let server = Server::start(|port| {
        if usurped.borrow().len() < 2 {
            usurped.borrow_mut().push((port.address(), usurper(&port)));
        }
        redis(port)
    })
    .await
    .unwrap();
    assert!(usurped.borrow().len() == 2 && usurped.borrow().iter().all(|(address, _)| *address != server.address()));
    ask(&server, "SET k v", "+OK\r\n").await;
}

async fn a_port_that_was_taken_while_the_server_was_down_is_an_error() {
    let reserved = RefCell::new(None);
    let server = Server::start(|port| {
        reserved.replace(Some(port.clone()));
        redis(port)
    })
    .await
    .unwrap();
    server.kill().unwrap();
    let usurper = usurper(&reserved.take().unwrap());
    let error = server.restart(Data::Kept).await.unwrap_err();
    let port = server.address().port();
    assert!(matches!(error, ServerError::PortTaken { port: taken, .. } if taken == port), "{error}");
    usurper.abort();
    assert!(usurper.await.unwrap_err().is_cancelled());
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
}

async fn the_port_of_a_server_that_is_down_is_not_given_away() {
    let server = Server::start(redis).await.unwrap();
    server.kill().unwrap();
    // Who doesn't ask for this very port and allow to share it doesn't get it.
    let unshared = TcpSocket::new_v4().unwrap().bind(server.address()).unwrap_err();
    assert_eq!(unshared.kind(), std::io::ErrorKind::AddrInUse);
    let mut others = Vec::new();
    for _ in 0..200 {
        others.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        assert_ne!(others.last().unwrap().local_addr().unwrap(), server.address());
    }
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
}

async fn a_missing_program_is_an_error_that_names_its_package() {
    let absent = Program { name: "no-such-server", package: "no-such-package" };
    let error = Server::start(|port| Setup::new(absent, port)).await.unwrap_err();
    let told = "no-such-server is not installed; on Debian run as root: apt-get install no-such-package";
    assert_eq!(error.to_string(), told);
}

async fn a_server_that_ends_at_once_is_an_error_that_shows_what_it_said() {
    let error = Server::start(|port| redis(port).with_args(["--no-such-option", "1"])).await.unwrap_err().to_string();
    assert!(error.starts_with("redis-server ended with exit status: 1 before it was ready; "), "{error}");
    assert!(error.contains("no-such-option"), "{error}");
}

async fn a_server_that_is_never_ready_is_an_error_that_shows_what_it_said() {
    let second = Duration::from_secs(1);
    let script = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i >&2; done; exec sleep 1000";
    let deaf = |port| Setup::new(SH, port).with_args(["-c", script]).with_patience(second);
    let error = Server::start(deaf).await.unwrap_err().to_string();
    assert!(error.starts_with("sh was not ready after 1s: it does not listen on port "), "{error}");
    assert!(
        error.contains("; the last that it has written:\n  line 81\n") && error.ends_with("\n  line 100"),
        "{error}"
    );

    let mute = |port| redis(port).with_probe(Probe::new("PING\r\nQUIT\r\n", "another answer")).with_patience(second);
    let error = Server::start(mute).await.unwrap_err().to_string();
    assert!(
        error.starts_with("redis-server was not ready after 1s: it does not answer as expected on port "),
        "{error}"
    );
}

async fn a_server_that_has_ended_can_be_neither_stopped_nor_continued() {
    let server = Server::start(redis).await.unwrap();
    server.kill().unwrap();
    server.kill().unwrap();
    for result in [server.stop(), server.continue_()] {
        assert!(matches!(result, Err(ServerError::NotRunning { .. })), "{result:?}");
    }
    server.restart(Data::Kept).await.unwrap();
    let mut connection = Connection::to(&server).await;
    connection.sends("SHUTDOWN NOSAVE").await;
    // It closes the connection when it ends.
    let _ = connection.0.read(&mut [0]).await;
    Watched::new(server.process_id()).has_ended();
    for result in [server.stop(), server.continue_()] {
        assert!(matches!(result, Err(ServerError::NotRunning { .. })), "{result:?}");
    }
}

async fn a_server_outlives_the_thread_that_started_it() {
    let starting = std::thread::spawn(|| runtime().block_on(Server::start(redis)).unwrap());
    let server = starting.join().unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
    // Had the kernel killed it, it would have been at the end of the thread. That has been joined, but may not be over.
    tokio::time::sleep(Duration::from_millis(200)).await;
    ask(&server, "PING", "+PONG\r\n").await;
}

/// A process that can be seen ending, whoever its parent is.
struct Watched(OwnedFd);

impl Watched {
    fn new(process: u32) -> Self {
        let process = Pid::from_raw(process.cast_signed()).unwrap();
        Self(pidfd_open(process, PidfdFlags::empty()).unwrap())
    }

    fn has_ended(&self) {
        assert!(self.ends_within(PATIENCE), "it still lives");
    }

    fn ends_within(&self, patience: Duration) -> bool {
        let limit = Timespec { tv_sec: patience.as_secs().try_into().unwrap(), tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)).unwrap() > 0
    }
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

async fn play(role: &str) {
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

async fn no_server_outlives_its_process_however_that_ends() {
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
async fn nothing_is_left_of_what_was_dropped() {
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
