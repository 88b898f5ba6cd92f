//! Black holes, resets, refusals and cut replies.
use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::support::{Client, Quiet, relay, within};

#[tokio::test]
async fn a_black_hole_tells_nobody_of_anything_and_gives_all_back() {
    let (server, relay) = Quiet::new().await;
    let (mut first, mut first_served) = (Client::of(&relay).await, server.accepts().await);
    let (mut second, mut second_served) = (Client::of(&relay).await, server.accepts().await);
    let (third, mut third_served) = (Client::of(&relay).await, server.accepts().await);
    relay.black_hole();
    first.says("request").await;
    second_served.says("reply").await;
    within(relay.until(|counts| counts.to_server.bytes == 7 && counts.to_client.bytes == 5)).await;
    drop(second_served);
    third.0.set_zero_linger().unwrap();
    drop(third);
    let mut late = Client::of(&relay).await;
    late.says("hello").await;
    within(relay.until(|counts| counts.connections == 4)).await;
    // All of it is known to the system by now; the relay has time to do wrong.
    tokio::time::sleep(Duration::from_millis(100)).await;
    [&first_served, &second, &third_served, &late].iter().for_each(|side| side.hears_nothing());
    assert_eq!(relay.counts().open, 4);

    relay.heal();
    first_served.hears("request").await;
    second.hears("reply").await;
    second.hears_the_end().await;
    third_served.is_reset().await;
    server.accepts().await.hears("hello").await;
}

#[tokio::test]
async fn a_client_that_came_and_left_in_a_black_hole_was_never_there() {
    let (server, relay) = Quiet::new().await;
    relay.black_hole();
    let mut client = Client::of(&relay).await;
    client.says("anybody?").await;
    within(relay.until(|counts| counts.open == 1)).await;
    drop(client);
    relay.heal();
    within(relay.until(|counts| counts.open == 0)).await;
    let mut next = Client::of(&relay).await;
    next.says("me").await;
    server.accepts().await.hears("me").await;
    assert_eq!(relay.counts().to_server.bytes, 2);
}

#[tokio::test]
async fn a_reset_ends_every_present_connection_and_no_later_one() {
    let relay = relay().await;
    let mut present = Vec::new();
    for _ in 0..10 {
        let mut client = Client::of(&relay).await;
        client.says("here").await;
        client.hears("here").await;
        present.push(client);
    }
    // The relay may not have come to accept this one.
    present.push(Client::of(&relay).await);
    relay.reset();
    let mut later = Client::of(&relay).await;
    for client in &mut present {
        client.is_reset().await;
    }
    later.says("still here").await;
    later.hears("still here").await;
    within(relay.until(|counts| (counts.connections, counts.open) == (12, 1))).await;
}

#[tokio::test]
async fn what_a_black_hole_has_taken_is_lost_by_a_reset() {
    let (server, relay) = Quiet::new().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    relay.black_hole();
    client.says("lost").await;
    within(relay.until(|counts| counts.to_server.bytes == 4)).await;
    relay.reset();
    client.is_reset().await;
    served.is_reset().await;
    relay.heal();
    let mut client = Client::of(&relay).await;
    client.says("found").await;
    server.accepts().await.hears("found").await;
}

#[tokio::test]
async fn new_connections_can_be_refused_and_then_accepted_again() {
    let relay = relay().await;
    let mut present = Client::of(&relay).await;
    present.says("here").await;
    present.hears("here").await;
    for _ in 0..3 {
        relay.refuse();
        let refused = TcpStream::connect(relay.address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        relay.refuse();
        relay.heal();
        let mut new = Client::of(&relay).await;
        new.says("back").await;
        new.hears("back").await;
    }
    present.says("all the time").await;
    present.hears("all the time").await;
}

#[tokio::test]
async fn a_reply_is_cut_in_the_middle_once() {
    let (server, relay) = Quiet::new().await;
    relay.cut_reply_after(8);
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    served.says("first").await;
    client.hears("first").await;
    served.says("second").await;
    client.hears("sec").await;
    client.is_reset().await;
    served.is_reset().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    served.says("all of this").await;
    client.hears("all of this").await;
}

#[tokio::test]
async fn a_reply_is_cut_before_its_first_byte() {
    let relay = relay().await;
    let mut client = Client::of(&relay).await;
    client.says("before").await;
    client.hears("before").await;
    relay.cut_reply_after(0);
    client.says("after").await;
    client.is_reset().await;
    assert_eq!(relay.counts().to_client.delivered, 6);
}
