//! Names of known people in transcripts: `/v2/speakers` and `identify_speakers`.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions};
use auricle_tests::{
    Account, Answer, Receiver, Reply, Service, Setup, eventually, fixtures, models, models_with_diarizer, pcm, readers,
    silence, two_readers, wav,
};
use serde_json::{Value, json};

use crate::postgres;

/// The real starters, of which one tells voices apart.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

fn sound(samples: impl IntoIterator<Item = f32>) -> Vec<u8> {
    wav(SAMPLE_RATE, 16, &pcm(samples))
}

/// A clip of the woman, and a conversation in which the man speaks, then she: nothing of it is in the clip.
fn clip_and_talk() -> (Vec<u8>, Vec<u8>) {
    let [man, woman] = readers();
    let (clip, rest) = woman.split_at(woman.len() / 2);
    let talk = [&man[man.len() / 2..], &[0.0; 8000], rest].concat();
    (sound(clip.iter().copied()), sound(talk))
}

/// Keeps a voice.
fn enroll(account: &Account, name: &str, clip: Vec<u8>) -> Answer {
    account.post("/v2/speakers", &json!({"name": name, "upload_id": account.upload("clip.wav", clip)}))
}

fn named(account: &Account, talk: &[u8], more: Value) -> Value {
    let mut body = json!({"upload_id": account.upload("talk.wav", talk.to_vec()), "speaker_labels": true, "identify_speakers": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let done = account.finished(&account.create(&body));
    assert_eq!(done["status"], "completed", "{done}");
    done
}

/// The label and the name of each object of a list.
fn names(list: &Value) -> Vec<(&str, Option<&str>)> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| (one["speaker"].as_str().unwrap(), one["speaker_name"].as_str())).collect()
}

/// Keeps a voice, has it named, and deletes it.
fn walk(service: &Service) {
    let (account, (clip, talk)) = (service.account(), clip_and_talk());
    let ada = enroll(&account, "  Ada Lovelace ", clip.clone()).ok();
    let fields: Vec<&str> = ada.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["id", "object", "name", "usable", "speech_sec", "created_at"], "nothing of the voice is shown");
    assert_eq!(
        (&ada["name"], &ada["object"], &ada["usable"]),
        (&json!("Ada Lovelace"), &json!("speaker"), &json!(true))
    );
    let (path, speech) = (format!("/v2/speakers/{}", ada["id"].as_str().unwrap()), ada["speech_sec"].as_f64().unwrap());
    assert!(path.contains("/spk_") && (5.0..7.5).contains(&speech), "{ada}");
    assert_eq!(account.get(&path).ok(), ada);
    let list = account.get("/v2/speakers").ok();
    assert_eq!((&list["data"], &list["total"]), (&json!([ada]), &json!(1)));
    assert_eq!(account.usage(), Vec::<Value>::new(), "it costs nothing");

    let done = named(&account, &talk, json!({}));
    for list in [&done["words"], &done["utterances"]] {
        let names = names(list);
        assert_eq!((names[0], names[names.len() - 1]), (("A", None), ("B", Some("Ada Lovelace"))), "{done}");
        assert!(names.iter().all(|(label, name)| (*label == "B") == name.is_some()), "{names:?}");
    }
    let id = done["id"].as_str().unwrap();
    let [srt, vtt] = ["srt", "vtt"].map(|part| account.get(&format!("/v2/transcripts/{id}/{part}")));
    assert!(srt.text().contains("\nA: ") && srt.text().contains("\nAda Lovelace: "), "{}", srt.text());
    assert!(vtt.text().contains("<v Ada Lovelace>") && !vtt.text().contains("<v B>"), "{}", vtt.text());

    // Not asked, or another account's.
    let body = json!({"upload_id": account.upload("talk.wav", talk.clone()), "speaker_labels": true});
    let plain = account.finished(&account.create(&body));
    assert!(plain["status"] == "completed" && !plain.to_string().contains("speaker_name"), "{plain}");
    let other = service.account();
    assert!(!named(&other, &talk, json!({})).to_string().contains("speaker_name"));
    other.get(&path).error(404, "not_found");
    other.delete(&path).error(404, "not_found");
    assert_eq!(other.get("/v2/speakers").ok()["data"], json!([]));

    assert_eq!(account.delete(&path).status, 204);
    account.get(&path).error(404, "not_found");
    account.delete(&path).error(404, "not_found");
    assert!(!named(&account, &talk, json!({})).to_string().contains("speaker_name"));
    enroll(&account, "Ada Lovelace", clip).ok();
}

#[test]
fn a_known_person_is_named_and_a_stranger_is_not() {
    walk(service());
}

