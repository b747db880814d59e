//! The dashboard as somebody uses it. `AURICLE_PICTURES` names a folder for screenshots of each page, in light, dark and on a phone.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use auricle_tests::{Browser, PASSWORD, Service, Setup, eventually, speech, spoken, wav};
use data_encoding::BASE64;

/// Screenshots: name, width, height, dark.
const VIEWS: [(&str, u32, u32, bool); 3] =
    [("light", 1360, 900, false), ("dark", 1360, 900, true), ("phone", 390, 844, false)];

/// Judges the page that is open in each view, by axe-core and by its width, and writes pictures of it.
pub(crate) fn pictures(browser: &mut Browser, name: &str) {
    let folder = std::env::var_os("AURICLE_PICTURES");
    for (view, width, height, dark) in VIEWS {
        browser.view(width, height, dark);
        // Two frames: the page has its new size and colours.
        browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
        assert_eq!(browser.findings(), [""; 0], "{name}, {view}");
        let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert_eq!(browser.run(wide), "true", "{name}, {view}: the page is wider than the window");
        let Some(folder) = &folder else { continue };
        let picture = BASE64.decode(browser.picture().as_bytes()).unwrap();
        std::fs::write(Path::new(folder).join(format!("{name}-{view}.png")), picture).unwrap();
    }
    browser.view(1360, 900, false);
}

/// Waits until a condition of the page holds; what the page says is printed if it never does.
pub(crate) fn holds(browser: &mut Browser, what: &str, condition: &str) {
    let waited = catch_unwind(AssertUnwindSafe(|| {
        eventually(what, || browser.holds(condition).then_some(()));
    }));
    if let Err(panic) = waited {
        eprintln!("the page says: {}", browser.run("location.href + document.body.innerText"));
        resume_unwind(panic);
    }
}

/// Fills in a form of the page and sends it.
pub(crate) fn send(browser: &mut Browser, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        browser.run(&format!("document.querySelector('main [name={name}]').value = {value:?}; true"));
    }
    browser.follow("document.querySelector('main form').requestSubmit()");
}

/// Opens a browser on an account of its own.
pub(crate) fn signed_up(service: &Service, microphone: &Path, email: &str) -> Option<Browser> {
    let mut browser = Browser::open(&format!("{}/signup", service.dashboard()), microphone)?;
    holds(&mut browser, "the sign-up", "document.readyState == 'complete' && !!document.querySelector('[name=email]')");
    pictures(&mut browser, "sign-up");
    send(&mut browser, &[("email", email), ("password", PASSWORD)]);
    assert_eq!(browser.run("location.pathname"), "/transcripts");
    Some(browser)
}

/// Nothing of a page may break its own rules: the browser tells of each fault.
pub(crate) const NO_FAULTS: &str = "document.querySelectorAll('style, [style], script:not([src])').length == 0";

