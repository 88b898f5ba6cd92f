//! The calls of the backend over real files, with a clock that the test sets.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

mod lab;

use std::fs;
use std::pin::pin;

use lock_core::{Attempt, Backend, ErrorKind, Extension, FencingToken, Release, Watching};
use tokio::task::yield_now;

use lab::*;

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
