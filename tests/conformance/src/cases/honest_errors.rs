//! What is known is answered; an error says that something is not known, or can't be done.
use lock_core::{Backend, ErrorKind};

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;
use crate::service::Network;

cases! { "10_honest_errors":
    contention_is_an_answer,
    what_is_gone_is_an_answer,
    what_the_backend_cannot_do_is_unsupported,
    a_call_without_an_answer_is_neither_yes_nor_no needs Link,
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
    for network in [Network::RepliesLost, Network::Silent, Network::Refused] {
        let (mut holder, link) = t.contender_over_link();
        holder.acquires().await;
        let mut stranger = holder.sibling_for(&t.name_with("/free"));
        link.set(network);
        stranger.asks_without_an_answer().await;
        holder.extends_without_an_answer().await;
        holder.releases_without_an_answer().await;
        link.set(Network::Healthy);
    }
}
