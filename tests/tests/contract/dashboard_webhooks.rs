//! The page of webhooks: what was sent, what came back, sending again, and what a hostile receiver tries.

use auricle_tests::{Account, Answer, Receiver, Reply, Service, Setup, Visitor, eventually, silence};
use reqwest::Method;
use serde_json::json;

use crate::postgres;
use crate::webhook_signatures::is_signed_with;

fn quick() -> Setup {
    Setup::local().with("webhook_timeout_seconds", 1).with("webhook_retry_seconds", "[1]")
}

/// A visitor with an account's key.
fn visitor(service: &Service) -> (Visitor, Account) {
    let mut visitor = Visitor::signed_up(service);
    let key = visitor.key("k");
    visitor.get("/webhooks");
    (visitor, Account { api: service.api(), key, email: String::new() })
}

/// Creates a transcript whose webhook goes there.
fn notify(account: &Account, url: &str) -> String {
    account.create(&json!({"upload_id": account.upload("a.wav", silence(0.5)), "webhook_url": url}))
}

/// The ids of the list.
fn ids(page: &Answer) -> Vec<String> {
    let rows = page.text().split("class=\"title\"><a href=\"/webhooks/").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned()).collect()
}

/// The page of a webhook once it has come to an end.
fn ended(visitor: &mut Visitor, id: &str, state: &str) -> Answer {
    let name = if state == "completed" { "Delivered" } else { "Failed" };
    eventually("the webhook ends", || {
        let page = visitor.get(&format!("/webhooks/{id}"));
        page.text().contains(&format!("<span class=\"badge {state}\">{name}</span>")).then_some(page)
    })
}

fn attempts_are_shown_and_sent_again(setup: Setup) {
    let service = setup.start();
    let receiver = Receiver::new();
    let (mut visitor, account) = visitor(&service);
    assert!(visitor.get("/webhooks").text().contains("No webhooks yet"));
    let body = |status, text: &'static str| Reply::Body(status, "text/plain", text.into());
    let url = receiver.answers("/hook", [body(500, "it is broken here"), body(503, "still"), body(200, "thank you")]);
    let transcript = notify(&account, &url);
    let id = eventually("it is listed", || ids(&visitor.get("/webhooks")).pop());
    let page = ended(&mut visitor, &id, "error");
    for shown in [&url, "transcript.completed", &transcript, "500", "it is broken here", "503", "still"] {
        assert!(page.text().contains(shown), "{shown}: {}", page.text());
    }
    let sent = receiver.wait("/hook", 2).remove(0).json();
    let body = page.text().replace("&#34;", "\"");
    assert!(body.contains(&sent.to_string()), "what was sent is shown: {sent} {body}");
    assert_eq!(
        visitor.post(&format!("/webhooks/{id}/send"), &[]).header("location"),
        Some(format!("/webhooks/{id}").as_str())
    );
    let page = ended(&mut visitor, &id, "completed");
    assert!(page.text().contains("thank you") && page.text().contains("it is broken here"), "{}", page.text());
    let deliveries = receiver.wait("/hook", 3);
    assert_eq!(deliveries.len(), 3);
    assert!(deliveries.iter().all(|delivery| delivery.json() == sent));
    let numbers: Vec<_> = deliveries.iter().map(|delivery| delivery.headers["x-svc-delivery"].clone()).collect();
    assert!(numbers[2].to_str().unwrap().ends_with("-3"), "{numbers:?}");
    // One that was accepted can be sent again, too, with all its attempts.
    receiver.answers("/hook", [Reply::Status(500)]);
    visitor.post(&format!("/webhooks/{id}/send"), &[]);
    receiver.wait("/hook", 5);
    ended(&mut visitor, &id, "error");
    // A receiver that is not there.
    let gone = notify(&account, "http://127.0.0.1:1/");
    let id = eventually("it is listed", || ids(&visitor.get("/webhooks")).into_iter().find(|other| *other != id));
    let page = ended(&mut visitor, &id, "error");
    assert!(page.text().contains("No answer") && page.text().contains(&gone), "{}", page.text());
}

#[test]
fn attempts_are_shown_and_sent_again_on_sqlite() {
    attempts_are_shown_and_sent_again(quick());
}

