//! Transcripts: interface sections 2.1, 3 and 4.1.

use std::sync::OnceLock;

use auricle_tests::{Account, Receiver, Reply, Service, Setup, eventually, silence, speech};
use serde_json::{Value, json};

const FIELDS: [&str; 21] = [
    "id",
    "status",
    "model",
    "title",
    "language_code",
    "speaker_labels",
    "text",
    "words",
    "utterances",
    "confidence",
    "audio_duration_sec",
    "warnings",
    "summary",
    "chapters",
    "entities",
    "sentiment_results",
    "content_safety",
    "webhook_url",
    "error",
    "created_at",
    "completed_at",
];
const ANALYSES: [&str; 5] = ["summary", "chapters", "entities", "sentiment_results", "content_safety"];

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

fn receiver() -> &'static Receiver {
    static RECEIVER: OnceLock<Receiver> = OnceLock::new();
    RECEIVER.get_or_init(Receiver::new)
}

fn spoken(account: &Account) -> Value {
    account.transcribe("jfk.flac", std::fs::read(speech()).unwrap())
}

#[track_caller]
fn assert_every_field(transcript: &Value) {
    let object = transcript.as_object().expect("an object");
    for field in FIELDS {
        assert!(object.contains_key(field), "no {field}: {transcript}");
    }
}

#[track_caller]
fn assert_timestamp(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("no timestamp: {value}"));
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert!(shape.starts_with("0000-00-00T00:00:00") && shape.ends_with('Z'), "not ISO 8601 in UTC: {text}");
}

#[test]
fn create_answers_with_the_whole_object_and_status_processing() {
    let account = service().account();
    let (url, gate) = receiver().held();
    let made = account.post("/v2/transcripts", &json!({"audio_url": url})).ok();
    assert_every_field(&made);
    assert!(made["id"].as_str().unwrap().starts_with("tr_"), "{made}");
    assert_eq!(made["status"], "processing");
    assert_eq!(made["model"], "svc-best");
    assert_eq!(made["speaker_labels"], false);
    assert_eq!(made["title"], url.rsplit('/').next().unwrap(), "the last part of the URL's path");
    assert_timestamp(&made["created_at"]);
    for field in ["language_code", "text", "words", "utterances", "confidence", "audio_duration_sec", "webhook_url"] {
        assert_eq!(made[field], Value::Null, "{field} before completion");
    }
    for field in ANALYSES.into_iter().chain(["error", "completed_at"]) {
        assert_eq!(made[field], Value::Null, "{field} before completion");
    }
    gate.open();
}

#[test]
fn a_completed_transcript_has_its_text_words_confidence_and_duration() {
    let done = spoken(&service().account());
    assert_every_field(&done);
    assert_eq!((&done["status"], &done["error"]), (&json!("completed"), &Value::Null));
    assert_eq!(done["audio_duration_sec"], 11.0);
    assert_eq!(done["language_code"], "en", "the language it found");
    let confidence = done["confidence"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&confidence));
    let words = done["words"].as_array().unwrap();
    assert!(!words.is_empty());
    let mut last = 0;
    for word in words {
        let (start, end) = (word["start"].as_u64().expect("an integer"), word["end"].as_u64().expect("an integer"));
        assert!(last <= start && start <= end && end <= 11_000, "milliseconds from the start, in order: {word}");
        assert!((0.0..=1.0).contains(&word["confidence"].as_f64().unwrap()));
        assert!(word.get("speaker").is_none_or(Value::is_null), "diarization is off: {word}");
        last = start;
    }
    let joined: Vec<&str> = words.iter().map(|word| word["text"].as_str().unwrap()).collect();
    assert_eq!(done["text"], joined.join(" "));
    for field in ANALYSES.into_iter().chain(["utterances"]) {
        assert_eq!(done[field], Value::Null, "{field} was not asked for");
    }
    assert_timestamp(&done["created_at"]);
    assert_timestamp(&done["completed_at"]);
    assert!(done["created_at"].as_str() <= done["completed_at"].as_str());
}

#[test]
fn the_service_transcribes_as_the_command_line_does() {
    let starter = Setup::new().starter().start();
    let done = spoken(&starter.account());
    let models = auricle_tests::fixtures().join("../../models");
    let mut command = auricle_tests::command();
    command.args(["transcribe", "--device", "cpu", "--format", "json", "--models"]).arg(models).arg(speech());
    let run = auricle_tests::ended(command.output().unwrap());
    let printed: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
    assert_eq!(done["text"], printed["text"]);
    assert_eq!(done["words"].as_array().unwrap().len(), printed["words"].as_array().unwrap().len());
    assert_eq!(done["words"][0]["start"], printed["words"][0]["start"]);
    assert!(done["text"].as_str().unwrap().contains("can do"), "{}", done["text"]);
}

