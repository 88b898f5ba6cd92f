//! What is late, held or lost in one direction.
use std::time::Duration;

use lock_lab::Direction::{ToClient, ToServer};
use lock_lab::Flow;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::support::{Client, Quiet, Stream, relay, within};

#[tokio::test]
async fn delayed_bytes_are_late_and_in_order() {
    let late = Duration::from_millis(300);
    let relay = relay().await;
    let mut client = Client::of(&relay).await;
    client.says("at once").await;
    client.hears("at once").await;
    relay.set(ToServer, Flow::Delay(late));
    let sent = Instant::now();
    client.says("first, ").await;
    within(relay.until(|counts| counts.to_server.chunks == 2)).await;
    client.says("second").await;
    client.hears("first, second").await;
    assert!(sent.elapsed() >= late);
    relay.set(ToClient, Flow::Delay(late));
    let sent = Instant::now();
    client.says("both ways").await;
    client.hears("both ways").await;
    assert!(sent.elapsed() >= 2 * late);
}

#[tokio::test]
async fn a_delay_does_not_limit_the_throughput() {
    let late = Duration::from_secs(2);
    let relay = relay().await;
    relay.set(ToServer, Flow::Delay(late));
    let mut client = Client::of(&relay).await;
    let sent = Instant::now();
    for number in 100..200_u64 {
        client.says(&number.to_string()).await;
        within(relay.until(|counts| counts.to_server.chunks == number - 99)).await;
    }
    client.hears(&(100..200).map(|number| number.to_string()).collect::<String>()).await;
    // One after another they would take 100 times as long.
    assert!(sent.elapsed() < 50 * late);
}

#[tokio::test]
async fn delayed_bytes_arrive_at_once_when_the_delay_is_taken_back() {
    let relay = relay().await;
    relay.set(ToServer, Flow::Delay(Duration::from_secs(3600)));
    let mut client = Client::of(&relay).await;
    client.says("waits").await;
    within(relay.until(|counts| counts.to_server.bytes == 5)).await;
    relay.set(ToServer, Flow::Pass);
    client.hears("waits").await;
}

#[tokio::test]
async fn swallowed_replies_are_lost_and_later_ones_are_not() {
    let relay = relay().await;
    let mut client = Client::of(&relay).await;
    relay.set(ToClient, Flow::Swallow);
    client.says("lost").await;
    let counts = within(relay.until(|counts| counts.to_client.swallowed == 4)).await;
    assert_eq!((counts.to_server.delivered, counts.to_client.delivered), (4, 0));
    relay.set(ToClient, Flow::Pass);
    client.says("found").await;
    client.hears("found").await;
}

#[tokio::test]
async fn swallowed_requests_never_reach_the_server() {
    let (server, relay) = Quiet::new().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    relay.set(ToServer, Flow::Swallow);
    client.says("lost").await;
    within(relay.until(|counts| counts.to_server.swallowed == 4)).await;
    served.says("unasked").await;
    client.hears("unasked").await;
    relay.set(ToServer, Flow::Pass);
    client.says("found").await;
    served.hears("found").await;
}

#[tokio::test]
async fn a_closing_is_held_and_not_swallowed() {
    let (server, relay) = Quiet::new().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    relay.set(ToServer, Flow::Swallow);
    client.says("lost").await;
    client.closes().await;
    within(relay.until(|counts| counts.to_server.swallowed == 4)).await;
    served.says("still there?").await;
    client.hears("still there?").await;
    served.hears_nothing();
    relay.set(ToServer, Flow::Pass);
    served.hears_the_end().await;
}

#[tokio::test]
async fn held_bytes_come_in_order_when_they_are_let_go() {
    let (server, relay) = Quiet::new().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    relay.set(ToServer, Flow::Hold);
    for chunk in 1..=3 {
        client.says(&chunk.to_string()).await;
        within(relay.until(|counts| counts.to_server.chunks == chunk)).await;
    }
    // The other direction is another matter.
    served.says("go on").await;
    client.hears("go on").await;
    served.hears_nothing();
    // Held are also the bytes of who has left.
    drop(client);
    relay.set(ToServer, Flow::Pass);
    served.hears("123").await;
    served.hears_the_end().await;
}

#[tokio::test]
async fn held_bytes_may_still_be_thrown_away() {
    let relay = relay().await;
    let mut client = Client::of(&relay).await;
    relay.set(ToServer, Flow::Hold);
    client.says("held").await;
    within(relay.until(|counts| counts.to_server.bytes == 4)).await;
    relay.set(ToServer, Flow::Swallow);
    within(relay.until(|counts| counts.to_server.swallowed == 4)).await;
    relay.set(ToServer, Flow::Pass);
    client.says("sent").await;
    client.hears("sent").await;
}

/// The flow changes at random while much is under way; nothing gets lost, doubled or disordered by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_flows_leave_a_stream_as_it_is() {
    const LENGTH: usize = 4 << 20;
    let relay = relay().await;
    let (mut from, mut to) = Client::of(&relay).await.0.into_split();
    let sending = tokio::spawn(async move {
        for at in (0..LENGTH).step_by(1 << 12) {
            to.write_all(Stream::piece(at, 1 << 12)).await.unwrap();
        }
        to.shutdown().await.unwrap();
    });
    let receiving = tokio::spawn(async move {
        let mut received = Stream::default();
        while received.goes_on_with(&mut from).await {}
        received.length
    });
    for round in 0..100_u64 {
        let flow = [Flow::Hold, Flow::Delay(Duration::from_millis(round % 7)), Flow::Pass][round as usize % 3];
        relay.set(if round % 2 == 0 { ToServer } else { ToClient }, flow);
        if round % 10 == 9 {
            relay.black_hole();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        if round % 10 == 9 {
            relay.heal();
        }
    }
    relay.heal();
    within(sending).await.unwrap();
    assert_eq!(within(receiving).await.unwrap(), LENGTH);
}
