//! `/v1/realtime/calls` over HTTP: offers, credentials and places. `tests/browser/calls.rs` holds calls.

use std::time::{Duration, Instant};

use auricle_tests::{Account, Answer, Service, Setup, http, skip};
use reqwest::Method;
use serde_json::{Value, json};

use crate::realtime_openai::SECRETS;

const CALLS: &str = "/v1/realtime/calls";
const CONVERSATION: &str = "/v1/realtime/calls?model=gpt-realtime";

const FINGERPRINT: &str = "a=fingerprint:sha-256 4D:2A:5B:91:7C:30:EE:08:6F:A1:52:9C:D3:47:B8:1E:65:0A:F9:2C:83:DE:14:70:AB:36:C5:98:0F:E2:5D:77";

/// The lines of an offer's part that each kind has.
fn transport(mid: u32) -> String {
    let ice = "a=ice-ufrag:Fx3k\r\na=ice-pwd:o1v7Jq2ZkD8sWm4rTb6yNc5P\r\na=ice-options:trickle";
    format!("c=IN IP4 0.0.0.0\r\n{ice}\r\n{FINGERPRINT}\r\na=setup:actpass\r\na=mid:{mid}\r\n")
}

/// An offer as a browser makes it: an audio track with these codecs, and the data channel.
fn offer(codecs: &str) -> String {
    let payloads: Vec<&str> =
        codecs.lines().filter_map(|line| line.strip_prefix("a=rtpmap:")?.split(' ').next()).collect();
    format!(
        "v=0\r\no=- 4611731400430051336 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\na=msid-semantic: WMS\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF {}\r\n{}a=sendrecv\r\na=msid:- track\r\na=rtcp-mux\r\n{codecs}a=ssrc:7 cname:c\r\n\
         m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n{}a=sctp-port:5000\r\na=max-message-size:262144\r\n",
        payloads.join(" "),
        transport(0),
        transport(1),
    )
}

/// An offer that the service takes.
pub fn opus() -> String {
    offer("a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\n")
}

fn without_audio() -> String {
    format!(
        "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n\
         {}a=sctp-port:5000\r\n",
        transport(0)
    )
}

/// A service with calls; none, with a note, where the program was built without them.
fn service(setup: Setup) -> Option<(Service, Account)> {
    let service = setup.start();
    let account = service.account();
    if account.post_raw(CALLS, "application/sdp", "").status == 404 {
        skip("calls over WebRTC (cargo build --features webrtc)");
        return None;
    }
    Some((service, account))
}

fn call(account: &Account, offer: &str) -> Answer {
    account.post_raw(CONVERSATION, "application/sdp", offer.to_owned())
}

/// A form with these fields.
fn form(account: &Account, path: &str, fields: &[(&str, &str)]) -> Answer {
    let parts = fields
        .iter()
        .map(|(name, value)| format!("--bound\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"));
    let body = format!("{}--bound--\r\n", parts.collect::<String>());
    account.post_raw(path, "multipart/form-data; boundary=bound", body)
}

#[test]
fn an_offer_gets_an_answer() {
    let Some((service, account)) = service(Setup::local().talking().with("webrtc_ports", "[47000, 47009]")) else {
        return;
    };
    let answer = call(&account, &opus());
    assert_eq!((answer.status, answer.header("content-type")), (201, Some("application/sdp")), "{}", answer.text());
    let location = answer.header("location").unwrap().to_owned();
    assert!(location.starts_with("/v1/realtime/calls/rtc_"), "{location}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("location"));
    let sdp = answer.text();
    let candidates: Vec<&str> = sdp.lines().filter(|line| line.starts_with("a=candidate:")).collect();
    assert!(sdp.contains("a=ice-lite") && sdp.contains("opus/48000/2") && sdp.contains("webrtc-datachannel"), "{sdp}");
    assert!(candidates.iter().all(|line| line.contains(" typ host")) && !candidates.is_empty(), "{sdp}");
    let ports: Vec<u16> = candidates.iter().map(|line| line.split(' ').nth(5).unwrap().parse().unwrap()).collect();
    assert!(ports.iter().all(|port| (47_000..47_010).contains(port)), "{ports:?}");

    // A form, as a server sends it that keeps the key: the settings come with the offer.
    let session = json!({ "type": "realtime", "model": "gpt-realtime", "audio": { "output": { "voice": "marin" } } });
    let offered = opus();
    assert_eq!(form(&account, CALLS, &[("sdp", &offered), ("session", &session.to_string())]).status, 201);
    let transcription = json!({ "type": "transcription" }).to_string();
    assert_eq!(form(&account, CALLS, &[("sdp", &offered), ("session", &transcription)]).status, 201);

    // A page has a secret, and asks first if it may.
    let secret = account.post(SECRETS, &json!({ "session": { "type": "realtime" } })).ok();
    let page = http().post(format!("{}{CALLS}", service.api())).header("content-type", "application/sdp");
    let page = page.header("origin", "https://shop.example").bearer_auth(secret["value"].as_str().unwrap());
    assert_eq!(Answer::of(page.body(offered)).status, 201);
    let preflight = http().request(Method::OPTIONS, format!("{}{CALLS}", service.api()));
    let preflight = Answer::of(preflight.header("origin", "https://shop.example"));
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some("*")));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("*, authorization"));

    // Only its account ends a call, and once.
    let hangup = format!("{location}/hangup");
    service.account().post_empty(&hangup).error(404, "not_found");
    assert_eq!(account.post_empty(&hangup).status, 204);
    auricle_tests::eventually("the end", || (account.post_empty(&hangup).status == 404).then_some(()));
}

