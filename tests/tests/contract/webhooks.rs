//! Webhook notifications: interface sections 4.1 and 6.1, and the retries that the decisions fix.

use std::collections::HashSet;
use std::sync::OnceLock;

use auricle_tests::{Account, Receiver, Reply, Service, Setup, silence, unique};
use serde_json::json;

/// A receiver has a second to respond here, and retries come a second apart: three of them.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        Setup::local().with("webhook_timeout_seconds", 1).with("webhook_retry_seconds", "[1, 1, 1]").start()
    })
}

fn receiver() -> &'static Receiver {
    static RECEIVER: OnceLock<Receiver> = OnceLock::new();
    RECEIVER.get_or_init(Receiver::new)
}

/// A transcript whose webhook goes to a path of its own that answers so: its account, id and path.
fn notified(replies: impl IntoIterator<Item = Reply>) -> (Account, String, String) {
    let path = format!("/{}", unique("hook"));
    let url = receiver().answers(&path, replies);
    let account = service().account();
    let body = json!({"upload_id": account.upload("a.wav", silence(0.5)), "webhook_url": url});
    let id = account.create(&body);
    (account, id, path)
}

/// Exhausts the retries of another webhook. Retries of earlier webhooks have been sent by then.
fn let_retries_pass() {
    let (.., path) = notified([Reply::Status(500)]);
    receiver().wait(&path, 4);
}

#[test]
fn completion_is_notified_with_three_fields_and_no_text() {
    let (account, id, path) = notified([Reply::Status(200)]);
    let delivery = receiver().wait(&path, 1).remove(0);
    assert_eq!(delivery.method, "POST");
    assert!(delivery.headers["content-type"].to_str().unwrap().starts_with("application/json"));
    assert!(!delivery.headers["x-svc-delivery"].is_empty());
    assert_eq!(delivery.json(), json!({"event": "transcript.completed", "transcript_id": id, "status": "completed"}));
    let transcript = account.transcript(&id);
    assert_eq!(transcript["status"], "completed", "it can be read by the time it is announced");
    assert_eq!(transcript["webhook_url"], receiver().url(&path));
}

#[test]
fn an_error_is_notified() {
    let account = service().account();
    let path = format!("/{}", unique("hook"));
    let body = json!({"upload_id": account.upload("a.wav", "no sound"), "webhook_url": receiver().url(&path)});
    let id = account.create(&body);
    let delivery = receiver().wait(&path, 1).remove(0);
    assert_eq!(delivery.json(), json!({"event": "transcript.error", "transcript_id": id, "status": "error"}));
}

#[test]
fn any_2xx_is_accepted_and_not_repeated() {
    let hooks = [200, 201, 202, 204].map(|status| notified([Reply::Status(status)]));
    hooks.iter().for_each(|(.., path)| drop(receiver().wait(path, 1)));
    let_retries_pass();
    for (.., path) in hooks {
        assert_eq!(receiver().deliveries(&path).len(), 1);
    }
}

#[test]
fn a_5xx_is_retried_with_the_same_body() {
    let (_, _, path) = notified([Reply::Status(500), Reply::Status(503), Reply::Status(200)]);
    let deliveries = receiver().wait(&path, 3);
    assert!(deliveries.iter().all(|delivery| delivery.json() == deliveries[0].json()));
    let ids: HashSet<_> = deliveries.iter().map(|delivery| delivery.headers["x-svc-delivery"].clone()).collect();
    assert_eq!(ids.len(), 3, "an id for each attempt");
}

#[test]
fn a_closed_connection_is_retried() {
    let (.., path) = notified([Reply::Disconnect, Reply::Status(200)]);
    receiver().wait(&path, 2);
}

#[test]
fn a_receiver_that_does_not_respond_in_time_is_tried_again() {
    let (.., path) = notified([Reply::Silence, Reply::Status(200)]);
    receiver().wait(&path, 2);
}

