//! Dialogs of a transcript's page: the link that shows it, downloads with options, another transcript of the same recording.

use auricle_tests::Setup;

use super::dashboard::{NO_FAULTS, holds, pictures};
use super::transcript::on_two_readers;

#[test]
fn a_transcript_is_shared_downloaded_and_made_again() {
    let service = Setup::local().starter().start();
    let Some(mut browser) = on_two_readers(&service, "sharer@example.org") else { return };
    let here = browser.run("location.href");

    // A link is made, shows the text, and shows nothing once it is revoked.
    browser.run("document.querySelector('[data-opens=\"#share\"]').click(); true");
    holds(&mut browser, "the dialog", "document.querySelector('#share').open");
    browser.run("document.querySelector('[data-share]').requestSubmit()");
    let link = "document.querySelector('#share-link').textContent";
    holds(&mut browser, "a link", &format!("{link}.includes('/s/')"));
    pictures(&mut browser, "transcript-share");
    let link = browser.run(link);
    browser.go(&link);
    let text = browser.run("document.body.innerText");
    assert!(
        text.contains("two readers.wav") && text.contains("Speaker A") && !text.contains("sharer@example.org"),
        "{text}"
    );
    pictures(&mut browser, "transcript-shared");
    assert_eq!(browser.run(NO_FAULTS), "true");
    browser.go(&here);
    holds(&mut browser, "the words", "document.querySelectorAll('[data-word]').length > 10");
    browser.run("document.querySelector('[data-opens=\"#share\"]').click(); document.querySelector('[data-revoke]').click(); true");
    holds(&mut browser, "the end of the link", "document.querySelector('[data-revoke]').hidden");
    browser.go(&link);
    assert!(browser.run("document.body.innerText").contains("There is nothing here"));
    pictures(&mut browser, "transcript-share-gone");

    // The form asks for what the format has.
    browser.go(&here);
    browser.run("document.querySelector('[data-opens=\"#download\"]').click(); true");
    pictures(&mut browser, "transcript-download");
    let asks = |name: &str| format!("!document.querySelector('#download [name={name}]').disabled");
    assert_eq!((browser.run(&asks("times")), browser.run(&asks("max_line_width"))), ("true".into(), "false".into()));
    browser.run("{ const format = document.querySelector('[data-format]'); format.value = 'srt'; format.dispatchEvent(new Event('change')) } true");
    assert_eq!((browser.run(&asks("times")), browser.run(&asks("max_line_width"))), ("false".into(), "true".into()));
    assert!(browser.run("document.querySelector('[data-download]').action").ends_with("/download/srt"));
    browser.run("document.querySelector('#download [data-closes]').click(); true");

    // Another transcript of the recording, with the options of this one and a summary.
    browser.run("document.querySelector('[data-opens=\"#again\"]').click(); true");
    assert_eq!(browser.run("document.querySelector('#again [name=speaker_labels]').checked"), "true");
    browser.run("document.querySelector('#again [name=summarization]').checked = true; true");
    pictures(&mut browser, "transcript-again");
    browser.follow("document.querySelector('[data-again]').requestSubmit()");
    holds(&mut browser, "the other transcript", "document.querySelectorAll('[data-word]').length > 10");
    assert_ne!(browser.run("location.href"), here);
    assert_eq!(
        browser.run("[...document.querySelectorAll('h2')].some(title => title.textContent == 'Summary')"),
        "true"
    );
    assert_eq!(browser.run("document.querySelectorAll('[data-speaker]').length"), "2");

    // A deletion is asked for in the page's own dialog, and may be dismissed.
    browser.run("document.querySelector('form[data-confirm] button').click(); true");
    holds(&mut browser, "the question", "document.querySelector('dialog[open]')?.innerText.includes('for good')");
    pictures(&mut browser, "transcript-delete");
    browser.press("Escape");
    holds(&mut browser, "no question", "!document.querySelector('dialog[open]')");
    browser.run("document.querySelector('form[data-confirm] button').click(); true");
    browser.follow("document.querySelector('dialog[open] .danger').click()");
    assert_eq!(browser.run("location.pathname"), "/transcripts");
    assert_eq!(browser.run("document.querySelectorAll('td.title').length"), "1");
}
