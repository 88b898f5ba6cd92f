//! A client whose service restarts: it goes on working, and keeps what the capabilities promise.
use lock_core::{ErrorKind, LeaseState, Restart};
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::{ensure, too_slow};
use crate::locking::{Ending, Locking};

cases! { "client_restart":
    a_waiter_gets_the_lock_also_after_a_restart needs Restart,
    a_held_lock_outlives_a_restart_as_far_as_promised needs Restart,
}

/// Field case A32: what would have called the waiter is gone with the service's connections.
async fn a_waiter_gets_the_lock_also_after_a_restart(t: &Trial) {
    let (holder, lock) = (t.lock().acquires().await, t.lock());
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    lock.is_refused().await;
    t.service_restarts().await;
    t.answered(|| holder.release()).await;
    for acquired in t.all([waiting]).await {
        match acquired {
            // It has seen a token, and the service may have forgotten that.
            Err(error) if error.kind() == ErrorKind::TokenRegression => {
                ensure!(t.capabilities().restart < Restart::Tokens, "tokens survive a restart, and then: {error}");
            }
            acquired => {
                let guard = acquired.succeeds();
                t.answered(|| guard.release()).await;
            }
        }
    }
    t.lock().can_be_had().await;
}

/// Where grants survive, a restart is a short outage. Where they don't, the holder may find out late: the client itself must
/// still go on.
async fn a_held_lock_outlives_a_restart_as_far_as_promised(t: &Trial) {
    let (client, rival) = (t.client(), t.lock());
    let guard = t.lock_of(&client).ttl(t.double_ttl()).acquires().await;
    t.service_restarts().await;
    if t.capabilities().restart == Restart::Everything {
        for _ in 0..6 {
            sleep(guard.ttl() / 5).await;
            if guard.state() == LeaseState::Lost {
                too_slow(format_args!("the lock was lost by a restart: {guard:?}"));
            }
            let taken = t.answered(|| rival.try_acquire()).await;
            ensure!(
                taken.is_none(),
                "the service keeps its grants, and after a restart {taken:?} is one beside {guard:?}"
            );
        }
    }
    t.answered(|| guard.release()).await;
    // Another one, since the client has seen a token of the first, and the service may have forgotten that.
    client.lock(t.name_with("/other").as_str()).ttl(t.long_ttl()).wait(t.patience()).can_be_had().await;
    rival.can_be_had().await;
}
