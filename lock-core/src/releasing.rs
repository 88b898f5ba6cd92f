use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::hold::Command;
use crate::keeper::{Held, Keeper};
use crate::shared::{in_time, jittered};
use crate::{Ceiling, FencingToken, Release, Result};

/// The first pause between two tries to release, doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two tries to release: what a service that comes back is late by.
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Keeper {
    /// Gives back what the claim may have at the service, and tells those who wait for it. After a loss nobody does.
    ///
    /// It is tried again until the service has answered, or until the grant has ended by itself.
    pub(crate) async fn release(&mut self, mut waiting: Vec<oneshot::Sender<Result<Release>>>, held: Option<Held>) {
        let (clock, limit) = (self.shared.clock.clone(), self.shared.op_timeout);
        let (record, mut commands) = held.map(|held| (held.record, held.commands)).unzip();
        let mut pause = PAUSE;
        loop {
            let released = in_time(limit, self.shared.backend.release(&self.claim)).await;
            if record.is_some() {
                // The next in line asks the service for itself, whatever it said to us.
                self.ticket.leave();
            }
            let is_done = match &released {
                Ok(_) => true,
                Err(error) => {
                    self.note_error(error);
                    // What belongs to a session lives as long as that.
                    let is_over = clock.now() >= self.free_by && self.shared.capabilities.ceiling == Ceiling::Claim;
                    error.kind().is_an_answer() || is_over
                }
            };
            if let Ok(Release::Released) = released {
                let (name, owner, token) =
                    (&self.claim.name, self.claim.owner, self.claim.token.map(FencingToken::as_u64));
                tracing::event!(name: "lock.released", tracing::Level::DEBUG, %name, %owner, token, "lock released");
            }
            let released =
                released.map_err(|error| error.in_context(format_args!("release of lock {:?}", self.claim.name)));
            if let Some(record) = &record {
                record.note_release(&released);
            }
            if let Some(commands) = &mut commands {
                while let Ok(command) = commands.try_recv() {
                    waiting.extend(release_of(command));
                }
            }
            waiting.drain(..).for_each(|reply| _ = reply.send(released.clone()));
            if is_done {
                self.traces = released.is_err();
                return;
            }
            let again = clock.now() + jittered(pause);
            pause = PAUSE_MAX.min(pause * 2);
            tokio::select! {
                () = clock.sleep_until(again) => {}
                Some(command) = next_command(&mut commands) => waiting.extend(release_of(command)),
            }
        }
    }
}

/// The next command, or none when nobody can send one.
async fn next_command(commands: &mut Option<mpsc::UnboundedReceiver<Command>>) -> Option<Command> {
    commands.as_mut()?.recv().await
}

/// The reply that a release waits for. Other commands of a hold that is over are answered by dropping their reply.
fn release_of(command: Command) -> Option<oneshot::Sender<Result<Release>>> {
    match command {
        Command::Release { reply } => Some(reply),
        Command::Extend { .. } | Command::Verify => None,
    }
}
