use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::relay::{Network, reset_on_close};
use crate::{Direction, Flow, Settings, Traffic};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// How many chunks the relay keeps in one direction of a connection. It is enough to delay 1000 messages a second by a second.
const CHUNKS: usize = 1024;

/// How a connection ended.
enum End {
    /// Both sides have closed it.
    Closed,
    /// Both sides have to be told that it broke.
    Reset,
}

/// A piece of a stream, or its end.
enum Piece {
    Bytes(Vec<u8>),
    Closing,
    Reset,
}

/// A piece that has come to the relay.
struct Arrival {
    at: Instant,
    piece: Piece,
}

impl Arrival {
    fn now(piece: Piece) -> Self {
        Self { at: Instant::now(), piece }
    }
}

/// Carries one client's connection until it is over.
pub(crate) async fn connection(mut client: TcpStream, network: Arc<Network>, resets: u64) {
    let _open = Open::new(&network);
    let mut server = None;
    let mut settings = network.settings.subscribe();
    let end = tokio::select! {
        biased;
        _ = settings.wait_for(|settings| settings.resets != resets) => End::Reset,
        end = carry(&network, &mut client, &mut server) => end,
    };
    if matches!(end, End::Reset) {
        [Some(client), server].iter().flatten().for_each(reset_on_close);
    }
}

/// Connects the client to the server and carries what both of them say.
async fn carry(network: &Network, client: &mut TcpStream, connected: &mut Option<TcpStream>) -> End {
    let mut settings = network.settings.subscribe();
    if settings.borrow().black_hole {
        out_of_black_hole(&mut settings).await;
        if has_left(client) {
            return End::Closed;
        }
    }
    let target = settings.borrow().target;
    let Ok(server) = TcpStream::connect(target).await else {
        out_of_black_hole(&mut settings).await;
        return End::Reset;
    };
    let server = connected.insert(server);
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
        return End::Reset;
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let (requests, requested) = mpsc::channel(CHUNKS);
    let (replies, replied) = mpsc::channel(CHUNKS);
    let lane = |direction| Lane { network, direction, settings: network.settings.subscribe() };
    let closings = AtomicUsize::new(0);
    tokio::select! {
        () = lane(Direction::ToServer).read(from_client, &requests) => End::Closed,
        () = lane(Direction::ToClient).read(from_server, &replies) => End::Closed,
        end = lane(Direction::ToServer).write(to_server, requested, &replies, &closings) => end,
        end = lane(Direction::ToClient).write(to_client, replied, &requests, &closings) => end,
    }
}

async fn out_of_black_hole(settings: &mut watch::Receiver<Settings>) {
    settings.wait_for(|settings| !settings.black_hole).await.expect("the network has the sender");
}

/// Whether a client has closed its side, perhaps after it has sent something.
fn has_left(client: &TcpStream) -> bool {
    let mut state = [PollFd::new(client, PollFlags::RDHUP)];
    let seen = poll(&mut state, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    seen.is_ok_and(|ready| ready > 0)
}

/// One direction of one connection.
struct Lane<'a> {
    network: &'a Network,
    direction: Direction,
    settings: watch::Receiver<Settings>,
}

