use humantime::format_duration;
use lock_config::{Scheme, Schemes};
use lock_core::{Capabilities, Result};
use serde_json::{Value, json};

use crate::args::BackendsArgs;
use crate::exit::{Failure, Status};
use crate::output::{print, print_json, table};

/// Shows what the backends of the plainest URLs promise. Nothing is connected to.
pub(crate) fn backends(args: &BackendsArgs, schemes: &Schemes) -> Result<Status, Failure> {
    let promises: Vec<_> = schemes.iter().map(|scheme| (scheme, scheme.capabilities())).collect();
    if args.json {
        print_json(&promises.iter().map(|(scheme, promise)| to_json(scheme, promise)).collect::<Value>())?;
    } else {
        print(&to_text(&promises))?;
    }
    Ok(Status::DONE)
}

fn to_json(scheme: &Scheme, promise: &Result<Capabilities>) -> Value {
    let promise = match promise {
        Ok(promise) => promise,
        Err(error) => {
            return json!({ "scheme": scheme.name(), "about": scheme.about(), "error": error.to_string() });
        }
    };
    let mut json = serde_json::to_value(promise).expect("words and numbers are JSON");
    json["scheme"] = scheme.name().into();
    json["about"] = scheme.about().into();
    json
}

/// A column for each scheme, and the sentences below.
fn to_text(promises: &[(&Scheme, Result<Capabilities>)]) -> String {
    let row = |title: &str, cell: &dyn Fn(&Capabilities) -> String| {
        let cells = promises.iter().map(|(_, promise)| promise.as_ref().map_or_else(|_| "-".to_owned(), cell));
        std::iter::once(title.to_owned()).chain(cells).collect()
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let head = std::iter::once("scheme".to_owned()).chain(promises.iter().map(|(scheme, _)| scheme.name().to_owned()));
    let rows = [
        head.collect(),
        row("scope", &|promise| promise.scope.to_string()),
        row("expiry clock", &|promise| promise.expiry_clock.to_string()),
        row("expiry slack", &|promise| format_duration(promise.expiry_slack).to_string()),
        row("ceiling", &|promise| promise.ceiling.to_string()),
        row("shortest ttl", &|promise| format_duration(promise.ttl_min).to_string()),
        row("longest ttl", &|promise| format_duration(promise.ttl_max).to_string()),
        row("ttl change", &|promise| promise.ttl_change.to_string()),
        row("fencing", &|promise| promise.fencing.to_string()),
        row("order", &|promise| promise.order.to_string()),
        row("wakeup", &|promise| promise.wakeup.to_string()),
        row("loss", &|promise| promise.loss.to_string()),
        row("restart", &|promise| promise.restart.to_string()),
        row("list", &|promise| yes(promise.can_list)),
        row("force release", &|promise| yes(promise.can_force_release)),
    ];
    let mut text = table(&rows);
    for (scheme, promise) in promises {
        let rests_on = match promise {
            Ok(promise) => format!("rests on: {}", promise.assumption),
            Err(error) => format!("can't be told: {error}"),
        };
        text += &format!("\n{}: {}\n  {rests_on}\n", scheme.name(), scheme.about());
    }
    text
}

#[cfg(test)]
mod tests {
    use lock_core::{Error, ErrorKind, MemoryBackend};

    use super::*;

    #[test]
    fn a_scheme_without_a_plain_url_is_shown_with_the_reason() {
        let refuse = |_: &_| Err::<MemoryBackend, _>(Error::new(ErrorKind::InvalidConfig, "no host"));
        let schemes = Schemes::builtin().with("picky", refuse);
        let promises: Vec<_> = schemes.iter().map(|scheme| (scheme, scheme.capabilities())).collect();
        let text = to_text(&promises);
        assert!(text.contains("picky") && text.contains("can't be told: no host"), "{text}");
        assert_eq!(to_json(promises.last().unwrap().0, &promises.last().unwrap().1)["error"], "no host");
    }
}
