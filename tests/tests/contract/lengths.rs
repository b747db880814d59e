//! Lengths of fields: beyond them a request is refused, and nothing is stored.

use std::sync::OnceLock;

use auricle_tests::{Service, Setup, silence};
use serde_json::json;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

#[test]
fn fields_beyond_their_length_are_422() {
    let account = service().account();
    let upload = account.upload("a.wav", silence(0.5));
    let url = |characters: usize| format!("http://example.com/{}", "a".repeat(characters - 19));
    for (field, longest, longer) in [
        ("title", json!("ä".repeat(500)), json!("ä".repeat(501))),
        ("webhook_url", json!(url(4096)), json!(url(4097))),
        ("keyterms_prompt", json!(vec!["ä".repeat(100); 1000]), json!(["ä".repeat(101)])),
        ("language_codes", json!(["en"]), json!(["e".repeat(200)])),
    ] {
        account.post("/v2/transcripts", &json!({"upload_id": upload, field: longest})).ok();
        let refused = account.post("/v2/transcripts", &json!({"upload_id": upload, field: longer}));
        refused.error(422, "validation_error");
        assert!(refused.text().contains(field), "{field}: {}", refused.text());
    }
    account.post("/v2/transcripts", &json!({"audio_url": url(4097)})).error(422, "validation_error");
    let long_path = account.post("/v2/transcripts", &json!({"audio_url": url(4096)})).ok();
    assert_eq!(long_path["title"].as_str().unwrap().len(), 500);
    assert_eq!(account.get("/v2/transcripts").ok()["total"], 5);
}

#[test]
fn titles_have_no_hidden_characters_and_file_names_lose_them() {
    let account = service().account();
    let upload = account.upload("talk\u{202e}3pm\u{200b}.wav", silence(0.5));
    assert_eq!(account.post("/v2/transcripts", &json!({"upload_id": upload})).ok()["title"], "talk3pm.wav");
    for (title, code) in [
        ("a\u{202e}b", "U+202E"),
        ("a\u{2066}b", "U+2066"),
        ("a\u{200b}b", "U+200B"),
        ("\u{feff}a", "U+FEFF"),
        ("a\nb", "U+000A"),
        ("a\u{e0041}b", "U+E0041"),
    ] {
        let body = json!({"upload_id": upload, "title": title});
        let message = account.post("/v2/transcripts", &body).error(422, "validation_error");
        assert!(message.contains("`title`") && message.contains(code), "{message}");
    }
    for title in ["می\u{200c}خواهم", "👩\u{200d}💻 talks", "❤\u{fe0f}"] {
        let body = json!({"upload_id": upload, "title": title});
        assert_eq!(account.post("/v2/transcripts", &body).ok()["title"], title);
    }
}

#[test]
fn a_word_search_takes_a_hundred_phrases_of_which_equal_ones_count_once() {
    let account = service().account();
    let path = match account.transcribe("a.wav", auricle_tests::noise(3.0)) {
        done if done["text"] == "" => panic!("the checkpoint writes nothing: {done}"),
        done => format!("/v2/transcripts/{}/word-search?words=", done["id"].as_str().unwrap()),
    };
    let phrases = |count: usize| (0..count).map(|at| format!("w{at}")).collect::<Vec<_>>().join(",");
    let found = account.get(&format!("{path}{},W1,w2!", phrases(100))).ok();
    assert_eq!(found["matches"].as_array().unwrap().len(), 100);
    account.get(&format!("{path}{}", phrases(101))).error(422, "validation_error");
}

#[test]
fn urls_of_private_names_are_400() {
    let account = service().account();
    let upload = account.upload("a.wav", silence(0.5));
    for host in ["nas.lan", "NAS.LAN.", "a.home.arpa", "home.arpa", "db.localdomain", "x.internal", "y.local"] {
        let url = format!("http://{host}/a.wav");
        account.post("/v2/transcripts", &json!({"audio_url": url})).error(400, "invalid_request");
        let hooked = json!({"upload_id": upload, "webhook_url": url});
        account.post("/v2/transcripts", &hooked).error(400, "invalid_webhook_url");
    }
    account.post("/v2/transcripts", &json!({"audio_url": "http://lan.example.com/a.wav"})).ok();
}
