//! What the core tells a service of a claim, and what it learns from the answers. Under a paused clock.

mod scripted;

use std::time::Duration;

use lock_core::{Attempt, Contention, Error, ErrorKind, Extension, Grant, Op, Place};
use tokio::time::sleep;

use scripted::*;

#[tokio::test(start_paused = true)]
async fn a_token_that_goes_back_is_an_error_and_its_grant_is_given_back() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Ok(grant(7, TTL)));
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    for wrong in [7, 1] {
        service.will_attempt(Ok(grant(wrong, TTL)));
        let error = client.lock("a").acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TokenRegression, "{error}");
        assert!(error.to_string().contains(&format!("token {wrong} after 7")), "{error}");
        sleep(Duration::from_millis(1)).await;
        let owner = service.asked(Op::TryAcquire).last().unwrap().owner;
        assert_eq!(service.asked(Op::Release).last().unwrap().owner, owner);
    }
    assert_eq!(service.asked(Op::TryAcquire).last().unwrap().above, Some(token(7)));
    assert_eq!(client.lock("b").acquire().await.unwrap().token(), token(1), "another name has tokens of its own");
    assert_eq!(client.lock("a").acquire().await.unwrap().token(), token(8));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_finds_its_own_grant_is_no_regression() {
    let (service, client) = Scripted::default().client();
    // The reply to the first ask is lost; meanwhile the client hears of token 5, which is that very grant's.
    service.will_attempt(no_answer());
    service.will_attempt(Ok(Attempt::Contended(Contention::new().with_token(token(5)))));
    service.will_attempt(Ok(grant(5, TTL)));
    assert_eq!(client.lock("a").acquire().await.unwrap().token(), token(5));
}

#[tokio::test(start_paused = true)]
async fn contention_teaches_the_highest_token() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Ok(Attempt::Contended(Contention::new().with_token(token(41)))));
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(client.lock("a").acquire().await.unwrap().token(), token(42));
    assert_eq!(service.asked(Op::TryAcquire)[1].above, Some(token(41)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_unsure_from_the_first_call_without_an_answer_to_its_end() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(no_answer());
    service.will_extend(Some(Ok(Extension::extended(TTL))));
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    guard.extend(TTL).await.unwrap();
    guard.release().await.unwrap();
    let unsure = |op| service.asked(op).iter().map(|claim| claim.unsure).collect::<Vec<_>>();
    assert_eq!(unsure(Op::TryAcquire), [false, true]);
    assert_eq!(unsure(Op::Extend), [true]);
    assert_eq!(unsure(Op::Release), [true]);
    let owners: Vec<_> = locked(&service.asked).iter().map(|(_, claim)| claim.owner).collect();
    assert!(owners.windows(2).all(|pair| pair[0] == pair[1]), "a retry repeats the same claim");

    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    assert!(!service.asked(Op::Release)[1].unsure, "every call of it was answered");
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_leaves_nothing_to_release() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(Err(Error::new(ErrorKind::Denied, "no rights")));
    assert_eq!(client.lock("a").acquire().await.unwrap_err().kind(), ErrorKind::Denied);
    service.will_attempt(Ok(Attempt::Contended(Contention::new())));
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    sleep(TTL).await;
    assert!(service.asked(Op::Release).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_place_of_the_last_answer_is_sent_with_the_next_call() {
    let (service, client) = Scripted::default().client();
    let place = |name: &str| Place::new(name);
    service.will_attempt(Ok(Attempt::Contended(Contention::new().with_place(place("third")))));
    service.will_attempt(Ok(Attempt::Contended(Contention::new())));
    service.will_attempt(Ok(Attempt::Granted(Grant::new(token(1), TTL).with_place(place("first")))));
    service.will_extend(Some(Ok(Extension::extended_at(TTL, place("moved")))));
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    guard.extend(TTL).await.unwrap();
    guard.release().await.unwrap();
    let places: Vec<_> = locked(&service.asked).iter().map(|(_, claim)| claim.place.clone()).collect();
    assert_eq!(places, [None, Some(place("third")), None, Some(place("first")), Some(place("moved"))]);
}

#[tokio::test(start_paused = true)]
async fn only_a_claim_that_waits_may_queue() {
    let (service, client) = Scripted::default().client();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    client.lock("a").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    client.lock("a").wait(Duration::ZERO).acquire().await.unwrap().release().await.unwrap();
    let may_queue: Vec<_> = service.asked(Op::TryAcquire).iter().map(|claim| claim.may_queue).collect();
    assert_eq!(may_queue, [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn the_grant_is_watched_where_it_now_stands() {
    let (service, client) = Scripted::default().client();
    let moved = Place::new("moved");
    service.will_extend(Some(Ok(Extension::extended_at(TTL, moved.clone()))));
    let _guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    sleep(TTL / 2).await;
    assert_eq!(*locked(&service.watched), [None, Some(moved)]);
}

#[tokio::test(start_paused = true)]
async fn a_new_claim_after_one_that_was_granted_too_late_is_sure() {
    let (service, client) = Scripted::default().client();
    service.will_attempt(no_answer());
    service.will_attempt(Ok(grant(1, Duration::from_nanos(1))));
    let _guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    let asked = service.asked(Op::TryAcquire);
    assert!(asked[0].owner == asked[1].owner && asked[1].owner != asked[2].owner);
    assert_eq!(asked.iter().map(|claim| claim.unsure).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(service.asked(Op::Release)[0].owner, asked[0].owner);
}
