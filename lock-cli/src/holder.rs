//! How a holder is shown.

use std::time::Duration;

use humantime::{format_duration, format_rfc3339_seconds};
use lock_core::Holder;
use serde_json::{Value, json};

/// A holder as JSON, with the names of its fields. What the service can't tell is null.
pub(crate) fn to_json(holder: &Holder) -> Value {
    json!({
        "name": holder.name.as_str(),
        "owner": holder.owner,
        "token": holder.token.map(|token| token.as_u64()),
        "label": holder.label,
        "host": holder.host,
        "pid": holder.pid,
        "since": holder.since.map(|since| format_rfc3339_seconds(since).to_string()),
        "remaining_ms": holder.remaining.map(to_millis),
    })
}

/// A holder in a few words.
pub(crate) fn describe(holder: &Holder) -> String {
    let mut words = Vec::new();
    words.extend(holder.label.as_deref().map(printable));
    words.extend(holder.pid.map(|pid| format!("process {pid}")));
    words.extend(holder.host.as_deref().filter(|host| !host.is_empty()).map(|host| format!("on {}", printable(host))));
    if words.is_empty() {
        words.push(format!("owner {}", printable(&holder.owner)));
    }
    words.extend(holder.since.map(|since| format!("since {}", format_rfc3339_seconds(since))));
    words.extend(holder.token.map(|token| format!("with token {token}")));
    words.extend(holder.remaining.map(|left| format!("for {} unless extended", format_duration(rounded(left)))));
    words.join(" ")
}

/// A text of somebody else's for this terminal: what could steer it, or pass for something else, is escaped.
pub(crate) fn printable(text: &str) -> String {
    let quoted = format!("{text:?}");
    // Quotes need no escape where there are none around.
    quoted[1..quoted.len() - 1].replace("\\\"", "\"")
}

pub(crate) fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Nobody reads nanoseconds.
pub(crate) fn rounded(duration: Duration) -> Duration {
    Duration::from_millis(to_millis(duration))
}

#[cfg(test)]
mod tests {
    use lock_core::{FencingToken, LockName};

    use super::*;

    #[test]
    fn what_is_not_known_is_null() {
        let holder = Holder::new(LockName::new("a").unwrap(), "somebody").with_token(FencingToken::new(7).unwrap());
        let json = to_json(&holder);
        assert_eq!((&json["name"], &json["token"], &json["pid"]), (&json!("a"), &json!(7), &Value::Null));
        assert_eq!(describe(&holder), "owner somebody with token 7");
    }

    #[test]
    fn a_holder_can_not_write_to_the_terminal() {
        let holder = Holder::new(LockName::new("a").unwrap(), "\u{1b}[2J");
        assert_eq!(describe(&holder), r"owner \u{1b}[2J");
        for (text, shown) in [
            ("a\u{202e}b\u{2028}c", r"a\u{202e}b\u{2028}c"),
            (r#"it's the "é" of \ñ"#, r#"it's the "é" of \\ñ"#),
            (r#"\"#, r"\\"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
