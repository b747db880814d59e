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

/// Transcripts are chosen, tagged and deleted together; the page asks before it deletes.
#[test]
fn many_transcripts_are_tagged_and_deleted_together() {
    let service = Setup::local().with("role", "api").start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "librarian@example.org") else { return };
    // One more than a page.
    browser.run(
        "(async () => {
             const headers = {
                 'content-type': 'application/json',
                 'x-form-token': document.querySelector('meta[name=form-token]').content,
             }
             for (let at = 0; at < 51; at++) {
                 const body = JSON.stringify({ audio_url: 'https://example.com/a.wav', title: `Talk ${at}` })
                 await fetch('/data/transcripts', { method: 'POST', headers, body })
             }
             return true
         })()",
    );
    let list = format!("{}/transcripts", service.dashboard());
    browser.go(&list);
    let boxes = "[...document.querySelectorAll('[data-select]')]";
    assert_eq!(browser.run("document.querySelector('[data-bulk]').hidden"), "true");
    browser.run(&format!("{boxes}.slice(0, 2).forEach(box => box.click()); true"));
    assert!(browser.run("document.querySelector('[data-bulk]').innerText").contains("2 chosen"));
    let export = browser.run("document.querySelector('[data-export=srt]').href");
    assert!(export.contains("/transcripts/export?ids=tr_") && export.ends_with("&format=srt"), "{export}");
    browser.run("document.querySelector('[data-bulk] [name=tag]').value = '<b>Board & co</b>'; true");
    browser.follow("document.querySelector('[data-change=add_tag]').click()");
    assert_eq!(
        browser.run("document.querySelectorAll('.tag').length + document.querySelector('.tag').textContent"),
        "2<b>Board & co</b>"
    );
    browser.run(&format!("{boxes}.slice(0, 1).forEach(box => box.click()); true"));
    pictures(&mut browser, "transcripts-chosen");
    browser.follow("document.querySelector('.tag').click()");
    assert_eq!(browser.run(&format!("{boxes}.length")), "2");
    assert_eq!(browser.run("document.querySelector('[name=tag]').value"), "<b>Board & co</b>");

    // By a heading.
    browser.go(&list);
    browser.follow("document.querySelector('th a').click()");
    assert_eq!(browser.run("document.querySelector('th[aria-sort]').innerText"), "Title");
    assert_eq!(browser.run("document.querySelector('td.title').innerText"), "Talk 0");

    // All that match, beyond the page. Escape leaves them.
    browser.run("document.querySelector('[data-select-page]').click(); document.querySelector('[data-everything]').click(); true");
    assert!(browser.run("document.querySelector('[data-chosen]').innerText").contains("All that match"));
    browser.run("document.querySelector('[data-change=delete]').click(); true");
    holds(&mut browser, "the question", "document.querySelector('.question')?.open");
    pictures(&mut browser, "transcripts-delete");
    browser.run("document.querySelector('.question button').click(); true");
    holds(&mut browser, "no dialog", "!document.querySelector('.question')");
    assert_eq!(browser.run(&format!("{boxes}.length")), "50");
    browser.run("document.querySelector('[data-change=delete]').click(); true");
    browser.follow("document.querySelector('.question .danger').click()");
    assert!(browser.run("document.body.innerText").contains("Nothing transcribed yet"));
    assert_eq!(browser.run(NO_FAULTS), "true");
}
