use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use lock_core::FencingToken;

/// The hidden subcommand that is the guard process.
pub(crate) const GUARD: &str = "guard";

/// Runs commands under locks, and shows who holds them.
#[derive(Debug, Parser)]
#[command(name = "lockctl", bin_name = "lockctl", version, after_help = STATUSES)]
pub(crate) struct Lockctl {
    #[command(subcommand)]
    pub(crate) task: Task,
}

const STATUSES: &str = "\
Exit status: the command's own, or
   64  the command line or the lock's name is wrong, or the backend can't do that
   69  the service can't be reached
   70  the lock was lost while the command ran, or could not be vouched for to its end
   71  the operating system refused what lockctl needs
   75  somebody else has the lock, and the time for waiting is over
   76  the service answered against its protocol
   77  the service refused
   78  the URL or a setting is wrong
  126  the command can't be executed
  127  the command was not found
 128+n signal n ended the command, or lockctl while it waited";

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    Run(RunArgs),
    Inspect(InspectArgs),
    List(ListArgs),
    Release(ReleaseArgs),
    Backends(BackendsArgs),
    #[command(name = GUARD, hide = true)]
    Guard(GuardArgs),
}

/// Where the lock service is.
#[derive(Args, Debug)]
pub(crate) struct ServiceArgs {
    /// The lock service [default: $LOCK_URL, else file: on this host]
    ///
    /// Other users of this machine can read a command line: a URL with a password belongs in LOCK_URL.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
}

/// Run a command while holding a lock
///
/// The command gets LOCK_NAME, LOCK_TOKEN (the fencing token: hand it to the resource, which refuses an older one) and
/// LOCK_OWNER in its environment, and the standard streams as they are. SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2
/// are handed on to its process group.
///
/// The command and all that it has started are ended when the lock is lost (SIGKILL) or lockctl is gone (SIGTERM, SIGKILL 0.4 s
/// later), and before the lease runs out: SIGTERM when a fifth of the ttl is left (at most 5 s), SIGKILL when a tenth is left
/// (at most 1 s). What it leaves behind when it ends is ended too, within 1 s, before the lock is given back. A process that
/// shall live on has to leave the session (setsid).
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The lock's name
    pub(crate) name: String,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) service: ServiceArgs,

    /// How long the lock outlives a lockctl that died; it is extended while the command runs
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// How long to wait for the lock [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Fail at once when somebody else has the lock
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// What people see who look at the lock, beside host and process id: at most 256 bytes
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

/// Show who holds a lock
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The lock's name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) service: ServiceArgs,

    /// Print the holder as JSON, null when the lock is free
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the locks that are held
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only names that begin so
    #[arg(default_value = "")]
    pub(crate) prefix: String,

    #[command(flatten)]
    pub(crate) service: ServiceArgs,

    /// Print an array of holders as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Take a lock away from its holder
///
/// The holder learns of it, at the latest when it next extends its lease; until then two may work at the same time. If the
/// holder is a `lockctl run`, its command is killed then. That nobody holds the lock is an answer and no failure: status 0.
#[derive(Args, Debug)]
pub(crate) struct ReleaseArgs {
    /// The lock's name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) service: ServiceArgs,

    /// Take it away although its holder may be at work
    #[arg(long)]
    pub(crate) force: bool,

    /// Only if the holder's fencing token is this one
    #[arg(long, value_name = "TOKEN")]
    pub(crate) if_token: Option<FencingToken>,

    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what each backend promises
#[derive(Args, Debug)]
pub(crate) struct BackendsArgs {
    /// Print an array of backends as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The guard process of a command, started by `lockctl run`
#[derive(Args, Debug)]
pub(crate) struct GuardArgs {
    /// Who started it
    pub(crate) parent: u32,
    /// The parent's number of the pipe that orders come from
    pub(crate) orders: u32,
    /// The parent's number of the pipe that reports go to
    pub(crate) reports: u32,
    /// What to run
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

impl GuardArgs {
    /// The program and its arguments.
    pub(crate) fn command(&self) -> (&OsString, &[OsString]) {
        self.command.split_first().expect("clap requires a command")
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write a duration such as 500ms, 30s or 1m30s"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Lockctl, clap::Error> {
        Lockctl::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_is_sound() {
        Lockctl::command().debug_assert();
    }

    #[test]
    fn options_after_the_command_are_the_commands() {
        for line in ["lockctl run --ttl 3s a sh -c x --wait 1", "lockctl run a --ttl 3s -- sh -c x --wait 1"] {
            let Task::Run(run) = parse(line).unwrap().task else { panic!("{line}") };
            assert_eq!((run.name.as_str(), run.ttl, run.wait), ("a", Duration::from_secs(3), None));
            assert_eq!(run.command, ["sh", "-c", "x", "--wait", "1"]);
        }
    }

    #[test]
    fn a_wrong_value_is_named() {
        for (line, value) in [
            ("lockctl run a --ttl 3 true", "3"),
            ("lockctl run a --wait soon true", "soon"),
            ("lockctl release a --force --if-token x", "x"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(&format!("'{value}'")), "{error}");
        }
    }

    #[test]
    fn waiting_and_not_waiting_exclude_each_other() {
        assert!(parse("lockctl run a --no-wait --wait 1s true").is_err());
        assert!(parse("lockctl run a").is_err());
    }
}
