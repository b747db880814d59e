//! Speaker labels (sections 2.1 and 4.1).

use std::collections::HashSet;
use std::sync::OnceLock;

use auricle_engine::audio::SAMPLE_RATE;
use auricle_tests::{Service, Setup, fixtures, models_with_diarizer, pcm, readers, silence, two_readers, wav, wav_of};
use serde_json::{Value, json};

/// The real starters, of which one tells voices apart.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

fn strings<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap_or_else(|| panic!("{field}: {one}"))).collect()
}

#[test]
fn speakers_are_labelled_by_first_word_and_no_part_crosses_a_change() {
    let account = service().account();
    let upload = account.upload("two.wav", two_readers());
    let id = account.create(&json!({"upload_id": upload, "speaker_labels": true}));
    let done = account.finished(&id);
    assert_eq!((&done["status"], &done["speaker_labels"]), (&json!("completed"), &json!(true)));
    let words = strings(&done["words"], "speaker");
    assert_eq!((words[0], words[words.len() - 1]), ("A", "B"));
    let utterances = done["utterances"].as_array().unwrap();
    for utterance in utterances {
        let fields: Vec<&str> = utterance.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields.len(), 5, "{fields:?}");
        let (start, end) = (utterance["start"].as_u64().unwrap(), utterance["end"].as_u64().unwrap());
        let confidence = utterance["confidence"].as_f64().unwrap();
        assert!(start <= end && (0.0..=1.0).contains(&confidence), "{utterance}");
    }
    let joined = strings(&done["utterances"], "text").join(" ");
    assert_eq!(joined.split(' ').count(), words.len());
    assert_eq!(strings(&done["utterances"], "speaker")[0], "A");
    for part in ["sentences", "paragraphs"] {
        let found = account.get(&format!("/v2/transcripts/{id}/{part}")).ok();
        for segment in found[part].as_array().unwrap() {
            let own = strings(&segment["words"], "speaker");
            assert!(own.iter().all(|speaker| *speaker == segment["speaker"]), "{segment}");
        }
    }
    assert!(account.get(&format!("/v2/transcripts/{id}/srt")).text().contains("\nB: "));
    assert!(account.get(&format!("/v2/transcripts/{id}/vtt")).text().contains("<v B>"));
    // The list says the same.
    assert_eq!(account.get("/v2/transcripts").ok()["data"][0], done);
}

/// Both read at once, each on a channel.
#[test]
fn channels_are_transcribed_each_by_itself() {
    let account = service().account();
    let [mut man, mut woman] = readers();
    let length = man.len().max(woman.len());
    let alone = [&man, &woman].map(|samples| {
        let done = account.transcribe("one.wav", wav(SAMPLE_RATE, 16, &pcm(samples.iter().copied())));
        strings(&done["words"], "text").join(" ")
    });
    man.resize(length, 0.0);
    woman.resize(length, 0.0);
    let both = man.iter().zip(&woman).flat_map(|(left, right)| [*left, *right]);
    let upload = account.upload("call.wav", wav_of(2, SAMPLE_RATE, 16, &pcm(both)));
    let id = account.create(&json!({"upload_id": &upload, "multichannel": true}));
    let done = account.finished(&id);
    assert_eq!(done["status"], "completed", "{done}");
    let words = done["words"].as_array().unwrap();
    let of = |channel: u64| -> Vec<&Value> { words.iter().filter(|word| word["channel"] == channel).collect() };
    for (channel, alone) in (1..).zip(&alone) {
        let own: Vec<&str> = of(channel).iter().map(|word| word["text"].as_str().unwrap()).collect();
        assert_eq!(&own.join(" "), alone, "channel {channel}");
        let speakers: HashSet<&str> = of(channel).iter().map(|word| word["speaker"].as_str().unwrap()).collect();
        assert_eq!(speakers.len(), 1, "a channel is a speaker");
    }
    assert_eq!(of(1).len() + of(2).len(), words.len());
    let utterances = done["utterances"].as_array().unwrap();
    assert_eq!(utterances.iter().map(|one| one["speaker"].as_str().unwrap()).collect::<HashSet<_>>().len(), 2);
    // Captions follow one another in time.
    let srt = account.get(&format!("/v2/transcripts/{id}/srt"));
    let starts: Vec<&str> = srt.text().lines().filter(|line| line.contains(" --> ")).collect();
    assert!(starts.is_sorted() && starts.len() > 1, "{starts:?}");
    // A mono file has one.
    let upload = account.upload("one.wav", two_readers());
    let mono = account.finished(&account.create(&json!({"upload_id": &upload, "multichannel": true})));
    assert!(mono["words"].as_array().unwrap().iter().all(|word| word["channel"] == 1), "{mono}");
    let message = account.post(
        "/v2/transcripts",
        &json!({"upload_id": upload, "multichannel": true, "speaker_labels": true, "speakers_expected": 2}),
    );
    assert!(message.error(422, "validation_error").contains("multichannel"));
}

