use humantime::{format_duration, format_rfc3339_seconds};
use lock_config::Schemes;
use lock_core::Holder;
use serde_json::Value;

use crate::args::ListArgs;
use crate::exit::{Failure, Status};
use crate::holder::{printable, rounded};
use crate::output::{print, print_json, table};
use crate::{holder, service};

/// Shows the locks that are held.
pub(crate) async fn list(args: &ListArgs, schemes: &Schemes) -> Result<Status, Failure> {
    let locks = service::open(&args.service, schemes)?;
    let held = locks.list(&args.prefix).await?;
    if args.json {
        print_json(&Value::from_iter(held.iter().map(holder::to_json)))?;
    } else if !held.is_empty() {
        let head = ["NAME", "TOKEN", "LABEL", "HOST", "PID", "SINCE", "REMAINING"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(held.iter().map(row)).collect();
        print(&table(&rows))?;
    }
    Ok(Status::DONE)
}

/// What the service can't tell is a dash.
fn row(holder: &Holder) -> Vec<String> {
    let cells = [
        Some(printable(holder.name.as_str())),
        holder.token.map(|token| token.to_string()),
        holder.label.as_deref().map(printable),
        holder.host.as_deref().map(printable),
        holder.pid.map(|pid| pid.to_string()),
        holder.since.map(|since| format_rfc3339_seconds(since).to_string()),
        holder.remaining.map(|left| format_duration(rounded(left)).to_string()),
    ];
    cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned())).collect()
}
