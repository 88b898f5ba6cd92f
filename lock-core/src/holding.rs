use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::keeper::{Command, Held, Keeper, in_time};
use crate::lease::{End, Record};
use crate::waiting::Watch;
use crate::{BootTime, Error, Extension, LossReason, Release, Result, Watching};

/// The least pause between two questions that a watch on the own grant caused.
const HINT_PAUSE: Duration = Duration::from_millis(50);

/// How a held lock goes on.
struct Holding {
    extend_at: Option<BootTime>,
    /// Waits for a hint that the grant is gone.
    watch: Watch,
    hint_pause: Duration,
    /// Those who wait for the release, and when it may happen.
    leaving: Option<BootTime>,
    waiting: Vec<oneshot::Sender<Result<Release>>>,
}

impl Keeper {
    /// Extends the lease until it is given back or lost, then cleans up.
    pub(crate) async fn hold(&mut self, mut held: Held) {
        // A keeper that ends by a panic or with its runtime must not leave a lease behind that looks valid until its deadline.
        let _latch = Latch(Arc::clone(&held.record));
        let (shared, record) = (Arc::clone(&self.shared), Arc::clone(&held.record));
        let clock = &shared.clock;
        let mut holding = Holding {
            extend_at: self.next_extension(&held),
            watch: self.watch(Watching::Grant),
            hint_pause: HINT_PAUSE,
            leaving: None,
            waiting: Vec::new(),
        };
        let never = BootTime::from_boot(Duration::MAX);
        while record.loss().is_none() {
            tokio::select! {
                biased;
                () = clock.sleep_until(record.deadline()) => {
                    record.expire();
                    break;
                }
                () = shared.closing() => {
                    record.end(End::Lost(LossReason::Closed));
                    break;
                }
                () = clock.sleep_until(holding.leaving.unwrap_or(never)), if holding.leaving.is_some() => break,
                command = held.commands.recv(), if holding.leaving.is_none() => match command {
                    Some(Command::Extend { ttl, reply }) => {
                        let asked_before = std::mem::replace(&mut self.claim.ttl, ttl);
                        let extended = self.extend(&mut held).await;
                        if extended.is_err() {
                            self.claim.ttl = asked_before;
                        }
                        holding.extend_at = self.next_extension(&held);
                        // Whoever asked may have gone; the extension stands.
                        let _ = reply.send(extended);
                    }
                    Some(Command::Verify) => self.verify(&mut held, &mut holding).await,
                    release => {
                        record.end(End::Released);
                        holding.leaving = Some(held.granted_at + self.terms.min_hold);
                        if let Some(Command::Release { reply }) = release {
                            holding.waiting.push(reply);
                        }
                    }
                },
                () = clock.sleep_until(holding.extend_at.unwrap_or(never)), if holding.extend_at.is_some() => {
                    // A failure is noted in the record and tried again; the deadline decides.
                    let _ = self.extend(&mut held).await;
                    holding.extend_at = self.next_extension(&held);
                }
                () = &mut holding.watch => {
                    self.verify(&mut held, &mut holding).await;
                    holding.watch = self.watch_after(&mut holding.hint_pause, held.record.ttl());
                }
            }
        }
        if record.loss().is_some() {
            // Whoever is next in this process need not wait for our clean-up.
            self.ticket.leave();
        }
        self.release(holding.waiting, Some(held)).await;
    }

    async fn verify(&mut self, held: &mut Held, holding: &mut Holding) {
        let _ = self.extend(held).await;
        holding.extend_at = self.next_extension(held);
    }

    /// A new watch on the own grant, after a pause that grows with each hint that had no reason.
    fn watch_after(&self, pause: &mut Duration, ttl: Duration) -> Watch {
        let (clock, watch) = (self.shared.clock.clone(), self.watch(Watching::Grant));
        let from = clock.now() + *pause;
        *pause = (*pause * 2).min(ttl / 3).max(HINT_PAUSE);
        Box::pin(async move {
            clock.sleep_until(from).await;
            watch.await;
        })
    }

    /// Asks for another ttl. The loss is told at the deadline also while the call has no answer.
    async fn extend(&mut self, held: &mut Held) -> Result<()> {
        let (clock, backend) = (self.shared.clock.clone(), Arc::clone(&self.shared.backend));
        let record = &held.record;
        let sent_at = clock.now();
        let limit = self.shared.op_timeout.min(record.ttl() / 4);
        let answer = {
            let mut call = std::pin::pin!(in_time(limit, backend.extend(&self.claim)));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut call => break answer,
                    () = clock.sleep_until(record.deadline()), if record.is_held() => { record.expire(); }
                }
            }
        };
        self.note_call();
        match answer {
            Ok(Extension::Extended { ttl, place }) => {
                self.claim.place = place;
                if !record.extend(sent_at, ttl) {
                    record.expire();
                    return Err(record.ended_error());
                }
                held.sent_at = sent_at;
                held.failed_at = None;
                Ok(())
            }
            Ok(Extension::Lost) => {
                record.end(End::Lost(LossReason::Gone));
                Err(record.ended_error())
            }
            Err(error) => {
                self.note_error(&error);
                self.extension_failed(held, &error);
                Err(error.in_context(format_args!("extension of lock {:?}", self.claim.name)))
            }
        }
    }

    fn extension_failed(&self, held: &mut Held, error: &Error) {
        held.failed_at = Some(self.shared.clock.now());
        if held.record.extension_failed() {
            let (name, owner) = (&self.claim.name, self.claim.owner);
            tracing::event!(name: "lock.at_risk", tracing::Level::WARN, %name, %owner, %error, "lock at risk");
        }
    }

    /// At a third of the ttl, so that two tries have time to fail before the deadline; soon again after a failure. A little
    /// earlier or later by chance, so that many locks taken together are not extended together for ever.
    fn next_extension(&self, held: &Held) -> Option<BootTime> {
        let ttl = held.record.ttl();
        let pause = match held.failed_at {
            Some(failed_at) => failed_at + ttl / 20,
            None => held.sent_at + (ttl / 3).mul_f32(0.9 + fastrand::f32() / 5.0),
        };
        self.terms.auto_extend.then_some(pause)
    }
}

/// Ends a lease when its keeper ends without having done so.
struct Latch(Arc<Record>);

impl Drop for Latch {
    fn drop(&mut self) {
        self.0.end(End::Lost(LossReason::Abandoned));
    }
}
