//! A transcript's page as somebody edits it.

use auricle_tests::{Browser, Setup};

use super::dashboard::{NO_FAULTS, holds, pictures};
use super::transcript::on_two_readers;

/// The text of a paragraph.
fn line(at: usize) -> String {
    format!("document.querySelectorAll('.words p')[{at}]")
}

/// Types a text in the place of the first word of a paragraph.
fn retype(browser: &mut Browser, at: usize, text: &str) {
    let line = line(at);
    holds(browser, "its words", &format!("!!{line}.querySelector('[data-word]')"));
    browser.run(&format!(
        "{{ const line = {line}; line.focus(); const word = line.querySelector('[data-word]').firstChild; \
         getSelection().setBaseAndExtent(word, 0, word, word.length) }} true"
    ));
    browser.type_text(text);
    browser.press("Escape");
}

fn is_saved(browser: &mut Browser) {
    holds(browser, "the edit to be saved", "document.querySelector('[data-saved]').textContent == 'Saved'");
}

/// The text of a paragraph as the service has it.
fn kept(browser: &mut Browser, at: usize) -> String {
    browser.run(&format!(
        "fetch('/data/transcripts/' + document.querySelector('[data-reader]').dataset.reader + '/paragraphs') \
         .then(answer => answer.json()).then(found => found.paragraphs[{at}].text)"
    ))
}

/// A request as another tab sends it.
fn elsewhere(browser: &mut Browser, method: &str, body: &str) -> String {
    browser.run(&format!(
        "fetch('/try/v2/transcripts/' + document.querySelector('[data-reader]').dataset.reader, {{ method: {method:?}, \
         headers: {{ 'content-type': 'application/json', 'x-form-token': document.querySelector('meta[name=form-token]').content }}, \
         body: {body:?} || undefined }}).then(answer => answer.status)"
    ))
}

const NAMES: &str = "[...document.querySelectorAll('button[data-speaker]')].map(button => button.textContent).join()";

#[test]
fn words_titles_and_speakers_are_edited_where_they_stand() {
    let service = Setup::local().starter().start();
    let Some(mut browser) = on_two_readers(&service, "editor@example.org") else { return };
    let talk = "[...document.querySelectorAll('[data-talk] li')].map(line => line.innerText).join()";
    assert!(browser.run(talk).contains("Speaker A"), "{}", browser.run(talk));
    let percents = format!("[...{talk}.matchAll(/(\\d+) %/g)].reduce((sum, found) => sum + Number(found[1]), 0)");
    assert_eq!(browser.run(&percents), "100");
    browser.run("document.querySelector('[data-edit]').click(); true");
    let attack = "<img src=x onerror=window.attacked=1>";
    retype(&mut browser, 0, attack);
    is_saved(&mut browser);
    assert!(kept(&mut browser, 0).starts_with(attack));
    pictures(&mut browser, "transcript-editing");

    // Undo gives the words back, and Escape has left the paragraph.
    browser.run("document.querySelector('[data-undo]').click(); true");
    holds(&mut browser, "the words before", &format!("!{}.textContent.includes('<img')", line(0)));
    is_saved(&mut browser);
    assert!(!kept(&mut browser, 0).contains("<img"));

    // More words, typed without leaving the paragraph, are saved by themselves.
    browser.run(&format!("{{ const line = {}; line.focus(); getSelection().collapse(line, 0) }} true", line(0)));
    browser.type_text("Well then, ");
    holds(&mut browser, "typing", "document.querySelector('[data-saved]').textContent == 'Typing…'");
    is_saved(&mut browser);
    assert!(kept(&mut browser, 0).starts_with("Well then, "));
    browser.press("Escape");

    browser.run(
        "document.querySelector('h1').focus(); getSelection().selectAllChildren(document.querySelector('h1')); true",
    );
    browser.type_text("Two <b>readers</b>");
    browser.press("Enter");
    is_saved(&mut browser);

    // The second turn is of somebody new; then everything of that speaker is the first one's.
    browser.run("[...document.querySelectorAll('[data-turn]')].at(-1).click(); true");
    holds(&mut browser, "the dialog", "document.querySelector('dialog[open]')?.open");
    pictures(&mut browser, "transcript-speaker-dialog");
    browser.run("{ const select = document.querySelector('dialog[open] select'); select.value = 'C' } document.querySelector('dialog[open] .primary').click(); true");
    holds(&mut browser, "the new speaker", &format!("{NAMES} == 'Speaker A,Speaker C'"));
    is_saved(&mut browser);
    browser.run("[...document.querySelectorAll('[data-turn]')].at(-1).click(); true");
    browser.run("{ document.querySelector('dialog[open] select').value = 'A'; document.querySelector('dialog[open] [value=all]').checked = true } document.querySelector('dialog[open] .primary').click(); true");
    holds(&mut browser, "one speaker", &format!("{NAMES} == 'Speaker A'"));
    is_saved(&mut browser);
    browser.run("document.querySelector('[data-undo]').click(); true");
    holds(&mut browser, "two speakers again", &format!("{NAMES} == 'Speaker A,Speaker C'"));
    is_saved(&mut browser);

    browser.follow("location.reload()");
    holds(&mut browser, "the words", "document.querySelectorAll('[data-word]').length > 10");
    assert_eq!(browser.run("document.querySelector('h1').textContent"), "Two <b>readers</b>");
    assert_eq!(browser.run(NAMES), "Speaker A,Speaker C");
    assert!(browser.run(&format!("{}.textContent", line(0))).starts_with("Well then, "));
    browser.follow("document.querySelector('[href*=original]').click()");
    holds(&mut browser, "the words", "document.querySelectorAll('[data-word]').length > 10");
    assert_eq!(browser.run(NAMES), "Speaker A,Speaker B");
    assert_eq!(browser.run("!document.querySelector('[data-edit]')"), "true");
    pictures(&mut browser, "transcript-original");
    assert_eq!(browser.run("!window.attacked && !document.querySelector('main img')"), "true");
    assert_eq!(browser.run(NO_FAULTS), "true");
}

