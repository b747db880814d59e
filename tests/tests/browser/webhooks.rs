//! Webhooks as somebody sees them fail and sends them again.

use auricle_tests::{Account, Receiver, Reply, Setup, eventually, silence, wav};
use serde_json::json;

use crate::dashboard::{NO_FAULTS, pictures, signed_up};

#[test]
fn somebody_sees_a_webhook_fail_and_sends_it_again() {
    let service = Setup::local().with("webhook_timeout_seconds", 1).with("webhook_retry_seconds", "[1]").start();
    let receiver = Receiver::new();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "receiver@example.org") else { return };
    let at = |path: &str| format!("{}{path}", service.dashboard());
    browser.go(&at("/webhooks"));
    assert!(browser.run("document.body.innerText").contains("No webhooks yet"));
    pictures(&mut browser, "webhooks-empty");

    browser.go(&at("/keys"));
    browser.run("document.querySelector('form.inline [name=name]').value = 'k'; true");
    browser.follow("document.querySelector('form.inline').requestSubmit()");
    let key = browser.run("document.querySelector('#secret').textContent");
    let account = Account { api: service.api(), key, email: String::new() };
    let attack =
        "{\"error\": \"<img src=x onerror='window.attacked = 1'>\", \"trace\": \"".to_owned() + &"x".repeat(3000);
    let broken = Reply::Body(500, "application/json", attack.into());
    let url = receiver.answers("/hooks/recordings", [broken]) + "?team=support";
    let upload = account.upload("a.wav", silence(0.5));
    account.create(&json!({"upload_id": upload, "webhook_url": receiver.url("/fine")}));
    account.create(&json!({"upload_id": upload, "webhook_url": url}));
    account.create(&json!({"upload_id": upload, "webhook_url": "http://127.0.0.1:1/nobody/listens/here"}));
    let shows = |browser: &mut auricle_tests::Browser, path: &str, condition: &str| {
        eventually(condition, || {
            browser.go(&at(path));
            browser.holds(condition).then_some(())
        });
    };
    shows(
        &mut browser,
        "/webhooks",
        "document.querySelectorAll('.badge.error').length == 2 && document.querySelectorAll('.badge.completed').length == 1",
    );
    let time = browser.run("document.querySelector('tbody time').textContent");
    assert!(!time.contains("UTC"), "a time of the reader: {time}");
    pictures(&mut browser, "webhooks");
    let path = browser.run("document.querySelector('tbody a[href^=\"/webhooks/\"]').getAttribute('href')");
    browser.go(&at(&path));
    pictures(&mut browser, "webhook-unanswered");
    browser.go(&at("/webhooks"));
    browser
        .follow("[...document.querySelectorAll('tbody a')].find(link => link.textContent.includes('support')).click()");
    let path = browser.run("location.pathname");
    assert_eq!(browser.run("document.querySelectorAll('.attempts li').length"), "2");
    let answer = browser.run("document.querySelector('.attempts pre').textContent");
    assert!(answer.starts_with("{\"error\": \"<img src=x") && answer.len() == 2048, "{answer}");
    assert_eq!(browser.run("window.attacked === undefined && !document.querySelector('main img')"), "true");
    assert_eq!(browser.run("document.body.scrollWidth <= innerWidth"), "true", "a long line moves nothing");
    assert_eq!(browser.run(NO_FAULTS), "true");
    pictures(&mut browser, "webhook");

    receiver.answers("/hooks/recordings", [Reply::Body(200, "text/plain", "Thank you.".into())]);
    browser.follow("document.querySelector('form[action$=\"/send\"]').requestSubmit()");
    shows(&mut browser, &path, "!!document.querySelector('.head .badge.completed')");
    assert_eq!(browser.run("document.querySelector('.attempts pre').textContent"), "Thank you.");
    pictures(&mut browser, "webhook-delivered");
}
