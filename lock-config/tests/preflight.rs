//! What connecting makes of a backend's findings.
use std::io;
use std::sync::{Arc, Mutex};

use lock_config::Schemes;
use lock_core::{
    Attempt, Backend, Capabilities, Claim, Error, ErrorKind, Extension, Finding, Holder, LockClient, LockName, LockUrl,
    Release, Result, Scope, async_trait,
};
use tracing::instrument::WithSubscriber as _;

/// A backend whose preflight finds what it was given, and which is asked for nothing else.
#[derive(Debug)]
struct Examined(Vec<Finding>);

#[async_trait]
impl Backend for Examined {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Scope::Process, "nobody asks for a lock")
    }

    async fn preflight(&self) -> Vec<Finding> {
        self.0.clone()
    }

    async fn try_acquire(&self, _: &Claim) -> Result<Attempt> {
        unreachable!("connecting takes no lock")
    }

    async fn extend(&self, _: &Claim) -> Result<Extension> {
        unreachable!("connecting extends no lock")
    }

    async fn release(&self, _: &Claim) -> Result<Release> {
        unreachable!("connecting releases no lock")
    }

    async fn inspect(&self, _: &LockName) -> Result<Option<Holder>> {
        unreachable!("connecting inspects no lock")
    }
}

/// What `connect` answers and logs when these are the findings.
async fn connect(findings: Vec<Finding>) -> (Result<LockClient>, String) {
    let schemes = Schemes::empty().with("test", move |url: &LockUrl| {
        let mut settings = url.settings();
        let _ = (settings.user(), settings.password(), settings.hosts());
        settings.finish()?;
        Ok(Examined(findings.clone()))
    });
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let answer = schemes.connect("test://me:hunter2@h").with_subscriber(subscriber).await;
    let text = log.0.lock().expect("no writer panicked").clone();
    (answer, String::from_utf8(text).expect("the log is text"))
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_to_find_is_fit() {
    let (answer, log) = connect(vec![Finding::good("version", "7.2")]).await;
    answer.unwrap();
    assert_eq!(log, "");
}

#[tokio::test]
async fn a_refused_finding_is_the_error_with_its_kind_its_remedy_and_the_masked_url() {
    let denied = Error::new(ErrorKind::Denied, "the user may not write");
    let findings = vec![Finding::good("version", "7.2"), Finding::refused("rights", denied, "grant it +set")];
    let (answer, _) = connect(findings).await;
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(error.to_string(), "test://me:***@h: the user may not write; grant it +set");
}

#[tokio::test]
async fn a_warning_is_logged_and_the_client_works() {
    let warning = Finding::warning("eviction", "allkeys-lru", "locks may vanish", "set noeviction");
    let (answer, log) = connect(vec![warning]).await;
    answer.unwrap();
    for expected in ["WARN", "test://me:***@h", "eviction", "allkeys-lru", "locks may vanish", "set noeviction"] {
        assert!(log.contains(expected), "{expected} is missing in {log}");
    }
    assert!(!log.contains("hunter2"), "{log}");
}

#[tokio::test]
async fn a_note_is_no_warning() {
    let (answer, log) = connect(vec![Finding::note("version", "7.0", "waiters ask again by time")]).await;
    answer.unwrap();
    assert!(!log.contains("WARN"), "{log}");
}