#[test]
fn attempts_are_shown_and_sent_again_on_postgres() {
    let Some(server) = postgres() else { return };
    attempts_are_shown_and_sent_again(quick().with("database_url", server.database()));
}

#[test]
fn an_answer_is_never_markup_and_never_long() {
    let service = quick().start();
    let receiver = Receiver::new();
    let (mut visitor, account) = visitor(&service);
    let attack = "</pre></main>\"'><script>alert(1)</script><img src=x onerror=alert(1)>\0\u{1b}[2J";
    let long = format!("{}END", "ä".repeat(1 << 20));
    let url = receiver.answers("/hook/\"><script>alert(2)</script>", [Reply::Status(200)]);
    receiver.answers("/attack", [Reply::Body(400, "text/html", attack.into())]);
    receiver.answers("/long", [Reply::Body(200, "text/plain", long.into())]);
    for path in ["/attack", "/long"] {
        notify(&account, &receiver.url(path));
    }
    notify(&account, &url);
    let all = eventually("three webhooks", || Some(ids(&visitor.get("/webhooks"))).filter(|ids| ids.len() == 3));
    let bad = |page: &Answer| page.text().contains("<script>alert") || page.text().contains("<img src=x");
    assert!(!bad(&visitor.get("/webhooks")));
    for id in &all {
        let page = eventually("it ends", || {
            Some(visitor.get(&format!("/webhooks/{id}"))).filter(|page| !page.text().contains("badge queued"))
        });
        assert!(!bad(&page), "{}", page.text());
        assert!(!page.text().contains("END") && page.body.len() < 40_000, "{}", page.body.len());
        assert!(!page.text().contains(['\0', '\u{1b}']));
    }
    let pages: String = all.iter().map(|id| visitor.get(&format!("/webhooks/{id}")).text().to_owned()).collect();
    // The header of an answer may hold a secret.
    let moved = receiver.answers("/moved", [Reply::Redirect("https://example.org/?token=hunter2".into())]);
    notify(&account, &moved);
    let id = eventually("it is listed", || ids(&visitor.get("/webhooks")).into_iter().find(|id| !all.contains(id)));
    let page = ended(&mut visitor, &id, "error");
    assert!(page.text().contains("302") && !page.text().contains("hunter2"), "{}", page.text());
    assert!(pages.contains("&#60;script&#62;alert(1)") && pages.contains("ääää"), "both answers are shown");
    assert!(!bad(&visitor.get("/webhooks?after=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E")));
}

#[test]
fn a_slow_answer_is_accepted_all_the_same() {
    let service = quick().start();
    let receiver = Receiver::new();
    let (mut visitor, account) = visitor(&service);
    // The head comes at once, and half of a body that never ends.
    let gate = auricle_tests::Gate::new();
    let url = receiver.answers("/slow", [Reply::Held("0123456789".into(), gate.clone())]);
    notify(&account, &url);
    let id = eventually("it is listed", || ids(&visitor.get("/webhooks")).pop());
    let page = ended(&mut visitor, &id, "completed");
    assert!(page.text().contains("01234"), "{}", page.text());
    assert_eq!(receiver.deliveries("/slow").len(), 1);
    gate.open();
}

#[test]
fn webhooks_of_another_account_are_not_found_and_forms_not_forged() {
    let service = quick().start();
    let receiver = Receiver::new();
    let (mut owner, account) = visitor(&service);
    notify(&account, &receiver.url("/hook"));
    let id = eventually("it is listed", || ids(&owner.get("/webhooks")).pop());
    ended(&mut owner, &id, "completed");
    let mut member = owner.member(&service);
    assert_eq!(member.get(&format!("/webhooks/{id}")).status, 200, "a member sees it");
    let (mut other, _) = visitor(&service);
    assert_eq!(other.get(&format!("/webhooks/{id}")).status, 404);
    assert_eq!(other.post(&format!("/webhooks/{id}/send"), &[]).status, 404);
    assert!(ids(&other.get(&format!("/webhooks?after={}", "z".repeat(40)))).is_empty());
    assert_eq!(owner.get("/webhooks/wh_1").status, 404);
    assert_eq!(owner.post("/webhooks/wh_1/send", &[]).status, 404);
    let foreign = other.token.clone();
    for token in ["", "x", &foreign] {
        assert_eq!(owner.post_with(token, &format!("/webhooks/{id}/send"), &[]).status, 403, "{token}");
    }
    let request = owner.request(Method::POST, &format!("/webhooks/{id}/send")).header("origin", "https://evil.example");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(Answer::of(request.body(format!("form_token={}", owner.token))).status, 403);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(receiver.deliveries("/hook").len(), 1, "nothing was sent again");
}

