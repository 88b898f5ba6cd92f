use std::io;
use std::os::unix::process::parent_id;
use std::pin::pin;
use std::time::Duration;

use lock_core::Clock;
use rustix::process::{Signal, getpid, set_child_subreaper};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe;

use crate::args::GuardArgs;
use crate::exit::Status;
use crate::group::{Group, POLL};
use crate::link::{FromGuard, ToGuard};
use crate::plan::{ORPHAN_GRACE, Plan, REST_GRACE, Step};
use crate::signals::Signals;

/// What would end or stop a guard process. It lives until the command's group is gone, whoever wants it to end.
const SURVIVED: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::TSTP];

/// The guard process of one command. It says nothing on the standard streams: they are the command's.
///
/// # Errors
///
/// When it was not started by lockctl, or something that always works did not. lockctl notices that it has ended, and kills
/// the command's group.
pub(crate) async fn guard(args: &GuardArgs) -> io::Result<Status> {
    // `pkill -9 lockctl` shall not hit both, or nobody would end the command.
    rustix::thread::set_name(c"lock-guard")?;
    // Orphans of the command are handed to this process and not to init, which may be slow, or no init at all.
    set_child_subreaper(Some(getpid()))?;
    Signals::catch(&SURVIVED)?;
    let ended = Signals::catch(&[Signal::CHILD])?;
    let pipe = |number| format!("/proc/{}/fd/{number}", args.parent);
    let orders = pipe::OpenOptions::new().open_receiver(pipe(args.orders))?;
    let reports = pipe::OpenOptions::new().open_sender(pipe(args.reports))?;
    // Checked after opening: while the parent lives, its process id is nobody else's.
    if parent_id() != args.parent {
        return Err(io::Error::other("the parent is gone"));
    }
    let mut guard =
        Guard { clock: Clock::system(), orders: Orders { lines: Some(BufReader::new(orders).lines()) }, reports };
    let Some(ToGuard::Until { deadline, ttl }) = guard.orders.next().await else {
        return Ok(Status::DONE);
    };
    let plan = Plan::before(deadline, ttl);
    if plan.at <= guard.clock.now() {
        guard.report(FromGuard::CutShort).await;
        return Ok(Status::DONE);
    }
    match Group::start(args.command()) {
        Ok(group) => guard.watch(group, plan, ended).await,
        Err(error) => guard.report(FromGuard::NotStarted(error.raw_os_error().unwrap_or_default())).await,
    }
    Ok(Status::DONE)
}

struct Guard {
    clock: Clock,
    orders: Orders,
    reports: pipe::Sender,
}

impl Guard {
    /// Watches over the command until its group is gone.
    async fn watch(&mut self, mut group: Group, mut plan: Plan, mut ended: Signals) {
        self.report(FromGuard::Started(group.id())).await;
        let clock = self.clock.clone();
        let mut jumps = pin!(clock.notice_jumps());
        loop {
            if group.reap() {
                self.report(FromGuard::WantsTerminal).await;
            }
            if let Some(ended) = group.ended() {
                if group.is_gone() {
                    return self.report(FromGuard::Ended(ended)).await;
                }
                plan.end_within(REST_GRACE, clock.now());
            }
            tokio::select! {
                // Orders come first: after a sleep of this machine an extension may be waiting in the pipe.
                biased;
                order = self.orders.next(), if self.orders.are_open() => match order {
                    Some(ToGuard::Until { deadline, ttl }) => plan.extend(deadline, ttl),
                    Some(ToGuard::Signal(signal)) => group.signal(signal),
                    Some(ToGuard::Lost) => plan.end_within(Duration::ZERO, clock.now()),
                    None => plan.end_within(ORPHAN_GRACE, clock.now()),
                },
                () = clock.sleep_until(plan.at) => {
                    match plan.step {
                        Step::Term => {
                            if group.ended().is_none() {
                                self.report(FromGuard::CutShort).await;
                            }
                            group.signal(Signal::TERM);
                            // A process that stands still would not see it.
                            group.signal(Signal::CONT);
                        }
                        Step::Kill => group.signal(Signal::KILL),
                        Step::GiveUp => return self.report(FromGuard::Left).await,
                    }
                    plan.advance(clock.now());
                }
                _ = ended.next() => {}
                // The parent of what is left may be another process, which alone is told of its end.
                () = tokio::time::sleep(POLL), if group.ended().is_some() => {}
                () = &mut jumps => {}
            }
        }
    }

    async fn report(&mut self, report: FromGuard) {
        // It fails when lockctl is gone, which the end of the orders tells.
        let _ = self.reports.write_all(report.to_line().as_bytes()).await;
    }
}

/// What lockctl says. Its end is the end of lockctl: nobody else has the other end of the pipe.
struct Orders {
    lines: Option<Lines<BufReader<pipe::Receiver>>>,
}

impl Orders {
    fn are_open(&self) -> bool {
        self.lines.is_some()
    }

    /// The next order; None at the end. Cancel safe, as reading lines is.
    async fn next(&mut self) -> Option<ToGuard> {
        let line = self.lines.as_mut()?.next_line().await.ok().flatten();
        let order = line.and_then(|line| ToGuard::from_line(&line));
        if order.is_none() {
            self.lines = None;
        }
        order
    }
}
