//! Signatures of webhooks: a receiver of its own and the Python package of Standard Webhooks verify them.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Clock, Delivery, Receiver, Reply, Service, Setup, http, silence, skip, unique};
use chrono::{DateTime, Utc};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::postgres;

const PATH: &str = "/v2/webhooks/secret";

/// The headers of the standard.
const HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

fn quick() -> Setup {
    Setup::local().with("webhook_timeout_seconds", 1).with("webhook_retry_seconds", "[1, 1, 1]")
}

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| quick().start())
}

fn receiver() -> &'static Receiver {
    static RECEIVER: OnceLock<Receiver> = OnceLock::new();
    RECEIVER.get_or_init(Receiver::new)
}

/// Makes a secret on the API.
fn rotate(account: &Account) -> String {
    account.post_empty(PATH).ok()["secret"].as_str().unwrap().to_owned()
}

/// Sends a webhook of an account to a receiver with these answers, and returns the attempts.
fn delivered(account: &Account, answers: &[u16]) -> Vec<Delivery> {
    let path = format!("/{}", unique("signed"));
    let url = receiver().answers(&path, answers.iter().map(|status| Reply::Status(*status)));
    account.create(&json!({"upload_id": account.upload("a.wav", silence(0.5)), "webhook_url": url}));
    receiver().wait(&path, answers.len())
}

fn header<'a>(delivery: &'a Delivery, name: &str) -> &'a str {
    delivery.headers[name].to_str().unwrap()
}

/// The signature of a delivery with a secret.
fn signature(delivery: &Delivery, secret: &str) -> String {
    let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
    assert!((24..=32).contains(&key.len()), "{} bytes", key.len());
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    for part in [header(delivery, "webhook-id"), ".", header(delivery, "webhook-timestamp"), "."] {
        mac.update(part.as_bytes());
    }
    mac.update(&delivery.body);
    format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
}

/// True if a delivery has the signatures of these secrets and no other, in their order.
pub(crate) fn is_signed_with(delivery: &Delivery, secrets: &[&str]) -> bool {
    let expected: Vec<String> = secrets.iter().map(|secret| signature(delivery, secret)).collect();
    header(delivery, "webhook-signature").split(' ').eq(expected)
}

fn is_unsigned(delivery: &Delivery) -> bool {
    HEADERS.iter().all(|name| !delivery.headers.contains_key(*name))
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn every_attempt_is_signed_once_the_account_has_a_secret() {
    let account = service().account();
    account.get(PATH).error(404, "not_found");
    assert!(is_unsigned(&delivered(&account, &[200])[0]));
    let mut made = account.post_empty(PATH).ok();
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!((&made["object"], &made["previous_valid_until"]), (&json!("webhook_secret"), &Value::Null));
    let ending = made["last_characters"].as_str().unwrap();
    assert!(ending.len() == 4 && secret.ends_with(ending), "{made}");
    made.as_object_mut().unwrap().remove("secret");
    assert_eq!(account.get(PATH).ok(), made, "it is shown once");

    let attempts = delivered(&account, &[500, 503, 200]);
    let id = header(&attempts[0], "webhook-id");
    for attempt in &attempts {
        assert!(is_signed_with(attempt, &[&secret]), "{:?}", attempt.headers);
        assert_eq!(header(attempt, "webhook-id"), id, "the id is that of the webhook");
        assert!(header(attempt, "x-svc-delivery").starts_with(&format!("{id}-")));
        assert_eq!(attempt.json()["event"], "transcript.completed");
        // Receivers refuse what is older.
        let age = Utc::now().timestamp() - header(attempt, "webhook-timestamp").parse::<i64>().unwrap();
        assert!((-300..=300).contains(&age), "{age} s");
    }
    let other = format!("whsec_{}", BASE64.encode(&[7; 24]));
    assert!(!is_signed_with(&attempts[0], &[&other]));
}

/// Rotates twice and removes the secret.
fn rotation(setup: Setup) {
    let service = setup.start();
    let account = service.account();
    let first = rotate(&account);
    let made = account.post_empty(PATH).ok();
    let second = made["secret"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    let overlap = time(&made["previous_valid_until"]) - time(&made["created_at"]);
    assert_eq!(overlap.num_milliseconds(), 24 * 3_600_000);
    assert_eq!(account.get(PATH).ok()["previous_valid_until"], made["previous_valid_until"]);
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&second, &first]), "the newest comes first");
    let third = rotate(&account);
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&third, &second]), "two sign at most");
    assert_eq!(account.delete(PATH).status, 204);
    account.get(PATH).error(404, "not_found");
    account.delete(PATH).error(404, "not_found");
    assert!(is_unsigned(&delivered(&account, &[200])[0]));
    let fourth = rotate(&account);
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&fourth]), "a removed secret signs no more");
}