#[test]
fn somebody_gets_in_uploads_reads_and_pays() {
    let service = Setup::local().starter().start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "reader@example.org") else { return };
    let at = |path: &str| format!("{}{path}", service.dashboard());
    let text = "document.body.innerText";
    assert!(browser.run(text).contains("Nothing transcribed yet"));
    pictures(&mut browser, "transcripts-empty");

    // A key is shown once.
    browser.go(&at("/keys"));
    pictures(&mut browser, "keys-empty");
    browser.run("document.querySelector('form.inline [name=name]').value = 'Production server'; true");
    browser.follow("document.querySelector('form.inline').requestSubmit()");
    let secret = browser.run("document.querySelector('#secret').textContent");
    assert!(secret.starts_with("svc_"), "{secret}");
    pictures(&mut browser, "key-created");
    browser.go(&at("/keys"));
    assert!(!browser.run(text).contains(&secret));

    // A file goes through the signed address; the page follows it to its end.
    browser.go(&at("/transcripts/new"));
    pictures(&mut browser, "transcript-new");
    browser.run("for (const name of ['entity_detection', 'sentiment_analysis', 'summarization', 'auto_chapters']) document.querySelector(`[name=${name}]`).checked = true; true");
    browser.choose("[name=file]", &[&speech()]);
    holds(&mut browser, "the end of the job", "!!document.querySelector('.jobs .badge.completed')");
    pictures(&mut browser, "transcript-done");
    browser.follow("document.querySelector('.jobs .links a').click()");
    holds(&mut browser, "the words", "document.querySelectorAll('[data-word]').length > 10");
    assert_eq!(browser.run(NO_FAULTS), "true");
    pictures(&mut browser, "transcript");

    // A click on a word plays from there, and the word is lit.
    browser.run("document.querySelector('[data-word=\"8\"]').click()");
    holds(&mut browser, "the sound", "document.querySelector('audio').currentTime > 1");
    holds(&mut browser, "a lit word", "!!document.querySelector('.lit')");
    let late = "Number(document.querySelector('.lit').dataset.word) >= 8";
    assert_eq!(browser.run(late), "true");
    browser.run("document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', bubbles: true })); true");
    holds(&mut browser, "a pause", "document.querySelector('audio').paused");

    // Find.
    browser.run("{ const field = document.querySelector('[data-find]'); field.value = 'country'; field.dispatchEvent(new Event('input')) } true");
    holds(
        &mut browser,
        "matches",
        "document.querySelectorAll('.hit').length > 0 && /^1 of/.test(document.querySelector('[data-hits]').textContent)",
    );

    // A question is answered from the transcript.
    browser.run("document.querySelector('[name=prompt]').value = 'What should you ask?'; document.querySelector('[data-ask]').requestSubmit()");
    holds(&mut browser, "an answer", "!!document.querySelector('.response')");
    pictures(&mut browser, "transcript-asked");

    browser.go(&at("/transcripts"));
    assert!(browser.run("document.querySelector('tbody .badge').className").contains("completed"));
    let shown = browser.run("document.querySelector('tbody time').textContent");
    assert!(!shown.contains("UTC"), "a time of the reader: {shown}");
    pictures(&mut browser, "transcripts");
    browser.go(&at("/transcripts?q=nothing-like-it"));
    assert!(browser.run(text).contains("No transcript matches"));

    browser.go(&at("/usage"));
    assert_eq!(browser.run("document.querySelectorAll('.chart .bar').length"), "1");
    pictures(&mut browser, "usage");
    browser.go(&at("/billing"));
    pictures(&mut browser, "billing");
    browser.follow("document.querySelector('[data-checkout]').click()");
    pictures(&mut browser, "checkout");
    browser.follow("document.querySelector('form').requestSubmit()");
    browser.go(&at("/billing"));
    assert!(browser.run(text).contains("Usage beyond the free credit is billed."));

    browser.go(&at("/nothing"));
    assert!(browser.run(text).contains("Not found"));
    pictures(&mut browser, "error");
    browser.go(&at("/transcripts"));
    browser.follow("document.querySelector('form[action=\"/logout\"]').requestSubmit()");
    assert_eq!(browser.run("location.pathname"), "/login");
    pictures(&mut browser, "sign-in");
}

#[test]
fn the_playground_transcribes_a_file_and_the_microphone() {
    let service = Setup::local().starter().start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("speech.wav");
    std::fs::write(&microphone, wav(48_000, 16, &spoken(48_000))).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "speaker@example.org") else { return };
    let at = |path: &str| format!("{}{path}", service.dashboard());

    browser.go(&at("/playground"));
    browser.choose("[name=file]", &[&speech()]);
    holds(&mut browser, "the text", "/country/i.test(document.querySelector('[data-result] .text').textContent)");
    pictures(&mut browser, "playground-file");
    for (language, holds) in
        [("curl", "curl -s"), ("python", "import os"), ("javascript", "await fetch"), ("rust", "fn main")]
    {
        browser.run(&format!("document.querySelector('[data-lang={language}]').click()"));
        let code = browser.run("document.querySelector('#code').textContent");
        assert!(code.contains(holds) && code.contains(&service.api()) && code.contains("AURICLE_KEY"), "{code}");
        assert!(!code.contains("svc_"), "no key is in the browser: {code}");
    }

    browser.go(&at("/playground/live"));
    pictures(&mut browser, "playground-live-start");
    browser.run("document.querySelector('[data-talk]').click()");
    holds(
        &mut browser,
        "a partial or a turn",
        "!!document.querySelector('[data-turns] p, [data-partial]:not(:empty)')",
    );
    assert_eq!(browser.run("document.querySelector('meter').value > 0"), "true");
    holds(&mut browser, "a turn", "document.querySelectorAll('[data-turns] p').length > 0");
    pictures(&mut browser, "playground-live");
    browser.run("document.querySelector('[data-talk]').click()");
    holds(&mut browser, "the end", "document.querySelector('[data-state]').textContent == 'The session has ended.'");
    let text = browser.run("document.querySelector('[data-turns]').textContent");
    assert!(text.len() > 10, "{text}");
}