#[test]
fn postgresql_keeps_known_people_too() {
    let Some(server) = postgres() else { return };
    walk(&Setup::local().starter().with("database_url", server.database()).start());
}

/// Files of a folder in which some bytes of this number are like that.
fn holders(folder: &Path, count: usize, like: &dyn Fn(&[u8]) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(holders(&entry.path(), count, like));
        } else if fs::read(entry.path()).is_ok_and(|held| held.windows(count).any(like)) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_voice_is_encrypted_and_deleted_for_good() {
    let service = Setup::local().starter().start();
    let (account, (clip, _)) = (service.account(), clip_and_talk());
    let path = service.data().join("clip.wav");
    fs::write(&path, &clip).unwrap();
    let engine = Engine::open(EngineOptions::default().models(models()).device(DeviceChoice::Cpu)).unwrap();
    let direction = engine.enroll(AudioStream::open(&path).unwrap()).unwrap().direction;
    let held = |text: &str| holders(&service.data(), text.len(), &|bytes| bytes == text.as_bytes());
    // The last digits depend on which windows share a step.
    let is_direction = |bytes: &[u8]| {
        let values = bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value));
        values.zip(&direction).all(|(value, heard)| (value - heard).abs() < 1e-3)
    };
    let held_plainly = || holders(&service.data(), 16, &is_direction);
    fs::write(&path, direction.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    assert_eq!(held_plainly(), [path.display().to_string()], "what is searched for can be found");
    fs::remove_file(&path).unwrap();

    let upload = account.upload("clip.wav", clip.clone());
    let ada = account.post("/v2/speakers", &json!({"name": "Ada Zyx", "upload_id": upload})).ok();
    let id = ada["id"].as_str().unwrap();
    assert!(!held("Ada Zyx").is_empty() && !held(id).is_empty());
    assert_eq!(held_plainly(), Vec::<String>::new(), "the direction is encrypted");
    assert_eq!(held(&direction[0].to_string()[..6]), Vec::<String>::new());
    // The clip has gone with the call.
    account.post("/v2/transcripts", &json!({"upload_id": upload})).error(404, "not_found");
    let sound = &clip[clip.len() / 2..][..64];
    let held_sound = || holders(&service.data(), sound.len(), &|bytes| bytes == sound);
    eventually("the clip is deleted", || held_sound().is_empty().then_some(()));

    assert_eq!(account.delete(&format!("/v2/speakers/{id}")).status, 204);
    for trace in ["Ada Zyx", "ada zyx", id] {
        eventually("nothing is left", || held(trace).is_empty().then_some(()));
    }
    assert!(!service.log().contains("Ada Zyx"), "no name is logged");
}

#[test]
fn where_names_are_hidden_nobody_is_named() {
    let (account, (clip, talk)) = (service().account(), clip_and_talk());
    enroll(&account, "Ada Lovelace", clip).ok();
    for options in [json!({"pii_redaction": true}), json!({"pii_redaction": true, "pii_policies": ["person_name"]})] {
        let done = named(&account, &talk, options);
        assert!(!done.to_string().contains("Ada") && !done.to_string().contains("speaker_name"), "{done}");
        let srt = account.get(&format!("/v2/transcripts/{}/srt", done["id"].as_str().unwrap()));
        assert!(!srt.text().contains("Ada"), "{}", srt.text());
    }
    let done = named(&account, &talk, json!({"pii_redaction": true, "pii_policies": ["phone_number"]}));
    assert!(names(&done["utterances"]).contains(&("B", Some("Ada Lovelace"))), "{done}");
}

/// The diarizer of the fixtures has random weights: its labels are nonsense, and the voices are heard beside it.
#[test]
fn a_diarizer_without_voices_has_them_heard_beside_it() {
    let models = models_with_diarizer(&fixtures().join("sortformer"));
    let service = Setup::local().on(models.path()).start();
    let (account, (clip, talk)) = (service.account(), clip_and_talk());
    assert_eq!(enroll(&account, "Ada", clip).ok()["usable"], true);
    let done = named(&account, &talk, json!({}));
    let labels: Vec<&str> = names(&done["utterances"]).into_iter().map(|(label, _)| label).collect();
    assert_eq!(labels[0], "A");
    for (label, name) in names(&done["words"]) {
        assert!(name.is_none_or(|name| name == "Ada"), "{label}: {name:?}");
    }
}

