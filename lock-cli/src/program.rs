use std::process::ExitCode;

use clap::Parser;
use lock_config::Schemes;

use crate::args::{Lockctl, Task};
use crate::backends::backends;
use crate::exit::{Failure, Status, say};
use crate::guard::guard;
use crate::inspect::inspect;
use crate::list::list;
use crate::release::release;
use crate::run::run;

/// Runs lockctl with the lock services that `schemes` knows. It is all that a `main` has to do.
///
/// It reads the command line and the environment variable `LOCK_URL`, and it starts the running program a second time as
/// guard process: what `main` does before must not mind that.
pub fn main_with(schemes: Schemes) -> ExitCode {
    let task = match Lockctl::try_parse() {
        Ok(Lockctl { task }) => task,
        Err(answer) => {
            // Nobody can be told that nobody can be told.
            let _ = answer.print();
            return if answer.use_stderr() { Status::USAGE } else { Status::DONE }.into();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(perform(task, &schemes)),
        Err(error) => Err(Failure::system("can't start", &error)),
    };
    done.unwrap_or_else(|failure| {
        say(failure.message);
        failure.status
    })
    .into()
}

async fn perform(task: Task, schemes: &Schemes) -> Result<Status, Failure> {
    match task {
        Task::Run(args) => run(&args, schemes).await,
        Task::Inspect(args) => inspect(args, schemes).await,
        Task::List(args) => list(&args, schemes).await,
        Task::Release(args) => release(args, schemes).await,
        Task::Backends(args) => backends(&args, schemes),
        Task::Guard(args) => guard(&args).await.map_err(|error| Failure::system("can't guard the command", &error)),
    }
}
