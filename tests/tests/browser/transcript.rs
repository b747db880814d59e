//! A transcript's page: names of speakers, and questions.

use auricle_tests::{Browser, Gate, Receiver, Reply, Service, Setup, long_reading, two_readers, wav};
use serde_json::json;

use super::dashboard::{NO_FAULTS, holds, pictures, signed_up};

/// A browser on the page of a transcript of two speakers.
pub(crate) fn on_two_readers(service: &Service, email: &str) -> Option<Browser> {
    on_a_transcript(service, email, "two readers.wav", two_readers())
}

/// A browser on the page of the transcript of a recording.
fn on_a_transcript(service: &Service, email: &str, name: &str, recording: Vec<u8>) -> Option<Browser> {
    let folder = tempfile::tempdir().unwrap();
    let (microphone, path) = (folder.path().join("silence.wav"), folder.path().join(name));
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    std::fs::write(&path, recording).unwrap();
    let mut browser = signed_up(service, &microphone, email)?;
    browser.go(&format!("{}/transcripts/new", service.dashboard()));
    browser.run("document.querySelector('[name=speaker_labels]').checked = true");
    browser.choose("[name=file]", &[&path]);
    holds(&mut browser, "the end of the job", "!!document.querySelector('.jobs .badge.completed')");
    browser.follow("document.querySelector('.jobs .links a').click()");
    holds(&mut browser, "the words", "document.querySelectorAll('[data-word]').length > 10");
    Some(browser)
}

/// The names that the page shows.
const NAMES: &str = "[...document.querySelectorAll('button[data-speaker]')].map(button => button.textContent).join()";

/// Types a name for the speaker of a label and presses a key.
fn rename(browser: &mut Browser, label: &str, name: &str, key: &str) {
    browser.run(&format!("document.querySelector('[data-speaker={label}]').click()"));
    let field = "document.querySelector('input.speaker')";
    assert_eq!(browser.run(&format!("document.activeElement == {field}")), "true");
    browser.run(&format!("{field}.value = {name:?}; true"));
    browser.press(key);
    // The key does not go on to the name, which has the focus again.
    holds(
        browser,
        "the name in place of the field",
        &format!("!{field} && document.activeElement.dataset.speaker == {label:?}"),
    );
}

#[test]
fn a_speaker_is_renamed_where_the_name_stands() {
    let service = Setup::local().starter().start();
    let Some(mut browser) = on_two_readers(&service, "namer@example.org") else { return };
    assert_eq!(browser.run(NAMES), "Speaker A,Speaker B");
    rename(&mut browser, "A", "Not kept", "Escape");
    assert_eq!(browser.run(NAMES), "Speaker A,Speaker B");
    rename(&mut browser, "A", " Ada  Lovelace ", "Enter");
    holds(&mut browser, "the name", &format!("{NAMES} == 'Ada Lovelace,Speaker B'"));
    // A name is text, whatever it holds.
    let attack = "<img src=x onerror=window.attacked=1>";
    rename(&mut browser, "B", attack, "Enter");
    holds(&mut browser, "the second name", &format!("{NAMES} == 'Ada Lovelace,{attack}'"));
    browser.follow("location.reload()");
    holds(&mut browser, "the names after a reload", &format!("{NAMES} == 'Ada Lovelace,{attack}'"));
    assert_eq!(browser.run("!window.attacked && !document.querySelector('main img')"), "true");

    rename(&mut browser, "B", "", "Enter");
    holds(&mut browser, "the label", &format!("{NAMES} == 'Ada Lovelace,Speaker B'"));
    rename(&mut browser, "B", "Grace Hopper", "Enter");
    holds(&mut browser, "another name", &format!("{NAMES} == 'Ada Lovelace,Grace Hopper'"));
    assert_eq!(browser.run(NO_FAULTS), "true");
    pictures(&mut browser, "transcript-speakers");
    browser.run("document.querySelector('[data-speaker=B]').click()");
    pictures(&mut browser, "transcript-renaming");
    // A service that cannot be reached leaves the name as it was.
    browser.run("window.fetch = () => Promise.reject(new Error())");
    browser.run("{ const field = document.querySelector('input.speaker'); field.value = 'Lost'; field.dispatchEvent(new FocusEvent('blur')) } true");
    holds(&mut browser, "a message", "/cannot be reached/.test(document.querySelector('#toast').textContent)");
    assert_eq!(browser.run(NAMES), "Ada Lovelace,Grace Hopper");
}

/// An answer of which half comes at once, and the rest when the gate opens.
fn halves(first: &str, second: &str) -> (Reply, Gate) {
    let event = |text: &str| {
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }] });
        format!("data: {chunk}\n\n")
    };
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let (first, second) = (event(first), format!("{}data: {end}\n\ndata: [DONE]\n\n", event(second)));
    // A comment makes both halves equally long.
    let padding = second.len() - first.len() - ": \n\n".len();
    let gate = Gate::new();
    (Reply::Held(format!("{first}: {}\n\n{second}", "-".repeat(padding)).into(), gate.clone()), gate)
}

