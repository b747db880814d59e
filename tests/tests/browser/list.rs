//! The list of transcripts, whose rows follow their jobs.

use auricle_tests::{Receiver, Setup, wav};

use crate::dashboard::{NO_FAULTS, holds, pictures, signed_up};

/// Requests of the page's script while ten others are answered. Its timers end at once, so that it waits for nothing but answers.
const ASKED_MEANWHILE: &str = "(async () => {
    const before = window.asked
    for (let left = 10; left > 0; left--) await window.realFetch('/assets/none')
    return window.asked - before
})()";

#[test]
fn the_rows_of_the_list_follow_their_jobs_while_the_page_is_seen() {
    let receiver = Receiver::new();
    let service = Setup::local().start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "lister@example.org") else { return };
    let (first, first_gate) = receiver.held();
    let (second, second_gate) = receiver.held();
    for url in [&first, &second] {
        browser.run(&format!(
            "fetch('/data/transcripts', {{
                 method: 'POST',
                 headers: {{
                     'content-type': 'application/json',
                     'x-form-token': document.querySelector('meta[name=form-token]').content,
                 }},
                 body: JSON.stringify({{ audio_url: {url:?}, model: 'svc-fast' }}),
             }}).then(response => response.ok)"
        ));
    }
    browser.go(&format!("{}/transcripts", service.dashboard()));
    // The newest is on top.
    let row = |at: usize| format!("document.querySelectorAll('tbody tr')[{at}]");
    let badge = |at: usize| format!("{}.querySelector('.badge').className", row(at));
    for at in [0, 1] {
        holds(&mut browser, "a running row", &format!("{} == 'badge processing'", badge(at)));
        assert!(browser.run(&format!("{}.innerText", row(at))).contains("svc-fast"), "the model stands in the row");
    }
    pictures(&mut browser, "transcripts-running");
    browser.run(
        "window.stays = true; window.asked = 0; window.away = false; window.realFetch = window.fetch;
         window.fetch = (...all) => { window.asked++; return window.realFetch(...all) };
         window.setTimeout = done => queueMicrotask(done);
         Object.defineProperty(document, 'hidden', { get: () => window.away }); true",
    );
    holds(&mut browser, "the page asks", "window.asked > 3");
    first_gate.open();
    holds(&mut browser, "the end of the first", &format!("{} == 'badge completed'", badge(1)));
    assert_eq!(browser.run(&format!("{}.querySelector('[data-length]').textContent", row(1))), "0:01");
    assert_eq!(browser.run(&badge(0)), "badge processing");

    // A hidden page sends no request, once its last one is answered.
    browser.run("window.away = true");
    holds(&mut browser, "no request", &format!("{ASKED_MEANWHILE}.then(asked => asked == 0)"));
    second_gate.open();
    assert_eq!(browser.run(ASKED_MEANWHILE), "0");
    assert_eq!(browser.run(&badge(0)), "badge processing");
    browser.run("window.away = false; document.dispatchEvent(new Event('visibilitychange')); true");
    holds(&mut browser, "the end of the second", &format!("{} == 'badge completed'", badge(0)));
    // Nothing runs, so there is nothing to ask.
    holds(&mut browser, "no request", &format!("{ASKED_MEANWHILE}.then(asked => asked == 0)"));
    assert_eq!(browser.run("window.stays"), "true", "the page was not loaded again");
    assert_eq!(browser.run(NO_FAULTS), "true");
}
