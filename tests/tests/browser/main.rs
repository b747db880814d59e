//! Pages in a real browser.

mod agent;
mod calls;
mod dashboard;
mod edit;
mod list;
mod mail;
mod openid;
mod operator;
mod reference;
mod share;
mod team;
mod transcript;
mod upload;
mod webhooks;

use auricle_tests::{Browser, Setup, eventually, repository, spoken, wav};
use serde_json::json;

/// The example page shows the turns that the microphone's recording gives. `AURICLE_PICTURES` names a folder
/// for a screenshot of it.
#[test]
fn the_example_page_shows_the_turns_of_the_microphone() {
    let service = Setup::new().starter().start();
    let token = service.account().mint(&json!({}));
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("speech.wav");
    std::fs::write(&microphone, wav(48_000, 16, &spoken(48_000))).unwrap();
    let page = repository().join("server/examples/live.html");
    let address = format!("file://{}#{}?token={}", page.display(), token.url(), token.secret());
    let Some(mut browser) = Browser::open(&address, &microphone) else { return };
    eventually("the page", || {
        browser.holds("document.readyState == 'complete' && !!document.getElementById('start')").then_some(())
    });
    browser.run("document.getElementById('start').click()");
    eventually("two turns on the page", || {
        browser.holds("document.querySelectorAll('#turns p').length > 1").then_some(())
    });
    if let Some(pictures) = std::env::var_os("AURICLE_PICTURES") {
        let picture = data_encoding::BASE64.decode(browser.picture().as_bytes()).unwrap();
        std::fs::write(std::path::Path::new(&pictures).join("live-page.png"), picture).unwrap();
    }
    browser.run("document.getElementById('start').click()");
    let state = eventually("the end of the session", || {
        let state = browser.run("document.getElementById('state').textContent");
        state.starts_with("Closed").then_some(state)
    });
    assert!(state.starts_with("Closed: 1000"), "{state}");
    let text = browser.run("document.getElementById('turns').textContent");
    assert!(text.ends_with(['.', '?', '!']), "{text}");
}

/// The example page of the voice agent greets, shows what the microphone's recording says, and plays a reply.
#[test]
fn the_example_page_of_the_voice_agent_talks() {
    let service = Setup::new().starter().start();
    let mut address = service.account().agent_url(&json!({})).to_string();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("speech.wav");
    // The recording begins once the greeting is over, and ends with one turn.
    let mut pcm = vec![0; 3 * 96_000];
    pcm.extend(&spoken(48_000)[8 * 96_000..]);
    std::fs::write(&microphone, wav(48_000, 16, &pcm)).unwrap();
    let page = repository().join("server/examples/agent.html");
    address = format!("file://{}#{address}", page.display());
    let Some(mut browser) = Browser::open(&address, &microphone) else { return };
    eventually("the page", || {
        browser.holds("document.readyState == 'complete' && !!document.getElementById('start')").then_some(())
    });
    browser.run("document.getElementById('start').click()");
    let count = |browser: &mut Browser, who: &str| {
        browser.run(&format!("String(document.querySelectorAll('#said .{who}').length)"))
    };
    eventually("the greeting", || (count(&mut browser, "agent") != "0").then_some(()));
    eventually("the caller's words", || (count(&mut browser, "user") != "0").then_some(()));
    let state = eventually("a reply", || {
        let state = browser.run("document.getElementById('state').textContent");
        state.starts_with("Reply after").then_some(state)
    });
    assert!(state.ends_with("ms."), "{state}");
    eventually("the words of the reply", || (count(&mut browser, "agent") == "2").then_some(()));
    if let Some(pictures) = std::env::var_os("AURICLE_PICTURES") {
        let picture = data_encoding::BASE64.decode(browser.picture().as_bytes()).unwrap();
        std::fs::write(std::path::Path::new(&pictures).join("agent-page.png"), picture).unwrap();
    }
    browser.run("document.getElementById('start').click()");
    let state = eventually("the end of the session", || {
        let state = browser.run("document.getElementById('state').textContent");
        state.starts_with("Closed").then_some(state)
    });
    assert!(state.starts_with("Closed: 1000"), "{state}");
    let said = browser.run("document.getElementById('said').textContent");
    assert!(said.starts_with("Good morning.") && said.contains("language model"), "{said}");
}