#[test]
fn wrong_offers_are_refused() {
    let Some((service, account)) = service(Setup::local().talking()) else { return };
    let refused = |answer: Answer, status: u16, words: &str| {
        let error = &answer.json()["error"];
        let message = error["message"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, status, "{message}");
        assert!(message.contains(words) && error["type"].is_string(), "{words}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "a page can read why");
    };
    let good = opus();
    let no_fingerprint: String = good.split_inclusive('\n').filter(|line| !line.contains("fingerprint")).collect();
    for (offer, words) in [
        ("", "no offer in SDP"),
        ("hello", "no offer in SDP"),
        ("{\"type\":\"offer\"}", "no offer in SDP"),
        ("v=0\r\n", "no offer in SDP"),
        (&good[..good.len() / 2], "SDP"),
        (&without_audio(), "no audio"),
        (&offer("a=rtpmap:0 PCMU/8000\r\n"), "no audio in Opus"),
        (&good.replace("m=audio", "m=video"), "no audio"),
        (&no_fingerprint, "fingerprint"),
        (&good.replace("a=group", "a=ice-lite\r\na=group"), "ICE-Lite"),
        (&format!("{good}{}", "a=x:y\r\n".repeat(20_000)), "64 KiB"),
    ] {
        refused(call(&account, offer), 400, words);
    }
    refused(account.post_raw(CONVERSATION, "application/sdp", vec![0xff, 0xfe]), 400, "UTF-8");
    refused(account.post_raw(CONVERSATION, "application/json", "{}"), 415, "application/sdp");
    refused(account.post_raw(CONVERSATION, "application/sdp", vec![b'a'; 2 << 20]), 413, "larger");
    refused(account.post_raw(CALLS, "application/sdp", good.clone()), 400, "?model=svc-agent");
    refused(account.post_raw("/v1/realtime/calls?model=gpt-9", "application/sdp", good.clone()), 400, "gpt-9");
    refused(form(&account, CALLS, &[("session", "{}")]), 400, "`sdp` is missing");
    let session = |session: Value| form(&account, CALLS, &[("sdp", &good), ("session", &session.to_string())]);
    refused(form(&account, CALLS, &[("sdp", &good), ("session", "{")]), 400, "not JSON");
    refused(session(json!(5)), 422, "object");
    refused(session(json!({ "type": "realtime", "model": "gpt-9" })), 404, "gpt-9");
    let pcmu = json!({ "audio": { "input": { "format": { "type": "audio/pcmu" } } }, "type": "realtime" });
    refused(session(pcmu.clone()), 400, "`format`");
    let secret = account.post(SECRETS, &json!({ "session": pcmu })).ok()["value"].as_str().unwrap().to_owned();
    let with = |credential: &str| {
        let request = http().post(format!("{}{CALLS}", service.api())).header("content-type", "application/sdp");
        Answer::of(request.header("authorization", format!("Bearer {credential}")).body(good.clone()))
    };
    refused(with(&secret), 400, "`format`");
    refused(with("ek_nonsense"), 401, "secret");
    refused(with("svc_nonsense"), 401, "key");
    assert_eq!(service.metric("auricle_live_sessions"), 0.0);
    account.post_empty("/v1/realtime/calls/rtc_none/hangup").error(404, "not_found");
}

/// The hardest that a client can be on the parser: parts of offers in any order do not end the service.
#[test]
fn mixed_up_offers_are_answered_or_refused() {
    let Some((_service, account)) = service(Setup::local().talking().with("max_live_sessions", 4)) else { return };
    let good = opus();
    let lines: Vec<&str> = good.split_inclusive("\r\n").collect();
    for at in 0..lines.len() {
        for changed in [
            [&lines[..at], &lines[at + 1..]].concat().concat(),
            [&lines[..at], &[lines[at]; 3], &lines[at..]].concat().concat(),
            [&lines[at..], &lines[..at]].concat().concat(),
            good.replacen(lines[at], &lines[at].replace(':', ":99999999999999999999"), 1),
        ] {
            let status = call(&account, &changed).status;
            assert!([201, 400, 503].contains(&status), "{status}: {changed}");
        }
    }
}

#[test]
fn a_place_is_free_again_when_no_connection_comes() {
    let Some((service, account)) = service(Setup::local().talking().with("max_live_sessions", 1)) else { return };
    let began = Instant::now();
    assert_eq!(call(&account, &opus()).status, 201);
    assert!(call(&account, &opus()).error(503, "unavailable").contains("room"));
    auricle_tests::eventually("a free place", || (call(&account, &opus()).status == 201).then_some(()));
    let took = began.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(14)).contains(&took), "{took:?}");
    // Nothing was connected, so that nothing is billed, and a stopping service does not wait.
    assert_eq!(service.metric("auricle_live_sessions"), 0.0);
    assert!(account.usage().is_empty());
    let began = Instant::now();
    service.terminate();
    service.wait();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
