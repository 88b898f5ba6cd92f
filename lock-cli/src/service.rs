use std::env::{self, VarError};

use lock_config::Schemes;
use lock_core::{LockClient, Scope};

use crate::args::ServiceArgs;
use crate::exit::{Failure, Status, say};

/// The environment variable that tells the lock service. The command under a lock does not see it: it may hold a password.
pub(crate) const VARIABLE: &str = "LOCK_URL";

/// The service where nobody names one.
const DEFAULT: &str = "file:";

/// A client of the service that the option names, else the environment, else of this host; after a look whether locks can be
/// taken there.
pub(crate) async fn connect(args: &ServiceArgs, schemes: &Schemes) -> Result<LockClient, Failure> {
    reaching_others(schemes.connect(&url(args)?).await?)
}

/// The same client without that look, which may need more rights than to see a lock, and may make the place where locks are.
pub(crate) fn open(args: &ServiceArgs, schemes: &Schemes) -> Result<LockClient, Failure> {
    reaching_others(schemes.builder(&url(args)?)?.build())
}

fn reaching_others(locks: LockClient) -> Result<LockClient, Failure> {
    if locks.capabilities().scope == Scope::Process {
        let message = "locks of this kind exclude within one process only, and each lockctl is a process of its own";
        return Err(Failure::new(Status::CONFIG, message));
    }
    Ok(locks)
}

fn url(args: &ServiceArgs) -> Result<String, Failure> {
    if let Some(url) = &args.url {
        return Ok(url.clone());
    }
    match env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => Ok(url),
        Ok(_) | Err(VarError::NotPresent) => {
            say(format_args!(
                "neither --url nor {VARIABLE} is set, so locks hold on this host only; {VARIABLE}={DEFAULT} says that it is meant"
            ));
            Ok(DEFAULT.to_owned())
        }
        Err(VarError::NotUnicode(_)) => Err(Failure::new(Status::CONFIG, format!("{VARIABLE} is not UTF-8"))),
    }
}
