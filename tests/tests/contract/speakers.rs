//! Speaker labels (sections 2.1 and 4.1).

use std::collections::HashSet;
use std::sync::OnceLock;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_tests::{
    Account, Service, Setup, fixtures, models_with_diarizer, pcm, readers, silence, two_readers, wav, wav_of,
};
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

/// A recording of the fixtures, and its words: text, start and end in ms.
fn aligned(name: &str) -> (Vec<f32>, Vec<(String, usize, usize)>) {
    let folder = fixtures().join("alignment");
    let samples = AudioStream::open(folder.join(name)).unwrap().read_to_end().unwrap();
    let table = std::fs::read_to_string(folder.join("words.tsv")).unwrap();
    let word = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        (fields[0] == name).then(|| (fields[1].to_owned(), fields[2].parse().unwrap(), fields[3].parse().unwrap()))
    };
    (samples, table.lines().filter_map(word).collect())
}

/// `samples` played `speed` times as fast: another person, by pitch.
fn played(samples: &[f32], speed: f32) -> Vec<f32> {
    let at = |n: usize| {
        let place = n as f32 * speed;
        let (before, part) = (place as usize, place.fract());
        samples[before] * (1.0 - part) + samples.get(before + 1).copied().unwrap_or_default() * part
    };
    (0..(samples.len() as f32 / speed) as usize).map(at).collect()
}

/// Twenty voices that say two words each: five speeds of each of four readers.
fn crowd() -> Vec<f32> {
    let per_ms = SAMPLE_RATE as usize / 1000;
    let mut crowd = Vec::new();
    for (turn, speed) in [0.8, 0.9, 1.0, 1.12, 1.25].into_iter().enumerate() {
        for name in ["32-21631-0002.opus", "669-129074-0012.opus", "1737-146161-0000.opus", "7312-92432-0003.opus"] {
            let (samples, words) = aligned(name);
            let (first, second) = (&words[2 * turn], &words[2 * turn + 1]);
            crowd.extend(played(&samples[first.1 * per_ms..(second.2 * per_ms).min(samples.len())], speed));
            crowd.extend(vec![0.0; SAMPLE_RATE as usize / 4]);
        }
    }
    crowd
}

/// The labels of a recording's words, after checks that hold of each transcript: its utterances are its words, each of one speaker.
fn labels(account: &Account, file: Vec<u8>, expected: Option<u64>) -> Vec<String> {
    let upload = account.upload("talk.wav", file);
    let body = json!({"upload_id": upload, "speaker_labels": true, "speakers_expected": expected});
    let done = account.finished(&account.create(&body));
    assert_eq!(done["status"], "completed", "{done}");
    let words = done["words"].as_array().unwrap();
    let utterances = strings(&done["utterances"], "text").join(" ");
    assert_eq!(utterances.split(' ').filter(|word| !word.is_empty()).count(), words.len(), "{done}");
    strings(&done["words"], "speaker").into_iter().map(str::to_owned).collect()
}

fn count(labels: &[String]) -> usize {
    labels.iter().collect::<HashSet<_>>().len()
}

#[test]
fn a_word_music_and_a_crowd_are_no_fault() {
    let account = service().account();
    let mono = |samples: Vec<f32>| wav(SAMPLE_RATE, 16, &pcm(samples));
    let (samples, words) = aligned("7312-92432-0003.opus");
    let (_, start, end) = words.iter().max_by_key(|(_, start, end)| end - start).unwrap();
    let word = samples[start * 16..end * 16].to_vec();
    assert!(count(&labels(&account, mono(word), None)) <= 1);
    let chord = |at: usize| [220.0, 277.2, 329.6].map(|hertz| (at as f32 * hertz * 3.927e-4).sin() * 0.1).iter().sum();
    let music: Vec<f32> = (0..6 * SAMPLE_RATE as usize).map(chord).collect();
    labels(&account, mono(music), None);
    let found = count(&labels(&account, mono(crowd()), None));
    assert!((1..=20).contains(&found), "{found}");
    let expected = count(&labels(&account, mono(crowd()), Some(20)));
    assert!((found..=20).contains(&expected) && expected > 1, "{expected} of twenty, {found} without the hint");
}

/// The labels of the recording as it would be with one channel: who speaks does not hang on the channel.
#[test]
fn a_speaker_on_each_channel_is_told_apart_in_time() {
    let account = service().account();
    let [man, woman] = readers();
    let pause = SAMPLE_RATE as usize / 2;
    let left = [man.clone(), vec![0.0; pause + woman.len()]].concat();
    let right = [vec![0.0; man.len() + pause], woman].concat();
    let both = left.iter().zip(&right).flat_map(|(left, right)| [*left, *right]);
    let found = labels(&account, wav_of(2, SAMPLE_RATE, 16, &pcm(both)), None);
    assert_eq!((found[0].as_str(), found[found.len() - 1].as_str()), ("A", "B"));
    assert_eq!(count(&found), 2);
}

#[test]
fn a_hint_that_is_wrong_by_three_still_labels() {
    let account = service().account();
    for expected in [5, 1] {
        let found = labels(&account, two_readers(), Some(expected));
        assert!((1..=expected as usize).contains(&count(&found)), "{expected}: {found:?}");
        assert_eq!(found[0], "A");
    }
    // Four people, by the speeds of two readers, and the hint of one.
    let [man, woman] = readers();
    let four = [man.clone(), played(&woman, 0.85), played(&man, 1.2), woman].concat();
    assert_eq!(count(&labels(&account, wav(SAMPLE_RATE, 16, &pcm(four)), Some(1))), 1);
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
