//! A client while its service gives no answer: no call hangs, none takes silence for an answer, and a lease ends in time.
use std::time::Duration;

use lock_core::{ErrorKind, LeaseState, Lock, LockGuard, LossReason};
use tokio::time::sleep;

use crate::Trial;
use crate::case::cases;
use crate::failure::{ensure, refute, too_slow};
use crate::locking::{Holding, Locking};
use crate::polls::poll_times;
use crate::service::Network;

cases! { "client_outage":
    no_call_hangs_or_takes_silence_for_an_answer needs Link,
    a_client_made_in_an_outage_works_after_it needs Link,
    closing_in_an_outage_takes_no_longer_than_allowed needs Link,
    an_outage_shorter_than_the_lease_loses_nothing needs Link,
    an_outage_longer_than_the_lease_is_a_loss_in_time needs Link,
    a_slow_answer_shortens_the_lease needs Link,
    an_answer_slower_than_the_lease_is_no_grant needs Link,
}

/// Every way in which a network can bring no answer.
const OUTAGES: [Network; 3] = [Network::RepliesLost, Network::Silent, Network::Refused];

/// Field case A19. A lock that somebody else holds makes no difference: nobody can know that now.
async fn no_call_hangs_or_takes_silence_for_an_answer(t: &Trial) {
    let lock_of = |client: &lock_core::LockClient, end: &str| {
        client.lock(t.name_with(end).as_str()).ttl(t.long_ttl()).wait(t.patience())
    };
    let elsewhere = t.client();
    for network in OUTAGES {
        let (client, link) = t.client_over_link();
        let lock = |end: &str| lock_of(&client, &format!("/{network:?}/{end}"));
        let held = lock_of(&elsewhere, &format!("/{network:?}/held")).acquires().await;
        let [extended, released, dropped] =
            [lock("extended").acquires().await, lock("released").acquires().await, lock("dropped").acquires().await];
        link.set(network);
        let (try_it, wait, wait_for_held) = (lock("tried"), lock("waited").wait(t.ttl()), lock("held").wait(t.ttl()));
        let (try_held, inspected) = (lock("held"), lock("inspected"));
        tokio::join!(
            is_unavailable(t, t.op_timeout(), "try_acquire", try_it.try_acquire()),
            is_unavailable(t, t.op_timeout(), "try_acquire of a held lock", try_held.try_acquire()),
            is_unavailable(t, t.ttl(), "acquire", wait.acquire()),
            is_unavailable(t, t.ttl(), "acquire of a held lock", wait_for_held.acquire()),
            is_unavailable(t, t.op_timeout(), "inspect", inspected.inspect()),
            is_unavailable(t, t.op_timeout(), "extend", extended.extend(extended.ttl())),
            is_unavailable(t, t.op_timeout(), "release", released.release()),
            async { drop(dropped) },
        );
        ensure!(extended.is_held(), "an extension that failed made the holder lose the lock: {extended:?}");
        ensure!(!released.is_held(), "{released:?} is held after a release that failed");
        link.set(Network::Healthy);
        t.answered(|| extended.extend(extended.ttl())).await;
        for end in ["tried", "waited", "released", "dropped"] {
            lock(end).can_be_had().await;
        }
        lock("held").is_refused().await;
        held.releases().await;
        lock("held").can_be_had().await;
    }
}

async fn is_unavailable<T: std::fmt::Debug>(
    t: &Trial,
    within: Duration,
    what: &str,
    call: impl Future<Output = lock_core::Result<T>>,
) {
    let ended = t.is_back(within, what, call).await;
    match ended {
        Err(error) if error.kind() == ErrorKind::Unavailable => {}
        Err(error) => refute!("{what} could not be answered, and ended with error {:?}: {error}", error.kind()),
        Ok(answer) => refute!("{what} could not be answered, and the answer was {answer:?}"),
    }
}

/// Field case A19: the service is down when the application starts.
async fn a_client_made_in_an_outage_works_after_it(t: &Trial) {
    for network in OUTAGES {
        let (client, link) = t.client_over_link();
        link.set(network);
        let lock = t.lock_of(&client);
        is_unavailable(t, t.op_timeout(), "the first call", lock.try_acquire()).await;
        link.set(Network::Healthy);
        lock.can_be_had().await;
    }
}

/// Field case A19. What could not be given back is named, and is given back when the service is there again.
async fn closing_in_an_outage_takes_no_longer_than_allowed(t: &Trial) {
    for network in OUTAGES {
        let (client, link) = t.client_over_link();
        let guard = t.lock_of(&client).acquires().await;
        link.set(network);
        let left = t.is_back(t.ttl(), "close", client.close(t.ttl())).await;
        ensure!(left == [guard.name().clone()], "close had no answer for {guard:?}, and names as left: {left:?}");
        ensure!(guard.state() == LeaseState::Lost, "after close the state is {:?}", guard.state());
        link.set(Network::Healthy);
        let left = client.close(t.patience()).await;
        ensure!(left.is_empty(), "the service is there again, and close could not give back {left:?}");
        t.lock().can_be_had().await;
    }
}

/// Field case A4: one failed extension is no loss, and the next tries come sooner than the next third of the ttl.
async fn an_outage_shorter_than_the_lease_loses_nothing(t: &Trial) {
    tokio::join!(
        outlasts(t, Network::RepliesLost, 0.4),
        outlasts(t, Network::Silent, 0.4),
        // By then two tries at thirds of the ttl have failed, and a third one would come too late.
        outlasts(t, Network::Refused, 0.3),
    );
}

