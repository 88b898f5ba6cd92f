//! The commands that show and end locks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Locks, done, finished, lives, pid};

#[tokio::test]
async fn a_holder_is_shown_with_all_that_is_known() {
    let locks = Locks::new();
    assert_eq!(locks.inspect("a").await, Value::Null);
    let (holder, _) = locks.holder("a", &["--ttl", "1m", "--label", "nightly"]).await;
    let shown = locks.inspect("a").await;
    assert_eq!((&shown["name"], &shown["label"]), (&json!("a"), &json!("nightly")));
    assert_eq!(shown["pid"], json!(pid(&holder).as_raw_nonzero().get()));
    assert!(shown["token"].as_u64().unwrap() > 0);
    assert!(shown["remaining_ms"].as_u64().unwrap() <= Duration::from_secs(60).as_millis().try_into().unwrap());
    assert!(shown["since"].as_str().unwrap().ends_with('Z'));
    assert!(shown["host"].is_string() && shown["owner"].is_string());
    assert_eq!(shown.as_object().unwrap().len(), 8);

    let text = done(&mut locks.lockctl(&["inspect", "a"])).await;
    assert!(text.stdout.starts_with("\"a\" is held by nightly process "), "{text:?}");
    let text = done(&mut locks.lockctl(&["inspect", "b"])).await;
    assert_eq!((text.status, text.stdout.as_str()), (Some(0), "\"b\" is free\n"));
}

#[tokio::test]
async fn who_only_looks_makes_nothing() {
    let locks = Locks::new();
    assert_eq!(locks.inspect("a").await, Value::Null);
    assert_eq!(locks.json(&["list", "--json"]).await, json!([]));
    let answer = locks.json(&["release", "a", "--force", "--json"]).await;
    assert_eq!(answer, json!({ "name": "a", "released": false }));
    assert!(!locks.path("locks").exists());
}

#[tokio::test]
async fn names_are_listed_so_that_they_can_not_pass_for_others() {
    let locks = Locks::new();
    let _holder = locks.holder("a\u{202e}b\u{2028}c", &[]).await;
    let text = done(&mut locks.lockctl(&["list"])).await.stdout;
    assert!(text.lines().nth(1).unwrap().starts_with(r"a\u{202e}b\u{2028}c  "), "{text}");
}

#[tokio::test]
async fn locks_are_listed_by_prefix() {
    let locks = Locks::new();
    assert_eq!(locks.json(&["list", "--json"]).await, json!([]));
    let _holders =
        (locks.holder("jobs/1", &[]).await, locks.holder("jobs/2", &[]).await, locks.holder("other", &[]).await);
    let names = |list: Value| {
        let mut names: Vec<_> =
            list.as_array().unwrap().iter().map(|holder| holder["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(locks.json(&["list", "--json"]).await), ["jobs/1", "jobs/2", "other"]);
    assert_eq!(names(locks.json(&["list", "jobs/", "--json"]).await), ["jobs/1", "jobs/2"]);
    let text = done(&mut locks.lockctl(&["list", "jobs/"])).await.stdout;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("NAME    TOKEN") && lines[1].starts_with("jobs/") && lines.len() == 3, "{text}");
}

#[tokio::test]
async fn a_forced_release_ends_the_holders_command() {
    let locks = Locks::new();
    let (holder, members) = locks.holder("a", &["--ttl", "3s"]).await;
    let token = locks.inspect("a").await["token"].as_u64().unwrap();
    let wrong = (token + 1).to_string();
    let answer = locks.json(&["release", "a", "--force", "--if-token", &wrong, "--json"]).await;
    assert_eq!(answer, json!({ "name": "a", "released": false }));
    assert!(members.into_iter().all(lives));

    let answer = locks.json(&["release", "a", "--force", "--if-token", &token.to_string(), "--json"]).await;
    assert_eq!(answer, json!({ "name": "a", "released": true }));
    let holder = finished(holder).await;
    assert_eq!(holder.status, Some(70), "{holder:?}");
    assert!(!members.into_iter().any(lives));

    let text = done(&mut locks.lockctl(&["release", "a", "--force"])).await;
    assert_eq!((text.status, text.stdout.as_str()), (Some(0), "\"a\" was not held\n"));
}

#[tokio::test]
async fn the_promises_of_every_backend_are_shown() {
    let locks = Locks::new();
    let backends = locks.json(&["backends", "--json"]).await;
    let file = backends.as_array().unwrap().iter().find(|backend| backend["scheme"] == "file").unwrap();
    assert_eq!((&file["scope"], &file["fencing"]), (&json!("host"), &json!("durable")));
    for field in ["expiry_slack_ms", "ttl_min_ms", "ttl_max_ms"] {
        assert!(file[field].is_u64(), "{field} of {file}");
    }
    let text = done(&mut locks.lockctl(&["backends"])).await.stdout;
    assert!(text.starts_with("scheme ") && text.contains("\nfencing ") && text.contains("durable"), "{text}");
}
