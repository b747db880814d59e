//! A transcript's page over HTTP: names of speakers, which people give there, and the waveform of the recording.

use auricle_tests::{Account, Service, Setup, Visitor, pcm, readers, two_readers, wav};
use serde_json::json;

use crate::postgres;

/// A completed transcript of two speakers.
fn transcript(account: &Account) -> String {
    let upload = account.upload("two.wav", two_readers());
    let id = account.create(&json!({"upload_id": upload, "speaker_labels": true}));
    assert_eq!(account.finished(&id)["status"], "completed");
    id
}

fn names_are_kept(service: &Service) {
    let mut visitor = Visitor::signed_up(service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    let id = transcript(&account);
    let path = format!("/data/transcripts/{id}/speakers");
    let before = account.transcript(&id);
    let download = |visitor: &mut Visitor, format: &str| {
        let file = visitor.get(&format!("/transcripts/{id}/download/{format}"));
        assert_eq!(file.status, 200, "{format}");
        file.text().to_owned()
    };
    assert!(download(&mut visitor, "txt").starts_with("A: "));
    let kept = visitor.ask(&path, &json!({"speaker": "A", "name": "  Ada\n Lovelace "})).ok();
    assert_eq!(kept, json!({"speaker": "A", "name": "Ada Lovelace"}));
    let attack = "<i>B & \"co\"</i><script>alert(1)</script>-->";
    visitor.ask(&path, &json!({"speaker": "B", "name": attack})).ok();

    // The page and what it downloads have the names, and none of them is markup.
    let page = visitor.get(&format!("/transcripts/{id}"));
    assert!(page.text().contains("&#34;A&#34;:&#34;Ada Lovelace&#34;"), "{}", page.text());
    assert!(!page.text().contains("<script>alert") && !page.text().contains("<i>B"), "{}", page.text());
    let text = download(&mut visitor, "txt");
    assert!(text.starts_with("Ada Lovelace: ") && text.contains(&format!("\n{attack}: ")), "{text}");
    assert!(download(&mut visitor, "srt").contains("\nAda Lovelace: "));
    let vtt = download(&mut visitor, "vtt");
    assert!(vtt.contains("<v Ada Lovelace>"), "{vtt}");
    assert!(vtt.contains("<v &lt;i&gt;B &amp; \"co\"&lt;/i&gt;&lt;script&gt;alert(1)&lt;/script&gt;--&gt;>"), "{vtt}");
    assert!(download(&mut visitor, "json").contains("\"speaker\":\"A\""));

    // The API has the labels.
    assert_eq!(account.transcript(&id), before);
    assert!(account.get(&format!("/v2/transcripts/{id}/srt")).text().contains("\nB: "));

    // An empty name gives the label back.
    visitor.ask(&path, &json!({"speaker": "A", "name": " "})).ok();
    assert!(download(&mut visitor, "vtt").contains("<v A>"));

    for (body, status, code) in [
        (json!({"speaker": "A", "name": "x".repeat(101)}), 422, "validation_error"),
        (json!({"speaker": "Z", "name": "x"}), 422, "validation_error"),
        (json!({"speaker": "A", "name": 5}), 422, "validation_error"),
        (json!({"speaker": "A", "name": "a\0b"}), 422, "validation_error"),
        (json!({"speaker": "A"}), 400, "invalid_request"),
    ] {
        visitor.ask(&path, &body).error(status, code);
    }
    visitor.ask(&path, &json!({"speaker": "A", "name": "ä".repeat(100)})).ok();
    visitor.token = "0".repeat(64);
    assert_eq!(visitor.ask(&path, &json!({"speaker": "A", "name": "x"})).status, 403);
    let mut other = Visitor::signed_up(service);
    other.ask(&path, &json!({"speaker": "A", "name": "x"})).error(404, "not_found");
    account.delete(&format!("/v2/transcripts/{id}"));
    visitor.get("/keys");
    visitor.ask(&path, &json!({"speaker": "A", "name": "x"})).error(404, "not_found");
}

fn waveforms_are_drawn(service: &Service) {
    let mut visitor = Visitor::signed_up(service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    for options in [json!({}), json!({"multichannel": true})] {
        // Two seconds of silence, two of a loud tone and two of a quiet one.
        let tone = |loud: f32| (0..32_000).map(move |at| loud * (at as f32 * 0.1).sin());
        let [man, _] = readers();
        let sound = tone(0.0).chain(tone(0.8)).chain(tone(0.2)).chain(man);
        let mut body = json!({"upload_id": account.upload("tones.wav", wav(16_000, 16, &pcm(sound)))});
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let id = account.create(&body);
        let done = account.finished(&id);
        let page = visitor.get(&format!("/transcripts/{id}"));
        let path = page.text().split("<path id=\"bars\" d=\"").nth(1).expect("a waveform").split('"').next().unwrap();
        let heights: Vec<f64> =
            path.split('v').skip(1).map(|bar| bar.split('M').next().unwrap().parse().unwrap()).collect();
        assert!((300..=601).contains(&heights.len()), "{options}: {}", heights.len());
        let level_s = done["audio_duration_sec"].as_f64().unwrap() / heights.len() as f64;
        let height = |second: f64| heights[(second / level_s) as usize];
        assert_eq!(height(1.0), 2.0, "silence");
        assert!(height(3.0) > 36.0 && (15.0..25.0).contains(&height(5.0)), "{} {}", height(3.0), height(5.0));
    }
}

#[test]
fn a_recording_has_a_waveform() {
    waveforms_are_drawn(&Setup::local().starter().start());
}

#[test]
fn a_recording_has_a_waveform_on_postgres() {
    let Some(server) = postgres() else { return };
    waveforms_are_drawn(&Setup::local().starter().with("database_url", server.database()).start());
}

#[test]
fn speakers_are_named_on_the_page() {
    names_are_kept(&Setup::local().starter().start());
}

#[test]
fn speakers_are_named_on_the_page_on_postgres() {
    let Some(server) = postgres() else { return };
    names_are_kept(&Setup::local().starter().with("database_url", server.database()).start());
}
