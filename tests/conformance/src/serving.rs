//! The other side of a [`Process`](crate::process::Process): this test binary, started once more to do what a case says.
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Error, ErrorKind, LeaseState, Lock, LockClient, LockGuard, LockName, Release, Result};
use rustix::process::{Signal, getpid, kill_process, set_parent_process_death_signal};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

use crate::crowd::Crowd;
use crate::failure::Raised;
use crate::history::{Became, Line, What};
use crate::orders::{Answer, Order, Said, Task};
use crate::recorder::Recorder;
use crate::shared::Shared;

/// The variable that makes a process one of these, and says where the service is.
pub(crate) const ADDRESS: &str = "LOCK_CONFORMANCE_PROCESS";

/// How long a crowd's client may take to give everything back.
const CLOSING: Duration = Duration::from_secs(15);

/// What a process has, whichever of its threads and tasks works on it.
#[derive(Clone)]
struct Serving {
    backend: Shared,
    client: LockClient,
    guard: Arc<Mutex<Option<Arc<LockGuard>>>>,
    end_of_crowd: watch::Sender<bool>,
}

/// Does what stands on the standard input, until its end. This process never outlives the one that has started it.
pub(crate) fn serve(backend: Shared) -> ExitCode {
    // The end of the input comes as well when the other process is killed, but a process that is stopped would not see it.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("error: this process can't be made to end with the one that started it: {error}");
        return ExitCode::FAILURE;
    }
    let client = LockClient::new(backend.clone());
    let serving = Serving { backend, client, guard: Arc::default(), end_of_crowd: watch::Sender::new(false) };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let (sender, mut orders) = mpsc::unbounded_channel();
    let reader = serving.clone();
    // A thread of its own: whatever blocks the runtime, the end of the input ends the process.
    std::thread::spawn(move || reader.reads(&sender));
    runtime.block_on(async {
        while let Some(order) = orders.recv().await {
            tokio::spawn(serving.clone().does(order));
        }
    });
    ExitCode::SUCCESS
}

impl Serving {
    fn reads(&self, orders: &mpsc::UnboundedSender<Order>) {
        for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            let order: Order = serde_json::from_str(&line).expect("an order is what its own suite wrote");
            match order.task {
                // At once and from here: nothing that is under way in the runtime comes before it.
                Task::Stand => says(order.number, answer(self.stands())),
                Task::Exit => std::process::exit(0),
                // The receiver lives as long as the process.
                _ => _ = orders.send(order),
            }
        }
        ends_at_once();
    }

    async fn does(self, order: Order) {
        let answer = match order.task {
            Task::Acquire { name, ttl } => self.acquires(order.number, &self.lock(&name, ttl)).await,
            Task::TryAcquire { name, ttl } => {
                let tried = self.lock(&name, ttl).try_acquire().await;
                answer(tried.map(|guard| guard.map_or(Answer::Refused, |guard| self.holds(guard))))
            }
            Task::Extend => answer(self.extends().await),
            Task::Release => answer(self.releases().await),
            Task::Churn { process, name, ttl } => {
                let recorder = recorder(process);
                answer(self.churns(&recorder, &name, ttl).await)
            }
            Task::Crowd { process, crowd } => self.is_a_crowd(&recorder(process), &crowd).await,
            Task::EndCrowd => {
                self.end_of_crowd.send_replace(true);
                return;
            }
            Task::Stand | Task::Exit => unreachable!("whoever reads the orders does these"),
        };
        says(order.number, answer);
    }

    async fn acquires(&self, order: u64, lock: &Lock) -> Answer {
        let answered = self.backend.next_answer();
        let mut acquired = std::pin::pin!(lock.acquire());
        let ended = tokio::select! {
            biased;
            ended = &mut acquired => ended,
            () = answered => {
                says(order, Answer::Waits);
                acquired.await
            }
        };
        answer(ended.map(|guard| self.holds(guard)))
    }

    fn holds(&self, guard: LockGuard) -> Answer {
        let token = guard.token();
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(guard));
        Answer::Granted { token }
    }

    fn stands(&self) -> Result<Answer> {
        let guard = self.guard()?;
        Ok(Answer::Stands { is_held: guard.is_held(), is_lost: guard.state() == LeaseState::Lost })
    }

    async fn extends(&self) -> Result<Answer> {
        let guard = self.guard()?;
        guard.extend(guard.ttl()).await.map(|()| Answer::Extended)
    }

    async fn releases(&self) -> Result<Answer> {
        let release = self.guard()?.release().await?;
        Ok(Answer::Released { was_held: release == Release::Released })
    }

    async fn churns(&self, recorder: &Recorder, name: &LockName, ttl: Duration) -> Result<Answer> {
        loop {
            let acquisition = recorder.asks(name);
            match self.lock(name, ttl).acquire().await {
                Ok(guard) => {
                    acquisition.record(What::Granted { token: guard.token(), until: guard.lease().deadline() });
                    acquisition.record(What::Releases);
                    guard.release().await?;
                }
                // On a busy machine a lease can be over before anybody comes to take it.
                Err(error) if error.kind() == ErrorKind::Lost => acquisition.record(What::Failed(error.kind())),
                Err(error) => return Err(error),
            }
        }
    }

    async fn is_a_crowd(&self, recorder: &Recorder, crowd: &Crowd) -> Answer {
        let failures = crowd.lives(std::slice::from_ref(&self.client), recorder, &self.end_of_crowd.subscribe()).await;
        if self.client.close(CLOSING).await.is_empty() {
            recorder.becomes(Became::Closed);
        }
        let failure = failures.into_iter().next().map(|ended| match Raised::from(ended.into_panic()) {
            Raised::Failure(failure) => failure.to_string(),
            Raised::TooSlow(missed) => missed,
        });
        Answer::CrowdEnded { failure }
    }

    fn lock(&self, name: &LockName, ttl: Duration) -> Lock {
        self.client.lock(name.as_str()).ttl(ttl)
    }

    fn guard(&self) -> Result<Arc<LockGuard>> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        guard.ok_or_else(|| Error::new(ErrorKind::Unexpected, "this process was never granted a lock"))
    }
}

fn recorder(process: u32) -> Recorder {
    Recorder::of_process(Clock::system(), process, |line: &Line| say(&Said::Told(line.clone())))
}

fn answer(ended: Result<Answer>) -> Answer {
    ended.unwrap_or_else(|error| Answer::Failed { kind: error.kind(), message: error.to_string() })
}

fn says(number: u64, answer: Answer) {
    say(&Said::Answer { number, answer });
}

/// It is in the pipe, and so outlives this process, before anything else is done.
fn say(said: &Said) {
    let line = serde_json::to_string(said).expect("what is said is plain data") + "\n";
    let mut output = std::io::stdout().lock();
    if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
        // Nobody listens any more.
        ends_at_once();
    }
}

/// Without a farewell: what runs at an ordinary exit may wait for what a stopped or blocked thread has.
fn ends_at_once() {
    // The signal can't be refused: it is one's own process.
    let _ = kill_process(getpid(), Signal::KILL);
}