#[test]
fn the_list_of_webhooks_is_paged() {
    let service = quick().start();
    let receiver = Receiver::new();
    let (mut visitor, account) = visitor(&service);
    let upload = account.upload("a.wav", silence(0.5));
    for _ in 0..60 {
        account.create(&json!({"upload_id": upload, "webhook_url": receiver.url("/hook")}));
    }
    receiver.wait("/hook", 60);
    let first = visitor.get("/webhooks");
    let next = first.text().split_once("rel=\"next\" href=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let mut all = ids(&first);
    assert_eq!(all.len(), 50);
    all.extend(ids(&visitor.get(&next)));
    assert!(all.len() == 60 && all.is_sorted_by(|a, b| a > b), "newest first, each once");
}

#[test]
fn webhooks_go_with_their_transcript() {
    let service = quick().start();
    let receiver = Receiver::new();
    let (mut visitor, account) = visitor(&service);
    let url = receiver.answers("/hook", [Reply::Body(200, "text/plain", "an answer".into())]);
    let gone = notify(&account, &url);
    let kept = notify(&account, &url);
    let all = eventually("both are delivered", || {
        let page = visitor.get("/webhooks");
        (page.text().matches("badge completed").count() == 2).then(|| ids(&page))
    });
    account.delete(&format!("/v2/transcripts/{gone}"));
    let left = ids(&visitor.get("/webhooks"));
    assert_eq!(left.len(), 1);
    assert!(visitor.get(&format!("/webhooks/{}", left[0])).text().contains(&kept));
    let deleted = all.iter().find(|id| !left.contains(id)).unwrap();
    assert_eq!(visitor.get(&format!("/webhooks/{deleted}")).status, 404);
}

#[test]
fn the_secret_of_webhooks_is_shown_once() {
    let service = quick().start();
    let receiver = Receiver::new();
    let (mut visitor, account) = visitor(&service);
    let create = |visitor: &mut Visitor| {
        let page = visitor.post("/webhooks/secret", &[]);
        assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")));
        let shown = page.text().split_once("<code id=\"secret\" tabindex=\"0\">").expect("the secret").1;
        shown.split('<').next().unwrap().to_owned()
    };
    assert!(visitor.get("/webhooks").text().contains("Create a secret"));
    let first = create(&mut visitor);
    let page = visitor.get("/webhooks");
    let shown =
        |page: &Answer, secret: &str| page.text().contains(&format!("<code>{}</code>", &secret[secret.len() - 4..]));
    assert!(shown(&page, &first) && !page.text().contains(&first) && !page.text().contains("Create a secret"));
    let mut member = visitor.member(&service);
    let second = create(&mut member);
    assert!(
        shown(&visitor.get("/webhooks"), &second) && visitor.get("/webhooks").text().contains("The secret before it")
    );
    notify(&account, &receiver.url("/hook"));
    assert!(is_signed_with(&receiver.wait("/hook", 1)[0], &[&second, &first]));
    for token in ["", "x"] {
        assert_eq!(visitor.post_with(token, "/webhooks/secret", &[]).status, 403);
        assert_eq!(visitor.post_with(token, "/webhooks/secret/remove", &[]).status, 403);
    }
    assert_eq!(Visitor::new(&service).post("/webhooks/secret", &[]).header("location"), Some("/login"));
    assert!(shown(&visitor.get("/webhooks"), &second), "nothing has changed");
    assert_eq!(visitor.post("/webhooks/secret/remove", &[]).header("location"), Some("/webhooks"));
    assert!(visitor.get("/webhooks").text().contains("Create a secret"));
    notify(&account, &receiver.url("/unsigned"));
    assert!(!receiver.wait("/unsigned", 1)[0].headers.contains_key("webhook-signature"));
}
