//! The backend over real files, with a clock that the test sets.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use lock_core::{
    Attempt, Backend, Claim, Clock, ErrorKind, Extension, FencingToken, Grant, LockName, Release, Result, Watching,
};
use lock_file::{FileBackend, FileConfig};
use tempfile::TempDir;
use tokio::task::yield_now;

/// So long that only a jump of the clock ends a grant.
const TTL: Duration = Duration::from_secs(3600);

struct Lab {
    directory: TempDir,
    clock: Clock,
}

impl Lab {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), clock: Clock::system() }
    }

    fn backend(&self) -> FileBackend {
        FileBackend::new(FileConfig::new(self.directory.path()).with_clock(self.clock.clone()))
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.directory.path().join(inside)
    }

    /// The only record of a lock.
    fn record(&self, directory: &str) -> PathBuf {
        let records = files(&self.path(directory));
        assert_eq!(records.len(), 1, "{records:?}");
        records[0].clone()
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

fn claim(on: &str) -> Claim {
    Claim::new(name(on), TTL)
}

/// The same claim, asking for another ttl.
fn for_ttl(claim: &Claim, ttl: Duration) -> Claim {
    let mut claim = claim.clone();
    claim.ttl = ttl;
    claim
}

fn granted(attempt: Result<Attempt>) -> Grant {
    match attempt {
        Ok(Attempt::Granted(grant)) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

fn is_contended(attempt: &Result<Attempt>) -> bool {
    matches!(attempt, Ok(Attempt::Contended(_)))
}

#[tokio::test]
async fn a_held_lock_is_contended_until_it_is_released() {
    let lab = Lab::new();
    let (one, other) = (lab.backend(), lab.backend());
    let (first, second) = (claim("a"), claim("a"));
    let grant = granted(one.try_acquire(&first).await);
    let Ok(Attempt::Contended(contention)) = other.try_acquire(&second).await else { panic!("not contended") };
    assert_eq!(contention.token, Some(grant.token));
    assert!(contention.retry_after.unwrap() <= TTL);
    assert_eq!(other.release(&second).await.unwrap(), Release::NotHeld);
    assert_eq!(one.release(&first).await.unwrap(), Release::Released);
    assert_eq!(one.release(&first).await.unwrap(), Release::NotHeld);
    assert!(granted(other.try_acquire(&second).await).token > grant.token);
}

#[tokio::test]
async fn a_grant_ends_by_itself_and_its_extension_says_so() {
    let lab = Lab::new();
    let backend = lab.backend();
    let (first, second) = (claim("a"), claim("a"));
    granted(backend.try_acquire(&first).await);
    lab.clock.jump(TTL / 2);
    assert_eq!(backend.extend(&first).await.unwrap(), Extension::extended(TTL));
    lab.clock.jump(TTL / 2);
    assert!(is_contended(&backend.try_acquire(&second).await));
    lab.clock.jump(TTL / 2);
    assert_eq!(backend.extend(&first).await.unwrap(), Extension::Lost);
    assert!(backend.inspect(&name("a")).await.unwrap().is_none());
    granted(backend.try_acquire(&second).await);
    assert_eq!(backend.extend(&first).await.unwrap(), Extension::Lost);
    assert_eq!(backend.release(&first).await.unwrap(), Release::NotHeld);
    assert!(is_contended(&backend.try_acquire(&claim("a")).await));
}

#[tokio::test]
async fn a_repeated_ask_finds_its_own_grant_and_shortens_nothing() {
    let lab = Lab::new();
    let backend = lab.backend();
    let claim = claim("a");
    let grant = granted(backend.try_acquire(&claim).await);
    let shorter = for_ttl(&claim, TTL / 10);
    let again = granted(backend.try_acquire(&shorter).await);
    assert_eq!(again.token, grant.token);
    assert!(again.ttl > TTL / 2 && again.ttl <= TTL);
    let Extension::Extended { ttl, .. } = backend.extend(&shorter).await.unwrap() else { panic!("lost") };
    assert!(ttl > TTL / 2 && ttl <= TTL);
}

#[tokio::test]
async fn a_token_is_above_what_the_client_has_seen() {
    let lab = Lab::new();
    let backend = lab.backend();
    for above in [1, 2, 5, 1000] {
        let mut claim = claim("a");
        claim.above = Some(FencingToken::new(above).unwrap());
        let grant = granted(backend.try_acquire(&claim).await);
        assert!(grant.token.as_u64() > above, "{} after {above}", grant.token);
        backend.release(&claim).await.unwrap();
    }
    let mut last = claim("a");
    last.above = Some(FencingToken::MAX);
    assert_eq!(backend.try_acquire(&last).await.unwrap_err().kind(), ErrorKind::Unexpected);
    assert_eq!(granted(backend.try_acquire(&claim("a")).await).token.as_u64(), 1002);
}

#[tokio::test]
async fn only_the_highest_record_stays() {
    let lab = Lab::new();
    let backend = lab.backend();
    for _ in 0..5 {
        let claim = claim("a/b");
        granted(backend.try_acquire(&claim).await);
        backend.extend(&for_ttl(&claim, TTL * 2)).await.unwrap();
        backend.release(&claim).await.unwrap();
    }
    assert_eq!(lab.record("a%2Fb"), lab.path("a%2Fb/0000000000000005"));
    assert_eq!(files(&lab.path(".tmp")), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn a_lock_taken_away_is_lost_to_its_holder_and_free_for_others() {
    let lab = Lab::new();
    let backend = lab.backend();
    let (first, second) = (claim("a"), claim("a"));
    let token = granted(backend.try_acquire(&first).await).token;
    let other_token = FencingToken::new(token.as_u64() + 1).unwrap();
    assert_eq!(backend.force_release(&name("a"), Some(other_token)).await.unwrap(), Release::NotHeld);
    assert_eq!(backend.force_release(&name("a"), Some(token)).await.unwrap(), Release::Released);
    assert_eq!(backend.force_release(&name("a"), None).await.unwrap(), Release::NotHeld);
    assert_eq!(backend.extend(&first).await.unwrap(), Extension::Lost);
    assert_eq!(backend.release(&first).await.unwrap(), Release::NotHeld);
    assert!(granted(backend.try_acquire(&second).await).token > other_token);
    assert_eq!(backend.force_release(&name("none"), None).await.unwrap(), Release::NotHeld);
}

#[tokio::test]
async fn a_lock_that_cannot_be_read_does_not_hide_the_others_from_a_listing() {
    let lab = Lab::new();
    let backend = lab.backend();
    for on in ["a", "b"] {
        granted(backend.try_acquire(&claim(on)).await);
    }
    let record = lab.record("a");
    fs::remove_file(&record).unwrap();
    symlink("elsewhere", record).unwrap();
    let listed = backend.list("", None).await.unwrap().items;
    assert_eq!(listed.iter().map(|holder| holder.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(listed[0].owner.starts_with("unknown: "), "{}", listed[0].owner);
    assert_eq!(backend.inspect(&name("a")).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn held_locks_are_listed_in_order_and_by_pages() {
    let lab = Lab::new();
    let backend = lab.backend();
    let long = "long ".repeat(60);
    let mut names = ["a", "a/b", "A", "é", "%", "..", &long].map(ToOwned::to_owned).to_vec();
    names.extend((0..300).map(|i| format!("many/{i}")));
    for name in &names {
        granted(backend.try_acquire(&claim(name)).await);
    }
    let released = claim("b");
    granted(backend.try_acquire(&released).await);
    backend.release(&released).await.unwrap();
    fs::create_dir(lab.path("foreign directory")).unwrap();
    fs::create_dir(lab.path("empty")).unwrap();
    fs::write(lab.path("file"), "").unwrap();
    symlink("a", lab.path("link")).unwrap();

    let (mut listed, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = backend.list("", after.as_ref()).await.unwrap();
        listed.extend(page.items.iter().map(|holder| holder.name.as_str().to_owned()));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    names.sort();
    assert_eq!(listed, names);
    assert!(pages > 1);
    assert_eq!(backend.list("long", None).await.unwrap().items.len(), 1);
    assert_eq!(backend.list("many/29", None).await.unwrap().items.len(), 11);
    assert!(backend.list("none", None).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_holder_is_shown_with_what_it_said_of_itself() {
    let lab = Lab::new();
    let backend = lab.backend();
    let mut claim = claim("a");
    claim.about.label = Some("nightly\nrun".to_owned());
    let grant = granted(backend.try_acquire(&claim).await);
    let holder = backend.inspect(&claim.name).await.unwrap().unwrap();
    assert_eq!((holder.owner, holder.token), (claim.owner.to_string(), Some(grant.token)));
    assert_eq!((holder.label, holder.pid), (claim.about.label, Some(std::process::id())));
    assert_eq!(holder.host.unwrap(), claim.about.host);
    assert!(holder.remaining.unwrap() <= TTL);
    assert!(backend.inspect(&name("b")).await.unwrap().is_none());
}

#[tokio::test]
async fn looking_makes_no_directory_and_taking_makes_private_ones() {
    let lab = Lab::new();
    let directory = lab.path("x/y");
    let backend = FileBackend::new(FileConfig::new(&directory));
    assert!(backend.inspect(&name("a")).await.unwrap().is_none());
    assert!(backend.list("", None).await.unwrap().items.is_empty());
    assert_eq!(backend.release(&claim("a")).await.unwrap(), Release::NotHeld);
    assert_eq!(backend.extend(&claim("a")).await.unwrap(), Extension::Lost);
    assert!(!lab.path("x").exists());
    granted(backend.try_acquire(&claim("a")).await);
    for made in [lab.path("x"), directory.clone(), directory.join("a"), directory.join(".tmp")] {
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o700, "{made:?}");
    }
}

#[tokio::test]
async fn a_damaged_record_is_neither_held_nor_free() {
    let lab = Lab::new();
    let backend = lab.backend();
    let held = claim("a");
    let token = granted(backend.try_acquire(&held).await).token;
    let record = lab.record("a");
    let whole = fs::read(&record).unwrap();
    for length in 0..whole.len() {
        fs::write(&record, &whole[..length]).unwrap();
        let error = backend.try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{length}: {error}");
        assert_eq!(backend.extend(&held).await.unwrap(), Extension::Lost);
        assert_eq!(backend.release(&held).await.unwrap(), Release::NotHeld);
        assert_eq!(backend.inspect(&held.name).await.unwrap().unwrap().token, Some(token));
    }
    assert_eq!(backend.force_release(&held.name, None).await.unwrap(), Release::Released);
    assert!(granted(backend.try_acquire(&claim("a")).await).token > token);
}

#[tokio::test]
async fn foreign_things_in_the_place_of_a_record_are_refused() {
    let lab = Lab::new();
    let backend = lab.backend();
    let held = claim("a");
    granted(backend.try_acquire(&held).await);
    let is_denied = async |lock: &str, what: &str| {
        let error = backend.try_acquire(&claim(lock)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{what}: {error}");
    };
    let next = lab.path("a/0000000000000002");
    fs::copy(lab.record("a"), &next).unwrap();
    is_denied("a", "a record of another generation").await;
    fs::remove_file(&next).unwrap();
    fs::create_dir(&next).unwrap();
    is_denied("a", "a directory").await;
    fs::remove_dir(&next).unwrap();
    symlink("0000000000000001", &next).unwrap();
    is_denied("a", "a symbolic link").await;
    fs::remove_file(&next).unwrap();
    fs::rename(lab.path("a"), lab.path("b")).unwrap();
    is_denied("b", "a record of another lock").await;
    assert_eq!(backend.extend(&held).await.unwrap(), Extension::Lost);
}

#[tokio::test]
async fn a_directory_that_others_can_tamper_with_is_refused() {
    let lab = Lab::new();
    let refused = async |config: FileConfig, kind: ErrorKind, why: &str| {
        let backend = FileBackend::new(config);
        let error = backend.try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(why), "{error}");
        let refused = backend.preflight().await.into_iter().find_map(|finding| finding.into_error());
        assert_eq!(refused.unwrap().kind(), kind);
    };
    let directory = lab.path("d");
    fs::create_dir(&directory).unwrap();
    let chmod = |mode| fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
    chmod(0o777);
    refused(FileConfig::new(&directory), ErrorKind::Denied, "chmod go-w").await;
    refused(FileConfig::new(&directory).with_shared(true), ErrorKind::Denied, "chmod +t").await;
    chmod(0o1777);
    refused(FileConfig::new(&directory), ErrorKind::Denied, "shared=true").await;
    granted(FileBackend::new(FileConfig::new(&directory).with_shared(true)).try_acquire(&claim("a")).await);
    chmod(0o3770);
    granted(FileBackend::new(FileConfig::new(&directory).with_shared(true)).try_acquire(&claim("b")).await);
    assert_eq!(fs::metadata(directory.join("b")).unwrap().permissions().mode() & 0o7777, 0o3770);
    chmod(0o755);
    granted(FileBackend::new(FileConfig::new(&directory)).try_acquire(&claim("c")).await);

    let link = lab.path("link");
    symlink(&directory, &link).unwrap();
    refused(FileConfig::new(&link), ErrorKind::Denied, "symbolic link").await;
    refused(FileConfig::new(link.join("")), ErrorKind::Denied, "symbolic link").await;
    refused(FileConfig::new("relative"), ErrorKind::InvalidConfig, "relative").await;
    refused(FileConfig::new("/proc/sys"), ErrorKind::InvalidConfig, "proc").await;
    let missing = FileConfig::new(lab.path("missing")).with_shared(true);
    refused(missing, ErrorKind::InvalidConfig, "install -d -m 1777").await;
}

#[tokio::test]
async fn what_killed_processes_left_behind_is_removed_in_the_end() {
    let lab = Lab::new();
    granted(lab.backend().try_acquire(&claim("a")).await);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let now = Clock::system().now().since_boot().as_secs();
    let fresh = lab.path(&format!(".tmp/{}.{now}.1", boot.trim()));
    for left in [fresh.clone(), lab.path(&format!(".tmp/{}.0.2", "x".repeat(36))), lab.path(".tmp/junk")] {
        fs::write(left, "").unwrap();
    }
    granted(lab.backend().try_acquire(&claim("b")).await);
    assert_eq!(files(&lab.path(".tmp")), [fresh]);
}

#[tokio::test]
async fn a_waiter_s_watch_returns_when_the_way_is_free() {
    let lab = Lab::new();
    let (one, other) = (lab.backend(), lab.backend());
    let (first, second) = (claim("a"), claim("a"));
    other.watch(&second, Watching::Turn).await;
    granted(one.try_acquire(&first).await);
    one.watch(&first, Watching::Turn).await;

    let mut watch = pin!(other.watch(&second, Watching::Turn));
    let extended = async {
        for round in 2..=5 {
            one.extend(&for_ttl(&first, TTL * round)).await.unwrap();
        }
    };
    tokio::select! { biased; () = &mut watch => panic!("it is held"), () = extended => {} }
    one.release(&first).await.unwrap();
    watch.await;
}

#[tokio::test]
async fn a_holder_s_watch_returns_when_the_grant_is_gone() {
    let lab = Lab::new();
    let (one, other) = (lab.backend(), lab.backend());
    let held = claim("a");
    one.watch(&held, Watching::Grant).await;
    granted(one.try_acquire(&held).await);
    for by_hand in [false, true] {
        let mut watch = pin!(one.watch(&held, Watching::Grant));
        let asked = async {
            for _ in 0..5 {
                assert!(is_contended(&other.try_acquire(&claim("a")).await));
            }
        };
        tokio::select! { biased; () = &mut watch => panic!("it holds"), () = asked => {} }
        if by_hand {
            fs::remove_dir_all(lab.path("a")).unwrap();
        } else {
            other.force_release(&held.name, None).await.unwrap();
        }
        watch.await;
        granted(one.try_acquire(&held).await);
    }
}

#[tokio::test]
async fn an_acquire_dropped_anywhere_leaves_no_grant_after_its_release() {
    let lab = Lab::new();
    let backend = lab.backend();
    for polls in 0..20 {
        let mut dropped = claim("a");
        {
            let mut acquire = pin!(backend.try_acquire(&dropped));
            for _ in 0..polls {
                tokio::select! { biased; _ = &mut acquire => break, () = yield_now() => {} }
            }
        }
        dropped.unsure = true;
        backend.release(&dropped).await.unwrap();
        assert!(backend.inspect(&dropped.name).await.unwrap().is_none());
        let error = backend.try_acquire(&dropped).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
        let next = claim("a");
        granted(backend.try_acquire(&next).await);
        backend.release(&next).await.unwrap();
    }
}

#[tokio::test]
async fn preflight_leaves_nothing_but_the_directory() {
    let lab = Lab::new();
    let backend = FileBackend::new(FileConfig::new(lab.path("x")));
    let findings = backend.preflight().await;
    assert!(findings.iter().all(|finding| finding.error.is_none()), "{findings:?}");
    assert_eq!(files(&lab.path("x")), [lab.path("x/.tmp")]);
    assert_eq!(files(&lab.path("x/.tmp")), [] as [PathBuf; 0]);
}
