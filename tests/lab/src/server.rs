use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::home::Home;
use crate::{Port, ServerError, Setup, lifeline, listener};

/// How often a server is started anew because somebody took its port. Its ports are reserved, so once is rare.
const TRIES: usize = 5;

/// How often to look whether a server is ready.
const POLL: Duration = Duration::from_millis(20);

/// A server that runs as a child of this process, on ports and in a directory of its own.
///
/// ```no_run
/// # use lock_lab::{REDIS_DURABLE, Data, Server, ServerError, redis};
/// # async fn example() -> Result<(), ServerError> {
/// let server = Server::start(|port| redis(port).with_args(REDIS_DURABLE)).await?;
/// server.stop()?; // it accepts connections and does not answer
/// server.continue_()?;
/// server.restart(Data::Kept).await?;
/// # Ok(())
/// # }
/// ```
///
/// It ends when this value is dropped, and with this process if that ends before, in whatever way: a panic, SIGKILL. Its
/// directory goes with the value; a process that is killed leaves it behind.
///
/// It belongs to no runtime: it may be started on one and used on another.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    home: Home,
    child: Mutex<Child>,
}

/// What a restarted server finds in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// What was there when it ended.
    Kept,
    /// Nothing but the files of its setup.
    Lost,
}

impl Server {
    /// Starts a server on a free port and waits until it is ready. The description is asked again, for another port, if somebody
    /// else takes the first one.
    ///
    /// # Errors
    ///
    /// [`ServerError`], all of them but [`NotRunning`](ServerError::NotRunning).
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends what was started.
    pub async fn start(describe: impl Fn(Port) -> Setup) -> Result<Self, ServerError> {
        let [server] = Self::start_together(|[port]| [describe(port)]).await?;
        Ok(server)
    }

