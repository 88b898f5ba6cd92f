use lock_config::Schemes;
use serde_json::Value;

use crate::args::InspectArgs;
use crate::exit::{Failure, Status};
use crate::output::{print, print_json};
use crate::{holder, service};

/// Shows who holds a lock. A free lock is an answer too, and no failure.
pub(crate) async fn inspect(args: InspectArgs, schemes: &Schemes) -> Result<Status, Failure> {
    let locks = service::open(&args.service, schemes)?;
    let found = locks.lock(args.name.as_str()).inspect().await?;
    match found {
        _ if args.json => print_json(&found.as_ref().map_or(Value::Null, holder::to_json))?,
        Some(found) => print(&format!("{:?} is held by {}\n", args.name, holder::describe(&found)))?,
        None => print(&format!("{:?} is free\n", args.name))?,
    }
    Ok(Status::DONE)
}
