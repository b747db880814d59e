//! Calls over WebRTC: OpenAI's Agents SDK, unchanged, and a browser alone, with a microphone that plays real speech.

use std::path::{Path, PathBuf};

use auricle_tests::chat_replies::{COMPLETIONS, says};
use auricle_tests::{Account, Browser, Receiver, Service, Setup, eventually, repository, skip, spoken, wav};
use serde_json::{Value, json};

const STORY: &str = "Once upon a time there was a mill by the lake, and in the mill there lived a man. ";

/// A microphone that says a sentence after each of these silences, in seconds.
fn microphone(folder: &Path, silences_s: &[usize]) -> PathBuf {
    let sentence = &spoken(48_000)[8 * 96_000..];
    let pcm: Vec<u8> =
        silences_s.iter().flat_map(|seconds| [vec![0; seconds * 96_000], sentence.to_vec()].concat()).collect();
    let path = folder.join("speech.wav");
    std::fs::write(&path, wav(48_000, 16, &pcm)).unwrap();
    path
}

/// A service with calls, one at a time, and a language model that tells stories.
fn service() -> Option<(Service, Account, Receiver)> {
    let receiver = Receiver::new();
    receiver.answers(COMPLETIONS, (0..12).map(|_| says(&[&STORY.repeat(10)])));
    let service = Setup::local()
        .talking()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "their-model")
        .with("max_live_sessions", 1)
        .start();
    let account = service.account();
    if account.post_raw("/v1/realtime/calls", "application/sdp", "").status == 404 {
        skip("calls over WebRTC (cargo build --features webrtc)");
        return None;
    }
    Some((service, account, receiver))
}

fn secret(account: &Account, session: &Value) -> String {
    let secret = account.post("/v1/realtime/client_secrets", &json!({ "session": session })).ok();
    secret["value"].as_str().unwrap().to_owned()
}

fn holds(browser: &mut Browser, what: &str, condition: &str) {
    eventually(what, || browser.holds(condition).then_some(()));
}

fn asked(browser: &mut Browser, script: &str) -> Value {
    let text = browser.run(&format!("(async () => JSON.stringify(await ({script})))()"));
    serde_json::from_str(&text).unwrap()
}

fn is_free(service: &Service) {
    eventually("the end of the session", || (service.metric("auricle_live_sessions") == 0.0).then_some(()));
}

