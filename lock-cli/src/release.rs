use lock_config::Schemes;
use lock_core::Release;
use serde_json::json;

use crate::args::ReleaseArgs;
use crate::exit::{Failure, Status};
use crate::output::{print, print_json};
use crate::service;

/// Takes a lock away from its holder. That it was not held, or not under that token, is an answer and no failure.
pub(crate) async fn release(args: ReleaseArgs, schemes: &Schemes) -> Result<Status, Failure> {
    if !args.force {
        let message = "a lock is given back by its holder, and lockctl is not the holder: --force takes it away although its \
                       holder may be at work, and two may be at work then";
        return Err(Failure::new(Status::USAGE, message));
    }
    let locks = service::open(&args.service, schemes)?;
    let released = locks.lock(args.name.as_str()).force_release(args.if_token).await? == Release::Released;
    let (name, token) = (&args.name, args.if_token);
    match (released, token) {
        _ if args.json => print_json(&json!({ "name": name, "released": released }))?,
        (true, _) => print(&format!("{name:?} has been taken away from its holder\n"))?,
        (false, None) => print(&format!("{name:?} was not held\n"))?,
        (false, Some(token)) => print(&format!("{name:?} was not held with token {token}\n"))?,
    }
    Ok(Status::DONE)
}
