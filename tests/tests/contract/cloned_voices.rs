//! Voices that accounts make of recordings. The model that speaks has random weights; the one that tells people apart is a starter.

use std::fs;
use std::sync::OnceLock;

use auricle_engine::audio::SAMPLE_RATE;
use auricle_tests::{
    Account, AgentReply, Answer, Service, Setup, pcm, readers, silence, two_readers, wav, without_tensors,
    write_frame_voice, write_talking_models,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::forms::{field, file_named, form, kind};

const VOICES: &str = "/v2/voices";
const CONSENT: &str = "I, the reader, agree that my voice is copied.";

/// The starters, an English voice, and a German one whose model makes voices.
fn models() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let models = write_talking_models(root.path());
    write_frame_voice(&models.join("frames"));
    let catalog = models.join("catalog.toml");
    let entry = "\n[[voice]]\nid = \"frames\"\nstarter = \"frames\"\nlanguage = \"de\"\n";
    fs::write(&catalog, fs::read_to_string(&catalog).unwrap() + entry).unwrap();
    root
}

fn service() -> &'static Service {
    static SERVICE: OnceLock<(TempDir, Service)> = OnceLock::new();
    let made = SERVICE.get_or_init(|| {
        let root = models();
        let service = Setup::local().on(&root.path().join("models")).with("voice_cloning", true).start();
        (root, service)
    });
    &made.1
}

/// Twelve seconds of a man who reads.
fn clip() -> Vec<u8> {
    let [man, _] = readers();
    wav(SAMPLE_RATE, 16, &pcm(man.into_iter().take(12 * SAMPLE_RATE as usize)))
}

fn post(account: &Account, parts: &[Vec<u8>]) -> Answer {
    account.post_raw(VOICES, &kind(), form(parts))
}

fn made(account: &Account, name: &str, clip: &[u8]) -> Answer {
    post(account, &[field("name", name), file_named("clip", "clip.wav", clip), field("consent", CONSENT)])
}

