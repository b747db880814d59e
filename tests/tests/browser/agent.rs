//! The voice agent's tab of the playground, with a microphone that says a sentence.

use std::path::Path;

use auricle_tests::chat_replies::{COMPLETIONS, calls, says};
use auricle_tests::{Browser, Receiver, Setup, spoken, wav};

use crate::dashboard::{NO_FAULTS, holds, pictures, signed_up};

/// A microphone that hears silence for some seconds, then one turn.
fn microphone(folder: &Path, silence_s: usize) -> std::path::PathBuf {
    let mut pcm = vec![0; silence_s * 96_000];
    pcm.extend(&spoken(48_000)[8 * 96_000..]);
    let path = folder.join("speech.wav");
    std::fs::write(&path, wav(48_000, 16, &pcm)).unwrap();
    path
}

const CALL: &str = "document.querySelector('[data-talk]').click(); true";

fn fill(browser: &mut Browser, field: &str, text: &str) {
    browser.run(&format!(
        "{{ const field = document.querySelector('[name={field}]'); field.value = {text:?}; field.dispatchEvent(new Event('input', {{ bubbles: true }})); field.dispatchEvent(new Event('change', {{ bubbles: true }})) }} true"
    ));
}

fn hang_up(browser: &mut Browser) {
    browser.run(CALL);
    holds(browser, "the end", "document.querySelector('[data-state]').textContent == 'The call has ended.'");
    let idle = "document.querySelector('[data-talk]').textContent == 'Call' && !document.querySelector('.on')";
    assert_eq!(browser.run(idle), "true");
}