    /// Starts servers that have to know each other's ports, and waits until all of them are ready.
    ///
    /// ```no_run
    /// # use lock_lab::{Server, ServerError, redis};
    /// # async fn example() -> Result<(), ServerError> {
    /// let [primary, replica] = Server::start_together(|[first, second]| {
    ///     let of_first = ["--replicaof".to_owned(), "127.0.0.1".to_owned(), first.number().to_string()];
    ///     [redis(first), redis(second).with_args(of_first)]
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start). All end if one can't be started.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends what was started.
    pub async fn start_together<const PORTS: usize, const SERVERS: usize>(
        describe: impl Fn([Port; PORTS]) -> [Setup; SERVERS],
    ) -> Result<[Self; SERVERS], ServerError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut reserved = Vec::with_capacity(PORTS);
            for _ in 0..PORTS {
                let no_port = |source| ServerError::System { program: "a server", task: "find a port for", source };
                reserved.push(Port::reserve().map_err(no_port)?);
            }
            let ports = reserved.try_into().expect("as many as the array has");
            match Self::all_ready(describe(ports)).await {
                Err(ServerError::PortTaken { .. }) if tries < TRIES => {}
                result => return result,
            }
        }
    }

    async fn all_ready<const SERVERS: usize>(setups: [Setup; SERVERS]) -> Result<[Self; SERVERS], ServerError> {
        let mut servers = Vec::with_capacity(SERVERS);
        for setup in setups {
            servers.push(Self::spawn(setup)?);
        }
        // At once: one may wait for the others, and has to be told when they can't be started.
        try_join_all(servers.iter().map(Self::ready)).await?;
        Ok(servers.try_into().expect("as many as the array has"))
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        self.setup.ports[0].address()
    }

    /// The directory that it runs in.
    pub fn directory(&self) -> PathBuf {
        self.home.directory()
    }

    /// Its process id, also when it has ended.
    pub fn process_id(&self) -> u32 {
        self.child().id()
    }

    /// What it has written to its standard output and error since it was started first.
    ///
    /// # Errors
    ///
    /// [`ServerError::System`], when that can't be read.
    pub fn output(&self) -> Result<String, ServerError> {
        self.home.output().map_err(|source| self.error("read the output of", source))
    }

    /// Stops it with SIGSTOP, and returns once it stands. The system goes on to accept connections for it and to take what is
    /// sent, and it handles all of that when it is continued.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotRunning`]; [`ServerError::System`].
    pub fn stop(&self) -> Result<(), ServerError> {
        // Kept locked: continued by another thread in between, it would never be seen standing.
        let mut child = self.child();
        let process = self.signal(&mut child, Signal::STOP)?;
        // Only looked at: the end of the child, should that come first, is for the child's handle to take.
        let looking = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let seen = waitid(WaitId::Pid(process), looking).map_err(|error| self.error("wait for", error.into()))?;
        if seen.is_some_and(|status| status.stopped()) { Ok(()) } else { Err(self.not_running()) }
    }

    /// Lets it go on after [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// [`ServerError::NotRunning`]; [`ServerError::System`].
    pub fn continue_(&self) -> Result<(), ServerError> {
        self.signal(&mut self.child(), Signal::CONT).map(drop)
    }

    /// Ends it with SIGKILL, and returns once it has ended, also when it was stopped. It may have ended before.
    ///
    /// # Errors
    ///
    /// [`ServerError::System`].
    pub fn kill(&self) -> Result<(), ServerError> {
        end(&mut self.child()).map_err(|source| self.error("kill", source))
    }

    /// Starts it again on the same ports, and waits until it is ready. It is killed first if it runs.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start). [`ServerError::PortTaken`] comes at once: clients know this port.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves a server that starts, and is not known to be ready.
    pub async fn restart(&self, data: Data) -> Result<(), ServerError> {
        {
            let mut child = self.child();
            end(&mut child).map_err(|source| self.error("kill", source))?;
            *child = launch(&self.setup, &self.home, data)?;
        }
        self.ready().await
    }

    fn spawn(setup: Setup) -> Result<Self, ServerError> {
        let home = Home::new().map_err(|source| system(&setup, "make a directory for", source))?;
        let child = Mutex::new(launch(&setup, &home, Data::Lost)?);
        Ok(Self { setup, home, child })
    }

    /// Waits until the server is ready.
    async fn ready(&self) -> Result<(), ServerError> {
        let patience = self.setup.patience;
        let ready = async {
            while !self.is_ready().await? {
                sleep(POLL).await;
            }
            Ok(())
        };
        timeout(patience, ready).await.unwrap_or_else(|_| {
            let (program, port, said) = (self.setup.program.name, self.address().port(), self.home.said());
            Err(ServerError::NotReady { program, port, listens: listener::is(self.process_id(), port), patience, said })
        })
    }

    async fn is_ready(&self) -> Result<bool, ServerError> {
        let program = self.setup.program.name;
        let somebody = TcpStream::connect(self.address()).await.is_ok();
        let itself = somebody && listener::is(self.process_id(), self.address().port());
        // Looked at last: a server that ends leaves its port, and does not listen any more.
        if let Some(status) = self.status(&mut self.child())? {
            let taken = self.setup.ports.iter().find(|port| port.is_taken());
            return Err(match taken {
                Some(port) => ServerError::PortTaken { program, port: port.number() },
                None => ServerError::Ended { program, status, said: self.home.said() },
            });
        }
        match (somebody, itself, &self.setup.probe) {
            (false, ..) => Ok(false),
            (true, false, _) => Err(ServerError::PortTaken { program, port: self.address().port() }),
            (true, true, None) => Ok(true),
            // Who is about to end may refuse or reset; that it has ended is seen the next time.
            (true, true, Some(probe)) => Ok(probe.succeeds(self.address()).await),
        }
    }

    /// How it ended, if it has.
    fn status(&self, child: &mut Child) -> Result<Option<ExitStatus>, ServerError> {
        child.try_wait().map_err(|source| self.error("look after", source))
    }

    fn signal(&self, child: &mut Child, signal: Signal) -> Result<Pid, ServerError> {
        // Until its status is taken, which needs the child, the id is nobody else's.
        if self.status(child)?.is_some() {
            return Err(self.not_running());
        }
        let process = Pid::from_raw(child.id().cast_signed()).expect("no child has the id 0");
        kill_process(process, signal).map_err(|error| self.error("send a signal to", error.into()))?;
        Ok(process)
    }

    fn not_running(&self) -> ServerError {
        ServerError::NotRunning { program: self.setup.program.name }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, task: &'static str, source: io::Error) -> ServerError {
        system(&self.setup, task, source)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There's nobody to tell, and the kernel ends it with this process at the latest.
        let _ = end(&mut self.child());
    }
}

/// Starts the program in its directory.
fn launch(setup: &Setup, home: &Home, data: Data) -> Result<Child, ServerError> {
    let mut command = lifeline::bound(&setup.program.find()?)?;
    let prepared = home.prepare(data, &setup.files).and_then(|output| Ok((output.try_clone()?, output)));
    let (output, errors) = prepared.map_err(|source| system(setup, "prepare the directory of", source))?;
    command.args(&setup.args).envs(setup.env.iter().cloned());
    command.current_dir(home.directory()).stdout(output).stderr(errors);
    lifeline::spawn(command).map_err(|source| system(setup, "start", source))
}

/// Kills a child and takes its status, so that nothing is left of it.
fn end(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}

fn system(setup: &Setup, task: &'static str, source: io::Error) -> ServerError {
    ServerError::System { program: setup.program.name, task, source }
}
