//! What a relay that is healthy passes on.
use std::time::Duration;

use lock_lab::Direction::{ToClient, ToServer};
use lock_lab::Relay;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::{Client, Quiet, Stream, echo, relay, within};

#[tokio::test]
async fn what_is_sent_comes_through_and_is_counted() {
    let relay = relay().await;
    let mut client = Client::of(&relay).await;
    client.says("one").await;
    client.hears("one").await;
    client.says("and two").await;
    client.hears("and two").await;
    let counts = within(relay.until(|counts| counts.to_client.delivered == 10)).await;
    assert_eq!((counts.connections, counts.open), (1, 1));
    for direction in [ToServer, ToClient] {
        let traffic = counts.traffic(direction);
        assert_eq!((traffic.bytes, traffic.chunks, traffic.delivered, traffic.swallowed), (10, 2, 10, 0));
    }
}

#[tokio::test]
async fn a_closing_is_passed_on_and_the_other_direction_stays_open() {
    let (server, relay) = Quiet::new().await;
    let mut client = Client::of(&relay).await;
    let mut served = server.accepts().await;
    client.says("last words").await;
    client.closes().await;
    served.hears("last words").await;
    served.hears_the_end().await;
    served.says("an answer to them").await;
    client.hears("an answer to them").await;
    assert_eq!(relay.counts().open, 1);
    served.closes().await;
    client.hears_the_end().await;
    within(relay.until(|counts| counts.open == 0)).await;
}

#[tokio::test]
async fn a_reset_by_either_side_reaches_the_other() {
    let (server, relay) = Quiet::new().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    served.0.set_zero_linger().unwrap();
    drop(served.0);
    client.is_reset().await;

    (client, served) = (Client::of(&relay).await, server.accepts().await);
    client.0.set_zero_linger().unwrap();
    drop(client.0);
    served.is_reset().await;
    within(relay.until(|counts| counts.open == 0)).await;
}

#[tokio::test]
async fn who_sends_to_a_client_that_has_left_learns_of_it() {
    let (server, relay) = Quiet::new().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    client.closes().await;
    served.hears_the_end().await;
    drop(client);
    within(async {
        while served.0.write_all(b"more").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    within(relay.until(|counts| counts.open == 0)).await;
}

#[tokio::test]
async fn a_client_is_reset_when_nothing_listens_at_the_target() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let relay = Relay::to(gone).await.unwrap();
    Client::of(&relay).await.is_reset().await;
}

#[tokio::test]
async fn much_comes_through_unchanged_while_the_receiver_is_slow() {
    // More than the relay and the system keep together.
    const MUCH: usize = 64 << 20;
    let (server, relay) = Quiet::new().await;
    let (mut client, mut served) = (Client::of(&relay).await, server.accepts().await);
    let sending = tokio::spawn(async move {
        for at in (0..MUCH).step_by(1 << 16) {
            client.0.write_all(Stream::piece(at, 1 << 16)).await.unwrap();
        }
    });
    // The sender can't go on at some time: what is not received is kept, but not all of it.
    let mut kept = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let bytes = relay.counts().to_server.bytes;
        if bytes == kept && bytes > 0 {
            break;
        }
        kept = bytes;
    }
    assert!(!sending.is_finished(), "{kept} bytes were taken from the sender and received by nobody");
    let mut received = Stream::default();
    while received.length < MUCH {
        assert!(received.goes_on_with(&mut served.0).await, "the stream ended after {}", received.length);
    }
    sending.await.unwrap();
}

/// Field case A14: a name comes to mean another server, and who is connected stays with the old one.
#[tokio::test]
async fn new_connections_go_to_another_server_and_present_ones_stay() {
    let relay = Relay::to(echo("old: ").await).await.unwrap();
    let mut present = Client::of(&relay).await;
    present.hears("old: ").await;
    relay.point_to(echo("new: ").await);
    let mut new = Client::of(&relay).await;
    new.says("mine").await;
    new.hears("new: mine").await;
    present.says("mine").await;
    present.hears("mine").await;
    relay.heal();
    Client::of(&relay).await.hears("new: ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_come_through() {
    // Each of them is four open files here, and a shell may allow as few as 1024.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let relay = relay().await;
    let mut clients = JoinSet::new();
    for number in 0..1000 {
        let address = relay.address();
        clients.spawn(async move {
            let mut client = Client(within(TcpStream::connect(address)).await.unwrap());
            for round in 0..3 {
                let text = format!("{number}/{round};");
                client.says(&text).await;
                client.hears(&text).await;
            }
            client
        });
    }
    let clients = clients.join_all().await;
    let counts = relay.counts();
    assert_eq!((counts.connections, counts.open, counts.to_client.swallowed), (1000, 1000, 0));
    drop(clients);
    let counts = within(relay.until(|counts| counts.open == 0)).await;
    assert_eq!(counts.to_server, counts.to_client);
}
