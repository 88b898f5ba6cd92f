use std::io;
use std::os::unix::process::parent_id;
use std::pin::pin;

use lock_core::{BootTime, Clock};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe;

use crate::args::GuardArgs;
use crate::exit::Status;
use crate::family::{Family, POLL, adopt_orphans};
use crate::link::{FromGuard, ToGuard};
use crate::plan::{ORPHAN_GRACE, Plan, REST_GRACE, Step};
use crate::signals::Signals;

/// What would end or stop a guard process. It lives until the command's family is gone, whoever wants it to end.
const SURVIVED: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::TSTP];

/// The guard process of one command. It says nothing on the standard streams: they are the command's.
///
/// # Errors
///
/// When it was not started by lockctl, or something that always works did not. lockctl notices that it has ended, and kills
/// the command.
pub(crate) async fn guard(args: &GuardArgs) -> io::Result<Status> {
    // `pkill -9 lockctl` shall not hit both, or nobody would end the command.
    rustix::thread::set_name(c"lock-guard")?;
    adopt_orphans()?;
    Signals::catch(&SURVIVED)?;
    let news = Signals::catch(&[Signal::CHILD])?;
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
    match Family::start(args.command()) {
        Ok(family) => guard.watch(family, plan, news).await,
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
    /// Watches over the command until its family is gone.
    async fn watch(&mut self, mut family: Family, mut plan: Plan, mut news: Signals) {
        self.report(FromGuard::Started(family.group())).await;
        let clock = self.clock.clone();
        let mut jumps = pin!(clock.notice_jumps());
        loop {
            if family.reap() {
                self.report(FromGuard::WantsTerminal).await;
            }
            if let Some(ended) = family.ended() {
                if family.is_gone() {
                    return self.report(FromGuard::Ended(ended)).await;
                }
                plan.end_within(REST_GRACE, clock.now());
            }
            tokio::select! {
                // Orders come first: after a stop or a sleep of this machine, extensions may be waiting in the pipe.
                biased;
                order = self.orders.next(), if self.orders.are_open() => match order {
                    Some(ToGuard::Until { deadline, ttl }) => plan.extend(deadline, ttl),
                    Some(ToGuard::Signal(signal)) => family.hand_on(signal),
                    Some(ToGuard::Lost) => plan.kill(clock.now()),
                    None => plan.end_within(ORPHAN_GRACE, clock.now()),
                },
                () = has_come(plan.at, &clock) => {
                    match plan.step {
                        Step::Term => {
                            if family.ended().is_none() {
                                self.report(FromGuard::CutShort).await;
                            }
                            family.send(Signal::TERM);
                            // A process that stands still would not see it.
                            family.send(Signal::CONT);
                        }
                        Step::Kill => family.send(Signal::KILL),
                        Step::GiveUp => return self.report(FromGuard::Left).await,
                    }
                    plan.advance(clock.now());
                }
                _ = news.next() => {}
                // The parent of who is left may be another process, which alone is told of its end.
                () = tokio::time::sleep(POLL), if family.ended().is_some() => {
                    if plan.step == Step::GiveUp {
                        // Somebody was being started when the others were killed.
                        family.send(Signal::KILL);
                    }
                }
                () = &mut jumps => {}
            }
        }
    }

    async fn report(&mut self, report: FromGuard) {
        // It fails when lockctl is gone, which the end of the orders tells.
        let _ = self.reports.write_all(report.to_line().as_bytes()).await;
    }
}

/// Waits for `moment`, and then until the runtime has looked at the pipe: what went on after a stop knows its timers first, and
/// not yet what came meanwhile.
async fn has_come(moment: BootTime, clock: &Clock) {
    clock.sleep_until(moment).await;
    tokio::task::yield_now().await;
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
