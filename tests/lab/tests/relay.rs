//! The relay between clients and a server that sends back what it gets.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use lock_lab::{Direction, Flow, Relay};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use Direction::{ToClient, ToServer};

/// Longer than anything takes that is not broken, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that first sends its name, if it has one, and then what it gets. It closes when its client does.
async fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from, mut to) = client.split();
                to.write_all(name.as_bytes()).await?;
                tokio::io::copy(&mut from, &mut to).await?;
                to.shutdown().await
            });
        }
    });
    address
}

async fn relay() -> Relay {
    Relay::to(echo("").await).await.unwrap()
}

/// A server that does nothing by itself, and its next connection.
struct Quiet(TcpListener);

impl Quiet {
    async fn new() -> (Self, Relay) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::to(listener.local_addr().unwrap()).await.unwrap();
        (Self(listener), relay)
    }

    async fn accepts(&self) -> Client {
        Client(within(self.0.accept()).await.unwrap().0)
    }
}

/// One side of a connection.
struct Client(TcpStream);

impl Client {
    async fn of(relay: &Relay) -> Self {
        Self(within(TcpStream::connect(relay.address())).await.unwrap())
    }

    async fn says(&mut self, text: &str) {
        within(self.0.write_all(text.as_bytes())).await.unwrap();
    }

    async fn hears(&mut self, text: &str) {
        let mut heard = vec![0; text.len()];
        within(self.0.read_exact(&mut heard)).await.unwrap();
        assert_eq!(String::from_utf8(heard).unwrap(), text);
    }

    async fn closes(&mut self) {
        within(self.0.shutdown()).await.unwrap();
    }

    async fn hears_the_end(&mut self) {
        assert_eq!(within(self.0.read(&mut [0])).await.unwrap(), 0);
    }

    async fn is_reset(&mut self) {
        assert_eq!(within(self.0.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    /// Whether there's nothing to hear at this moment, neither bytes nor an end.
    fn hears_nothing(&self) {
        assert_eq!(self.0.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

/// A long stream, each byte of which is known by its place, and how much of it has come.
#[derive(Default)]
struct Stream {
    length: usize,
}

impl Stream {
    /// How many different pieces there are of one length.
    const PERIOD: usize = 251;

    fn piece(at: usize, length: usize) -> &'static [u8] {
        static BYTES: LazyLock<Vec<u8>> =
            LazyLock::new(|| (0..1 << 17).map(|at| (at % Stream::PERIOD) as u8).collect());
        &BYTES[at % Self::PERIOD..][..length]
    }

    /// Reads what comes next, and says whether there was something.
    async fn goes_on_with(&mut self, from: &mut (impl AsyncRead + Unpin)) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let length = within(from.read(&mut buffer)).await.unwrap();
        assert!(buffer[..length] == *Self::piece(self.length, length), "other bytes after {}", self.length);
        self.length += length;
        length > 0
    }
}

/// Awaits what has to come.
#[track_caller]
fn within<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    let at = std::panic::Location::caller();
    async move { timeout(PATIENCE, what).await.unwrap_or_else(|_| panic!("{at}: not within {PATIENCE:?}")) }
}

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
