//! The list of transcripts, whose rows follow their jobs.

use auricle_tests::{Receiver, Setup, eventually, speech, wav};

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

/// A page that shows what a search finds, and leads to the place in the recording.
#[test]
fn a_search_shows_the_sentence_and_leads_to_its_time() {
    let service = Setup::local().starter().start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "searcher@example.org") else { return };
    browser.go(&format!("{}/transcripts/new", service.dashboard()));
    let title = "<img src=x onerror=alert(1)> \"Inauguration\"";
    browser.run(&format!("document.querySelector('[name=title]').value = {title:?}; true"));
    browser.choose("[name=file]", &[&speech()]);
    holds(&mut browser, "the end of the job", "!!document.querySelector('.jobs .badge.completed')");
    let search = format!("{}/transcripts?q=%22country%22%20(inaug*", service.dashboard());
    eventually("the index", || {
        browser.go(&search);
        browser.holds("!!document.querySelector('.found mark')").then_some(())
    });
    pictures(&mut browser, "transcripts-search");
    assert_eq!(browser.run("document.querySelector('.found mark').textContent.toLowerCase()"), "country");
    assert_eq!(browser.run("document.querySelector('td.title a').textContent"), title);
    assert_eq!(browser.run("document.querySelectorAll('td img').length"), "0");
    let start = browser.run("document.querySelector('.found a').hash");
    assert!(start.starts_with("#t="), "{start}");
    browser.follow("document.querySelector('.found a').click()");
    holds(&mut browser, "the lit word", "!!document.querySelector('.lit')");
    assert_eq!(browser.run(NO_FAULTS), "true");
    browser.go(&format!("{}/transcripts?q=%3Cscript%3E*", service.dashboard()));
    assert!(browser.run("document.body.innerText").contains("No transcript matches"));
}
