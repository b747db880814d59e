//! Session tokens, minted and redeemed: interface sections 2.7, 4.6, 5.4 and 5.5.

use std::process::Command;
use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Frame, Live, Service, Setup, http, silence};
use serde_json::{Value, json};

use crate::postgres;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::new().start())
}

/// A service on which an account has one cent to spend.
fn one_cent() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::new().with("free_credit_cents", 1).start())
}

/// Seconds of the clock: those that a date in UTC names, or now.
fn seconds(date: &str) -> i64 {
    let output = Command::new("date").args(["-u", "-d", date, "+%s"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("no date: {date:?}"))
}

/// Asserts that a session is refused with a close code as its first frame.
#[track_caller]
fn assert_refused(mut live: Live, code: u16, why: &str) {
    assert_eq!(live.read(), Frame::Closed(code), "{why}");
}

/// Asserts that a session is accepted and ends normally.
#[track_caller]
fn assert_taken(mut live: Live) {
    live.ready();
    live.stop();
    assert_eq!(live.rest(), [Frame::Done, Frame::Closed(1000)]);
}

#[test]
fn a_token_has_defaults() {
    let account = service().account();
    let token = account.mint(&json!({}));
    assert_eq!((&token.answer["model"], &token.answer["sample_rate"]), (&json!("svc-realtime-pro"), &json!(16000)));
    assert!(token.secret().len() > 30, "long enough not to be guessed");
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    assert!(token.secret().chars().all(unreserved), "as it is in a query: {}", token.secret());
    let at_home = format!("{}/v2/realtime/ws", service().api().replacen("http", "ws", 1));
    assert_eq!(token.url().as_str(), at_home, "it comes without the token");
    assert_taken(Live::open(&token.address(&[])));
}

#[test]
fn a_token_has_the_requested_values() {
    for (model, rate) in [("svc-realtime", 8000), ("svc-realtime-pro", 48000), ("svc-realtime", 44100)] {
        let body = json!({
            "model": model, "sample_rate": rate, "language_code": "en", "medical_mode": false, "expires_in": 60,
            "estimated_duration_sec": 60,
        });
        let token = service().account().mint(&body);
        assert_eq!((&token.answer["model"], &token.answer["sample_rate"]), (&json!(model), &json!(rate)));
        assert_taken(token.open());
    }
}

#[test]
fn a_token_lives_as_long_as_requested() {
    let account = service().account();
    for (body, lifetime) in [(json!({}), 900), (json!({"expires_in": 60}), 60), (json!({"expires_in": 3600}), 3600)] {
        let before = seconds("now");
        let token = account.mint(&body);
        let expires = token.answer["expires_at"].as_str().unwrap();
        assert!(expires.ends_with('Z'), "UTC: {expires}");
        // A second may begin on either side.
        let wanted = before + lifetime - 1..=seconds("now") + lifetime + 1;
        assert!(wanted.contains(&seconds(expires)), "{body}: {expires}");
    }
}

#[test]
fn a_number_out_of_its_range_is_422() {
    let account = service().account();
    for (field, bad) in [
        ("expires_in", json!(59)),
        ("expires_in", json!(3601)),
        ("expires_in", json!(0)),
        ("expires_in", json!(-900)),
        ("sample_rate", json!(7999)),
        ("sample_rate", json!(48001)),
        ("sample_rate", json!(0)),
        ("sample_rate", json!(-16000)),
        ("sample_rate", json!(4_294_983_296_u64)),
        ("estimated_duration_sec", json!(-1)),
    ] {
        let message = account.ask_for_token(&json!({field: bad})).error(422, "validation_error");
        assert!(message.contains(field), "{message}");
    }
}

#[test]
fn a_field_of_the_wrong_type_is_422() {
    let account = service().account();
    for (field, bad) in [
        ("model", json!(1)),
        ("sample_rate", json!("16000")),
        ("sample_rate", json!(16000.5)),
        ("sample_rate", json!([16000])),
        ("language_code", json!(1)),
        ("language_code", json!(["en"])),
        ("format_numbers", json!("true")),
        ("format_numbers", json!(0)),
        ("medical_mode", json!("true")),
        ("medical_mode", json!(1)),
        ("expires_in", json!("900")),
        ("expires_in", json!(900.5)),
        ("estimated_duration_sec", json!("10")),
        ("estimated_duration_sec", json!(1.5)),
    ] {
        let message = account.ask_for_token(&json!({field: bad})).error(422, "validation_error");
        assert!(message.contains(field), "{message}");
    }
}

#[test]
fn null_counts_as_absent_and_unknown_fields_are_ignored() {
    let body = json!({
        "model": null, "sample_rate": null, "language_code": null, "medical_mode": null, "format_numbers": null,
        "expires_in": null,
        "estimated_duration_sec": null, "a_field_of_next_year": {"deep": [1, 2, 3]},
    });
    let token = service().account().mint(&body);
    assert_eq!((&token.answer["model"], &token.answer["sample_rate"]), (&json!("svc-realtime-pro"), &json!(16000)));
    assert_taken(token.open());
}

#[test]
fn a_body_that_is_no_json_object_is_refused() {
    let account = service().account();
    for body in ["{", "", "{'model': 1}"] {
        account.post_raw("/v2/realtime/token", "application/json", body).error(400, "invalid_request");
    }
    account.post_raw("/v2/realtime/token", "text/plain", "{}").error(415, "unsupported_media_type");
    account
        .post_raw("/v2/realtime/token", "application/json", r#"{"sample_rate":1e999}"#)
        .error(422, "validation_error");
    assert_eq!(account.post_empty("/v2/realtime/token").ok()["model"], "svc-realtime-pro", "no field is required");
    let status = account.ask_for_token(&json!([])).status;
    assert!([400, 422].contains(&status), "{status}");
}

#[test]
fn only_a_realtime_model_has_sessions() {
    let account = service().account();
    for model in ["svc-best", "svc-fast", "svc-agent", "svc-nothing", "", "SVC-REALTIME"] {
        let message = account.ask_for_token(&json!({"model": model})).error(400, "unknown_model");
        assert!(message.contains("svc-realtime-pro"), "it names those there are: {message}");
    }
}

#[test]
fn a_language_outside_the_set_is_422() {
    let account = service().account();
    for (model, language) in [
        ("svc-realtime-pro", "xx"),
        ("svc-realtime-pro", "zh"),
        ("svc-realtime-pro", ""),
        // This checkpoint has English alone, the other one Portuguese too.
        ("svc-realtime-pro", "pt"),
        ("svc-realtime", "de"),
    ] {
        let body = json!({"model": model, "language_code": language});
        let message = account.ask_for_token(&body).error(422, "validation_error");
        assert!(message.contains("language_code"), "{message}");
    }
    for language in ["en", "en_au", "en_uk", "en_us"] {
        assert_taken(account.mint(&json!({"language_code": language})).open());
    }
    assert_taken(account.mint(&json!({"model": "svc-realtime", "language_code": "pt"})).open());
}

#[test]
fn medical_mode_is_taken_at_minting_and_by_the_socket_and_ignored_for_other_languages() {
    let account = service().account();
    for body in [
        json!({"medical_mode": true}),
        json!({"medical_mode": true, "language_code": "en_us"}),
        json!({"model": "svc-realtime", "language_code": "pt", "medical_mode": true}),
    ] {
        let token = account.mint(&body);
        assert_taken(token.open());
        for other in ["false", "False", "0", "yes", ""] {
            assert_refused(token.open_with(&[("medical_mode", other)]), 4400, "minted with medical mode");
        }
        // As Python writes it in a query.
        assert_taken(account.mint(&body).open_with(&[("medical_mode", "True")]));
    }
}

#[test]
fn minting_demands_a_key_and_is_a_post() {
    let account = service().account();
    let url = format!("{}/v2/realtime/token", service().api());
    Answer::of(http().post(&url).header("content-type", "application/json").body("{}")).error(401, "unauthorized");
    let get = account.get("/v2/realtime/token");
    get.error(405, "method_not_allowed");
    assert!(get.header("allow").unwrap().contains("POST"));
}

#[test]
fn a_token_is_not_an_api_key() {
    let account = service().account();
    let token = account.mint(&json!({}));
    let as_key = Account { key: token.secret().to_owned(), ..account };
    as_key.get("/v2/credits").error(401, "unauthorized");
    as_key.ask_for_token(&json!({})).error(401, "unauthorized");
}

#[test]
fn an_estimate_that_does_not_fit_is_refused_up_front() {
    let account = one_cent().account();
    let ask =
        |model: &str, seconds: u64| account.ask_for_token(&json!({"model": model, "estimated_duration_sec": seconds}));
    // 54 and 18 cents an hour: a cent is 66.7 and 200 seconds.
    ask("svc-realtime-pro", 67).error(402, "v2_billing_required");
    ask("svc-realtime", 201).error(402, "v2_billing_required");
    ask("svc-realtime-pro", 66).ok();
    ask("svc-realtime", 200).ok();
}

#[test]
fn without_credit_or_a_subscription_nothing_is_minted() {
    let account = one_cent().account();
    account.transcribe("a.wav", silence(1.0));
    account.ask_for_token(&json!({})).error(402, "v2_billing_required");
    let page = account.post_empty("/v2/billing/checkout").ok()["url"].as_str().unwrap().to_owned();
    assert!(Answer::of(http().post(page)).status < 400);
    assert_taken(account.mint(&json!({"estimated_duration_sec": 1_000_000})).open());
}

#[test]
fn a_token_can_be_redeemed_several_times() {
    let token = service().account().mint(&json!({}));
    assert_taken(token.open());
    let (one, two) = (token.open(), token.open());
    assert_taken(one);
    assert_taken(two);
}

#[test]
fn a_token_survives_a_restart() {
    let service = Setup::new().start();
    let token = service.account().mint(&json!({}));
    service.kill();
    service.start();
    assert_taken(token.open());
}

#[test]
fn without_a_token_of_this_service_it_is_4401() {
    let account = service().account();
    let token = account.mint(&json!({}));
    assert_refused(Live::open(&token.url()), 4401, "none");
    let stranger = one_cent().account().mint(&json!({}));
    let bad = [
        "",
        " ",
        "x",
        "null",
        "svc_wrong",
        "a.b.c",
        "%00",
        "\u{0}",
        "ünïcödé",
        &account.key,
        stranger.secret(),
        &format!("{}x", token.secret()),
        &"x".repeat(2000),
    ]
    .map(str::to_owned);
    for secret in &bad {
        assert_refused(token.with_secret(secret).open(), 4401, secret);
    }
}

#[test]
fn a_token_that_was_tampered_with_is_4401() {
    let token = service().account().mint(&json!({}));
    let secret = token.secret();
    // At every position: account, session and expiry are all signed.
    for at in (0..secret.len()).step_by((secret.len() / 12).max(1)) {
        let other = if &secret[at..=at] == "7" { "3" } else { "7" };
        let tampered = format!("{}{other}{}", &secret[..at], &secret[at + 1..]);
        assert_refused(token.with_secret(&tampered).open(), 4401, &tampered);
        assert_refused(token.with_secret(&secret[..at]).open(), 4401, &secret[..at]);
    }
    assert_taken(token.open());
}

#[test]
fn a_model_that_is_not_a_realtime_one_is_4400() {
    let token = service().account().mint(&json!({}));
    for model in ["svc-nothing", "svc-best", "svc-fast", "svc-agent", ""] {
        assert_refused(token.open_with(&[("model", model)]), 4400, model);
    }
    assert_taken(token.open());
}

#[test]
fn other_values_than_the_minted_ones_are_4400() {
    let account = service().account();
    let body = json!({"model": "svc-realtime", "sample_rate": 8000, "language_code": "en", "medical_mode": false});
    let token = account.mint(&body);
    for (name, value) in [
        ("model", "svc-realtime-pro"),
        ("sample_rate", "16000"),
        ("language_code", "pt"),
        ("language_code", "en_us"),
        ("medical_mode", "true"),
    ] {
        assert_refused(token.open_with(&[(name, value)]), 4400, &format!("{name}={value}"));
    }
    assert_taken(token.open());
    let automatic = account.mint(&json!({}));
    assert_refused(automatic.open_with(&[("language_code", "en")]), 4400, "minted for any language");
}

#[test]
fn a_bad_sample_rate_is_4400() {
    let token = service().account().mint(&json!({}));
    for rate in ["7999", "48001", "0", "-16000", "16000.0", "16 kHz", "x", "", "99999999999999999999"] {
        assert_refused(token.open_with(&[("sample_rate", rate)]), 4400, rate);
    }
}

#[test]
fn a_language_outside_the_set_fails_the_session() {
    let token = service().account().mint(&json!({}));
    for language in ["xx", "zh", "tlh"] {
        let mut live = token.open_with(&[("language_code", language)]);
        let unsupported = Frame::Error("Unsupported realtime language.".into());
        assert_eq!(live.rest(), [unsupported, Frame::Closed(1000)], "{language}");
    }
}

#[test]
fn a_token_of_one_node_is_valid_on_another() {
    let Some(server) = postgres() else { return };
    let setup = Setup::new().with("database_url", server.database());
    let (one, two) = (setup.clone().start(), setup.start());
    let here = one.account();
    let there = here.at(&two.api());
    assert_taken(here.mint(&json!({})).at(&two.api()).open());
    assert_taken(there.mint(&json!({})).at(&one.api()).open());
    let elsewhere: Value = there.mint(&json!({})).answer;
    assert!(elsewhere["websocket_url"].as_str().unwrap().contains(two.api().trim_start_matches("http://")));
}

#[test]
fn what_a_session_hides_is_checked_with_its_language() {
    let account = service().account();
    for (body, field) in [
        (json!({ "pii_redaction": true }), "pii_redaction"),
        (json!({ "pii_redaction": 1, "language_code": "en" }), "pii_redaction"),
        (json!({ "pii_policies": ["SHOE_SIZE"], "language_code": "en" }), "pii_policies"),
        (json!({ "pii_substitution": "star", "language_code": "en" }), "pii_substitution"),
        (json!({ "profanity_filter": true }), "profanity_filter"),
        (json!({ "keyterms_prompt": "Auricle" }), "keyterms_prompt"),
        (json!({ "keyterms_prompt": vec!["a".repeat(100); 200] }), "keyterms_prompt"),
    ] {
        let message = account.ask_for_token(&body).error(422, "validation_error");
        assert!(message.contains(field), "{message}");
    }
    let token = account.mint(&json!({ "language_code": "en", "pii_redaction": true, "keyterms_prompt": ["Auricle"] }));
    assert_taken(token.open());
    assert_taken(token.open_with(&[("pii_redaction", "True"), ("profanity_filter", "1")]));
    assert_taken(token.open_with(&[("keyterms_prompt", "[\"Auricle\"]"), ("pii_policies", "[\"person_name\"]")]));
    for (name, value) in [
        ("pii_redaction", "false"),
        ("pii_redaction", "maybe"),
        ("profanity_filter", ""),
        ("pii_policies", "person_name"),
        ("pii_policies", "[\"SHOE_SIZE\"]"),
        ("pii_substitution", "star"),
        ("keyterms_prompt", "[\"other\"]"),
    ] {
        assert_refused(token.open_with(&[(name, value)]), 4400, &format!("{name}={value}"));
    }
    // The query may ask for what a token leaves open, in a language that the token has.
    let open = account.mint(&json!({}));
    assert_refused(open.open_with(&[("pii_redaction", "true")]), 4400, "no language");
    assert_taken(open.open_with(&[("keyterms_prompt", "[\"Auricle\"]"), ("pii_redaction", "false")]));
}
