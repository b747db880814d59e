//! API keys: interface section 5 and the process contract of `auricle keys`.

use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Service, Setup, auricle, http, silence, unique};
use reqwest::Method;
use serde_json::json;

/// Every endpoint of the contract that is served.
const ENDPOINTS: [(&str, &str); 18] = [
    ("POST", "/v2/transcripts"),
    ("GET", "/v2/transcripts"),
    ("GET", "/v2/transcripts/tr_1"),
    ("DELETE", "/v2/transcripts/tr_1"),
    ("GET", "/v2/transcripts/tr_1/srt"),
    ("GET", "/v2/transcripts/tr_1/vtt"),
    ("GET", "/v2/transcripts/tr_1/sentences"),
    ("GET", "/v2/transcripts/tr_1/paragraphs"),
    ("GET", "/v2/transcripts/tr_1/word-search"),
    ("POST", "/v2/uploads/sign"),
    ("POST", "/v2/uploads/upload_1/complete"),
    ("GET", "/v2/models"),
    ("GET", "/v2/pricing"),
    ("GET", "/v2/credits"),
    ("GET", "/v2/usage"),
    ("GET", "/v2/usage/summary"),
    ("POST", "/v2/billing/checkout"),
    ("GET", "/v2/models?key=svc_1"),
];

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

fn models(authorization: &str) -> Answer {
    Answer::of(http().get(format!("{}/v2/models", service().api())).header("authorization", authorization))
}

#[track_caller]
fn assert_unauthorized(answer: &Answer) {
    answer.error(401, "unauthorized");
    let challenge = answer.header("www-authenticate").expect("WWW-Authenticate");
    assert!(challenge.starts_with("Bearer"), "{challenge}");
}

#[test]
fn a_valid_key_reads_the_models() {
    let account = service().account();
    assert!(account.key.starts_with("svc_"), "keys begin with svc_");
    assert!(account.key.len() > 30, "long enough not to be guessed");
    account.get("/v2/models").ok();
}

#[test]
fn every_endpoint_demands_a_key() {
    for (method, path) in ENDPOINTS {
        let method: Method = method.parse().unwrap();
        let request = || http().request(method.clone(), format!("{}{path}", service().api()));
        assert_unauthorized(&Answer::of(request()));
        assert_unauthorized(&Answer::of(request().bearer_auth("svc_wrong")));
    }
}

#[test]
fn anything_but_a_whole_key_as_bearer_is_401() {
    let key = service().account().key;
    let other = if key.ends_with('a') { "b" } else { "a" };
    let bad = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        key.clone(),
        format!("Basic {key}"),
        format!("Token {key}"),
        format!("Bearer {}", &key[..key.len() - 1]),
        format!("Bearer {key}x"),
        format!("Bearer {}{other}", &key[..key.len() - 1]),
        format!("Bearer {}", key.to_uppercase()),
        format!("Bearer {}", key.trim_start_matches("svc_")),
        format!("Bearer {key} {key}"),
        format!("Bearer {}", "x".repeat(5000)),
    ];
    for value in bad {
        assert_unauthorized(&models(&value));
    }
    assert_unauthorized(&Answer::of(http().get(format!("{}/v2/models?api_key={key}", service().api()))));
    models(&format!("bearer {key}")).ok();
}

#[test]
fn a_header_that_is_no_text_is_401() {
    let value = reqwest::header::HeaderValue::from_bytes(b"Bearer svc_\xff\xfe").unwrap();
    let request = http().get(format!("{}/v2/models", service().api())).header("authorization", value);
    assert_unauthorized(&Answer::of(request));
}

