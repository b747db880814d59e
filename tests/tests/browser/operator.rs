//! The operator's page, which pulls a checkpoint.

use std::collections::HashMap;

use auricle_tests::hub::{Hub, HubFaults};
use auricle_tests::{Account, Browser, PASSWORD, Setup, fixtures, silence, wav};
use serde_json::json;

use crate::dashboard::{NO_FAULTS, holds, pictures, send};

const OPERATOR: &str = "operator@example.org";

#[test]
fn the_operator_sees_the_service_and_pulls_a_checkpoint() {
    let hub = Hub::serve("openai/whisper-base", &fixtures().join("whisper/multi"));
    let models = tempfile::tempdir().unwrap();
    let shipped = auricle_tests::models();
    std::fs::copy(shipped.join("catalog.toml"), models.path().join("catalog.toml")).unwrap();
    std::os::unix::fs::symlink(shipped.join("starter"), models.path().join("starter")).unwrap();
    let service = Setup::local()
        .on(models.path())
        .with("operators", format!("[\"{OPERATOR}\"]"))
        .environment([("HF_ENDPOINT", hub.url())])
        .start();
    let account = Account { api: service.api(), key: service.key(OPERATOR), email: OPERATOR.into() };
    let link = service.password_link(OPERATOR);
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let at = |path: &str| format!("{}{path}", service.dashboard());
    let Some(mut browser) = Browser::open(&at(&link), &microphone) else { return };
    holds(&mut browser, "the link", "document.readyState == 'complete' && !!document.querySelector('[name=password]')");
    send(&mut browser, &[("password", PASSWORD)]);
    browser.follow("document.querySelector('nav a[href=\"/operator\"]').click()");
    assert_eq!(browser.run("document.querySelectorAll('tbody .badge.queued').length > 3"), "true", "starters");
    assert_eq!(browser.run(NO_FAULTS), "true");
    pictures(&mut browser, "operator");

    // A starter writes a text, and its page has the button that pulls a better model.
    let upload = account.upload("speech.wav", silence(1.0));
    let id = account.create(&json!({ "upload_id": upload, "model": "svc-fast" }));
    account.finished(&id);
    browser.go(&at("/transcripts"));
    let notice = "document.querySelector('.notice')";
    let text = browser.run(&format!("{notice}.innerText"));
    assert!(text.contains("svc-fast runs on a small starter") && text.contains("openai/whisper-"), "{text}");
    pictures(&mut browser, "transcripts-starter");
    browser.go(&at(&format!("/transcripts/{id}")));
    assert_eq!(browser.run(&format!("{notice}.querySelector('form').elements.model.value")), "svc-fast");
    pictures(&mut browser, "transcript-starter");
    browser.go(&at("/operator"));

    // The hub stops in the middle of the weights and then goes on: the page follows, and shows the end by itself.
    let cuts = HashMap::from([("model.safetensors".to_owned(), 500_000)]);
    hub.behave(HubFaults { cuts, slow: true, times: Some(1), ..HubFaults::default() });
    let form = "[...document.querySelectorAll('form.pull')].find(form => form.elements.model.value == 'svc-fast')";
    browser.run(&format!("{form}.elements.size.value = 'base'; true"));
    browser.follow(&format!("{form}.requestSubmit()"));
    holds(&mut browser, "the progress", "document.querySelector('[data-pull] progress')?.value > 45");
    assert!(browser.run("document.querySelector('[data-pull]').innerText").contains("openai/whisper-base"));
    pictures(&mut browser, "operator-pulling");
    holds(&mut browser, "the end", "document.querySelector('[data-state]')?.textContent == 'svc-fast now runs on it'");
    holds(&mut browser, "the page is there", "document.readyState == 'complete'");
    let row = "[...document.querySelectorAll('tbody tr')].find(row => row.innerText.startsWith('svc-fast')).innerText";
    let row = browser.run(row);
    assert!(row.contains("Published") && row.contains("openai/whisper-base"), "{row}");
    pictures(&mut browser, "operator-pulled");
    browser.go(&at("/transcripts"));
    assert_eq!(browser.run(&format!("!{notice}")), "true", "the better model is there");
    browser.go(&at("/operator"));

    // The hub's own words about a failure.
    browser.follow(
        "[...document.querySelectorAll('form.pull')].find(form => form.elements.model.value == 'chat').requestSubmit()",
    );
    holds(&mut browser, "the failure", "!!document.querySelector('[data-state].problem')");
    assert!(browser.run("document.querySelector('[data-state]').textContent").contains("has no"));
    pictures(&mut browser, "operator-failed");
}