#[test]
fn a_rotated_secret_signs_beside_the_new_one() {
    rotation(quick());
}

#[test]
fn a_rotated_secret_signs_beside_the_new_one_on_postgres() {
    let Some(server) = postgres() else { return };
    rotation(quick().with("database_url", server.database()));
}

#[test]
fn a_rotated_secret_signs_for_a_day() {
    let Some(clock) = Clock::new() else { return };
    let service = quick().environment(clock.environment()).start();
    let account = service.account();
    let (first, second) = (rotate(&account), rotate(&account));
    clock.set("+23h");
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&second, &first]));
    clock.set("+25h");
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&second]));
    assert_eq!(account.get(PATH).ok()["previous_valid_until"], Value::Null);
}

#[test]
fn a_secret_is_its_accounts_own() {
    let (account, other) = (service().account(), service().account());
    let secret = rotate(&account);
    other.get(PATH).error(404, "not_found");
    other.delete(PATH).error(404, "not_found");
    assert!(is_unsigned(&delivered(&other, &[200])[0]));
    let others = rotate(&other);
    assert!(is_signed_with(&delivered(&other, &[200])[0], &[&others]));
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&secret]));
    assert_eq!(other.delete(PATH).status, 204);
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&secret]));
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let answer = Answer::of(http().request(method, format!("{}{PATH}", service().api())));
        answer.error(401, "unauthorized");
    }
}

#[test]
fn a_secret_is_neither_logged_nor_stored_as_it_is() {
    let service = quick().environment([("AURICLE_LOG", "debug".to_owned())]).start();
    let account = service.account();
    let secret = rotate(&account);
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[&secret]));
    let files: Vec<Vec<u8>> = ["auricle.db", "auricle.db-wal"]
        .iter()
        .filter_map(|name| std::fs::read(service.data().join(name)).ok())
        .chain([service.log().into_bytes()])
        .collect();
    let holds = |text: &[u8]| files.iter().any(|file| file.windows(text.len()).any(|part| part == text));
    assert!(holds(account.email.as_bytes()), "the account is stored");
    let encoded = secret.strip_prefix("whsec_").unwrap();
    assert!(!holds(encoded.as_bytes()) && !holds(&BASE64.decode(encoded.as_bytes()).unwrap()));
}

#[test]
fn an_administrator_makes_and_removes_a_secret() {
    let account = service().account();
    let run = service().accounts(["webhook-secret", &account.email]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(is_signed_with(&delivered(&account, &[200])[0], &[run.stdout.trim()]));
    let run = service().accounts(["webhook-secret", "--remove", &account.email]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
    account.get(PATH).error(404, "not_found");
    let run = service().accounts(["webhook-secret", "--remove", &account.email]);
    assert!(run.status == Some(1) && run.stderr.contains("has no webhook secret"), "{}", run.stderr);
    let run = service().accounts(["webhook-secret", "nobody@example.org"]);
    assert!(run.status == Some(1) && run.stderr.contains("there is no such account"), "{}", run.stderr);
}

#[test]
fn the_python_package_verifies_a_webhook() {
    let folder = std::env::var_os("AURICLE_PYTHON_TOOLS").map(std::path::PathBuf::from);
    let python = folder.map_or_else(|| "python3".into(), |folder| folder.join("python"));
    let has = Command::new(&python).args(["-c", "import standardwebhooks"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        let install = "pip install standardwebhooks, AURICLE_PYTHON_TOOLS=ENVIRONMENT/bin";
        return skip(&format!("the Python package standardwebhooks ({install})"));
    }
    let account = service().account();
    let (first, second) = (rotate(&account), rotate(&account));
    let delivery = delivered(&account, &[200]).remove(0);
    let headers: Value = HEADERS.iter().map(|name| (*name, header(&delivery, name))).collect();
    let given = json!({"headers": headers, "body": std::str::from_utf8(&delivery.body).unwrap()});
    let program = "import json, sys\n\
                   from standardwebhooks import Webhook, WebhookVerificationError\n\
                   given = json.loads(sys.argv[1])\n\
                   print(json.dumps(Webhook(sys.argv[2]).verify(given['body'], given['headers'])))\n\
                   try:\n    Webhook(sys.argv[2]).verify(given['body'] + ' ', given['headers'])\n\
                   except WebhookVerificationError:\n    print('refused')";
    for secret in [first, second] {
        let run = Command::new(&python).args(["-c", program, &given.to_string(), &secret]).output().unwrap();
        let printed = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let (read, refused) = printed.trim().split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(read).unwrap(), delivery.json());
        assert_eq!(refused, "refused", "a body that was changed");
    }
}
