//! What a URL leads to.
use lock_config::{Scheme, Schemes, connect};
use lock_core::{ErrorKind, LockUrl, MemoryBackend, Result, Scope};

fn isolated(url: &LockUrl) -> Result<MemoryBackend> {
    url.settings().finish()?;
    Ok(MemoryBackend::new())
}

fn names(schemes: &Schemes) -> Vec<&str> {
    schemes.iter().map(Scheme::name).collect()
}

#[tokio::test]
async fn clients_of_one_memory_url_exclude_each_other() {
    let (one, two) = (connect("memory:").await.unwrap(), connect("memory:").await.unwrap());
    let name = format!("test/{}", lock_core::OwnerId::random());
    let guard = one.lock(&name).acquire().await.unwrap();
    assert!(two.lock(&name).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(two.lock(&name).try_acquire().await.unwrap().unwrap().token() > guard.token());
}

#[tokio::test]
async fn connecting_may_be_spawned() {
    tokio::spawn(connect("memory:")).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_unknown_scheme_is_answered_with_the_known_ones_and_no_password() {
    let schemes = Schemes::empty().with("one", isolated).with("two", isolated);
    let error = schemes.connect("three://me:hunter2@h").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(error.to_string(), "lock URL: there is no scheme \"three\"; the schemes are one, two");
}

#[test]
fn a_url_that_is_none_is_refused_before_any_scheme_is_looked_for() {
    let error = Schemes::builtin().builder("/var/lib").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("has no scheme"), "{error}");
}

#[test]
fn schemes_keep_their_order_and_a_later_one_takes_the_place_of_an_earlier_one() {
    let schemes = Schemes::empty().with("one", isolated).with("two", isolated);
    let schemes = schemes.with_scheme(Scheme::new("ONE", isolated).with_about("another"));
    assert_eq!(names(&schemes), ["one", "two"]);
    assert_eq!(schemes.iter().next().unwrap().about(), "another");
    assert!(schemes.builder("One:").is_ok());
}

#[test]
fn every_builtin_scheme_says_what_it_is_and_what_it_promises() {
    let schemes = Schemes::builtin();
    for scheme in schemes.iter() {
        assert!(!scheme.about().is_empty(), "{}", scheme.name());
        assert!(!scheme.capabilities().unwrap().assumption.is_empty(), "{}", scheme.name());
        let example: LockUrl = scheme.example().parse().unwrap();
        assert_eq!(example.scheme(), scheme.name());
    }
    assert_eq!(names(&schemes).last(), Some(&"memory"));
}

#[test]
fn the_promises_of_a_scheme_are_those_of_its_example() {
    let build = |url: &LockUrl| {
        let mut settings = url.settings();
        settings.hosts().first().expect("the example has a host");
        settings.finish()?;
        Ok(MemoryBackend::new())
    };
    let scheme = Scheme::new("hosted", build).with_example("hosted://localhost");
    assert_eq!(scheme.capabilities().unwrap().scope, Scope::Process);
    let scheme = Scheme::new("plain", isolated).with_example("plain://localhost");
    assert_eq!(scheme.capabilities().unwrap_err().kind(), ErrorKind::InvalidConfig);
}

#[test]
fn what_a_backend_does_not_take_is_refused() {
    let error = Schemes::builtin().builder("memory:/path").unwrap_err();
    assert_eq!(error.to_string(), "memory: URL: it takes no path, and here is \"/path\"");
}

#[cfg(not(feature = "file"))]
#[test]
fn a_scheme_whose_feature_is_off_is_named_with_the_feature() {
    let error = Schemes::builtin().builder("file:").unwrap_err();
    assert!(error.to_string().contains("feature \"file\" of lock-config is off"), "{error}");
}

#[cfg(feature = "file")]
mod file {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn clients_of_one_directory_exclude_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file:{}", directory.path().display());
        let (one, two) = (connect(&url).await.unwrap(), connect(&url).await.unwrap());
        let guard = one.lock("name").acquire().await.unwrap();
        assert!(two.lock("name").try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        assert!(two.lock("name").try_acquire().await.unwrap().unwrap().token() > guard.token());
    }

    #[tokio::test]
    async fn a_directory_that_everybody_may_write_is_refused_on_connecting() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        let error = connect(&format!("file:{}", directory.path().display())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.to_string().contains("may be written by others"), "{error}");
    }

    #[test]
    fn a_host_or_a_misspelt_option_is_refused() {
        for (url, expected) in [("file://server/x", "it takes no host"), ("file:/x?no_such=1", "no option \"no_such\"")]
        {
            let error = Schemes::builtin().builder(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
