use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::hold::Command;
use crate::keeper::{Held, Keeper, no_answer};
use crate::record::{End, Record};
use crate::shared::in_time;
use crate::waiting::HINT_PAUSE;
use crate::{BootTime, Extension, LossReason, Release, Result, Watching};

/// The least time for an extension, and between two of them: a service that grants next to nothing must not make it a busy
/// loop.
const PAUSE_MIN: Duration = Duration::from_millis(10);

impl Keeper {
    /// Extends the lease until it is given back or lost, then cleans up.
    pub(crate) async fn hold(&mut self, mut held: Held) {
        // A keeper that ends by a panic or with its runtime must not leave a lease behind that looks valid until its deadline.
        let _latch = Latch(Arc::clone(&held.record));
        let (shared, record) = (Arc::clone(&self.shared), Arc::clone(&held.record));
        let (clock, never) = (&shared.clock, BootTime::from_boot(Duration::MAX));
        let (mut watch, mut hint_pause) = (self.watch(Watching::Grant, clock.now()), HINT_PAUSE);
        let (mut leave_at, mut waiting) = (None, Vec::<oneshot::Sender<Result<Release>>>::new());
        while !held.is_over {
            let was_silent = held.is_silent;
            tokio::select! {
                biased;
                () = clock.sleep_until(record.deadline()) => {
                    self.lose(&record, LossReason::Expired);
                    held.is_over = true;
                }
                () = shared.closing() => {
                    self.lose(&record, LossReason::Closed);
                    held.is_over = true;
                }
                () = clock.sleep_until(leave_at.unwrap_or(never)), if leave_at.is_some() => held.is_over = true,
                () = clock.sleep_until(held.extend_at.unwrap_or(never)), if held.extend_at.is_some() => {
                    if self.extend(&mut held, self.claim.ttl).await.is_err() {
                        held.extend_at = Some(clock.now() + (record.ttl() / 20).max(PAUSE_MIN));
                    }
                }
                command = held.commands.recv(), if leave_at.is_none() => match command {
                    // Whoever asked may have gone; the extension stands.
                    Some(Command::Extend { ttl, reply }) => _ = reply.send(self.extend(&mut held, ttl).await),
                    Some(Command::Verify) => self.verify(&mut held).await,
                    release => {
                        record.end(End::Released);
                        let min_hold = if record.was_taken() { self.terms.min_hold } else { Duration::ZERO };
                        leave_at = Some(held.granted_at + min_hold);
                        if let Some(Command::Release { reply }) = release {
                            waiting.push(reply);
                        }
                    }
                },
                () = watch.hint.as_mut() => {
                    self.verify(&mut held).await;
                    // A hint that had no reason is followed less and less often.
                    watch = self.watch(Watching::Grant, clock.now() + hint_pause);
                    hint_pause = (hint_pause * 2).min(record.ttl() / 3).max(HINT_PAUSE);
                }
            }
            // A watch that was made during an outage may never have been armed.
            let is_back = was_silent && !held.is_silent;
            if is_back || !watch.is_for(self.claim.place.as_ref()) {
                watch = self.watch(Watching::Grant, clock.now());
            }
        }
        self.release(waiting, Some(held)).await;
    }

    /// Ends a lease as lost, unless it has ended before, and lets the next in line ask: it need not wait for the clean-up.
    fn lose(&self, record: &Record, reason: LossReason) {
        if record.end(End::Lost(reason)).is_some() {
            self.ticket.leave();
        }
    }

    /// Finds out whether the grant is still there. A lease that nobody wants to be extended ends no later for it.
    async fn verify(&mut self, held: &mut Held) {
        if self.terms.auto_extend {
            // A failure is noted in the record and tried again in time.
            let _ = self.extend(held, self.claim.ttl).await;
            return;
        }
        let left = held.record.deadline().since(self.shared.clock.now()).max(self.shared.capabilities.ttl_min);
        let ttl = std::mem::replace(&mut self.claim.ttl, left);
        let _ = self.ask_for_extension(held).await;
        self.claim.ttl = ttl;
    }

    /// Extends the lease to `ttl` from now.
    async fn extend(&mut self, held: &mut Held, ttl: Duration) -> Result<()> {
        let sent_at = self.shared.clock.now();
        let ttl_before = std::mem::replace(&mut self.claim.ttl, ttl);
        let record = Arc::clone(&held.record);
        match self.ask_for_extension(held).await {
            Ok(Some(granted)) if record.extend(sent_at, granted) => {
                (held.extend_at, held.is_silent) = (self.extension_after(sent_at, granted), false);
                Ok(())
            }
            Ok(_) => {
                // The grant is gone, or its yes came too late to count.
                self.lose(&record, LossReason::Expired);
                held.is_over = true;
                Err(record.ended_error())
            }
            Err(error) => {
                (self.claim.ttl, held.is_silent) = (ttl_before, true);
                if record.extension_failed() {
                    let (name, owner) = (&self.claim.name, self.claim.owner);
                    tracing::event!(name: "lock.at_risk", tracing::Level::WARN, %name, %owner, %error, "lock at risk");
                }
                Err(error.in_context(format_args!("extension of lock {:?}", self.claim.name)))
            }
        }
    }

    /// Asks the service once; none when the grant is gone.
    ///
    /// A loss is told also while the call has no answer. Whoever closes or releases meanwhile waits for the answer only as
    /// long as an answer ordinarily takes: with it, the release need not reckon with a call that is still on its way.
    async fn ask_for_extension(&mut self, held: &mut Held) -> Result<Option<Duration>> {
        let (shared, record) = (Arc::clone(&self.shared), Arc::clone(&held.record));
        let clock = &shared.clock;
        let limit = shared.op_timeout.min(record.ttl() / 4).max(PAUSE_MIN);
        let hurry = async {
            record.ended().await;
            clock.sleep_until(clock.now() + shared.overdue()).await;
        };
        let answer = {
            let mut call = pin!(in_time(limit, shared.backend.extend(&self.claim)));
            let mut hurry = pin!(hurry);
            loop {
                tokio::select! {
                    biased;
                    answer = &mut call => break answer,
                    () = clock.sleep_until(record.deadline()), if !record.has_ended() => {
                        self.lose(&record, LossReason::Expired);
                    }
                    () = shared.closing(), if !record.has_ended() => self.lose(&record, LossReason::Closed),
                    () = &mut hurry => break Err(no_answer()),
                }
            }
        };
        match answer {
            Ok(Extension::Extended { ttl, place }) => {
                self.note_call(ttl);
                self.claim.place = place;
                Ok(Some(ttl))
            }
            Ok(Extension::Lost) => {
                self.lose(&record, LossReason::Gone);
                held.is_over = true;
                Ok(None)
            }
            Err(error) => {
                self.note_call(Duration::ZERO);
                self.note_error(&error);
                Err(error)
            }
        }
    }

    /// When to extend what was asked for at `sent_at`: at a third of the ttl, so that two tries have time to fail before the
    /// deadline. A little earlier or later by chance, so that many locks taken together are not extended together for ever.
    pub(crate) fn extension_after(&self, sent_at: BootTime, ttl: Duration) -> Option<BootTime> {
        let third = (ttl / 3).mul_f32(0.9 + fastrand::f32() / 5.0);
        self.terms.auto_extend.then(|| (sent_at + third).max(self.shared.clock.now() + PAUSE_MIN))
    }
}

/// Ends a lease when its keeper ends without having done so.
struct Latch(Arc<Record>);

impl Drop for Latch {
    fn drop(&mut self) {
        self.0.end(End::Lost(LossReason::Abandoned));
    }
}