impl Lane<'_> {
    /// Takes in what is sent. It never returns: the end of the stream is for the other end of the lane to judge.
    async fn read(self, mut from: ReadHalf<'_>, queue: &mpsc::Sender<Arrival>) {
        let mut buffer = vec![0; CHUNK];
        let end = loop {
            match from.read(&mut buffer).await {
                Ok(0) => break Piece::Closing,
                Ok(length) => {
                    self.count(|traffic| {
                        traffic.chunks += 1;
                        traffic.bytes += length as u64;
                    });
                    let _ = queue.send(Arrival::now(Piece::Bytes(buffer[..length].to_vec()))).await;
                }
                Err(_) => break Piece::Reset,
            }
        };
        let _ = queue.send(Arrival::now(end)).await;
        pending().await
    }

    /// Passes on what has been taken in, when the flow lets it, until the connection is over.
    async fn write(
        mut self,
        mut to: WriteHalf<'_>,
        mut queue: mpsc::Receiver<Arrival>,
        back: &mpsc::Sender<Arrival>,
        closings: &AtomicUsize,
    ) -> End {
        loop {
            let Some(Arrival { at, piece }) = queue.recv().await else { return pending().await };
            match piece {
                Piece::Bytes(bytes) => match self.deliver(at, &bytes, &mut to).await {
                    Ok(None) => {}
                    Ok(Some(end)) => return end,
                    // Who sent this learns of it behind what is still under way to it.
                    Err(_) => drop(back.send(Arrival::now(Piece::Reset)).await),
                },
                Piece::Closing => {
                    self.comes_through(at).await;
                    let _ = to.shutdown().await;
                    if closings.fetch_add(1, Ordering::Relaxed) == 1 {
                        return End::Closed;
                    }
                }
                Piece::Reset => {
                    self.comes_through(at).await;
                    return End::Reset;
                }
            }
        }
    }

    /// Passes bytes on or throws them away. It says how the connection ended, if it has to be cut within them.
    async fn deliver(&mut self, arrived: Instant, bytes: &[u8], to: &mut WriteHalf<'_>) -> io::Result<Option<End>> {
        let mut rest = bytes;
        let mut passing = false;
        while !rest.is_empty() {
            if !self.passes(arrived).await {
                self.count(|traffic| traffic.swallowed += rest.len() as u64);
                return Ok(None);
            }
            if !passing && let Some(cut) = self.cut_within(rest.len()) {
                to.write_all(&rest[..cut]).await?;
                self.count(|traffic| traffic.delivered += cut as u64);
                return Ok(Some(End::Reset));
            }
            passing = true;
            tokio::select! {
                biased;
                // The flow may be another one now.
                _ = self.settings.changed() => {}
                written = to.write(rest) => {
                    let written = written?;
                    self.count(|traffic| traffic.delivered += written as u64);
                    rest = &rest[written..];
                }
            }
        }
        Ok(None)
    }

    /// Waits until the flow says what becomes of bytes: whether they pass, or are thrown away.
    async fn passes(&mut self, arrived: Instant) -> bool {
        loop {
            let flow = self.settings.borrow_and_update().flow(self.direction);
            match flow {
                Flow::Pass => return true,
                Flow::Swallow => return false,
                Flow::Hold => self.changes().await,
                Flow::Delay(by) => {
                    let due = arrived + by;
                    if due <= Instant::now() {
                        return true;
                    }
                    tokio::select! {
                        () = sleep_until(due) => {}
                        () = self.changes() => {}
                    }
                }
            }
        }
    }

    /// Waits until the end of the stream may be passed on. It is not thrown away.
    async fn comes_through(&mut self, arrived: Instant) {
        while !self.passes(arrived).await {
            self.changes().await;
        }
    }

    async fn changes(&mut self) {
        self.settings.changed().await.expect("the network has the sender");
    }

    fn cut_within(&self, length: usize) -> Option<usize> {
        let mut cut = None;
        if self.direction == Direction::ToClient {
            self.network.settings.send_if_modified(|settings| {
                cut = settings.cut_within(length);
                // Nobody waits for it.
                false
            });
        }
        cut
    }

    fn count(&self, count: impl FnOnce(&mut Traffic)) {
        self.network.counts.send_modify(|counts| count(counts.traffic_mut(self.direction)));
    }
}

/// Counts a connection as open until it is dropped: its task may be aborted.
struct Open(Arc<Network>);

impl Open {
    fn new(network: &Arc<Network>) -> Self {
        network.counts.send_modify(|counts| {
            counts.connections += 1;
            counts.open += 1;
        });
        Self(Arc::clone(network))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counts.send_modify(|counts| counts.open -= 1);
    }
}
