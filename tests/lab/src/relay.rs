use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::connection::connection;
use crate::{Counts, Direction, Flow, Port, Settings};

/// A network between a client and a server that can be made to fail: clients connect to [`address`](Self::address), and the
/// relay connects them to its target.
///
/// ```no_run
/// # use std::time::Duration;
/// # use lock_lab::{Direction, Flow, Relay};
/// # async fn example(server: std::net::SocketAddr) -> std::io::Result<()> {
/// let relay = Relay::to(server).await?;
/// // A client connects to relay.address() ...
/// relay.set(Direction::ToClient, Flow::Swallow); // its requests arrive, the replies get lost
/// relay.black_hole(); // nothing arrives any more, and nobody is told
/// relay.heal();
/// # Ok(())
/// # }
/// ```
///
/// Everything that is set holds at once, for present connections and new ones. What has been passed on before is in the hands
/// of the system and arrives.
///
/// The relay runs in tasks of the runtime on which it was made, and ends when it is dropped: its connections are closed then. A
/// test that blocks its runtime has to give the relay another one.
#[derive(Debug)]
pub struct Relay {
    network: Arc<Network>,
    accepting: AbortHandle,
}

/// What the relay and its connections share.
#[derive(Debug)]
pub(crate) struct Network {
    port: Port,
    /// Absent while connections are refused. It is locked for accepting, so that a connection is either among those that a
    /// reset finds waiting to be accepted, or has been told of it.
    listener: Mutex<Option<TcpListener>>,
    pub(crate) settings: watch::Sender<Settings>,
    pub(crate) counts: watch::Sender<Counts>,
}

impl Relay {
    /// A relay to the server at `target`, which passes everything on.
    ///
    /// # Errors
    ///
    /// The system's, when it has no free port or no file descriptor. That nothing listens at `target` is no error: clients
    /// are reset until something does.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing.
    pub async fn to(target: SocketAddr) -> io::Result<Self> {
        let port = Port::reserve()?;
        let listener = Mutex::new(Some(port.listen()?));
        let settings = watch::Sender::new(Settings::passing_to(target));
        let network = Arc::new(Network { port, listener, settings, counts: watch::Sender::default() });
        let accepting = tokio::spawn(accept(Arc::clone(&network))).abort_handle();
        Ok(Self { network, accepting })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.network.port.address()
    }

    /// Connects new clients to the server at `target`. Present connections stay where they are.
    pub fn point_to(&self, target: SocketAddr) {
        self.change(|settings| settings.target = target);
    }

    /// Lets one direction flow otherwise.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.change(|settings| settings.set(direction, flow));
    }

    /// Lets nothing through, in no direction, and tells nobody: neither a closing nor a reset is passed on, and a new connection
    /// is taken and not answered.
    ///
    /// What is sent meanwhile arrives after [`heal`](Self::heal), as TCP sends again what was not confirmed; to let it get lost
    /// call [`reset`](Self::reset) before. A client that connected meanwhile and has left again has never been there.
    pub fn black_hole(&self) {
        self.change(|settings| settings.black_hole = true);
    }

    /// Resets all present connections, on both sides, also within a black hole. New ones may be made.
    pub fn reset(&self) {
        let listener = self.network.listener();
        if let Some(listener) = &*listener {
            // The system has made these connections, and the relay has not come to take them.
            while let Ok(waiting) = rustix::net::accept(listener) {
                self.network.counts.send_modify(|counts| counts.connections += 1);
                reset_on_close(&waiting);
            }
        }
        self.change(|settings| settings.resets += 1);
    }

    /// Refuses new connections, as when no server runs. Present ones stay as they are.
    pub fn refuse(&self) {
        self.network.listener().take();
    }

    /// Cuts a reply: `bytes` more bytes of reply reach their clients, then the connection with the last of them is reset. That
    /// happens once, and everything passes again, so that the client's next try may succeed.
    ///
    /// Bytes of all connections count. With 0 the next reply gets lost whole.
    pub fn cut_reply_after(&self, bytes: usize) {
        self.change(|settings| settings.cut_after = Some(bytes));
    }

    /// Takes back everything that was set: all is passed on, to the target that was set last, and connections are accepted.
    ///
    /// # Panics
    ///
    /// If the system has no file descriptor for listening again after [`refuse`](Self::refuse).
    pub fn heal(&self) {
        let mut listener = self.network.listener();
        if listener.is_none() {
            *listener = Some(self.network.port.listen().expect("the port is reserved for this relay"));
        }
        self.change(|settings| {
            *settings = Settings { resets: settings.resets, ..Settings::passing_to(settings.target) }
        });
    }

    /// What has gone through so far.
    pub fn counts(&self) -> Counts {
        *self.network.counts.borrow()
    }

    /// Waits until the counts are as they shall be: a request has arrived at the relay, say. It waits for ever if they never are.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn until(&self, mut holds: impl FnMut(&Counts) -> bool) -> Counts {
        let mut counts = self.network.counts.subscribe();
        *counts.wait_for(|counts| holds(counts)).await.expect("the relay has the sender")
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        self.network.settings.send_modify(change);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Network {
    fn listener(&self) -> MutexGuard<'_, Option<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next connection, with the number of resets that it need not mind. It is pending while there's no listener.
    async fn next(&self) -> io::Result<(TcpStream, u64)> {
        poll_fn(|context| match &*self.listener() {
            None => Poll::Pending,
            Some(listener) => {
                listener.poll_accept(context).map_ok(|(client, _)| (client, self.settings.borrow().resets))
            }
        })
        .await
    }
}

/// Accepts connections until it is aborted, and ends them then.
async fn accept(network: Arc<Network>) {
    let mut connections = JoinSet::new();
    let mut settings = network.settings.subscribe();
    loop {
        tokio::select! {
            accepted = network.next() => match accepted {
                Ok((client, resets)) => {
                    connections.spawn(connection(client, Arc::clone(&network), resets));
                }
                // There are too many open files, which may become fewer.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            // There may be a listener again.
            _ = settings.changed() => {}
        }
    }
}

/// Lets a connection end in a reset when it's closed: the other side gets an error, and not the end of a stream.
pub(crate) fn reset_on_close(socket: &impl AsFd) {
    // It fails on no socket that is open.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}
