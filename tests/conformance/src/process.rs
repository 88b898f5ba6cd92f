//! Another process, which a case can stop and kill.
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::panic::{Location, resume_unwind};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use lock_core::{BootTime, ErrorKind, FencingToken, LockName};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::Trial;
use crate::given::Given;
use crate::history::Line;
use crate::orders::{Answer, Order, Said, Task};
use crate::serving::ADDRESS;

/// The case's line that a failure is reported at.
type At = &'static Location<'static>;

/// A process with a client of its own: this test binary once more, which does what it is told.
///
/// Its verbs are those of a contender, but they go through the core's client. It ends with this value at the latest, also when
/// it is stopped, and with this process, also when that is killed.
pub(crate) struct Process {
    trial: Trial,
    who: String,
    name: LockName,
    ttl: Duration,
    child: Child,
    orders: ChildStdin,
    heard: Arc<Mutex<Heard>>,
    listener: Option<JoinHandle<()>>,
    given: u64,
}

/// A process that is told to end does so in milliseconds.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// What a process has said.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Who waits for the answers to which order.
    waiting: HashMap<u64, mpsc::UnboundedSender<Answer>>,
    /// Why nobody listens any more.
    end: Option<String>,
}

impl Trial {
    /// Another process, that can ask for the case's lock with a ttl that outlives the case.
    pub(crate) fn process(&self) -> Process {
        self.process_telling(|_| {})
    }

    /// A process whose part of the history goes to `tell`, line by line, when it has just happened.
    pub(crate) fn process_telling(&self, tell: impl FnMut(Line) + Send + 'static) -> Process {
        let address = self.service().address.as_ref().expect("a case that uses processes needs them");
        let program = std::env::current_exe().expect("this process knows its program");
        let mut command = Command::new(program);
        command.env(ADDRESS, address).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program that runs can be started once more");
        let (orders, said) = (child.stdin.take().expect("it is a pipe"), child.stdout.take().expect("it is a pipe"));
        let heard = Arc::<Mutex<Heard>>::default();
        let listener = Arc::clone(&heard);
        let listener = std::thread::spawn(move || listen(said, &listener, tell));
        let who = self.next_contender().replace("contender", "process");
        let (name, ttl) = (self.name().clone(), self.long_ttl());
        Process { trial: self.clone(), who, name, ttl, child, orders, heard, listener: Some(listener), given: 0 }
    }
}