#[test]
fn a_clip_is_fetched_from_its_address() {
    let (account, (clip, _)) = (service().account(), clip_and_talk());
    let receiver = Receiver::new();
    let url = receiver.answers("/clip.wav", [Reply::audio(clip)]);
    assert_eq!(account.post("/v2/speakers", &json!({"name": "Ada", "audio_url": url})).ok()["name"], "Ada");
    let gone = receiver.answers("/gone.wav", [Reply::Status(404)]);
    let message =
        account.post("/v2/speakers", &json!({"name": "Bob", "audio_url": gone})).error(422, "unsuitable_audio");
    assert!(message.contains("404"), "{message}");
}

#[test]
fn clips_that_show_no_voice_are_refused_and_deleted() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let [man, _] = readers();
    let chord = |at: usize| [220.0, 277.2, 329.6].iter().map(|hertz| (at as f32 * hertz * 3.927e-4).sin()).sum::<f32>();
    let music = sound((0..20 * SAMPLE_RATE as usize).map(|at| chord(at) * 0.1));
    for (clip, said) in [
        (silence(10.0), "0.0 s of speech"),
        (music, "s of speech"),
        (sound(man[..3 * SAMPLE_RATE as usize].iter().copied()), "at least 5 s"),
        (two_readers(), "more than one person"),
        (silence(601.0), "longer than 600 s"),
        (b"no sound".to_vec(), "cannot be used"),
    ] {
        let message = enroll(&account, "Ada", clip).error(422, "unsuitable_audio");
        assert!(message.contains(said), "{message}");
    }
    assert_eq!(account.get("/v2/speakers").ok()["total"], 0);
    let stored = || holders(&service.data().join("objects"), 1, &|_| true);
    eventually("no clip is left", || stored().is_empty().then_some(()));
    // A clip that a transcript uses stays.
    let upload = account.upload("clip.wav", silence(10.0));
    let id = account.create(&json!({"upload_id": upload}));
    account.post("/v2/speakers", &json!({"name": "Ada", "upload_id": upload})).error(422, "unsuitable_audio");
    assert_eq!(account.finished(&id)["status"], "completed");
    assert_eq!(stored().len(), 1);
}

#[test]
fn bad_requests_are_refused() {
    let (account, (clip, _)) = (service().account(), clip_and_talk());
    let post = |body: Value| account.post("/v2/speakers", &body);
    post(json!({"upload_id": "x"})).error(400, "invalid_request");
    for name in [
        json!(""),
        json!("   "),
        json!("x".repeat(101)),
        json!("Ada\nLovelace"),
        json!("\u{2067}Ada"),
        json!("A\u{ad}da"),
        json!(7),
        Value::Null,
    ] {
        let message = post(json!({"name": name, "upload_id": "x"})).error(422, "validation_error");
        assert!(message.contains("`name`"), "{message}");
    }
    post(json!({"name": "Ada"})).error(400, "invalid_request");
    post(json!({"name": "Ada", "upload_id": "x", "audio_url": "https://example.com/a.wav"}))
        .error(400, "invalid_request");
    post(json!({"name": "Ada", "audio_url": "http://10.0.0.1/a.wav"})).error(400, "invalid_request");
    post(json!({"name": "Ada", "upload_id": "upload_none"})).error(404, "not_found");
    let other = service().account().upload("clip.wav", clip.clone());
    post(json!({"name": "Ada", "upload_id": other})).error(404, "not_found");
    let pending = account.sign("clip.wav", "audio/wav");
    post(json!({"name": "Ada", "upload_id": pending.id()})).error(409, "upload_incomplete");
    enroll(&account, "Ada", clip.clone()).ok();
    let message = enroll(&account, "ADA", clip.clone()).error(409, "speaker_exists");
    assert!(message.contains("ADA"), "{message}");
    account.get("/v2/speakers/spk_none").error(404, "not_found");
    account.delete("/v2/speakers/spk_none").error(404, "not_found");
    account.get("/v2/speakers?limit=0").error(422, "validation_error");

    let upload = account.upload("clip.wav", clip);
    for (more, said) in [
        (json!({}), "speaker_labels"),
        (json!({"speaker_labels": true, "multichannel": true}), "multichannel"),
        (json!({"speaker_labels": true, "identify_speakers": "yes"}), "identify_speakers"),
    ] {
        let mut body = json!({"upload_id": upload, "identify_speakers": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let message = account.post("/v2/transcripts", &body).error(422, "validation_error");
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn without_a_speaker_embedding_nobody_can_be_known() {
    let service = Setup::local().start();
    let account = service.account();
    let message = enroll(&account, "Ada", silence(1.0)).error(400, "unsupported_option");
    assert!(message.contains("speaker embedding"), "{message}");
    assert_eq!(account.get("/v2/speakers").ok()["data"], json!([]));
}
