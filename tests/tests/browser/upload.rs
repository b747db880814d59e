//! Uploads: options, presets, files that are dropped, and what is seen of their jobs.

use auricle_tests::{Browser, Setup, speech, wav};

use crate::dashboard::{NO_FAULTS, holds, pictures, signed_up};

/// Drops a file of so many zeros on the page.
fn drop_file(browser: &mut Browser, name: &str) {
    browser.run(&format!(
        "{{
             const dataTransfer = new DataTransfer()
             dataTransfer.items.add(new File([new Uint8Array(2000)], {name:?}, {{ type: 'audio/wav' }}))
             for (const kind of ['dragenter', 'drop']) document.querySelector('h1').dispatchEvent(new DragEvent(kind, {{ dataTransfer, bubbles: true }}))
         }} true"
    ));
}

#[test]
fn options_count_for_what_is_dropped_and_are_kept_as_presets() {
    let service = Setup::local().starter().start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut browser) = signed_up(&service, &microphone, "uploader@example.org") else { return };
    let at = |path: &str| format!("{}{path}", service.dashboard());
    browser.go(&at("/transcripts/new"));
    let above = "document.querySelector('.checks').compareDocumentPosition(document.querySelector('.drop')) & Node.DOCUMENT_POSITION_FOLLOWING";
    assert_eq!(browser.run(above), "4", "options stand above the drop zone");

    // Kept as a preset, and there again on another page.
    browser.run("document.querySelector('.more').open = true; document.querySelector('[name=summarization]').click(); document.querySelector('[name=keyterms_prompt]').value = 'Auricle'; document.querySelector('[data-preset-keep]').click(); true");
    holds(&mut browser, "the question", "document.querySelector('.question')?.open");
    pictures(&mut browser, "preset-question");
    browser.run("document.querySelector('.question input').value = 'Talks <i>'; document.querySelector('.question .primary').click(); true");
    holds(&mut browser, "the preset", "document.querySelector('[name=preset]').value == 'Talks <i>'");
    browser.go(&at("/transcripts/new"));
    let summary = "document.querySelector('[name=summarization]').checked";
    assert_eq!(browser.run(summary), "false");
    let choose = "{ const preset = document.querySelector('[name=preset]'); preset.value = 'Talks <i>'; preset.dispatchEvent(new Event('change', { bubbles: true })) } true";
    browser.run(choose);
    assert_eq!(browser.run(summary), "true");
    assert_eq!(browser.run("document.querySelector('[name=keyterms_prompt]').value"), "Auricle");
    pictures(&mut browser, "transcript-new-preset");

    // The reason of a failure stands in the row, which is in sight.
    drop_file(&mut browser, "broken.wav");
    holds(&mut browser, "the failure", "!!document.querySelector('.jobs .badge.error')");
    let reason = browser.run("document.querySelector('.jobs .reason').innerText");
    assert!(reason.len() > 10, "{reason}");
    let in_sight = "document.querySelector('.jobs li').getBoundingClientRect().bottom <= innerHeight";
    assert_eq!(browser.run(in_sight), "true");
    pictures(&mut browser, "transcript-new-failed");

    // On the list, files that are dropped anywhere open the form.
    browser.go(&at("/transcripts"));
    assert_eq!(browser.run("document.querySelector('[data-reason]').innerText"), reason);
    drop_file(&mut browser, "silence one.wav");
    holds(&mut browser, "the form", "document.querySelector('[data-upload-dialog]').open");
    assert_eq!(browser.run("document.querySelector('[data-waiting]').innerText"), "silence one.wav");
    pictures(&mut browser, "transcripts-dropped");
    browser.run("document.querySelector('[data-drop-cancel]').click(); true");
    browser.choose("[name=file]", &[&speech()]);
    holds(&mut browser, "the form", "document.querySelector('[data-upload-dialog]').open");
    assert_eq!(
        browser.run("document.querySelectorAll('[data-waiting] li').length"),
        "1",
        "the first file was cancelled"
    );
    browser.run(choose);
    browser.run("document.querySelector('[data-drop-begin]').click(); true");
    holds(&mut browser, "the end of the job", "!!document.querySelector('.jobs .badge.completed')");
    assert_eq!(browser.run(in_sight), "true");
    pictures(&mut browser, "transcripts-uploaded");
    browser.follow("document.querySelector('.jobs .links a').click()");
    assert!(browser.run("document.body.innerText").contains("Summary"), "the options counted");
    assert_eq!(browser.run(NO_FAULTS), "true");
}
