//! When nobody knows whether a call took effect: the client finds out, and leaves nothing that it does not own.
use lock_core::ErrorKind;
use tokio::time::{sleep, timeout};

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;
use crate::locking::{Ending, Holding, Locking};
use crate::service::Network;

cases! { "client_in_doubt":
    an_acquire_whose_answer_was_lost_finds_its_own_lock needs Link,
    an_acquire_that_ends_without_an_answer_leaves_nothing needs Link,
    a_release_whose_answer_was_lost_can_be_repeated needs Link,
    a_release_in_an_outage_happens_after_it needs Link,
    a_release_ends_also_what_an_extension_under_way_would_keep needs Link,
    a_wait_that_ends_in_an_outage_leaves_no_place needs Link,
    a_waiter_that_was_cut_off_gets_the_lock needs Link,
}

/// Field case A2: the first try was granted the lock, and the second must not take that for somebody else's.
async fn an_acquire_whose_answer_was_lost_finds_its_own_lock(t: &Trial) {
    let (client, link) = t.client_over_link();
    let lock = t.lock_of(&client);
    lock.can_be_had().await;
    link.set(Network::RepliesLost);
    let acquiring = tokio::spawn(async move { lock.acquires().await });
    // If no connection was there to be sent over, nothing will be held.
    let _ = timeout(t.op_timeout() / 2, t.until_held()).await;
    link.set(Network::Healthy);
    for guard in t.all([acquiring]).await {
        t.lock().is_refused().await;
        ensure!(guard.is_held(), "a lock that was just granted is not held: {guard:?}");
        guard.releases().await;
        t.lock().can_be_had().await;
    }
}

/// Field cases A1 and A2: what took effect, or takes effect only later, is given back, and that harms nobody.
async fn an_acquire_that_ends_without_an_answer_leaves_nothing(t: &Trial) {
    tokio::join!(
        ends_without_a_trace(t, Network::RepliesLost, false),
        ends_without_a_trace(t, Network::RepliesLost, true),
        ends_without_a_trace(t, Network::Silent, false),
        ends_without_a_trace(t, Network::Silent, true),
    );
}

async fn ends_without_a_trace(t: &Trial, network: Network, is_dropped: bool) {
    let (client, link) = t.client_over_link();
    let name = t.name_with(format_args!("/{network:?}/{is_dropped}"));
    let lock = client.lock(name.as_str()).ttl(t.long_ttl()).wait(t.patience());
    let next = t.client().lock(name.as_str()).ttl(t.long_ttl()).wait(t.patience());
    lock.can_be_had().await;
    link.set(network);
    if is_dropped {
        let ended = timeout(t.op_timeout() / 2, lock.acquire()).await;
        ensure!(ended.is_err(), "{network:?}: acquire could not be answered, and ended with {ended:?}");
    } else {
        lock.wait(t.op_timeout() / 2).acquire().await.fails_as(ErrorKind::Unavailable);
    }
    link.set(Network::Healthy);
    let successor = next.acquires().await;
    // What was on its way arrives now.
    sleep(t.ttl()).await;
    successor.releases().await;
    next.can_be_had().await;
}

/// Field case A9. The lock is gone, and nobody was told: asking again tells.
async fn a_release_whose_answer_was_lost_can_be_repeated(t: &Trial) {
    let (client, link) = t.client_over_link();
    let guard = t.lock_of(&client).acquires().await;
    link.set(Network::RepliesLost);
    guard.release().await.fails_as(ErrorKind::Unavailable);
    ensure!(!guard.is_held(), "{guard:?} is held after a release whose answer was lost");
    link.set(Network::Healthy);
    t.answered(|| guard.release()).await;
    let next = t.lock();
    let successor = t.is_back(t.ttl(), "acquiring what was released", next.acquires()).await;
    guard.has_nothing_to_release().await;
    successor.releases().await;
}

/// Field case A9: whoever let go need do no more. The ttl is long, so only the release can have freed the lock.
async fn a_release_in_an_outage_happens_after_it(t: &Trial) {
    for network in [Network::Silent, Network::Refused] {
        for is_dropped in [false, true] {
            let (client, link) = t.client_over_link();
            let guard = t.lock_of(&client).acquires().await;
            link.set(network);
            if is_dropped {
                drop(guard);
                sleep(t.ttl()).await;
            } else {
                guard.release().await.fails_as(ErrorKind::Unavailable);
            }
            link.set(Network::Healthy);
            t.lock().can_be_had().await;
        }
    }
}

/// Field case A3. The extension may arrive before the release, after it, or when the lock has a new holder.
async fn a_release_ends_also_what_an_extension_under_way_would_keep(t: &Trial) {
    for network in [Network::Slow(t.op_timeout() / 6), Network::RepliesLost, Network::Silent] {
        let (client, link) = t.client_over_link();
        let guard = t.lock_of(&client).acquires().await;
        link.set(network);
        let releasing = async {
            sleep(t.op_timeout() / 20).await;
            guard.release().await
        };
        // Whether they are answered depends on the network.
        let _ = tokio::join!(guard.extend(guard.ttl()), releasing);
        ensure!(!guard.is_held(), "{network:?}: {guard:?} is held after its release");
        link.set(Network::Healthy);
        let successor = t.lock().acquires().await;
        sleep(t.ttl()).await;
        successor.releases().await;
        t.lock().can_be_had().await;
    }
}

/// Field case A29. The waiter's time is over while it can't leave its queue, and a try ends when it can't leave one either.
async fn a_wait_that_ends_in_an_outage_leaves_no_place(t: &Trial) {
    for network in [Network::RepliesLost, Network::Silent, Network::Refused] {
        let (client, link) = t.client_over_link();
        let (holder, lock) = (t.lock().acquires().await, t.lock_of(&client));
        let waiting = lock.clone().wait(t.ttl());
        let waiting = tokio::spawn(async move { waiting.acquire().await });
        lock.is_refused().await;
        link.set(network);
        lock.try_acquire().await.fails_as(ErrorKind::Unavailable);
        for ended in t.soon(t.all([waiting]), "the end of the wait").await {
            let kind = ended.as_ref().err().map(lock_core::Error::kind);
            let in_vain = matches!(kind, Some(ErrorKind::Timeout | ErrorKind::Unavailable));
            ensure!(in_vain, "{network:?}: a wait for a lock that is held ended with {ended:?}");
        }
        link.set(Network::Healthy);
        holder.releases().await;
        t.lock().can_be_had().await;
        lock.can_be_had().await;
    }
}

/// Field cases A16 and A32: the release fell into the outage, and no hint of it will ever come.
async fn a_waiter_that_was_cut_off_gets_the_lock(t: &Trial) {
    for network in [Network::RepliesLost, Network::Silent, Network::Refused] {
        let (client, link) = t.client_over_link();
        let (holder, lock) = (t.lock().acquires().await, t.lock_of(&client));
        let waiter = lock.clone();
        let waiting = tokio::spawn(async move { waiter.acquires().await });
        lock.is_refused().await;
        link.set(network);
        holder.releases().await;
        sleep(t.ttl()).await;
        link.set(Network::Healthy);
        for guard in t.all([waiting]).await {
            t.answered(|| guard.release()).await;
        }
        // It can wait again after that, and somebody else too.
        lock.can_be_had().await;
        t.lock().can_be_had().await;
    }
}