fn say(account: &Account, more: Value) -> Answer {
    let mut body = json!({ "model": "tts-1", "input": "Guten Morgen.", "response_format": "pcm" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    account.post("/v1/audio/speech", &body)
}

fn sound(account: &Account, more: Value) -> Vec<u8> {
    let answer = say(account, more);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.body.iter().any(|byte| *byte != 0));
    answer.body.to_vec()
}

fn ids(account: &Account) -> Vec<String> {
    let list = account.get(VOICES).ok();
    list["data"].as_array().unwrap().iter().map(|voice| voice["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_clip_becomes_a_voice_that_speaks_until_it_is_deleted() {
    let (account, other) = (service().account(), service().account());
    let before = ids(&account);
    let voice = made(&account, "Ada", &clip()).ok();
    let id = voice["id"].as_str().unwrap();
    assert!(id.starts_with("voice_"), "{voice}");
    let seconds = voice["audio_sec"].as_f64().unwrap();
    assert!((10.0..=12.5).contains(&seconds), "{voice}");
    let expected = json!({
        "id": id, "object": "voice", "name": "Ada", "language": "de", "model": "frames", "default": false,
        "consent": CONSENT, "audio_sec": seconds, "created_at": voice["created_at"],
    });
    assert_eq!(voice, expected);
    let path = format!("{VOICES}/{id}");
    assert_eq!(account.get(&path).ok(), expected);
    assert_eq!(ids(&account), [before.clone(), vec![id.to_owned()]].concat());
    // It is the account's own.
    assert_eq!(ids(&other), before);
    other.get(&path).error(404, "not_found");
    other.delete(&path).error(404, "not_found");
    say(&other, json!({ "voice": id })).error(422, "validation_error");
    // Its speech is its own.
    let own = sound(&account, json!({ "voice": id }));
    assert_eq!(sound(&account, json!({ "voice": { "id": id }, "language": "de" })), own);
    assert_ne!(sound(&account, json!({ "voice": "bob" })), own);
    let message = say(&account, json!({ "voice": id, "language": "fr" })).error(422, "validation_error");
    assert!(message.contains("speaks de, not fr"), "{message}");
    let mut call = account.call(&json!({ "greeting": "Guten Morgen.", "output": { "voice": id } }));
    let AgentReply { audio, text, status, .. } = call.reply();
    assert_eq!((text.as_str(), status.as_str()), ("Guten Morgen.", "completed"));
    assert!(audio.len() > 2_000, "{} bytes", audio.len());
    // A name is given once.
    let message = made(&account, "ada", &clip()).error(409, "voice_exists");
    assert!(message.contains("another name"), "{message}");
    assert_eq!(account.delete(&path).status, 204);
    account.get(&path).error(404, "not_found");
    account.delete(&path).error(404, "not_found");
    let message = say(&account, json!({ "voice": id })).error(422, "validation_error");
    assert!(message.contains("unknown voice"), "{message}");
    assert_eq!(ids(&account), before);
    made(&account, "Ada", &clip()).ok();
}

#[test]
fn a_clip_that_is_not_one_persons_speech_of_5_to_20_s_is_refused_with_the_reason() {
    let account = service().account();
    let [man, _] = readers();
    let of =
        |seconds: usize| wav(SAMPLE_RATE, 16, &pcm(man.iter().copied().cycle().take(seconds * SAMPLE_RATE as usize)));
    let both = {
        let [man, woman] = readers();
        let half = 8 * SAMPLE_RATE as usize;
        wav(SAMPLE_RATE, 16, &pcm(man.into_iter().take(half).chain(woman.into_iter().take(half))))
    };
    for (clip, reason) in [
        (silence(10.0), "0.0 s of speech"),
        (both, "more than one person"),
        (of(1), "the clip has 1.0 s; 5 to 20 s"),
        (of(25), "longer than 20 s"),
        (two_readers(), "longer than 20 s"),
        (wav(8_000, 16, &vec![0; 3600 * 16_000]), "longer than 20 s"),
        (b"no audio at all".to_vec(), "cannot be used"),
    ] {
        let message = made(&account, "Ada", &clip).error(422, "unsuitable_audio");
        assert!(message.contains(reason), "{message}, not {reason}");
    }
    assert_eq!(
        account.get(VOICES).ok()["data"].as_array().unwrap().iter().filter(|one| one["name"] == "Ada").count(),
        0
    );
}

#[test]
fn a_form_without_what_it_needs_is_refused_by_name() {
    let account = service().account();
    let (name, consent) = (field("name", "Ada"), field("consent", CONSENT));
    let clip = || file_named("clip", "clip.wav", &clip());
    for (parts, status, code, named) in [
        (vec![name.clone(), clip()], 400, "invalid_request", "consent"),
        (vec![name.clone(), clip(), field("consent", "yes")], 422, "validation_error", "consent"),
        (vec![name.clone(), clip(), field("consent", &" ".repeat(40))], 422, "validation_error", "consent"),
        (vec![clip(), consent.clone()], 400, "invalid_request", "name"),
        (vec![name.clone(), consent.clone()], 400, "invalid_request", "clip"),
        (vec![field("name", "A\u{202e}da"), clip(), consent.clone()], 422, "validation_error", "name"),
        (vec![name, clip(), consent, field("language", "fr")], 422, "validation_error", "language"),
    ] {
        let message = post(&account, &parts).error(status, code);
        assert!(message.contains(named), "{message}, not {named}");
    }
    account.post(VOICES, &json!({ "name": "Ada" })).error(415, "unsupported_media_type");
}

#[test]
fn no_voice_is_made_where_the_operator_has_not_asked_for_it() {
    let root = models();
    let service = Setup::local().on(&root.path().join("models")).start();
    let message = made(&service.account(), "Ada", &clip()).error(403, "voice_cloning_off");
    assert!(message.contains("voice_cloning"), "{message}");
}

#[test]
fn a_model_without_the_encoder_makes_no_voice() {
    let root = models();
    let models = root.path().join("models");
    without_tensors(&models.join("frames/audio_tokenizer/model.safetensors"), "encoder.");
    let service = Setup::local().on(&models).with("voice_cloning", true).start();
    let account = service.account();
    made(&account, "Ada", &clip()).error(503, "unavailable");
    sound(&account, json!({ "voice": "ann", "language": "en", "model": "voice-tiny" }));
    sound(&account, json!({ "language": "de" }));
}

#[test]
fn a_language_chooses_the_voice() {
    let account = service().account();
    assert_eq!(
        sound(&account, json!({ "language": "de-AT" })),
        sound(&account, json!({ "voice": "ann", "model": "frames", "language": "de" }))
    );
    assert_eq!(sound(&account, json!({ "language": "en" })), sound(&account, json!({})));
    assert_ne!(sound(&account, json!({ "language": "de" })), sound(&account, json!({})));
    for (more, reason) in [
        (json!({ "language": "fr" }), "no voice speaks fr; "),
        (json!({ "voice": "bob", "language": "fr" }), "speaks en, not fr"),
        (json!({ "language": "" }), "language"),
    ] {
        let message = say(&account, more).error(422, "validation_error");
        assert!(message.contains(reason), "{message}, not {reason}");
    }
}