#[test]
fn an_answer_comes_as_it_is_written_and_can_be_stopped() {
    let receiver = Receiver::new();
    let (whole, gate) = halves("Two people read: one about ", "poetry, the other about a house.");
    let (stopped, _held) = halves("They read aloud, ", "and never end.");
    receiver.answers("/v1/chat/completions", [whole, stopped]);
    let service = Setup::local()
        .starter()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "their-model")
        .start();
    let Some(mut browser) = on_two_readers(&service, "asker@example.org") else { return };
    let ask = |question: &str| {
        format!(
            "document.querySelector('[name=prompt]').value = {question:?}; document.querySelector('[data-ask]').requestSubmit()"
        )
    };
    let answer = "document.querySelector('.answer').innerText";
    browser.run(&ask("Who reads?"));
    holds(&mut browser, "the first half", &format!("/one about/.test({answer})"));
    assert_eq!(browser.run(&format!("/a house|Answered/.test({answer})")), "false");
    // One answer at a time.
    browser.run(&ask("And then?"));
    assert_eq!(browser.run("document.querySelectorAll('.answer').length"), "1");
    pictures(&mut browser, "transcript-answering");
    gate.open();
    holds(
        &mut browser,
        "the whole answer",
        &format!("/one about poetry, the other about a house\\.\\s+Answered by their-model/.test({answer})"),
    );
    assert_eq!(browser.run("!document.querySelector('.stop')"), "true");

    browser.run(&ask("What do they do?"));
    holds(&mut browser, "the beginning", &format!("/They read aloud/.test({answer})"));
    browser.run("document.querySelector('.stop').click()");
    holds(&mut browser, "the end", &format!("/They read aloud,\\s+Stopped\\./.test({answer})"));
    assert_eq!(browser.run("document.querySelector('[name=prompt]').value"), "What do they do?");
    assert_eq!(
        browser.run("!document.querySelector('.stop') && !document.querySelector('[data-ask] button').disabled"),
        "true"
    );
    pictures(&mut browser, "transcript-stopped");
}

/// Words far from the window are plain text, and are found, lit and played as near ones.
#[test]
fn a_long_transcript_has_elements_where_it_is_looked_at() {
    let service = Setup::local().starter().start();
    let recording = long_reading(14);
    let Some(mut browser) = on_a_transcript(&service, "long@example.org", "long.wav", recording) else { return };
    let number = |browser: &mut Browser, expression: &str| -> usize { browser.run(expression).parse().unwrap() };
    let elements = "String(document.querySelectorAll('[data-word]').length)";
    let spoken = "String(document.querySelector('[data-words]').textContent.split(/\\s+/).length)";
    let all = number(&mut browser, spoken);
    let first = number(&mut browser, elements);
    assert!(all > 500 && first > 30 && first < all / 2, "{first} of {all} words");
    pictures(&mut browser, "transcript-long");

    // The time of the last paragraph leads there, and its word is lit.
    browser.run("[...document.querySelectorAll('.words .at')].at(-1).click(); true");
    let is_seen = |element: &str| {
        format!("(box => box.top > 0 && box.bottom < innerHeight - 60)({element}.getBoundingClientRect())")
    };
    let lit = "document.querySelector('.words > :last-child .lit')";
    holds(&mut browser, "the last paragraph's word", &format!("!!{lit} && {}", is_seen(lit)));
    holds(&mut browser, "the time", "document.querySelector('audio').currentTime > 300");
    let between = "!document.querySelector('.words > :nth-child(14) [data-word]')";
    assert_eq!(browser.run(between), "true", "what was passed over has no elements");

    // Find goes through all of it, and back to the beginning.
    browser.run("{ const field = document.querySelector('[data-find]'); field.value = 'refugees'; field.dispatchEvent(new Event('input')) } true");
    holds(&mut browser, "the matches", "/^1 of 1[0-4]$/.test(document.querySelector('[data-hits]').textContent)");
    let here = "document.querySelector('.here')";
    holds(&mut browser, "the first match", &format!("!!{here} && {}", is_seen(here)));
    assert!(browser.run(&format!("{here}.textContent")).starts_with("refugees"));
    browser.run("document.querySelector('[data-hit=\"-1\"]').click(); true");
    let paragraph = format!("{here}.closest('.paragraph')");
    let is_last = format!("[...document.querySelectorAll('.words > *')].slice(-2).includes({paragraph})");
    holds(&mut browser, "the last match", &format!("{} && {is_last}", is_seen(here)));
    assert_eq!(browser.run(NO_FAULTS), "true");
}