/// Hands on what a process says, until it has ended.
fn listen(said: ChildStdout, heard: &Mutex<Heard>, mut tell: impl FnMut(Line)) {
    let mut said = BufReader::new(said);
    let mut line = String::new();
    let end = loop {
        line.clear();
        match said.read_line(&mut line) {
            // The last line of one that was killed may have no end.
            Ok(_) if !line.ends_with('\n') => break "it has ended".to_owned(),
            Ok(_) => {}
            Err(error) => break format!("what it says can't be read: {error}"),
        }
        match serde_json::from_str(&line) {
            Ok(Said::Told(line)) => tell(line),
            Ok(Said::Answer { number, answer }) => {
                let waiting = lock(heard).waiting.get(&number).cloned();
                // A case need not wait for every answer.
                let _ = waiting.map(|waiting| waiting.send(answer));
            }
            Err(_) => break format!("it said {line:?}: main may not print before Suite::run"),
        }
    };
    let mut heard = lock(heard);
    heard.waiting.clear();
    heard.end = Some(end);
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heard {
    /// Why nothing more is heard.
    pub(crate) fn end(&self) -> String {
        self.end.clone().unwrap_or_else(|| "it has ended".to_owned())
    }
}

impl Process {
    /// Asks for another lock from now on.
    pub(crate) fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// Asks for this ttl from now on.
    pub(crate) fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Waits for the lock, and holds it from then on.
    #[track_caller]
    pub(crate) fn acquires(&mut self) -> impl Future<Output = FencingToken> {
        let at = Location::caller();
        let given = self.begins_to_acquire();
        async move { given.gets_the_lock_at(at).await }
    }

    /// Asks for the lock and waits for it, in its own time.
    pub(crate) fn begins_to_acquire(&mut self) -> Given {
        let task = Task::Acquire { name: self.name.clone(), ttl: self.ttl };
        self.gives("acquire", task)
    }

    /// Asks once, and is told that somebody else has the lock.
    #[track_caller]
    pub(crate) fn is_refused(&mut self) -> impl Future<Output = ()> {
        let task = Task::TryAcquire { name: self.name.clone(), ttl: self.ttl };
        self.answers(Location::caller(), "try_acquire", task, Answer::Refused)
    }

    /// Extends, and is told that the lock is lost.
    #[track_caller]
    pub(crate) fn has_lost(&mut self) -> impl Future<Output = ()> {
        let at = Location::caller();
        let mut given = self.gives("extend", Task::Extend);
        async move {
            match given.answer(at).await {
                Answer::Failed { kind: ErrorKind::Lost, .. } => {}
                other => given.fail(at, "to be told that the lock is lost", &other),
            }
        }
    }

    /// Releases, and is told that this ended its grant.
    #[track_caller]
    pub(crate) fn releases(&mut self) -> impl Future<Output = ()> {
        self.answers(Location::caller(), "release", Task::Release, Answer::Released { was_held: true })
    }

    /// Releases, and is told that it held nothing.
    #[track_caller]
    pub(crate) fn has_nothing_to_release(&mut self) -> impl Future<Output = ()> {
        self.answers(Location::caller(), "release", Task::Release, Answer::Released { was_held: false })
    }

    /// Says how it stands with the lock, before it does anything else. If it is stopped, it does so as soon as it goes on.
    pub(crate) fn says_how_it_stands(&mut self) -> Given {
        self.gives("stand", Task::Stand)
    }

    /// Takes the lock and gives it back, as fast as it goes and for ever.
    pub(crate) fn churns(&mut self) -> Given {
        let task = Task::Churn { process: self.number(), name: self.name.clone(), ttl: self.ttl };
        self.gives("churn", task)
    }

    fn answers(
        &mut self,
        at: At,
        what: &'static str,
        task: Task,
        expected: Answer,
    ) -> impl Future<Output = ()> + use<> {
        let mut given = self.gives(what, task);
        async move {
            let answer = given.answer(at).await;
            if answer != expected {
                given.fail(at, &format!("{expected:?}"), &answer);
            }
        }
    }

    /// Gives an order.
    pub(crate) fn gives(&mut self, what: &'static str, task: Task) -> Given {
        self.given += 1;
        let (sender, answers) = mpsc::unbounded_channel();
        let sent = self.trial.clock().now();
        lock(&self.heard).waiting.insert(self.given, sender);
        let order = serde_json::to_string(&Order { number: self.given, task }).expect("an order is plain data") + "\n";
        if self.orders.write_all(order.as_bytes()).is_err() {
            // It has ended, and there will be no answer.
            lock(&self.heard).waiting.remove(&self.given);
        }
        let (trial, who, heard) = (self.trial.clone(), self.who.clone(), Arc::clone(&self.heard));
        Given { patience: trial.patience(), trial, who, what, sent, answers, heard }
    }

    /// The process's number in a history.
    pub(crate) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in the middle of whatever it does. When this ends, no thread of it runs.
    pub(crate) fn is_stopped(&mut self) {
        self.signal(Signal::STOP);
        // One that has ended meanwhile is waited for too, and left for Drop to reap.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), options).expect("it is our own child");
        self.tells("SIGSTOP");
    }

    /// Lets it go on.
    pub(crate) fn goes_on(&mut self) {
        self.signal(Signal::CONT);
        self.tells("SIGCONT");
    }

    /// Kills it in the middle of whatever it does, and says when it was certainly dead. All that it told is told by then.
    pub(crate) fn is_killed(&mut self) -> BootTime {
        self.child.kill().expect("it is our own child");
        self.child.wait().expect("it is our own child");
        let dead = self.trial.clock().now();
        self.is_heard_out();
        self.tells("SIGKILL");
        dead
    }

    /// Ends it as a program does that returns from `main`, and says when it was certainly gone.
    pub(crate) async fn exits(&mut self) -> BootTime {
        self.gives("exit", Task::Exit);
        let t = self.trial.clone();
        let ended = async {
            while self.child.try_wait().expect("it is our own child").is_none() {
                sleep(LOOKS_AGAIN_AFTER).await;
            }
        };
        t.soon(ended, "the end of a process that was told to end").await;
        let dead = t.clock().now();
        self.is_heard_out();
        self.tells("exit");
        dead
    }

    /// It has ended: all that it has said is handed on.
    fn is_heard_out(&mut self) {
        if let Some(Err(panic)) = self.listener.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is our own child, and not yet reaped");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn tells(&self, what: &str) {
        self.trial.story().tell(self.trial.clock().now(), &self.who, what, &format_args!("done"), Duration::ZERO);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Also one that is stopped, and one that is dead and reaped: then both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("who", &self.who).field("id", &self.child.id()).finish_non_exhaustive()
    }
}