#[test]
fn a_revoked_key_stops_at_once_and_the_others_go_on() {
    let account = service().account();
    let second = Account { key: service().key(&account.email), ..account.clone() };
    second.get("/v2/models").ok();
    account.get("/v2/models").ok();
    let run = service().keys("revoke", [&second.key]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_unauthorized(&second.get("/v2/models"));
    account.get("/v2/models").ok();
}

#[test]
fn keys_of_one_account_see_the_same_and_others_do_not() {
    let account = service().account();
    let second = Account { key: service().key(&account.email), ..account.clone() };
    assert_ne!(account.key, second.key);
    let done = account.transcribe("a.wav", silence(0.5));
    let path = format!("/v2/transcripts/{}", done["id"].as_str().unwrap());
    assert_eq!(second.get(&path).ok(), done);
    service().account().get(&path).error(404, "not_found");
}

#[test]
fn create_prints_the_secret_alone() {
    let run = service().keys("create", ["--account", &format!("{}@example.org", unique("new")), "--name", "laptop"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "{:?}", run.stdout);
    models(&format!("Bearer {}", lines[0])).ok();
}

#[test]
fn list_shows_ids_and_never_a_secret_and_revoke_takes_an_id() {
    let email = format!("{}@example.org", unique("listed"));
    let run = service().keys("create", ["--account", &email, "--name", "the one of the build machine"]);
    let secret = run.stdout.trim();
    let listed = || {
        let run = service().keys("list", [] as [&str; 0]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        assert!(!run.stdout.contains(secret), "the secret is shown once");
        let row = run.stdout.lines().find(|line| line.contains(&email)).expect("a row of the account").to_owned();
        assert!(row.contains("the one of the build machine"), "{row}");
        row
    };
    let row = listed();
    let id = row.split_whitespace().find(|word| word.starts_with("key_")).expect("an id").to_owned();
    assert_eq!(service().keys("revoke", [&id]).status, Some(0));
    assert_unauthorized(&models(&format!("Bearer {secret}")));
    assert_ne!(listed(), row, "it is listed as revoked");
}

#[test]
fn an_unknown_key_cannot_be_revoked() {
    for unknown in ["svc_nothing", "key_nothing"] {
        let run = service().keys("revoke", [unknown]);
        assert_eq!(run.status, Some(1), "{unknown}");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[test]
fn a_mistyped_data_folder_is_reported_and_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let typo = dir.path().join("dta");
    for args in [&["list"][..], &["revoke", "svc_nothing"]] {
        let run = auricle([&["keys"], args, &["--data", typo.to_str().unwrap()]].concat());
        assert_eq!(run.status, Some(1), "{}", run.stdout);
        assert!(run.stderr.contains("dta"), "{}", run.stderr);
        assert!(!typo.exists());
    }
}

#[test]
fn a_name_cannot_break_the_list() {
    for (name, code) in [("first line\nsecond", "U+000A"), ("\u{1b}[31mred", "U+001B"), ("abc\u{202e}cba", "U+202E")] {
        let run = service().keys("create", ["--name", name]);
        assert!(run.status == Some(2) && run.stderr.contains(code), "{}", run.stderr);
    }
    let run = service().keys("create", ["--account", "ops\u{200b}@example.com"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
}

#[test]
fn no_secret_is_stored() {
    let service = Setup::new().start();
    let account = service.account();
    account.get("/v2/models").ok();
    let first = service.line("key ").expect("the first start prints a key");
    let secrets = [account.key.trim_start_matches("svc_"), first.trim_start_matches("svc_")];
    for entry in std::fs::read_dir(service.data()).unwrap() {
        let Ok(bytes) = std::fs::read(entry.unwrap().path()) else { continue };
        for secret in secrets {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "a key in the data folder");
        }
    }
    let log = service.log();
    assert!(!secrets.iter().any(|secret| log.contains(secret)), "a key in the log");
}

#[test]
fn no_key_opens_the_health_pages() {
    for path in ["/health/live", "/health/ready", "/metrics", "/openapi.json"] {
        assert_eq!(Answer::of(http().get(format!("{}{path}", service().api()))).status, 200, "{path}");
    }
}

#[test]
fn a_key_without_rights_on_a_path_learns_nothing_from_a_body() {
    // The key is checked before the body.
    let request = http().post(format!("{}/v2/transcripts", service().api()));
    assert_unauthorized(&Answer::of(request.header("content-type", "application/json").body("{")));
    let request = http().post(format!("{}/v2/transcripts", service().api()));
    assert_unauthorized(&Answer::of(request.header("content-type", "text/plain").body(json!({}).to_string())));
}
