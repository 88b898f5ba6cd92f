//! What is known is answered; an error says that something is not known, or can't be done.
use lock_core::{Backend, ErrorKind};
use tokio::time::timeout;

use crate::case::cases;
use crate::failure::ensure;
use crate::service::Network;
use crate::{Contender, Trial};

cases! { "10_honest_errors":
    contention_is_an_answer,
    what_is_gone_is_an_answer,
    what_the_backend_cannot_do_is_unsupported,
    a_call_without_an_answer_is_neither_yes_nor_no needs Link,
    a_listing_without_an_answer_is_not_empty needs Link List,
    taking_a_lock_away_without_an_answer_is_neither_yes_nor_no needs Link ForceRelease,
    an_answer_belongs_to_its_own_call,
    an_answer_belongs_to_its_own_call_also_when_it_is_late needs Link,
}

/// Field case A19, with a service that is up: 50 refused tries and no error among them.
async fn contention_is_an_answer(t: &Trial) {
    let (mut holder, other) = (t.contender(), t.contender());
    holder.acquires().await;
    let rivals = (0..50).map(|_| {
        let mut rival = other.sibling();
        tokio::spawn(async move { rival.is_refused().await })
    });
    let rivals: Vec<_> = rivals.collect();
    t.all(rivals).await;
}

/// Field case A7: nothing of this is a failure of the service.
async fn what_is_gone_is_an_answer(t: &Trial) {
    let mut nobody = t.contender();
    let seen = t.holder().await;
    ensure!(seen.is_none(), "a name that nobody ever locked has a holder: {seen:?}");
    nobody.has_lost().await;
    nobody.has_nothing_to_release().await;
    nobody.acquires().await;
    nobody.releases().await;
    nobody.has_lost().await;
    nobody.has_nothing_to_release().await;
}

/// Programs decide by the capabilities: a call must be Unsupported exactly when they say so.
async fn what_the_backend_cannot_do_is_unsupported(t: &Trial) {
    let backend = t.open();
    let capabilities = t.capabilities();
    let calls = [
        ("force_release", capabilities.can_force_release, backend.force_release(t.name(), None).await.err()),
        ("list", capabilities.can_list, backend.list(t.name().as_str(), None).await.err()),
    ];
    for (call, promised, error) in calls {
        match error {
            None => ensure!(promised, "{call} works, and the capabilities deny it"),
            Some(error) => {
                let unsupported = error.kind() == ErrorKind::Unsupported;
                ensure!(
                    unsupported && !promised,
                    "{call} is promised to work: {promised}; {} error: {error}",
                    error.kind()
                );
            }
        }
    }
}

/// Field cases A2 and A19: "I do not know" is never a yes, and never somebody else's lock.
async fn a_call_without_an_answer_is_neither_yes_nor_no(t: &Trial) {
    for (number, network) in [Network::RepliesLost, Network::Silent, Network::Refused].into_iter().enumerate() {
        let (client, link) = t.contender_over_link();
        // What could not be released stays locked.
        let mut holder = client.sibling_for(&t.name_with(format_args!("/held {number}")));
        let mut stranger = client.sibling_for(&t.name_with(format_args!("/free {number}")));
        holder.acquires().await;
        link.set(network);
        stranger.asks_without_an_answer().await;
        holder.extends_without_an_answer().await;
        holder.releases_without_an_answer().await;
        link.set(Network::Healthy);
    }
}

async fn a_listing_without_an_answer_is_not_empty(t: &Trial) {
    for network in [Network::RepliesLost, Network::Silent, Network::Refused] {
        let (client, link) = t.contender_over_link();
        client.sibling_for(&t.name_with(format_args!("/{network:?}"))).acquires().await;
        link.set(network);
        let listed = timeout(t.ttl(), client.backend().list(t.name().as_str(), None)).await;
        ensure!(
            !matches!(listed, Ok(Ok(_))),
            "list could not be answered ({network:?}), and the answer was {listed:?}"
        );
        link.set(Network::Healthy);
    }
}

async fn taking_a_lock_away_without_an_answer_is_neither_yes_nor_no(t: &Trial) {
    for network in [Network::RepliesLost, Network::Silent, Network::Refused] {
        let (client, link) = t.contender_over_link();
        let mut holder = client.sibling_for(&t.name_with(format_args!("/{network:?}")));
        holder.acquires().await;
        link.set(network);
        let taken = timeout(t.ttl(), client.backend().force_release(holder.name(), None)).await;
        ensure!(
            !matches!(taken, Ok(Ok(_))),
            "force_release could not be answered ({network:?}), and the answer was {taken:?}"
        );
        link.set(Network::Healthy);
    }
}

/// Field case A18: calls share connections, and one that was given up leaves its answer behind.
async fn an_answer_belongs_to_its_own_call(t: &Trial) {
    answers_are_not_mixed_up(t, t.contender(), 100).await;
}

/// Field case A18: the call was sent when it is given up, and its answer is on its way.
async fn an_answer_belongs_to_its_own_call_also_when_it_is_late(t: &Trial) {
    let (client, link) = t.contender_over_link();
    link.set(Network::Slow(t.ttl() / 60));
    answers_are_not_mixed_up(t, client, 30).await;
    link.set(Network::Healthy);
}

/// Whoever took a yes for a free lock as the answer to its own call would hold a lock that is held, or extend one that is gone.
async fn answers_are_not_mixed_up(t: &Trial, client: Contender, rounds: usize) {
    let mut holder = t.contender();
    holder.acquires().await;
    let mut gone = client.sibling_for(&t.name_with("/gone"));
    gone.acquires().await;
    gone.releases().await;
    for round in 0..rounds {
        let free = t.name_with(format_args!("/{round}"));
        let mut gives_up = client.sibling_for(&free);
        gives_up.asks_in_vain(1 + round % 10).await;
        client.sibling().is_refused().await;
        gone.has_lost().await;
        gives_up.cleans_up().await;
    }
    holder.extends().await;
}
