//! Without further calls a grant ends by itself, and a place in a queue likewise.
use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;

cases! { "3_ceiling":
    a_grant_ends_of_itself,
    an_extended_grant_ends_of_itself,
    extensions_do_not_add_up,
    a_lost_answer_leaves_a_grant_that_ends_of_itself,
    a_place_in_the_queue_ends_of_itself needs Fifo,
}

async fn a_grant_ends_of_itself(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

async fn an_extended_grant_ends_of_itself(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    tokio::time::sleep(t.ttl() / 3).await;
    first.extends().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

/// Field case A10. An extension asks for a ttl from now; it adds nothing to what is left.
async fn extensions_do_not_add_up(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    let granted = first.acquires().await.ttl;
    for _ in 0..10 {
        let left = first.extends().await;
        ensure!(
            left < granted + t.ttl() / 2,
            "{first} was granted {granted:?} and has {left:?} after an extension by {:?}",
            t.ttl()
        );
    }
    first.falls_silent().await;
    t.contender().acquires().await;
}

/// Field case A2: nobody knows of this grant, so nobody will ever release it.
async fn a_lost_answer_leaves_a_grant_that_ends_of_itself(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.hears_no_answer().await;
    first.falls_silent().await;
    t.contender().acquires().await;
}

/// Field case A40: a waiter that died must not hold up the living.
async fn a_place_in_the_queue_ends_of_itself(t: &Trial) {
    let mut holder = t.contender();
    let mut dead = t.contender().with_ttl(t.ttl()).queueing();
    holder.acquires().await;
    dead.is_refused().await;
    dead.falls_silent().await;
    holder.releases().await;
    t.contender().acquires().await;
}
