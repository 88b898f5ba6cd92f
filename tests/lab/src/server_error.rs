use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a server does not run.
#[derive(thiserror::Error)]
pub enum ServerError {
    /// A program is not installed.
    #[error("{program} is not installed; on Debian run as root: apt-get install {package}")]
    Missing {
        /// What is missing.
        program: &'static str,
        /// The Debian package that it comes with.
        package: &'static str,
    },
    /// Another process listens on a port of the server.
    #[error("{program} can't listen on port {port} of 127.0.0.1: another process does")]
    PortTaken {
        /// What was started.
        program: &'static str,
        /// The port's number.
        port: u16,
    },
    /// The server ended by itself.
    #[error("{program} ended with {status} before it was ready{said}")]
    Ended {
        /// What was started.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        said: Said,
    },
    /// The server did not become ready.
    #[error("{program} was not ready after {patience:?}: it {} port {port}{said}", if *listens {
        "does not answer as expected on"
    } else {
        "does not listen on"
    })]
    NotReady {
        /// What was started.
        program: &'static str,
        /// The port that clients were to reach it on.
        port: u16,
        /// Whether it listens there.
        listens: bool,
        /// How long it had.
        patience: Duration,
        /// The end of its output.
        said: Said,
    },
    /// The server was killed, or has ended by itself, and can't do what is asked.
    #[error("{program} does not run; start it again with restart")]
    NotRunning {
        /// What had been started.
        program: &'static str,
    },
    /// The system can't do what it takes.
    #[error("can't {task} {program}: {source}")]
    System {
        /// The server's program.
        program: &'static str,
        /// What failed.
        task: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// As it is displayed: this is what `unwrap` shows in a test, and the server's output has to be readable there.
impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The last lines that a server has written. They stay lines in an error, which is for who reads why a test failed.
#[derive(Debug)]
pub struct Said(pub(crate) Vec<String>);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("; it has written nothing");
        }
        f.write_str("; the last that it has written:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
