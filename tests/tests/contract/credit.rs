//! Credit is reserved while work runs, and a token is worth no more than its key.

use std::time::Duration;

use auricle_tests::{Account, Frame, Gate, Live, Receiver, Reply, Service, Setup, eventually, silence};
use serde_json::{Value, json};

use crate::postgres;

/// The code of the close frame that refuses a session for want of credit.
const NO_CREDIT: Frame = Frame::Closed(4402);

/// A job whose recording of so many seconds is held back until the gate opens.
fn held(receiver: &Receiver, name: &str, seconds: f64, gate: &Gate) -> Value {
    json!({"audio_url": receiver.answers(name, [Reply::Held(silence(seconds).into(), gate.clone())])})
}

fn reserves_estimates(setup: Setup) {
    let service = setup.with("free_credit_cents", 10).start();
    let (receiver, gate, account) = (Receiver::new(), Gate::new(), service.account());
    // svc-best costs 7 cents for 1000 s.
    let mut large = held(&receiver, "/large.wav", 1.0, &gate);
    large["estimated_duration_sec"] = 1000.into();
    let first = account.create(&large);
    account.post("/v2/transcripts", &large).error(402, "v2_billing_required");
    account.ask_for_token(&json!({"estimated_duration_sec": 3300})).error(402, "v2_billing_required");
    let small: Vec<String> =
        (0..3).map(|n| account.create(&held(&receiver, &format!("/{n}.wav"), 1.0, &gate))).collect();
    account.post("/v2/transcripts", &json!({"audio_url": receiver.sound()})).error(402, "v2_billing_required");
    assert_eq!(account.credits()["credit_balance_cents"], 10, "what is reserved is not spent");
    gate.open();
    for id in small.iter().chain([&first]) {
        assert_eq!(account.finished(id)["status"], "completed");
    }
    assert_eq!(account.credits()["credit_balance_cents"], 6);
    large["estimated_duration_sec"] = 714.into();
    let last = account.create(&large);
    assert_eq!(account.finished(&last)["status"], "completed", "the rest is free again");
}

#[test]
fn accepted_jobs_reserve_their_estimates() {
    reserves_estimates(Setup::local());
}

#[test]
fn accepted_jobs_reserve_their_estimates_on_postgres() {
    let Some(server) = postgres() else { return };
    reserves_estimates(Setup::local().with("database_url", server.database()));
}

/// Jobs of unknown length are accepted for a cent each. One may outgrow the credit, the others fail.
#[test]
fn jobs_that_are_accepted_together_outgrow_the_credit_once() {
    let service = Setup::local().with("free_credit_cents", 3).start();
    let (receiver, gate, account) = (Receiver::new(), Gate::new(), service.account());
    let ids: Vec<String> =
        (0..3).map(|n| account.create(&held(&receiver, &format!("/{n}.wav"), 600.0, &gate))).collect();
    (0..3).for_each(|n| drop(receiver.wait(&format!("/{n}.wav"), 1)));
    gate.open();
    let ended: Vec<Value> = ids.iter().map(|id| account.finished(id)).collect();
    let (completed, failed): (Vec<_>, Vec<_>) = ended.iter().partition(|job| job["status"] == "completed");
    assert_eq!((completed.len(), failed.len()), (1, 2), "{ended:?}");
    assert!(failed.iter().all(|job| job["error"].as_str().unwrap().contains("credit")), "{failed:?}");
    let credits = account.credits();
    assert_eq!((&credits["lifetime_retail_cents"], &credits["lifetime_billable_cents"]), (&json!(5), &json!(2)));
}

#[test]
fn a_session_reserves_its_estimate_until_it_ends() {
    let service = Setup::local().with("free_credit_cents", 2).start();
    let account = service.account();
    let token = account.mint(&json!({"estimated_duration_sec": 100}));
    let mut live = token.open();
    live.ready();
    let refused = token.open().rest();
    assert_eq!(refused.last(), Some(&NO_CREDIT), "{refused:?}");
    assert!(matches!(&refused[0], Frame::Error(message) if message.contains("credit")), "{refused:?}");
    let upload = account.upload("a.wav", silence(1.0));
    account.post("/v2/transcripts", &json!({"upload_id": upload})).error(402, "v2_billing_required");
    live.stop();
    live.rest();
    eventually("its end settles the account", || (account.credits()["credit_balance_cents"] == 1).then_some(()));
    account.finished(&account.create(&json!({"upload_id": upload})));
}

#[test]
fn credit_is_checked_again_when_a_token_is_redeemed() {
    let service = Setup::local().with("free_credit_cents", 1).start();
    let account = service.account();
    let token = account.mint(&json!({}));
    account.transcribe("a.wav", silence(1.0));
    assert_eq!(token.open().rest().last(), Some(&NO_CREDIT));
}

/// A second key of the same account.
fn second(service: &Service, account: &Account) -> Account {
    Account { key: service.key(&account.email), ..account.clone() }
}

#[test]
fn a_token_of_a_revoked_key_opens_nothing() {
    let service = Setup::local().start();
    let account = service.account();
    let revoked = second(&service, &account);
    let (token, other) = (revoked.mint(&json!({})), account.mint(&json!({})));
    assert_eq!(service.keys("revoke", [&revoked.key]).status, Some(0));
    assert_eq!(token.open().rest().last(), Some(&Frame::Closed(4401)));
    other.open().ready();
}

/// The sessions of a revoked key end, those of another key of its account go on.
fn ends_sessions(one: &Service, two: &Service) {
    let account = one.account();
    let revoked = second(one, &account);
    let (token, other) = (revoked.mint(&json!({})), account.mint(&json!({})));
    let (mut here, mut there) = (token.open(), token.at(&two.api()).open());
    let mut stays = other.open();
    [&mut here, &mut there, &mut stays].into_iter().for_each(Live::ready);
    // Longer than it takes to notice.
    assert_eq!(here.read_within(Duration::from_secs(2)), None);
    assert_eq!(one.keys("revoke", [&revoked.key]).status, Some(0));
    for live in [&mut here, &mut there] {
        let frames = live.rest();
        assert_eq!(frames.last(), Some(&Frame::Closed(4401)), "{frames:?}");
    }
    stays.ping(b"still there");
}

#[test]
fn a_revoked_key_ends_its_sessions() {
    let service = Setup::local().start();
    ends_sessions(&service, &service);
}

#[test]
fn a_revoked_key_ends_its_sessions_on_every_node() {
    let Some(server) = postgres() else { return };
    let setup = Setup::local().with("database_url", server.database());
    let (one, two) = (setup.clone().start(), setup.start());
    ends_sessions(&one, &two);
}
