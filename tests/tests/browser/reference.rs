//! The reference of the API, and a request that is tried there.

use auricle_tests::{Setup, wav};

use crate::dashboard::{NO_FAULTS, holds, pictures, signed_up};

#[test]
fn somebody_reads_of_a_request_and_tries_it() {
    let service = Setup::local().with("role", "api").start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "builder@example.org") else { return };
    let at = |path: &str| format!("{}{path}", service.dashboard());
    browser.go(&at("/reference"));
    assert_eq!(browser.run("document.querySelectorAll('.operations a').length > 30"), "true");
    pictures(&mut browser, "reference");
    browser.follow("document.querySelector('.operations a[href$=\"/post_v2_transcripts\"]').click()");
    pictures(&mut browser, "operation");
    let send = "document.querySelector('[data-try]').requestSubmit(); true";
    let answer = "document.querySelector('[data-tried] pre').textContent";

    // A refusal shows the service's own words.
    browser.run("document.querySelector('[name=body]').value = '{\"audio_url\": \"ftp://example.com\"}'; true");
    browser.run(send);
    holds(&mut browser, "a refusal", "document.querySelector('[data-status]').textContent.startsWith('400')");
    assert!(browser.run(answer).contains("audio_url"), "{}", browser.run(answer));
    pictures(&mut browser, "operation-refused");
    let attack = "<img src=x onerror='window.attacked = 1'>";
    browser.run(&format!(
        "document.querySelector('[name=body]').value = JSON.stringify({{ audio_url: 'https://example.com/a.mp3', title: {attack:?} }}); true"
    ));
    browser.run(send);
    holds(&mut browser, "an answer", "document.querySelector('[data-status]').textContent.startsWith('200')");
    assert!(browser.run(answer).contains(attack));
    assert_eq!(browser.run("window.attacked === undefined && !document.querySelector('main img')"), "true");
    let id = browser.run(&format!("JSON.parse({answer}).id"));

    browser.go(&at("/reference/get_v2_transcripts"));
    browser.run("document.querySelector('[name=limit]').value = 1; true");
    browser.run(send);
    holds(&mut browser, "a list", "document.querySelector('[data-status]').textContent.startsWith('200')");
    assert_eq!(browser.run(&format!("JSON.parse({answer}).limit")), "1");
    assert_eq!(browser.run(NO_FAULTS), "true");
    pictures(&mut browser, "operation-answered");

    // What deletes asks before.
    browser.go(&at("/reference/delete_v2_transcripts_transcript_id"));
    browser.run(&format!("document.querySelector('[name=transcript_id]').value = {id:?}; true"));
    browser.run(send);
    assert!(browser.run("document.querySelector('.question').innerText").contains("gone for good"));
    pictures(&mut browser, "operation-question");
    browser.run("document.querySelector('.question button').click(); true");
    holds(&mut browser, "no dialog", "!document.querySelector('.question')");
    assert_eq!(browser.run("document.querySelector('[data-tried]').hidden"), "true");
    browser.run(send);
    browser.run("document.querySelector('.question .danger').click(); true");
    holds(&mut browser, "the end", "document.querySelector('[data-status]').textContent.startsWith('204')");
}
