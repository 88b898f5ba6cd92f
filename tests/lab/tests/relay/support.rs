//! A server that sends back what it gets, and its clients.
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use lock_lab::Relay;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Longer than anything takes that is not broken, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that first sends its name, if it has one, and then what it gets. It closes when its client does.
pub(crate) async fn echo(name: &'static str) -> SocketAddr {
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

pub(crate) async fn relay() -> Relay {
    Relay::to(echo("").await).await.unwrap()
}

/// A server that does nothing by itself, and its next connection.
pub(crate) struct Quiet(pub(crate) TcpListener);

impl Quiet {
    pub(crate) async fn new() -> (Self, Relay) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::to(listener.local_addr().unwrap()).await.unwrap();
        (Self(listener), relay)
    }

    pub(crate) async fn accepts(&self) -> Client {
        Client(within(self.0.accept()).await.unwrap().0)
    }
}

/// One side of a connection.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) async fn of(relay: &Relay) -> Self {
        Self(within(TcpStream::connect(relay.address())).await.unwrap())
    }

    pub(crate) async fn says(&mut self, text: &str) {
        within(self.0.write_all(text.as_bytes())).await.unwrap();
    }

    pub(crate) async fn hears(&mut self, text: &str) {
        let mut heard = vec![0; text.len()];
        within(self.0.read_exact(&mut heard)).await.unwrap();
        assert_eq!(String::from_utf8(heard).unwrap(), text);
    }

    pub(crate) async fn closes(&mut self) {
        within(self.0.shutdown()).await.unwrap();
    }

    pub(crate) async fn hears_the_end(&mut self) {
        assert_eq!(within(self.0.read(&mut [0])).await.unwrap(), 0);
    }

    pub(crate) async fn is_reset(&mut self) {
        assert_eq!(within(self.0.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    /// Whether there's nothing to hear at this moment, neither bytes nor an end.
    pub(crate) fn hears_nothing(&self) {
        assert_eq!(self.0.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

/// A long stream, each byte of which is known by its place, and how much of it has come.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) length: usize,
}

impl Stream {
    /// How many different pieces there are of one length.
    const PERIOD: usize = 251;

    pub(crate) fn piece(at: usize, length: usize) -> &'static [u8] {
        static BYTES: LazyLock<Vec<u8>> =
            LazyLock::new(|| (0..1 << 17).map(|at| (at % Stream::PERIOD) as u8).collect());
        &BYTES[at % Self::PERIOD..][..length]
    }

    /// Reads what comes next, and says whether there was something.
    pub(crate) async fn goes_on_with(&mut self, from: &mut (impl AsyncRead + Unpin)) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let length = within(from.read(&mut buffer)).await.unwrap();
        assert!(buffer[..length] == *Self::piece(self.length, length), "other bytes after {}", self.length);
        self.length += length;
        length > 0
    }
}

/// Awaits what has to come.
#[track_caller]
pub(crate) fn within<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    let at = std::panic::Location::caller();
    async move { timeout(PATIENCE, what).await.unwrap_or_else(|_| panic!("{at}: not within {PATIENCE:?}")) }
}