#[test]
fn somebody_interrupts_the_agent_which_calls_a_tool_and_answers() {
    let receiver = Receiver::new();
    // The agent begins to think at each pause, so a first answer may be dropped: there are more of them.
    let call = || calls("get_weather", r#"{"place":"Rome"}"#);
    receiver.answers(COMPLETIONS, [call(), call(), call(), says(&["It is sunny in Rome."])]);
    let service = Setup::local()
        .talking()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "their-model")
        .start();
    let folder = tempfile::tempdir().unwrap();
    let Some(mut browser) = signed_up(&service, &microphone(folder.path(), 6), "caller@example.org") else { return };
    browser.go(&format!("{}/playground/agent", service.dashboard()));
    pictures(&mut browser, "playground-agent-start");

    // Tools that are no JSON are reported at the field, and nothing is called.
    browser.run("document.querySelector('[data-tools]').open = true");
    let tools = browser.run("document.querySelector('[name=tools]').value");
    fill(&mut browser, "tools", "[{");
    let problem = "document.querySelector('[data-tools-problem]')";
    assert!(browser.run(&format!("{problem}.textContent")).starts_with("The tools are not JSON:"));
    browser.run(CALL);
    assert_eq!(browser.run("!!document.querySelector('.on')"), "false");
    pictures(&mut browser, "playground-agent-tools");
    fill(&mut browser, "tools", "{}");
    assert_eq!(browser.run(&format!("{problem}.textContent")), "The tools must be a JSON array.");
    fill(&mut browser, "tools", &tools);
    assert_eq!(browser.run(&format!("{problem}.hidden")), "true");
    browser.run("document.querySelector('[data-tools]').open = false");

    // The service's own words about settings that it refuses.
    fill(&mut browser, "tools", "[{\"type\": \"function\"}]");
    browser.run(CALL);
    holds(&mut browser, "a refusal", "document.querySelector('[data-state]').textContent.includes('`name`')");
    assert_eq!(browser.run("!!document.querySelector('.on')"), "false");
    fill(&mut browser, "tools", &tools);

    // The caller interrupts a long greeting.
    let greeting = "Once upon a time there was a mill by the lake, and in the mill there lived a man. ".repeat(8);
    fill(&mut browser, "greeting", &greeting);
    browser.run(CALL);
    holds(
        &mut browser,
        "the first sound",
        "/^First sound after \\d+ ms$/.test(document.querySelector('.agent .first-sound')?.textContent)",
    );
    holds(&mut browser, "the level", "document.querySelector('meter').value > 0");
    holds(
        &mut browser,
        "an interruption",
        "document.querySelector('.agent.interrupted .badge')?.textContent == 'Interrupted'",
    );
    let greeted = "document.querySelector('.agent.interrupted p').textContent";
    holds(&mut browser, "the words that were said", &format!("{greeted} != '…'"));
    let said = browser.run(greeted);
    assert!(greeting.starts_with(&said) && said.len() < greeting.len() / 2, "{said}");

    // The tool's arguments are shown, and the box's text is its result.
    holds(&mut browser, "the tool's call", "!!document.querySelector('.tool')");
    let tool = browser.run("document.querySelector('.tool').innerText");
    assert!(tool.contains("get_weather") && tool.contains("\"place\": \"Rome\""), "{tool}");
    holds(
        &mut browser,
        "an answer",
        "[...document.querySelectorAll('.agent p')].at(-1).textContent.endsWith('It is sunny in Rome.')",
    );
    let asked = receiver.wait(COMPLETIONS, 4)[3].json();
    let last = asked["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["role"], &last["content"]), (&"tool".into(), &"{\"sky\":\"sunny\",\"celsius\":21}".into()));
    assert!(asked["messages"][0]["content"].as_str().unwrap().contains("receptionist"), "{asked}");
    let heard = browser.run("document.querySelector('.user:not(.unfinished) p').textContent");
    assert!(heard.to_lowercase().contains("you"), "{heard}");
    assert_eq!(
        browser.run("[...document.querySelectorAll('.agent')].at(-1).querySelectorAll('.first-sound').length"),
        "1"
    );
    assert_eq!(browser.run(NO_FAULTS), "true");
    browser.run("document.querySelector('.said').scrollIntoView()");
    pictures(&mut browser, "playground-agent");
    hang_up(&mut browser);
    assert_eq!(browser.run("document.documentElement.outerHTML.includes('svc_')"), "false", "no key is in the page");
    for (language, holds) in
        [("curl", "session.update"), ("python", "import asyncio"), ("javascript", "new WebSocket"), ("rust", "fn main")]
    {
        browser.run(&format!("document.querySelector('[data-lang={language}]').click()"));
        let code = browser.run("document.querySelector('#code').textContent");
        let parts = [holds, "/v2/voice-agent/token", "AURICLE_KEY", "get_weather", "Once upon a time"];
        assert!(parts.iter().all(|part| code.contains(part)) && code.contains(&service.api()), "{code}");
    }
}

#[test]
fn a_call_without_a_language_model_says_what_is_missing() {
    let service = Setup::local().talking().start();
    let folder = tempfile::tempdir().unwrap();
    let Some(mut browser) = signed_up(&service, &microphone(folder.path(), 4), "lonely@example.org") else { return };
    browser.go(&format!("{}/playground/agent", service.dashboard()));
    browser.run(CALL);
    holds(
        &mut browser,
        "what is missing",
        "document.querySelector('.fault p')?.textContent.includes('auricle models pull chat')",
    );
    holds(
        &mut browser,
        "an apology",
        "[...document.querySelectorAll('.agent p')].at(-1).textContent.includes('auricle models pull chat')",
    );
    pictures(&mut browser, "playground-agent-missing");
    // The service stops during the call: the page says so, and the next call works.
    let before: usize = browser.run("document.querySelectorAll('.agent').length").parse().unwrap();
    service.terminate();
    service.wait();
    holds(
        &mut browser,
        "the loss",
        "!document.querySelector('.on') && document.querySelector('[data-state]').textContent == 'The service is stopping.'",
    );
    service.start();
    browser.run(CALL);
    holds(&mut browser, "another call", &format!("document.querySelectorAll('.agent').length > {before}"));
    hang_up(&mut browser);
}