#[test]
fn without_labels_there_are_no_speakers() {
    let account = service().account();
    let done = account.transcribe("two.wav", two_readers());
    assert_eq!((&done["speaker_labels"], &done["utterances"]), (&json!(false), &Value::Null));
    assert!(done["words"].as_array().unwrap().iter().all(|word| word.get("speaker").is_none()), "{done}");
    let found = account.get(&format!("/v2/transcripts/{}/sentences", done["id"].as_str().unwrap())).ok();
    assert!(found["sentences"].as_array().unwrap().iter().all(|one| one["speaker"].is_null()), "{found}");
}

#[test]
fn the_number_of_speakers_is_a_hint_from_1_to_20() {
    let account = service().account();
    let upload = account.upload("two.wav", two_readers());
    let with = |count: Value| json!({"upload_id": upload, "speaker_labels": true, "speakers_expected": count});
    for wrong in [json!(0), json!(21), json!(-1), json!(2.5), json!("2")] {
        let message = account.post("/v2/transcripts", &with(wrong)).error(422, "validation_error");
        assert!(message.contains("speakers_expected"), "{message}");
    }
    let one = account.finished(&account.create(&with(json!(1))));
    assert!(strings(&one["words"], "speaker").iter().all(|speaker| *speaker == "A"), "{one}");
    let five = account.finished(&account.create(&with(json!(5))));
    assert_eq!(five["status"], "completed");
}

#[test]
fn silence_has_no_utterances() {
    let account = service().account();
    let upload = account.upload("silence.wav", silence(3.0));
    let done = account.finished(&account.create(&json!({"upload_id": upload, "speaker_labels": true})));
    assert_eq!((&done["words"], &done["utterances"]), (&json!([]), &json!([])));
}

/// The diarizer of the fixtures has random weights and three speakers: its labels are nonsense.
#[test]
fn a_diarizer_labels_as_many_speakers_as_it_has() {
    let models = models_with_diarizer(&fixtures().join("sortformer"));
    let service = Setup::local().on(models.path()).start();
    let account = service.account();
    let labelled = |count: u64| {
        let upload = account.upload("two.wav", two_readers());
        let body = json!({"upload_id": upload, "speaker_labels": true, "speakers_expected": count});
        account.finished(&account.create(&body))
    };
    let [three, four] = [3, 4].map(labelled);
    let of =
        |done: &Value| -> Vec<String> { strings(&done["words"], "speaker").into_iter().map(str::to_owned).collect() };
    assert_eq!((&three["status"], &four["status"]), (&json!("completed"), &json!("completed")));
    assert_eq!((of(&three)[0].as_str(), of(&four)[0].as_str()), ("A", "A"));
    assert_ne!(of(&three), of(&four), "the starter tells four apart, if they are there");
    let utterances = strings(&three["utterances"], "text").join(" ");
    assert_eq!(utterances.split(' ').count(), of(&three).len());
}
