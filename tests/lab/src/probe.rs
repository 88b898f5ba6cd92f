use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A question over TCP that a server answers when it is ready: enough for PING, for ZooKeeper's four letters and for a GET.
#[derive(Clone, Debug)]
pub struct Probe {
    question: String,
    answer: String,
}

impl Probe {
    /// What is sent, and what has to be somewhere in the answer. Both are sent as they are: line ends are the caller's.
    pub fn new(question: impl Into<String>, answer: impl Into<String>) -> Self {
        Self { question: question.into(), answer: answer.into() }
    }

    /// Whether the server at `address` gives the answer. It gives up when the server closes the connection, and at no other
    /// time.
    pub(crate) async fn succeeds(&self, address: SocketAddr) -> io::Result<bool> {
        let mut server = TcpStream::connect(address).await?;
        server.write_all(self.question.as_bytes()).await?;
        let mut answer = Vec::new();
        loop {
            if String::from_utf8_lossy(&answer).contains(&self.answer) {
                return Ok(true);
            }
            if server.read_buf(&mut answer).await? == 0 {
                return Ok(false);
            }
        }
    }
}