#[test]
fn two_who_edit_at_once_choose_and_a_deleted_transcript_says_so() {
    let service = Setup::local().starter().start();
    let Some(mut browser) = on_two_readers(&service, "rival@example.org") else { return };
    browser.run("document.querySelector('[data-edit]').click(); true");
    // Another tab puts a word before all others.
    let other =
        |version: i64, text: &str| format!(r#"{{"version":{version},"edits":[{{"from":0,"to":1,"text":"{text}"}}]}}"#);
    assert_eq!(elsewhere(&mut browser, "PATCH", &other(0, "Elsewhere it")), "200");
    retype(&mut browser, 1, "Mine");
    let open = "document.querySelector('dialog[open]')?.open";
    holds(&mut browser, "the choice", open);
    pictures(&mut browser, "transcript-conflict");
    // It cannot be dismissed: one of both is chosen.
    browser.press("Escape");
    assert_eq!(browser.run(open), "true");
    browser.run("document.querySelector('dialog[open] .primary').click(); true");
    is_saved(&mut browser);
    assert!(kept(&mut browser, 0).starts_with("Elsewhere it "));
    assert!(kept(&mut browser, 1).starts_with("Mine "));
    holds(&mut browser, "their words here", &format!("{}.textContent.startsWith('Elsewhere it ')", line(0)));

    assert_eq!(elsewhere(&mut browser, "PATCH", &other(2, "Nowhere")), "200");
    retype(&mut browser, 1, "Dropped");
    holds(&mut browser, "the choice", open);
    browser.run("document.querySelector('dialog[open] button').click(); true");
    holds(&mut browser, "their words", &format!("{}.textContent.startsWith('Nowhere ')", line(0)));
    assert!(browser.run(&format!("{}.textContent", line(1))).starts_with("Mine "));
    assert!(kept(&mut browser, 1).starts_with("Mine "));

    assert_eq!(elsewhere(&mut browser, "DELETE", ""), "204");
    retype(&mut browser, 1, "Late");
    holds(&mut browser, "what happened", "/was deleted/.test(document.querySelector('[data-saved]').textContent)");
    assert_eq!(browser.run("document.querySelector('[data-edit]').disabled"), "true");
    assert!(browser.run(&format!("{}.textContent", line(1))).starts_with("Late "));
}

/// A change makes the page do no more than number its words, and sends no more than a patch.
#[test]
fn a_transcript_of_ten_hours_is_edited_without_a_pause() {
    let service = Setup::local().starter().start();
    let Some(mut browser) = on_two_readers(&service, "patient@example.org") else { return };
    // A hundred thousand words of two speakers, in sentences of twenty.
    let count = browser.run(
        "(async () => { \
           const path = '/data/transcripts/' + document.querySelector('[data-reader]').dataset.reader; \
           const token = document.querySelector('meta[name=form-token]').content; \
           const found = (await (await fetch(path + '/paragraphs')).json()).paragraphs; \
           let end = found.reduce((sum, one) => sum + one.words.length, 0); \
           for (let version = 0; version < 20; version++, end += 5000) { \
             const words = Array.from({ length: 5000 }, (_, at) => ({ text: at % 20 == 19 ? 'end.' : 'word' + at, \
               start: 60000 + (end + at) * 300, end: 60200 + (end + at) * 300, confidence: .9, speaker: at < 2500 ? 'A' : 'B' })); \
             const answer = await fetch(path, { method: 'PATCH', headers: { 'content-type': 'application/json', 'x-form-token': token }, \
               body: JSON.stringify({ version, edits: [{ from: end, to: end, words }] }) }); \
             if (answer.status != 200) return await answer.text() } \
           return end })()",
    );
    assert!(count.parse::<usize>().unwrap() > 100_000, "{count}");
    browser.follow("location.reload()");
    holds(&mut browser, "the words", "document.querySelectorAll('[data-word]').length > 10");
    let opened = browser.run("String(Math.round(performance.now()))");
    browser.run("document.querySelector('[data-edit]').click(); true");
    let far = line(500);
    browser.run(&format!("{far}.scrollIntoView(); true"));
    holds(&mut browser, "the words there", &format!("!!{far}.querySelector('[data-word]')"));
    browser.run(&format!("{far}.focus(); getSelection().collapse({far}, 0); true"));
    browser.type_text("Zanzibar ");
    let paused = browser.run(&format!(
        "{{ const began = performance.now(); {far}.blur(); String(Math.round(performance.now() - began)) }}"
    ));
    is_saved(&mut browser);
    println!("the page was open after {opened} ms, and a change took {paused} ms of it");
    assert!(kept(&mut browser, 500).starts_with("Zanzibar "));
    assert!(paused.parse::<u32>().unwrap() < 500, "{paused} ms");
}
