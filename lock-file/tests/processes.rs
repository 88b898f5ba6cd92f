//! The backend between processes that are stopped and killed.
//!
//! The test's own binary is the process: with a role in its environment it plays that instead of running tests.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Trial};
use lock_core::{Attempt, Backend, BootTime, Claim, Clock, Extension, Grant, LockName, Watching};
use lock_file::{FileBackend, FileConfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const ROLE: &str = "LOCK_FILE_TEST_ROLE";
const DIRECTORY: &str = "LOCK_FILE_TEST_DIRECTORY";

/// Long enough that a loaded machine does not lose a grant between two calls.
const TTL: Duration = Duration::from_secs(2);

/// Where a grant may as well be lost, and the test waits for many to end.
const SHORT: Duration = Duration::from_millis(200);

fn main() {
    if let Ok(role) = env::var(ROLE) {
        let directory = PathBuf::from(env::var_os(DIRECTORY).unwrap());
        return runtime().block_on(async {
            match role.as_str() {
                "count" => count(&directory).await,
                "cycle" => cycle(&directory).await,
                "hold" => hold(&directory).await,
                role => panic!("no role {role:?}"),
            }
        });
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("no_update_is_lost_between_processes", no_update_is_lost_between_processes),
        trial(
            "whatever_a_process_was_killed_at_the_lock_can_be_had",
            whatever_a_process_was_killed_at_the_lock_can_be_had,
        ),
        Trial::ignorable_test("two_users_of_a_shared_directory_exclude_each_other", || {
            if !geteuid().is_root() && env::var_os("CI").is_none() {
                return Ok(Completion::ignored_with("only root can become another user"));
            }
            two_users_of_a_shared_directory_exclude_each_other();
            Ok(Completion::Completed)
        }),
        trial("a_holder_that_was_stopped_too_long_has_lost", a_holder_that_was_stopped_too_long_has_lost),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn backend(directory: &Path) -> FileBackend {
    let locks = directory.join("locks");
    // A test that wants others to use it too has made it.
    let shared = fs::metadata(&locks).is_ok_and(|found| found.permissions().mode() & 0o022 != 0);
    FileBackend::new(FileConfig::new(locks).with_shared(shared))
}

fn for_ttl(claim: &Claim, ttl: Duration) -> Claim {
    let mut claim = claim.clone();
    claim.ttl = ttl;
    claim
}

/// Asks until the lock is granted, as a client does: again when told, or when the present grant ends.
async fn acquired(backend: &FileBackend, ttl: Duration) -> (Claim, Grant) {
    let claim = Claim::new(LockName::new("a/b").unwrap(), ttl);
    loop {
        match backend.try_acquire(&claim).await.unwrap() {
            Attempt::Granted(grant) => return (claim, grant),
            Attempt::Contended(contention) => {
                let again = contention.retry_after.unwrap_or_default().min(ttl / 4);
                let _ = tokio::time::timeout(again, backend.watch(&claim, Watching::Turn)).await;
            }
        }
    }
}

/// A process in a role. It is killed at the end, also when the test fails before.
struct Player {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Player {
    fn new(role: &str, directory: &Path) -> Self {
        Self::running(Command::new(env::current_exe().unwrap()), role, directory)
    }

    fn running(mut command: Command, role: &str, directory: &Path) -> Self {
        command.env(ROLE, role).env(DIRECTORY, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const COUNTS: u64 = 40;

/// Reads, waits and writes a number under the lock, again and again.
async fn count(directory: &Path) {
    let backend = backend(directory);
    let (counter, tokens) = (directory.join("counter"), directory.join("tokens"));
    for _ in 0..COUNTS {
        let (claim, grant) = acquired(&backend, TTL).await;
        let number: u64 = fs::read_to_string(&counter).unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut log = OpenOptions::new().append(true).open(&tokens).unwrap();
        writeln!(log, "{}", grant.token).unwrap();
        fs::write(&counter, (number + 1).to_string()).unwrap();
        backend.release(&claim).await.unwrap();
    }
}

fn no_update_is_lost_between_processes() {
    const PROCESSES: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("counter"), "0").unwrap();
    fs::write(directory.path().join("tokens"), "").unwrap();
    let players: Vec<_> = (0..PROCESSES).map(|_| Player::new("count", directory.path())).collect();
    for mut player in players {
        assert!(player.child.wait().unwrap().success());
    }
    assert_eq!(fs::read_to_string(directory.path().join("counter")).unwrap(), (PROCESSES * COUNTS).to_string());
    let tokens = tokens(&directory);
    assert_eq!(tokens.len() as u64, PROCESSES * COUNTS);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

fn tokens(directory: &TempDir) -> Vec<u64> {
    let text = fs::read_to_string(directory.path().join("tokens")).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Takes, extends and gives back the lock as fast as it can.
async fn cycle(directory: &Path) {
    let backend = backend(directory);
    println!("begins");
    loop {
        let (claim, grant) = acquired(&backend, SHORT).await;
        println!("{}", grant.token);
        backend.extend(&for_ttl(&claim, SHORT * 2)).await.unwrap();
        backend.release(&claim).await.unwrap();
    }
}

fn whatever_a_process_was_killed_at_the_lock_can_be_had() {
    const KILLS: usize = 8;
    let (runtime, clock) = (runtime(), Clock::system());
    // Each directory is new once.
    for _ in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        let backend = backend(directory.path());
        let mut last = 0;
        for _ in 0..KILLS {
            let mut player = Player::new("cycle", directory.path());
            assert_eq!(player.line(), "begins");
            runtime.block_on(async { tokio::time::sleep(Duration::from_micros(fastrand::u64(0..20_000))).await });
            player.signal(Signal::SIGKILL);
            let killed = clock.now();
            player.child.wait().unwrap();
            let (claim, grant) = runtime.block_on(acquired(&backend, SHORT));
            is_within(&clock, killed, SHORT * 2);
            let mut tokens = vec![last];
            tokens.extend(player.says.by_ref().lines().map(|line| line.unwrap().parse::<u64>().unwrap()));
            tokens.push(grant.token.as_u64());
            assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
            last = grant.token.as_u64();
            runtime.block_on(backend.release(&claim)).unwrap();
        }
        let left_behind = fs::read_dir(directory.path().join("locks/.tmp")).unwrap().count();
        assert!(left_behind <= KILLS, "{left_behind}");
    }
}

/// The long ttl more is for a loaded machine.
fn is_within(clock: &Clock, since: BootTime, limit: Duration) {
    let took = clock.now().since(since);
    assert!(took <= limit + TTL, "it took {took:?}");
}

/// Takes the lock, says so, and extends it when told.
async fn hold(directory: &Path) {
    let backend = backend(directory);
    let (claim, grant) = acquired(&backend, TTL).await;
    println!("{}", grant.token);
    loop {
        std::io::stdin().read_line(&mut String::new()).unwrap();
        println!("{:?}", backend.extend(&claim).await.unwrap());
        println!("{:?}", backend.release(&claim).await.unwrap());
    }
}

fn a_holder_that_was_stopped_too_long_has_lost() {
    let directory = tempfile::tempdir().unwrap();
    let (backend, clock) = (backend(directory.path()), Clock::system());
    let mut player = Player::new("hold", directory.path());
    let token: u64 = player.line().parse().unwrap();
    player.signal(Signal::SIGSTOP);
    let stopped = clock.now();
    let (claim, grant) = runtime().block_on(acquired(&backend, TTL));
    is_within(&clock, stopped, TTL);
    assert!(grant.token.as_u64() > token);
    player.signal(Signal::SIGCONT);
    player.go_on();
    assert_eq!(player.line(), "Lost");
    assert_eq!(player.line(), "NotHeld");
    let extension = runtime().block_on(backend.extend(&for_ttl(&claim, TTL * 4)));
    assert_eq!(extension.unwrap(), Extension::extended(TTL * 4));
}

fn two_users_of_a_shared_directory_exclude_each_other() {
    const NOBODY: u32 = 65534;
    let directory = tempfile::tempdir().unwrap();
    let locks = directory.path().join("locks");
    fs::create_dir(&locks).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (&locks, 0o1777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // That user may not look into the directory that this program was built in.
    let program = directory.path().join("program");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let (backend, runtime) = (backend(directory.path()), runtime());
    let mut last = 0;
    for _ in 0..5 {
        let (claim, grant) = runtime.block_on(acquired(&backend, TTL));
        let mut command = Command::new(&program);
        command.uid(NOBODY).gid(NOBODY);
        let mut player = Player::running(command, "hold", directory.path());
        assert_eq!(runtime.block_on(backend.extend(&for_ttl(&claim, TTL * 2))).unwrap(), Extension::extended(TTL * 2));
        runtime.block_on(backend.release(&claim)).unwrap();
        let token = player.line().parse().unwrap();
        assert!(last < grant.token.as_u64() && grant.token.as_u64() < token);
        last = token;
        player.child.kill().unwrap();
    }
    // Neither can remove the other's records, and each removes its own.
    let records = fs::read_dir(locks.join("a%2Fb")).unwrap().count();
    assert!(records <= 3, "{records}");
}