#[test]
fn silence_is_a_completed_transcript_without_words() {
    let done = service().account().transcribe("silence.wav", silence(2.0));
    assert_eq!((&done["text"], &done["words"]), (&json!(""), &json!([])));
    assert_eq!(done["audio_duration_sec"], 2.0);
    assert_every_field(&done);
}

#[test]
fn exactly_one_source_is_required() {
    let account = service().account();
    account.post("/v2/transcripts", &json!({})).error(400, "invalid_request");
    account.post("/v2/transcripts", &json!({"audio_url": null, "upload_id": null})).error(400, "invalid_request");
    let both = json!({"audio_url": receiver().sound(), "upload_id": account.upload("a.wav", silence(1.0))});
    account.post("/v2/transcripts", &both).error(400, "invalid_request");
    assert_eq!(account.usage(), [] as [Value; 0]);
}

#[test]
fn the_model_is_one_of_the_two_for_recordings() {
    let account = service().account();
    for model in ["svc-best", "svc-fast"] {
        let made = account.post("/v2/transcripts", &json!({"audio_url": receiver().sound(), "model": model})).ok();
        assert_eq!(made["model"], model);
        assert_eq!(account.finished(made["id"].as_str().unwrap())["model"], model);
    }
    for model in ["svc-realtime-pro", "svc-realtime", "svc-agent", "best", "SVC-BEST", ""] {
        account
            .post("/v2/transcripts", &json!({"audio_url": receiver().sound(), "model": model}))
            .error(400, "unknown_model");
    }
}

#[test]
fn an_explicit_language_stays() {
    let account = service().account();
    let made = account.post("/v2/transcripts", &json!({"audio_url": receiver().sound(), "language_code": "en"})).ok();
    assert_eq!(made["language_code"], "en");
    assert_eq!(account.finished(made["id"].as_str().unwrap())["language_code"], "en");
    let pt = json!({"audio_url": receiver().sound(), "language_code": "pt", "model": "svc-fast"});
    let id = account.create(&pt);
    assert_eq!(account.finished(&id)["language_code"], "pt");
}

#[test]
fn a_language_that_the_model_lacks_is_refused_by_name() {
    let account = service().account();
    for language in ["zh", "xx", "pt"] {
        let body = json!({"audio_url": receiver().sound(), "language_code": language});
        let message = account.post("/v2/transcripts", &body).error(400, "unsupported_option");
        assert!(message.contains("language_code"), "{message}");
    }
    let body = json!({"audio_url": receiver().sound(), "language_codes": ["en", "zh"]});
    let message = account.post("/v2/transcripts", &body).error(400, "unsupported_option");
    assert!(message.contains("language_codes"), "{message}");
    for (model, codes) in
        [("svc-best", json!(["en"])), ("svc-best", json!(["en", "en_us"])), ("svc-fast", json!(["pt", "en"]))]
    {
        let id = account.create(&json!({"audio_url": receiver().sound(), "model": model, "language_codes": codes}));
        assert_eq!(account.finished(&id)["status"], "completed", "{codes}");
    }
}

#[test]
fn options_that_are_not_served_are_refused_by_name_and_false_is_fine() {
    let account = service().account();
    let options = ["speaker_labels"];
    let mut off = json!({"audio_url": receiver().sound()});
    for option in options {
        let message = account
            .post("/v2/transcripts", &json!({"audio_url": receiver().sound(), option: true}))
            .error(400, "unsupported_option");
        assert!(message.contains(option), "{message}");
        off[option] = json!(false);
    }
    assert_eq!(account.finished(&account.create(&off))["status"], "completed");
}

#[test]
fn medical_mode_is_taken_and_ignored_for_other_languages() {
    let account = service().account();
    for (model, language) in [("svc-best", json!("en")), ("svc-best", json!(null)), ("svc-fast", json!("pt"))] {
        let body =
            json!({"audio_url": receiver().sound(), "model": model, "language_code": language, "medical_mode": true});
        assert_eq!(account.finished(&account.create(&body))["status"], "completed", "{model} {language}");
    }
}

