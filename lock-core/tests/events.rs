//! The events for logs and metrics. Under a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{Op, TestLocks};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const TTL: Duration = Duration::from_secs(30);

/// Keeps every event of this library as one line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lock_core")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().name().to_owned());
        event.record(&mut line);
        self.0.lock().expect("no test panics while it holds this").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_locks_life_is_told() {
    let lines = Lines::default();
    let _collecting = tracing::subscriber::set_default(lines.clone());
    let locks = TestLocks::new();
    let elsewhere = locks.hold_elsewhere("a").await;
    lines.0.lock().unwrap().clear();
    let acquire = tokio::spawn({
        let lock = locks.client().lock("a").ttl(TTL);
        async move { lock.acquire().await }
    });
    sleep(Duration::from_secs(130)).await;
    elsewhere.release().await.unwrap();
    let guard = acquire.await.unwrap().unwrap();
    let told = std::mem::take(&mut *lines.0.lock().unwrap());
    let names: Vec<_> = told.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(names, ["lock.waiting", "lock.waiting", "lock.released", "lock.acquired"], "{told:#?}");
    assert!(told[3].contains("name=a") && told[3].contains(&format!("token={}", guard.token())), "{}", told[3]);
    assert!(told[3].contains(&guard.owner().to_string()), "{}", told[3]);

    locks.hang(Op::Extend);
    guard.lost().await;
    sleep(TTL).await;
    let told = std::mem::take(&mut *lines.0.lock().unwrap());
    let names: Vec<_> = told.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(names[..2], ["lock.at_risk", "lock.lost"], "{told:#?}");
    assert!(told[1].contains("reason=its time was over"), "{}", told[1]);
}
