//! What is in the directory: what stays and goes, what is refused, and what is listed.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

mod lab;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use lock_core::{Backend, Clock, ErrorKind, Extension, Release};
use lock_file::{FileBackend, FileConfig};

use lab::*;

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
async fn preflight_leaves_nothing_but_the_directory() {
    let lab = Lab::new();
    let backend = FileBackend::new(FileConfig::new(lab.path("x")));
    let findings = backend.preflight().await;
    assert!(findings.iter().all(|finding| finding.error.is_none()), "{findings:?}");
    assert_eq!(files(&lab.path("x")), [lab.path("x/.tmp")]);
    assert_eq!(files(&lab.path("x/.tmp")), [] as [PathBuf; 0]);
}