#[test]
fn the_title_is_the_one_sent_or_the_files_name() {
    let account = service().account();
    let title = |body: Value| account.post("/v2/transcripts", &body).ok()["title"].clone();
    let upload = account.upload("Interview – Teil 1.wav", silence(1.0));
    assert_eq!(title(json!({"upload_id": upload})), "Interview – Teil 1.wav");
    let upload = account.upload("named.wav", silence(1.0));
    assert_eq!(title(json!({"upload_id": upload, "title": "Montag 早上"})), "Montag 早上");
    assert_eq!(title(json!({"audio_url": receiver().sound(), "title": "Montag"})), "Montag");
    let url = receiver().answers("/folder/talk.wav", [Reply::audio(silence(1.0))]);
    assert_eq!(title(json!({"audio_url": format!("{url}?session=1")})), "talk.wav");
}

#[test]
fn a_field_of_the_wrong_type_is_422() {
    let account = service().account();
    let wrong = [
        ("audio_url", json!(5)),
        ("upload_id", json!(["upload_1"])),
        ("model", json!(5)),
        ("language_code", json!(1)),
        ("language_codes", json!("en")),
        ("language_codes", json!([1])),
        ("speaker_labels", json!("true")),
        ("multichannel", json!("2")),
        ("medical_mode", json!(1)),
        ("format_numbers", json!("false")),
        ("format_numbers", json!(0)),
        ("keyterms_prompt", json!("Auricle")),
        ("keyterms_prompt", json!([{}])),
        ("pii_redaction", json!("false")),
        ("profanity_filter", json!(0)),
        ("summarization", json!([])),
        ("auto_chapters", json!({})),
        ("entity_detection", json!("yes")),
        ("sentiment_analysis", json!("no")),
        ("content_moderation", json!(2)),
        ("pii_policies", json!("PERSON_NAME")),
        ("pii_policies", json!(["SHOE_SIZE"])),
        ("pii_policies", json!([])),
        ("pii_substitution", json!("stars")),
        ("redact_audio", json!("noise")),
        ("redact_audio", json!("beep")),
        ("redact_audio", json!(true)),
        ("summary_type", json!("novel")),
        ("summary_type", json!(3)),
        ("webhook_url", json!(5)),
        ("title", json!(5)),
        ("estimated_duration_sec", json!("10")),
        ("estimated_duration_sec", json!(1.5)),
        ("estimated_duration_sec", json!(-1)),
    ];
    for (field, value) in wrong {
        let mut body = json!({"audio_url": receiver().sound()});
        body[field] = value.clone();
        let message = account.post("/v2/transcripts", &body).error(422, "validation_error");
        assert!(message.contains(field), "{field} = {value}: {message}");
    }
}

#[test]
fn null_counts_as_absent_and_unknown_fields_are_ignored() {
    let account = service().account();
    let body = json!({
        "audio_url": receiver().sound(), "upload_id": null, "model": null, "language_code": null, "language_codes": null,
        "speaker_labels": null, "medical_mode": null, "format_numbers": null, "keyterms_prompt": null, "pii_redaction": null,
        "profanity_filter": null, "summarization": null, "auto_chapters": null, "entity_detection": null,
        "sentiment_analysis": null, "content_moderation": null, "webhook_url": null, "title": null,
        "estimated_duration_sec": null, "a_field_of_next_year": {"deep": [1, 2, 3]},
    });
    let done = account.finished(&account.create(&body));
    assert_eq!((&done["status"], &done["model"]), (&json!("completed"), &json!("svc-best")));
}

#[test]
fn unknown_fields_are_named_in_the_warnings() {
    let account = service().account();
    let warnings = |fields: Value| {
        let mut body = json!({"audio_url": receiver().sound()});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let made = account.post("/v2/transcripts", &body).ok();
        let done = account.finished(made["id"].as_str().unwrap());
        assert_eq!(done["status"], "completed");
        // What the work has found comes behind what the request had.
        let count = made["warnings"].as_array().unwrap().len();
        assert_eq!(made["warnings"].as_array(), done["warnings"].as_array().map(|all| all[..count].to_vec()).as_ref());
        made["warnings"].clone()
    };
    assert_eq!(warnings(json!({"title": "x", "webhook_url": null})), json!([]));
    assert_eq!(
        warnings(json!({"speaker_label": false, "SummaryType": "gist", "diarizer_size": {"deep": 1}, "old": null})),
        json!([
            "`SummaryType` is unknown and was ignored; did you mean `summary_type`?",
            "`diarizer_size` is unknown and was ignored",
            "`speaker_label` is unknown and was ignored; did you mean `speaker_labels`?",
        ])
    );
    let hidden = warnings(json!({"a\u{202e}b\n\u{0}": 1}));
    assert_eq!(hidden, json!(["`a\\u{202e}b\\n\\0` is unknown and was ignored"]));
    let many: serde_json::Map<String, Value> = (0..500).map(|at| (format!("{at:0200}"), json!(at))).collect();
    let many = warnings(Value::Object(many));
    let many: Vec<&str> = many.as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect();
    assert_eq!((many.len(), many[10]), (11, "490 more fields are unknown and were ignored"));
    assert!(many[..10].iter().all(|warning| warning.split('`').nth(1).unwrap().chars().count() <= 64), "{many:?}");
}

