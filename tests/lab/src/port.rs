use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};

/// How many connections may wait to be accepted: more than any test makes at once. The system's limit holds if it is lower.
const BACKLOG: u32 = 4096;

/// A port of 127.0.0.1 that is kept free for one listener, until the last clone of this value is dropped.
///
/// It is bound, and nothing listens on it. Linux gives a bound port to nobody who asks for any free port, neither to listen nor
/// to connect from, while a program that asks for this very port and sets `SO_REUSEADDR`, as servers do, can listen on it. So
/// the port is not lost between choosing it and the server's start, nor while the server is down.
#[derive(Clone, Debug)]
pub struct Port {
    _reservation: Arc<TcpSocket>,
    address: SocketAddr,
}

impl Port {
    /// A port that nobody uses.
    ///
    /// # Errors
    ///
    /// The system's, when it has no free port or no file descriptor.
    pub fn reserve() -> io::Result<Self> {
        let reservation = reusing(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reservation.local_addr()?;
        Ok(Self { _reservation: Arc::new(reservation), address })
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// Where a server on this port is reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether somebody listens on the port. It must not be asked while a server is about to: it's tried out.
    pub(crate) fn is_taken(&self) -> bool {
        self.listen().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    }

    /// Listens on the port.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        reusing(self.address)?.listen(BACKLOG)
    }
}

/// A bound socket that lets another one be bound to the same port, as long as not both listen.
fn reusing(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
