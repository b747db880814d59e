//! Session tokens of voice agents: interface sections 4.7, 5.4 and 5.5.

use std::process::Command;
use std::sync::OnceLock;

use auricle_tests::{Answer, Call, Frame, Said, Service, Setup, http, silence};
use reqwest::Url;
use serde_json::json;

use super::talking;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::new().start())
}

/// A service on which an account has ten cents to spend.
fn ten_cents() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::new().with("free_credit_cents", 10).start())
}

fn seconds(date: &str) -> i64 {
    let output = Command::new("date").args(["-u", "-d", date, "+%s"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap_or_else(|_| panic!("no date: {date:?}"))
}

#[track_caller]
fn assert_refused(url: &Url, code: u16, why: &str) {
    assert_eq!(Call::open(url).read(), Said::Closed(code), "{why}");
}

#[test]
fn a_token_has_defaults() {
    let before = seconds("now");
    let token = service().account().post_empty("/v2/voice-agent/token").ok();
    assert_eq!((&token["model"], &token["max_session_duration_sec"]), (&json!("svc-agent"), &json!(3300)));
    let at_home = format!("{}/v2/voice-agent/ws", service().api().replacen("http", "ws", 1));
    assert_eq!(token["websocket_url"], at_home, "it comes without the token");
    let secret = token["token"].as_str().unwrap();
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    assert!(secret.len() > 30 && secret.chars().all(unreserved), "{secret}");
    let expires = token["expires_at"].as_str().unwrap();
    assert!(expires.ends_with('Z'), "UTC: {expires}");
    assert!((before + 299..=seconds("now") + 301).contains(&seconds(expires)), "{expires}");
}

#[test]
fn a_token_has_the_requested_values_and_the_ceiling_clamps_them() {
    let account = service().account();
    for (asked, given) in [(60, 60), (600, 600), (3300, 3300), (3301, 3300), (10_800, 3300)] {
        let body = json!({ "model": "svc-agent", "max_session_duration_sec": asked, "expires_in": 600, "estimated_duration_sec": 1 });
        assert_eq!(account.ask_for_agent_token(&body).ok()["max_session_duration_sec"], given);
    }
    let short = Setup::new().with("live_session_seconds", 100).start();
    assert_eq!(short.account().ask_for_agent_token(&json!({})).ok()["max_session_duration_sec"], 100);
}

#[test]
fn a_wrong_number_or_type_is_422() {
    let account = service().account();
    for (field, bad) in [
        ("expires_in", json!(59)),
        ("expires_in", json!(601)),
        ("expires_in", json!("300")),
        ("expires_in", json!(300.5)),
        ("max_session_duration_sec", json!(59)),
        ("max_session_duration_sec", json!(10_801)),
        ("max_session_duration_sec", json!(-1)),
        ("max_session_duration_sec", json!("60")),
        ("max_session_duration_sec", json!([60])),
        ("estimated_duration_sec", json!(-1)),
        ("estimated_duration_sec", json!("1")),
        ("model", json!(1)),
    ] {
        let message = account.ask_for_agent_token(&json!({ field: bad })).error(422, "validation_error");
        assert!(message.contains(field), "{message}");
    }
    let nulls = json!({ "model": null, "expires_in": null, "max_session_duration_sec": null, "estimated_duration_sec": null, "next": 1 });
    assert_eq!(account.ask_for_agent_token(&nulls).ok()["max_session_duration_sec"], 3300);
    account.post_raw("/v2/voice-agent/token", "application/json", "{").error(400, "invalid_request");
    account.post_raw("/v2/voice-agent/token", "text/plain", "{}").error(415, "unsupported_media_type");
}

#[test]
fn only_an_agent_model_has_agents() {
    let account = service().account();
    for model in ["svc-realtime", "svc-best", "svc-nothing", "", "SVC-AGENT"] {
        let message = account.ask_for_agent_token(&json!({ "model": model })).error(400, "unknown_model");
        assert!(message.contains("svc-agent"), "{message}");
    }
    let mut url = account.agent_url(&json!({}));
    url.query_pairs_mut().append_pair("model", "svc-realtime");
    assert_refused(&url, 4400, "another kind of model");
}

#[test]
fn minting_demands_a_key_and_is_a_post() {
    let url = format!("{}/v2/voice-agent/token", service().api());
    Answer::of(http().post(&url).header("content-type", "application/json").body("{}")).error(401, "unauthorized");
    service().account().get("/v2/voice-agent/token").error(405, "method_not_allowed");
}

#[test]
fn credit_must_cover_the_estimate() {
    let account = ten_cents().account();
    // 540 cents an hour: ten cents are 66.7 s.
    account.ask_for_agent_token(&json!({ "estimated_duration_sec": 67 })).error(402, "v2_billing_required");
    account.ask_for_agent_token(&json!({ "estimated_duration_sec": 66 })).ok();
    let poor = Setup::new().with("free_credit_cents", 1).start();
    let account = poor.account();
    account.transcribe("a.wav", silence(1.0));
    account.ask_for_agent_token(&json!({})).error(402, "v2_billing_required");
}

#[test]
fn a_token_is_of_one_kind() {
    let account = talking().account();
    let agent = account.agent_url(&json!({}));
    let realtime = account.mint(&json!({}));
    let agent_token = agent.query_pairs().next().unwrap().1.into_owned();
    assert_eq!(realtime.with_secret(&agent_token).open().read(), Frame::Closed(4401));
    let with = |secret: &str| {
        let mut url = agent.clone();
        url.query_pairs_mut().clear().append_pair("token", secret);
        url
    };
    assert_refused(&with(realtime.secret()), 4401, "of realtime");
    assert_refused(&with(&realtime.secret().replacen("rt_", "va_", 1)), 4401, "renamed");
    for bad in ["", "x", "null", "va_a.b", &account.key, &agent_token[..agent_token.len() - 1]] {
        assert_refused(&with(bad), 4401, bad);
    }
    let mut none = agent.clone();
    none.set_query(None);
    assert_refused(&none, 4401, "none");
    // A token can be redeemed again.
    for _ in 0..2 {
        let mut call = Call::open(&agent);
        call.update(&json!({}));
        assert_eq!(call.frame()["type"], "session.ready");
        call.end();
    }
}
