use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Port, Probe, Program};

/// How a server is started, and how one knows that it is ready.
///
/// The server runs in a directory of its own, which is empty but for the files that the setup names, so what it keeps there is
/// best named by relative paths.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) program: Program,
    pub(crate) ports: Vec<Port>,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) files: Vec<(PathBuf, String)>,
    pub(crate) probe: Option<Probe>,
    pub(crate) patience: Duration,
}

impl Setup {
    /// A server that clients reach at `port`. It counts as ready when the program itself, no child of it, listens there; see
    /// also [`with_probe`](Self::with_probe).
    ///
    /// It has a minute to become ready: that is many times what the slowest server takes on a busy machine, and a test that
    /// waits in vain still ends. See [`with_patience`](Self::with_patience).
    pub fn new(program: Program, port: Port) -> Self {
        let (args, env, files) = Default::default();
        Self { program, ports: vec![port], args, env, files, probe: None, patience: Duration::from_secs(60) }
    }

    /// Adds arguments of the program.
    #[must_use]
    pub fn with_args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the environment, which is otherwise that of this process.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Adds a file that is written into the server's directory before each start, a configuration say. Directories in its path
    /// are made too.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>, content: impl Into<String>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }

    /// Adds a port that the server may listen on too, for its peers say. It is kept free for as long as the server is there.
    #[must_use]
    pub fn with_port(mut self, port: Port) -> Self {
        self.ports.push(port);
        self
    }

    /// Lets the server count as ready only when it answers.
    #[must_use]
    pub fn with_probe(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// How long the server may take until it is ready.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}
