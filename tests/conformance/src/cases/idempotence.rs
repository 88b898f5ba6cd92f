//! Every call may be repeated, and no call ever shortens a grant.
use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;

cases! { "4_idempotence":
    asking_again_finds_the_own_grant,
    a_lost_answer_is_found_by_asking_again,
    an_ask_given_up_at_any_point_can_be_repeated,
    an_ask_for_less_shortens_nothing needs TtlChange,
    an_extension_by_less_shortens_nothing needs TtlChange,
    a_second_release_does_nothing,
    asking_again_keeps_one_place_in_the_queue needs Fifo,
}

async fn asking_again_finds_the_own_grant(t: &Trial) {
    let mut first = t.contender();
    let granted = first.acquires().await;
    for _ in 0..5 {
        let again = first.acquires().await;
        ensure!(again.token == granted.token, "{first} has token {} and found token {}", granted.token, again.token);
    }
    t.contender().is_refused().await;
}

/// Field case A2. The service said yes and nobody heard it: the same claim must not take its own lock for somebody else's.
async fn a_lost_answer_is_found_by_asking_again(t: &Trial) {
    let mut first = t.contender();
    first.hears_no_answer().await;
    first.acquires().await;
    t.contender().is_refused().await;
    first.releases().await;
    t.contender().acquires().await;
}

/// Field case A2, at every await point of the call.
async fn an_ask_given_up_at_any_point_can_be_repeated(t: &Trial) {
    let (one, other) = (t.contender(), t.contender());
    for polls in 1.. {
        let name = t.name_with(polls);
        let mut first = one.sibling_for(&name);
        let through = first.asks_in_vain(polls).await;
        first.acquires().await;
        other.sibling_for(&name).is_refused().await;
        first.releases().await;
        other.sibling_for(&name).acquires().await;
        if through {
            return;
        }
    }
}

/// A repeated ask may overtake a longer one, or come from a holder that now wants less.
async fn an_ask_for_less_shortens_nothing(t: &Trial) {
    let mut first = t.contender();
    let granted = first.acquires().await.ttl;
    first = first.with_ttl(t.ttl());
    let left = first.acquires().await.ttl;
    ensure!(left > granted / 2, "{first} was granted {granted:?} and now has {left:?}");
    tokio::time::sleep(t.ttl() * 2).await;
    t.contender().is_refused().await;
}

/// The answer tells what the grant now has, and that is more than was asked for.
async fn an_extension_by_less_shortens_nothing(t: &Trial) {
    let mut first = t.contender();
    let granted = first.acquires().await.ttl;
    first = first.with_ttl(t.ttl());
    let left = first.extends().await;
    ensure!(left > granted / 2, "{first} was granted {granted:?} and now has {left:?}");
    tokio::time::sleep(t.ttl() * 2).await;
    t.contender().is_refused().await;
}

/// Field case A7: the second release is harmless and says that it did nothing, whoever holds the lock by then.
async fn a_second_release_does_nothing(t: &Trial) {
    let mut first = t.contender();
    first.acquires().await;
    first.releases().await;
    first.has_nothing_to_release().await;
    let mut second = t.contender();
    second.acquires().await;
    first.has_nothing_to_release().await;
    second.extends().await;
}

async fn asking_again_keeps_one_place_in_the_queue(t: &Trial) {
    let mut holder = t.contender();
    let mut waiter = t.contender().queueing();
    holder.acquires().await;
    for _ in 0..5 {
        waiter.is_refused().await;
    }
    waiter.has_nothing_to_release().await;
    holder.releases().await;
    t.contender().acquires().await;
}
