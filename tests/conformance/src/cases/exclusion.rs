//! While a grant lives, no other owner is granted the same name.
use lock_core::{Attempt, LockName};

use crate::Trial;
use crate::case::cases;
use crate::failure::ensure;

cases! { "1_exclusion":
    a_second_owner_is_refused_while_the_first_holds,
    two_owners_of_one_client_exclude_each_other,
    of_many_who_ask_at_once_no_two_are_granted,
    a_released_lock_can_be_had_at_once,
    names_that_are_almost_the_same_are_independent,
}

async fn a_second_owner_is_refused_while_the_first_holds(t: &Trial) {
    let mut first = t.contender();
    let mut second = t.contender();
    first.acquires().await;
    second.is_refused().await;
    first.extends().await;
    second.is_refused().await;
}

/// Field case A24. An owner is one acquisition: no connection, session or client is an owner.
async fn two_owners_of_one_client_exclude_each_other(t: &Trial) {
    let mut first = t.contender();
    let mut second = first.sibling();
    first.acquires().await;
    second.is_refused().await;
    first.releases().await;
    second.acquires().await;
    first.has_lost().await;
}

async fn of_many_who_ask_at_once_no_two_are_granted(t: &Trial) {
    let clients: Vec<_> = (0..4).map(|_| t.contender()).collect();
    for round in 0..5 {
        let name = t.name_with(round);
        let askers = (0..16).map(|number| {
            let mut asker = clients[number % clients.len()].sibling_for(&name);
            tokio::spawn(async move { matches!(asker.tries().await.answer, Attempt::Granted(_)) })
        });
        let askers: Vec<_> = askers.collect();
        let granted = t.all(askers).await.into_iter().filter(|granted| *granted).count();
        ensure!(granted <= 1, "of 16 who asked at once for a free lock, {granted} were granted it");
    }
}

async fn a_released_lock_can_be_had_at_once(t: &Trial) {
    let (mut holder, mut next) = (t.contender(), t.contender());
    holder.acquires().await;
    for _ in 0..10 {
        next.is_refused().await;
        holder.releases().await;
        next.acquires().await;
        (next, holder) = (holder.sibling(), next);
    }
}

/// Field cases A27 and A41. A name is compared whole and byte by byte, whatever the service does with slashes, prefixes,
/// patterns, case and hashes.
async fn names_that_are_almost_the_same_are_independent(t: &Trial) {
    let (one, other) = (t.contender(), t.contender());
    let mut holders = Vec::new();
    for name in names_like(t.name().as_str()) {
        let mut holder = one.sibling_for(&name);
        holder.acquires().await;
        holders.push((name, holder));
    }
    for (name, _) in &holders {
        other.sibling_for(name).is_refused().await;
    }
    for (name, holder) in holders {
        holder.releases().await;
        other.sibling_for(&name).acquires().await;
    }
}

/// Names that a careless service would take for `base`, or for one another.
fn names_like(base: &str) -> Vec<LockName> {
    let ends = [
        "", " ", "/", "//", "/b", "//b", "b", ".", "/.", "/..", "%", "%2F", "%2f", "*", "?", "[a]", "{", "}", "{}",
        "{a}", ":", ":0", "\\", "'", "\"", "$x", "~", "\u{a0}", "\u{e9}", "e\u{301}", "e", "\u{5d0}", "🔒", "\u{ffff}",
        "\u{df}", "s", "ss", "+", "#", "#a", "&", ";", ",", "@", "_",
    ];
    // These have the same CRC-32, and those the same hash in Java.
    let collisions = ["plumless", "buckeroo", "Aa", "BB"];
    let beginnings = ["/", " ", ".", "../", "{}", "file:///"];
    let longest = format!("{base}{}", "x".repeat(LockName::MAX_BYTES - base.len()));
    let almost_the_longest = format!("{}y", &longest[1..]);
    let mut names =
        vec![base.to_uppercase(), format!("{{{base}}}"), longest[1..].to_owned(), almost_the_longest, longest];
    names.extend(ends.into_iter().chain(collisions).map(|end| format!("{base}{end}")));
    names.extend(beginnings.map(|beginning| format!("{beginning}{base}")));
    names
        .into_iter()
        .map(|name| LockName::new(name).expect("it is not too long and has no control character"))
        .collect()
}