/// Holds a lock through an outage that ends when the lease has only this share of its ttl left, and then on and on.
async fn outlasts(t: &Trial, network: Network, share: f64) {
    let (client, link) = t.client_over_link();
    let (guard, rival) = rivals(t, &client, network, t.double_ttl()).await;
    let ttl = guard.ttl();
    let least = ttl.mul_f64(share);
    link.set(network);
    while guard.state() != LeaseState::AtRisk || guard.remaining() > least {
        if !guard.is_held() {
            too_slow(format_args!("the outage was noticed only when the lock was lost: {guard:?}"));
        }
        sleep(ttl / 100).await;
    }
    link.set(Network::Healthy);
    let left = guard.remaining();
    while guard.state() != LeaseState::Held {
        if guard.remaining() < ttl / 10 {
            too_slow(format_args!(
                "the outage was over with {left:?} of {ttl:?} left, and the lock is not extended yet"
            ));
        }
        sleep(ttl / 100).await;
    }
    let token = guard.token();
    for _ in 0..6 {
        sleep(ttl / 5).await;
        guard.excludes(&rival).await;
    }
    ensure!(guard.token() == token, "an outage changed token {token} to {}", guard.token());
    t.answered(|| guard.release()).await;
    rival.can_be_had().await;
}

/// A guard of the client whose network will be hurt, and the same lock for somebody else.
async fn rivals(t: &Trial, client: &lock_core::LockClient, network: Network, ttl: Duration) -> (LockGuard, Lock) {
    let name = t.name_with(format_args!("/{network:?}"));
    let guard = client.lock(name.as_str()).ttl(ttl).wait(t.patience()).acquires().await;
    (guard, t.client().lock(name.as_str()).ttl(t.long_ttl()).wait(t.patience()))
}

/// Field cases A4 and A6: the holder gives up no later than somebody else can get in, and never comes back.
async fn an_outage_longer_than_the_lease_is_a_loss_in_time(t: &Trial) {
    tokio::join!(
        is_lost_in_time(t, Network::RepliesLost),
        is_lost_in_time(t, Network::Silent),
        is_lost_in_time(t, Network::Refused),
    );
}

async fn is_lost_in_time(t: &Trial, network: Network) {
    let (client, link) = t.client_over_link();
    let (guard, rival) = rivals(t, &client, network, t.steady_ttl()).await;
    let loser = tokio::spawn({
        let (lost, clock) = (guard.lost(), t.clock().clone());
        async move { (lost.await, clock.now()) }
    });
    link.set(network);
    let successor = rival.acquires().await;
    ensure!(!guard.is_held(), "{network:?}: {guard:?} is held, and so is {successor:?}");
    let told = poll_times(1, guard.lost()).await;
    ensure!(told == Some(LossReason::Expired), "{network:?}: the lease ran out, and what is told is {told:?}");
    for (_, told) in t.soon(t.all([loser]), "being told of the loss").await {
        let early = guard.lease().deadline().since(told);
        ensure!(early.is_zero(), "{network:?}: the loss was told {early:?} before the deadline");
    }
    t.is_back(t.op_timeout(), "extend", guard.has_lost()).await;
    t.is_back(t.op_timeout(), "release", guard.has_nothing_to_release()).await;
    link.set(Network::Healthy);
    // What was on its way arrives now, and the client is connected again.
    sleep(t.steady_ttl()).await;
    ensure!(guard.state() == LeaseState::Lost, "{network:?}: a lost lock came to be {:?}", guard.state());
    ensure!(successor.is_held(), "{network:?}: the successor of a lost lock lost it too: {successor:?}");
    successor.releases().await;
    client.lock(guard.name().as_str()).ttl(t.long_ttl()).wait(t.patience()).can_be_had().await;
}

/// Field case A22. The ttl counts from before the ask was sent, and an answer that was long on its way has used some of it up.
async fn a_slow_answer_shortens_the_lease(t: &Trial) {
    let (client, link) = t.client_over_link();
    let lock = t.lock_of(&client).ttl(t.double_ttl()).auto_extend(false);
    lock.can_be_had().await;
    let late = t.op_timeout() / 6;
    link.set(Network::Slow(late));
    let guard = lock.acquires().await;
    let (left, granted) = (guard.remaining(), guard.ttl());
    let most = granted - granted / 500 - late;
    ensure!(left <= most, "{granted:?} were granted by an answer that was {late:?} on its way, and {left:?} are left");
    guard.extends_to(granted).await;
    let (left, granted) = (guard.remaining(), guard.ttl());
    let most = granted - granted / 500 - late;
    ensure!(left <= most, "an extension to {granted:?} was {late:?} on its way, and {left:?} are left");
    link.set(Network::Healthy);
}

/// Field case A22: a grant whose time is over when it is heard of is none, and nothing is left of it.
async fn an_answer_slower_than_the_lease_is_no_grant(t: &Trial) {
    let (client, link) = t.client_over_link();
    let lock = t.lock_of(&client).ttl(t.ttl()).auto_extend(false);
    lock.can_be_had().await;
    let late = t.ttl() * 2;
    link.set(Network::Slow(late));
    match lock.try_acquire().await {
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost) => {}
        // The service may grant more than it was asked for.
        Ok(Some(guard)) if guard.ttl() > late => {}
        other => refute!("a lock of {:?} whose answer took {late:?} was got as {other:?}", t.ttl()),
    }
    link.set(Network::Healthy);
    t.lock().can_be_had().await;
}