#[test]
fn damage_in_a_recording_is_in_the_warnings() {
    let account = service().account();
    let whole = std::fs::read(speech()).unwrap();
    let done = account.transcribe("cut.flac", whole[..whole.len() / 2].to_vec());
    let mut warnings = done["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap());
    assert!(warnings.any(|warning| warning.contains("the file is cut off")), "{}", done["warnings"]);
}

#[test]
fn a_thousand_keyterms_are_taken_and_one_more_is_422() {
    let account = service().account();
    let terms = |count: usize| (0..count).map(|n| format!("term{n}")).collect::<Vec<_>>();
    let id = account.create(&json!({"audio_url": receiver().sound(), "keyterms_prompt": terms(1000)}));
    assert_eq!(account.finished(&id)["status"], "completed");
    let body = json!({"audio_url": receiver().sound(), "keyterms_prompt": terms(1001)});
    account.post("/v2/transcripts", &body).error(422, "validation_error");
}

#[test]
fn an_unknown_id_and_anothers_id_are_404() {
    let (owner, other) = (service().account(), service().account());
    let id = owner.create(&json!({"audio_url": receiver().sound()}));
    owner.finished(&id);
    for id in [id.as_str(), "tr_doesnotexist", "nothing", "upload_1"] {
        for part in ["", "/srt", "/vtt", "/sentences", "/paragraphs", "/word-search?words=a"] {
            other.get(&format!("/v2/transcripts/{id}{part}")).error(404, "not_found");
        }
        other.delete(&format!("/v2/transcripts/{id}")).error(404, "not_found");
    }
    assert_eq!(owner.transcript(&id)["status"], "completed", "nobody else has deleted it");
}

#[test]
fn polling_is_read_only() {
    let account = service().account();
    let done = spoken(&account);
    let id = done["id"].as_str().unwrap();
    for _ in 0..3 {
        assert_eq!(account.transcript(id), done);
    }
    assert_eq!(account.usage().len(), 1);
}

#[test]
fn delete_is_permanent() {
    let account = service().account();
    let done = spoken(&account);
    let path = format!("/v2/transcripts/{}", done["id"].as_str().unwrap());
    let deleted = account.delete(&path);
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    account.get(&path).error(404, "not_found");
    account.get(&format!("{path}/srt")).error(404, "not_found");
    account.delete(&path).error(404, "not_found");
    assert_eq!(account.get("/v2/transcripts").ok()["data"], json!([]));
}

#[test]
fn delete_removes_the_audio_too() {
    let service = Setup::new().start();
    let account = service.account();
    let done = account.transcribe("secret.wav", silence(30.0));
    assert_eq!(account.delete(&format!("/v2/transcripts/{}", done["id"].as_str().unwrap())).status, 204);
    eventually("the processing copy is gone", || {
        let entries =
            walk(&service.data()).into_iter().filter(|path| std::fs::metadata(path).is_ok_and(|f| f.len() == 240_044));
        (entries.count() == 0).then_some(())
    });
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_transcript_can_be_deleted_while_it_is_processed() {
    let account = service().account();
    let (url, gate) = receiver().held();
    let id = account.create(&json!({"audio_url": url}));
    eventually("it is being fetched", || (account.transcript(&id)["status"] == "processing").then_some(()));
    assert_eq!(account.delete(&format!("/v2/transcripts/{id}")).status, 204);
    gate.open();
    // Another job has completed since.
    account.finished(&account.create(&json!({"audio_url": receiver().sound()})));
    account.get(&format!("/v2/transcripts/{id}")).error(404, "not_found");
}