#[test]
fn the_agents_sdk_holds_a_call_with_an_interruption() {
    let modules = std::env::var_os("AURICLE_NODE_MODULES").map(PathBuf::from).unwrap_or_default();
    let bundle = modules.join("@openai/agents-realtime/dist/bundle/openai-realtime-agents.umd.js");
    if !bundle.is_file() {
        return skip("the npm package @openai/agents-realtime (AURICLE_NODE_MODULES=FOLDER/node_modules)");
    }
    let Some((service, account, receiver)) = service() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(repository().join("tests/tests/browser/call.html")).unwrap();
    let path = folder.path().join("call.html");
    std::fs::write(&path, format!("{page}<script src='file://{}'></script>", bundle.display())).unwrap();
    let page = format!("file://{}", path.display());
    let Some(mut browser) = Browser::open(&page, &microphone(folder.path(), &[4, 12])) else { return };
    holds(&mut browser, "the package", "document.readyState == 'complete' && !!window.OpenAIAgentsRealtime");
    let transcribed = json!({ "input": { "transcription": { "model": "whisper-1" } } });
    let secret = secret(&account, &json!({ "type": "realtime", "audio": transcribed }));
    let call = browser.run(&format!("withAgents('{}/v1/realtime/calls', '{secret}')", service.api()));
    assert!(call.starts_with("rtc_"), "{call}");

    // The caller's words arrive, and the reply is heard.
    holds(
        &mut browser,
        "the words",
        "of('conversation.item.input_audio_transcription.completed').some((event) => /you/i.test(event.transcript))",
    );
    holds(&mut browser, "a reply", "of('output_audio_buffer.started').length > 0");
    holds(&mut browser, "its sound", "powers.filter((power) => power > 1e-4).length > 10");
    let before = asked(&mut browser, "received()");
    assert!(before["packets"].as_u64() > Some(25) && before["energy"].as_f64() > Some(1e-4), "{before}");

    // The caller speaks again, and the agent is silent at once, long before the end of the story.
    holds(&mut browser, "an interruption", "of('output_audio_buffer.cleared').length > 0");
    let next = "of('output_audio_buffer.started').find((event) => event.at > window.cut)";
    browser.run("window.cut = of('output_audio_buffer.cleared')[0].at");
    holds(&mut browser, "the next reply", &format!("!!{next}"));
    let after = asked(&mut browser, &format!("powers.slice(cut + 6, {next}.at)"));
    let after: Vec<f64> = serde_json::from_value(after).unwrap();
    assert!(after.len() > 3 && after.iter().all(|power| *power < 1e-6), "{after:?}");
    holds(
        &mut browser,
        "the end of the reply",
        "of('response.done').some((event) => event.response.status == 'cancelled')",
    );
    let done =
        asked(&mut browser, "of('response.done').find((event) => event.response.status == 'cancelled').response");
    assert_eq!(done["status_details"]["reason"], "turn_detected", "{done}");
    let said = done["output"][0]["content"][0]["transcript"].as_str().unwrap();
    assert!(!said.is_empty() && said.len() < STORY.len() * 9, "{said}");
    let ids =
        asked(&mut browser, "['started', 'cleared'].map((name) => of(`output_audio_buffer.${name}`)[0].response_id)");
    assert_eq!(ids[0], ids[1], "the reply that was heard is the one that was cut");

    // It answers the second turn, too, which the page cuts off.
    browser.run("session.interrupt()");
    holds(&mut browser, "its end", "of('output_audio_buffer.cleared').length > 1");
    assert_eq!(asked(&mut browser, "of('error')"), json!([]));
    assert_eq!(asked(&mut browser, "of('response.output_audio.delta').length"), 0, "audio goes over the track");
    let system = receiver.wait(COMPLETIONS, 1)[0].json()["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.ends_with("You are the desk of a hotel."), "{system}");

    // The page hangs up, and the place is free.
    assert_eq!(service.metric("auricle_live_sessions"), 1.0);
    browser.run("session.close()");
    is_free(&service);
    assert!(account.usage().iter().any(|line| line["sku"] == "svc-agent"), "{:?}", account.usage());
}

#[test]
fn a_browser_alone_holds_calls_which_either_side_ends() {
    let Some((service, account, _receiver)) = service() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = format!("file://{}", repository().join("tests/tests/browser/call.html").display());
    let Some(mut browser) = Browser::open(&page, &microphone(folder.path(), &[2, 60])) else { return };
    holds(&mut browser, "the page", "document.readyState == 'complete' && typeof withFetch == 'function'");
    let begin = |browser: &mut Browser, session: &Value| {
        browser.run("events.length = 0");
        let secret = secret(&account, session);
        let call = browser.run(&format!("withFetch('{}/v1/realtime/calls', '{secret}')", service.api()));
        holds(browser, "the session", "of('session.created').length == 1");
        call
    };
    let send = |browser: &mut Browser, event: Value| {
        browser.run(&format!("channel.send({:?})", event.to_string()));
    };

    // A transcription session, in which only commits end turns.
    begin(&mut browser, &json!({ "type": "transcription", "audio": { "input": { "turn_detection": null } } }));
    holds(&mut browser, "words", "of('conversation.item.input_audio_transcription.delta').length > 0");
    send(&mut browser, json!({ "type": "input_audio_buffer.commit" }));
    holds(
        &mut browser,
        "the text",
        "of('conversation.item.input_audio_transcription.completed').some((event) => /you/i.test(event.transcript))",
    );
    for (event, words) in [
        (json!({ "type": "nonsense" }), "nonsense"),
        (
            json!({ "type": "session.update", "session": { "audio": { "input": { "format": { "type": "audio/pcmu" } } } } }),
            "`format`",
        ),
    ] {
        browser.run("events.length = 0");
        send(&mut browser, event);
        holds(&mut browser, "a fault", "of('error').length == 1");
        let message = asked(&mut browser, "of('error')[0].error.message");
        assert!(message.as_str().unwrap().contains(words), "{message}");
    }
    browser.run("events.length = 0; channel.send(new Uint8Array([1, 2, 3]))");
    holds(&mut browser, "a fault", "of('error').some((event) => event.error.code == 'invalid_event')");
    // The page goes away without a word.
    browser.run("peer.close()");
    is_free(&service);

    // The service's side hangs up.
    let call = begin(&mut browser, &json!({ "type": "realtime" }));
    send(&mut browser, json!({ "type": "output_audio_buffer.clear" }));
    send(
        &mut browser,
        json!({ "type": "session.update", "session": { "type": "realtime", "audio": { "output": { "format": { "type": "audio/pcma" } } } } }),
    );
    holds(&mut browser, "a fault", "of('error').length == 1 && of('error')[0].error.message.includes('`format`')");
    assert_eq!(account.post_empty(&format!("/v1/realtime/calls/{call}/hangup")).status, 204);
    holds(&mut browser, "the end", "of('closed').length == 1");
    is_free(&service);

    // The service stops: the event is sent before the end.
    begin(&mut browser, &json!({ "type": "realtime" }));
    service.terminate();
    holds(&mut browser, "the reason", "of('error').some((event) => event.error.code == 'service_stopping')");
    holds(&mut browser, "the end", "of('closed').length == 1");
    service.wait();
}