#[test]
fn a_4xx_is_final() {
    let hooks = [400, 401, 404, 410, 429].map(|status| notified([Reply::Status(status)]));
    hooks.iter().for_each(|(.., path)| drop(receiver().wait(path, 1)));
    let_retries_pass();
    for (.., path) in hooks {
        assert_eq!(receiver().deliveries(&path).len(), 1);
    }
}

#[test]
fn a_redirect_is_final_and_not_followed() {
    let target = format!("/{}", unique("target"));
    let (.., path) = notified([Reply::Redirect(receiver().url(&target))]);
    receiver().wait(&path, 1);
    let_retries_pass();
    assert_eq!(receiver().deliveries(&path).len(), 1);
    assert_eq!(receiver().deliveries(&target).len(), 0);
}

#[test]
fn attempts_end_with_the_schedule_and_the_transcript_stays() {
    let (account, id, path) = notified([Reply::Status(500)]);
    receiver().wait(&path, 4);
    let before = account.transcript(&id);
    let_retries_pass();
    assert_eq!(receiver().deliveries(&path).len(), 4, "the first attempt and three retries");
    assert_eq!(account.transcript(&id), before, "a failed delivery changes nothing");
    assert_eq!(before["status"], "completed");
}

#[test]
fn a_slow_receiver_does_not_hold_up_others() {
    let slow: Vec<_> = (0..4).map(|_| notified([Reply::Silence])).collect();
    let (.., path) = notified([Reply::Status(200)]);
    receiver().wait(&path, 1);
    drop(slow);
}

#[test]
fn a_webhook_url_is_a_public_http_url() {
    // Nothing private is allowed here.
    let service = Setup::new().start();
    let account = service.account();
    let upload = account.upload("a.wav", silence(0.5));
    let bad = [
        "",
        "not a url",
        "/hook",
        "ftp://example.org/hook",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http://localhost/hook",
        "https://localhost:8443/hook",
        "http://LocalHost./hook",
        "http://api.localhost/hook",
        "http://127.0.0.1/hook",
        "http://127.1/hook",
        "http://2130706433/hook",
        "http://0x7f000001/hook",
        "http://0177.0.0.1/hook",
        "http://0.0.0.0/hook",
        "http://10.1.2.3/hook",
        "http://172.16.0.1/hook",
        "http://172.31.255.255/hook",
        "http://192.168.0.10/hook",
        "http://169.254.169.254/hook",
        "http://100.64.0.1/hook",
        "http://192.0.2.1/hook",
        "http://198.51.100.7/hook",
        "http://203.0.113.9/hook",
        "http://224.0.0.1/hook",
        "http://255.255.255.255/hook",
        "http://[::1]/hook",
        "http://[::]/hook",
        "http://[fe80::1]/hook",
        "http://[fc00::1]/hook",
        "http://[fd12:3456::1]/hook",
        "http://[ff02::1]/hook",
        "http://[2001:db8::1]/hook",
        "http://[::ffff:127.0.0.1]/hook",
        "http://[::ffff:10.0.0.1]/hook",
        "http://[64:ff9b::7f00:1]/hook",
        "http://[2002:7f00:1::]/hook",
        "http://[2001:0:7f00:1::]/hook",
        "http://intranet/hook",
        "http://hooks.internal/hook",
        "http://printer.local/hook",
    ];
    for url in bad {
        let answer = account.post("/v2/transcripts", &json!({"upload_id": upload, "webhook_url": url}));
        assert_eq!(answer.status, 400, "{url} was accepted");
        answer.error(400, "invalid_webhook_url");
    }
}

#[test]
fn public_urls_are_accepted_and_a_name_that_does_not_resolve_too() {
    let account = service().account();
    for url in ["https://example.org/hook?a=b", "http://203.0.114.1:8080/hook", "https://nowhere.invalid/hook"] {
        let body = json!({"upload_id": account.upload("a.wav", silence(0.5)), "webhook_url": url});
        let id = account.create(&body);
        let done = account.finished(&id);
        assert_eq!((&done["status"], &done["webhook_url"]), (&json!("completed"), &json!(url)));
    }
}
