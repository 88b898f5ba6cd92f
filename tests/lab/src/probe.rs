use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long to wait for an answer before asking anew. No server that is ready takes as long, and one that isn't is asked until
/// its setup's patience ends.
const ANSWER: Duration = Duration::from_secs(5);

/// A question over TCP that a server answers when it is ready: enough for PING, for ZooKeeper's four letters and for a GET.
///
/// It should be one after which the server closes the connection: only then it's known at once that the answer is another one.
#[derive(Clone, Debug)]
pub struct Probe {
    question: String,
    answer: String,
}

impl Probe {
    /// What is sent, with all its line ends, and what has to be somewhere in the answer.
    pub fn new(question: impl Into<String>, answer: impl Into<String>) -> Self {
        Self { question: question.into(), answer: answer.into() }
    }

    /// Whether the server at `address` gives the answer.
    pub(crate) async fn succeeds(&self, address: SocketAddr) -> bool {
        matches!(timeout(ANSWER, self.ask(address)).await, Ok(Ok(true)))
    }

    async fn ask(&self, address: SocketAddr) -> io::Result<bool> {
        let mut server = TcpStream::connect(address).await?;
        server.write_all(self.question.as_bytes()).await?;
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).contains(&self.answer) {
            if server.read_buf(&mut answer).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Whether a probe for "ready" is content with a server that says this, piece by piece, and then closes or falls silent.
    async fn succeeds_with(pieces: &'static [&str], closes: bool) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let mut client = listener.accept().await.unwrap().0;
            client.read_exact(&mut [0; 5]).await.unwrap();
            for piece in pieces {
                client.write_all(piece.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            if !closes {
                std::future::pending::<()>().await;
            }
        });
        let succeeds = Probe::new("well?", "ready").succeeds(address).await;
        serving.abort();
        succeeds
    }

    #[tokio::test]
    async fn an_answer_may_come_in_pieces() {
        assert!(succeeds_with(&["HTTP/1.0 200\r\n\r\n", "it is re", "ady"], false).await);
    }

    #[tokio::test]
    async fn another_answer_is_no_success() {
        assert!(!succeeds_with(&["still loading\r\n"], true).await);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_no_success() {
        assert!(!succeeds_with(&["still loading\r\n"], false).await);
    }
}
