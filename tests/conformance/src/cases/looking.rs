//! Who looks sees what is there, and changes nothing by it.
use std::time::Duration;

use lock_core::{Backend, LockName};
use tokio::time::sleep;

use crate::case::cases;
use crate::failure::{ensure, refute};
use crate::locking::{Ending, Locking};
use crate::{Contender, Trial};

cases! { "looking":
    a_holder_is_shown_with_what_it_said_of_itself,
    what_is_left_is_shown_and_falls,
    what_is_left_of_the_longest_ttl_is_shown,
    what_is_left_after_an_extension_is_shown needs TtlChange,
    held_locks_are_listed_in_the_order_of_their_names needs List,
    names_are_listed_in_the_order_of_their_bytes needs List,
    many_held_locks_are_all_listed needs List,
    what_ran_out_is_not_listed needs List,
    a_listing_goes_on_after_a_name needs List,
}

/// What a service can't tell is not shown; what is shown is true.
async fn a_holder_is_shown_with_what_it_said_of_itself(t: &Trial) {
    let lock = t.lock().label("the conformance suite");
    ensure!(lock.inspect().await.succeeds().is_none(), "a lock that nobody ever had has a holder");
    let guard = lock.acquires().await;
    let Some(holder) = t.lock().inspect().await.succeeds() else {
        refute!("nobody seems to hold the lock of {guard:?}");
    };
    ensure!(holder.name == *guard.name(), "the lock {:?} is shown as {:?}", guard.name(), holder.name);
    ensure!(!holder.owner.is_empty(), "the holder has no owner: {holder:?}");
    ensure!(holder.token.is_none_or(|token| token == guard.token()), "{guard:?} is shown as {holder:?}");
    let label = holder.label.as_deref();
    ensure!(label.is_none_or(|label| label == "the conformance suite"), "the label is shown as {label:?}");
    ensure!(holder.pid.is_none_or(|pid| pid == std::process::id()), "this process is shown as {:?}", holder.pid);
}

async fn what_is_left_is_shown_and_falls(t: &Trial) {
    let mut first = t.contender();
    let granted = first.acquires().await.ttl;
    let before = t.holder().await.and_then(|holder| holder.remaining);
    sleep(A_SECOND).await;
    let after = t.holder().await.and_then(|holder| holder.remaining);
    let most = granted + t.capabilities().expiry_slack + A_SECOND;
    ensure!(before.is_none_or(|left| left <= most), "{granted:?} was granted, and {before:?} is shown to be left");
    ensure!(before.is_none() || after < before, "{before:?} was left, and now {after:?}");
}

/// A good second: some services tell in whole seconds what is left.
const A_SECOND: Duration = Duration::from_millis(1100);

/// Nobody can wait for its end: a service that keeps less than it promised shows that, if it shows anything.
async fn what_is_left_of_the_longest_ttl_is_shown(t: &Trial) {
    let mut holder = t.contender().with_ttl(t.capabilities().ttl_max);
    holder.acquires().await;
    what_is_shown_to_be_left_is_as_promised(t, &holder).await;
    holder.releases().await;
}

async fn what_is_left_after_an_extension_is_shown(t: &Trial) {
    let mut holder = t.contender().with_ttl(t.long_ttl() / 4);
    holder.acquires().await;
    holder = holder.with_ttl(t.long_ttl());
    holder.extends().await;
    what_is_shown_to_be_left_is_as_promised(t, &holder).await;
}

async fn what_is_shown_to_be_left_is_as_promised(t: &Trial, holder: &Contender) {
    let asked = t.clock().now();
    let left = t.holder().await.and_then(|holder| holder.remaining);
    let promised = holder.promised_until().since(asked);
    let passed = t.clock().now().since(asked);
    ensure!(
        left.is_none_or(|left| left + passed + A_SECOND >= promised),
        "{holder} was promised {promised:?}, and {left:?} is shown to be left"
    );
}

/// The prefix is text: a service's patterns and separators mean nothing in it.
async fn held_locks_are_listed_in_the_order_of_their_names(t: &Trial) {
    let client = t.client();
    let mut guards = Vec::new();
    for end in ["*b", "*", "*a", "*/", "x", "", "?b"] {
        let name = t.name_with(end);
        guards.push(client.lock(name.as_str()).ttl(t.long_ttl()).acquires().await);
    }
    client.lock(t.name_with("*free").as_str()).ttl(t.long_ttl()).can_be_had().await;
    let listed = t.client().list(t.name_with("*").as_str()).await.succeeds();
    let listed: Vec<_> = listed.into_iter().map(|holder| holder.name).collect();
    let expected = ["*", "*/", "*a", "*b"].map(|end| t.name_with(end));
    ensure!(listed == expected, "of the held names those with the prefix are {expected:?}; listed were {listed:?}");
}

/// Neither by letters, nor by accents, nor by the halves of a character.
async fn names_are_listed_in_the_order_of_their_bytes(t: &Trial) {
    let one = t.contender();
    let names = ["B", "Z", "_", "a", "b", "z", "\u{e9}", "\u{ffff}", "🔒"].map(|end| t.name_with(end));
    for name in &names {
        one.sibling_for(name).acquires().await;
    }
    let listed = names_listed(t).await;
    ensure!(listed == names, "the held names are {names:?}; listed were {listed:?}");
}

async fn many_held_locks_are_all_listed(t: &Trial) {
    let (one, many) = (t.contender(), t.many(300));
    for number in 0..many {
        one.sibling_for(&t.name_with(format_args!("/{number}"))).acquires().await;
    }
    let listed = names_listed(t).await.len();
    ensure!(listed == many, "{many} locks are held, and {listed} were listed");
}

async fn what_ran_out_is_not_listed(t: &Trial) {
    let mut first = t.contender().with_ttl(t.ttl());
    first.acquires().await;
    first.falls_silent().await;
    let listed = names_listed(t).await;
    ensure!(listed.is_empty(), "the lease of {first} ran out, and listed was {listed:?}");
}

/// The held locks among those that the case names.
async fn names_listed(t: &Trial) -> Vec<LockName> {
    let listed = t.client().list(t.name().as_str()).await.succeeds();
    listed.into_iter().map(|holder| holder.name).collect()
}

async fn a_listing_goes_on_after_a_name(t: &Trial) {
    let (one, backend) = (t.contender(), t.open());
    let names: Vec<_> = (0..5).map(|number| t.name_with(format_args!("/{number}"))).collect();
    for name in &names {
        one.sibling_for(name).acquires().await;
    }
    let (mut listed, mut after) = (Vec::new(), Some(names[1].clone()));
    while let Some(name) = after {
        let page = backend.list(t.name().as_str(), Some(&name)).await.succeeds();
        listed.extend(page.items.into_iter().map(|holder| holder.name));
        after = page.next;
    }
    ensure!(listed == names[2..], "after {:?} come {:?}; listed were {listed:?}", names[1], &names[2..]);
}
