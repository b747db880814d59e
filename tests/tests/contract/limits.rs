//! Rate limits: stated in every response, counted for each key and address.

use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Service, Setup, http, silence};
use reqwest::Method;
use serde_json::json;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

#[test]
fn every_response_states_the_rate_limit() {
    let account = service().account();
    let number = |answer: &Answer, name: &str| {
        let value = answer.header(name).unwrap_or_else(|| panic!("no {name} on {}", answer.status));
        value.parse::<u64>().unwrap_or_else(|_| panic!("{name}: {value}"))
    };
    let mut last = 20_000;
    for answer in [
        account.get("/v2/models"),
        account.get("/v2/transcripts/tr_none"),
        account.post_raw("/v2/transcripts", "text/plain", "x"),
        account.post_raw("/v2/transcripts", "application/json", "{"),
        account.get("/v2/nothing"),
        Answer::of(account.request(Method::PUT, "/v2/models")),
    ] {
        assert_eq!(number(&answer, "x-ratelimit-limit"), 20_000);
        let remaining = number(&answer, "x-ratelimit-remaining");
        assert!(remaining < last, "{remaining} after {last}");
        last = remaining;
        number(&answer, "x-ratelimit-reset");
    }
}

#[test]
fn over_the_rate_limit_is_429_for_the_account() {
    let service = Setup::new().with("request_limit", 5).start();
    let (account, other) = (service.account(), service.account());
    let second = Account { key: service.key(&account.email), ..account.clone() };
    let answers: Vec<Answer> = (0..5).map(|_| account.get("/v2/models")).collect();
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(answers[4].header("x-ratelimit-remaining"), Some("0"));
    for limited in [account.get("/v2/models"), second.get("/v2/models")] {
        limited.error(429, "rate_limited");
        let after: u64 = limited.header("retry-after").expect("Retry-After").parse().expect("seconds");
        assert!((1..=300).contains(&after), "{after}");
        assert_eq!(limited.header("x-ratelimit-remaining"), Some("0"));
        assert!(limited.header("x-ratelimit-limit").is_some() && limited.header("x-ratelimit-reset").is_some());
    }
    other.get("/v2/models").ok();
    assert_eq!(Answer::of(http().get(format!("{}/health/live", service.api()))).status, 200);
}

#[test]
fn uncounted_requests_state_the_rate_limit_too() {
    let open = |path: &str| Answer::of(http().get(format!("{}{path}", service().api())));
    let preflight = format!("{}/uploads/upload_1", service().storage());
    for answer in [
        open("/health/live"),
        open("/health/ready"),
        open("/metrics"),
        open("/openapi.json"),
        Answer::of(http().request(Method::OPTIONS, preflight)),
    ] {
        for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert!(answer.header(name).is_some_and(|value| value.parse::<u64>().is_ok()), "{name}");
        }
    }
}

#[test]
fn requests_without_a_key_use_up_no_accounts_limit() {
    let service = Setup::local().with("request_limit", 4).start();
    let account = service.account();
    let signed = account.sign("a.wav", "audio/wav");
    let token = account.mint(&json!({}));
    let stranger = Account { key: "svc_none".into(), ..account.clone() };
    for _ in 0..4 {
        stranger.get("/v2/models").error(401, "unauthorized");
    }
    stranger.get("/v2/models").error(429, "rate_limited");
    // From the same address. Signed URLs have a limit of their own.
    assert_eq!(signed.put(silence(0.5)).status, 200);
    let mut live = token.open();
    live.ready();
    for _ in 0..2 {
        assert_eq!(signed.put(silence(0.5)).status, 200);
    }
    let limited = signed.put(silence(0.5));
    limited.error(429, "rate_limited");
    assert_eq!(limited.header("access-control-allow-origin"), Some("*"), "a page can read why");
    assert_eq!(account.get("/v2/models").status, 200);
}

/// Asks without a key, as a proxy on this machine that tells whom it asks for.
fn behind_a_proxy(service: &Service, forwarded_for: &str) -> u16 {
    let url = format!("{}/v2/models", service.api());
    Answer::of(http().get(url).header("x-forwarded-for", forwarded_for)).status
}

#[test]
fn clients_behind_a_trusted_proxy_have_limits_of_their_own() {
    let service = Setup::new().with("request_limit", 2).with("trusted_proxies", "[\"127.0.0.0/8\"]").start();
    for _ in 0..2 {
        assert_eq!(behind_a_proxy(&service, "198.51.100.1"), 401);
    }
    // A client cannot pass for another one: the proxy appends its address after what it sent.
    assert_eq!(behind_a_proxy(&service, "198.51.100.9, 198.51.100.1"), 429);
    assert_eq!(behind_a_proxy(&service, "198.51.100.2"), 401);
}

#[test]
fn nobody_else_tells_the_address_of_a_client() {
    let service = Setup::new().with("request_limit", 2).start();
    let statuses = [1, 2, 3].map(|last| behind_a_proxy(&service, &format!("198.51.100.{last}")));
    assert_eq!(statuses, [401, 401, 429]);
}
