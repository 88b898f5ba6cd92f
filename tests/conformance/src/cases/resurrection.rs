//! What is gone stays gone.
use crate::Trial;
use crate::case::cases;

cases! { "5_no_resurrection":
    an_extension_after_the_release_is_lost,
    an_extension_after_the_end_is_lost,
    an_extension_after_a_successor_came_is_lost_and_leaves_it_alone,
    an_extension_of_a_claim_that_was_never_granted_is_lost,
    an_ask_given_up_at_any_point_does_not_land_after_the_release,
    of_many_asks_given_up_none_lands_after_its_release,
}

/// Field case A3: a late renewal must not bring back what was released.
async fn an_extension_after_the_release_is_lost(t: &Trial) {
    let mut first = t.contender();
    first.acquires().await;
    first.releases().await;
    first.has_lost().await;
    t.contender().acquires().await;
}

/// Field cases A7 and A8: the name is free, nobody came between, and still the grant is gone.
async fn an_extension_after_the_end_is_lost(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    first.falls_silent().await;
    first.has_lost().await;
    t.contender().acquires().await;
}

/// Field case A8: a holder that was paused for too long resumes.
async fn an_extension_after_a_successor_came_is_lost_and_leaves_it_alone(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    let mut successor = t.contender();
    first.acquires().await;
    first.falls_silent().await;
    successor.acquires().await;
    first.has_lost().await;
    first.is_refused().await;
    successor.extends().await;
}

async fn an_extension_of_a_claim_that_was_never_granted_is_lost(t: &Trial) {
    let mut stranger = t.contender();
    stranger.has_lost().await;
    let mut holder = t.contender();
    holder.acquires().await;
    stranger.has_lost().await;
    holder.extends().await;
}

/// Field case A1, at every await point of the call: what was sent before it was given up may still be on its way when the
/// claim is released, and must do nothing when it arrives.
async fn an_ask_given_up_at_any_point_does_not_land_after_the_release(t: &Trial) {
    let (one, other) = (t.contender(), t.contender());
    let mut names = Vec::new();
    for polls in 1.. {
        let name = t.name_with(polls);
        let mut first = one.sibling_for(&name);
        let through = first.asks_in_vain(polls).await;
        first.cleans_up().await;
        names.push(name);
        if through {
            break;
        }
    }
    // Long enough for what is on its way to arrive.
    tokio::time::sleep(t.ttl() / 2).await;
    for name in names {
        other.sibling_for(&name).acquires().await;
    }
}

/// Field case A1, with a backend that has much to do: what was given up waits in its own line, behind the release perhaps.
async fn of_many_asks_given_up_none_lands_after_its_release(t: &Trial) {
    let (one, other) = (t.contender(), t.contender());
    let names: Vec<_> = (0..50).map(|number| t.name_with(number)).collect();
    let mut crowd = Vec::new();
    for name in &names {
        let mut gives_up = one.sibling_for(name);
        gives_up.asks_in_vain(1).await;
        crowd.push(gives_up);
    }
    let releasing: Vec<_> =
        crowd.into_iter().map(|contender| tokio::spawn(async move { contender.cleans_up().await })).collect();
    t.all(releasing).await;
    // Long enough for what is on its way to arrive.
    tokio::time::sleep(t.ttl() / 2).await;
    for name in names {
        other.sibling_for(&name).acquires().await;
    }
}
