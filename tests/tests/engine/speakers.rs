//! Speaker labels through the engine's API, with the starter, on real speech of readers that were never trained on.

use std::io::Cursor;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{
    DeviceChoice, EngineOptions, Error, KnownSpeaker, SpeakerLabels, TranscribeOptions, Transcript, VoiceProfile,
};
use auricle_tests::fixtures;

fn engine() -> Engine {
    Engine::open(EngineOptions::default().models(auricle_tests::models()).device(DeviceChoice::Cpu)).unwrap()
}

/// One reader's recording, 16 kHz.
fn reader(name: &str) -> Vec<f32> {
    AudioStream::open(fixtures().join("alignment").join(name)).unwrap().read_to_end().unwrap()
}

fn stream(samples: &[f32]) -> AudioStream {
    let pcm: Vec<u8> = samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
    AudioStream::from_pcm_s16le(Cursor::new(pcm), SAMPLE_RATE, 1).unwrap()
}

/// Half a second of silence.
fn pause() -> Vec<f32> {
    vec![0.0; SAMPLE_RATE as usize / 2]
}

fn label(engine: &Engine, samples: &[f32], speakers: SpeakerLabels) -> Transcript {
    let labelled = engine.transcribe(stream(samples), &TranscribeOptions::default().speakers(speakers)).unwrap();
    let utterances = labelled.utterances.as_ref().expect("labels were asked for");
    let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).count();
    assert_eq!(utterances.iter().map(|one| words(&one.text)).sum::<usize>(), labelled.words.len());
    assert!(labelled.words.iter().all(|word| word.speaker.is_some()));
    assert!(utterances.is_sorted_by_key(|one| one.start), "{utterances:?}");
    labelled
}

fn speakers(labelled: &Transcript) -> Vec<&str> {
    labelled.words.iter().map(|word| word.speaker.as_deref().unwrap()).collect()
}

const HIS: &str = "669-129074-0012.opus";
const HERS: &str = "7312-92432-0003.opus";

#[test]
fn two_readers_are_told_apart_and_keep_their_labels() {
    let (engine, his, hers) = (engine(), reader(HIS), reader(HERS));
    // He reads, then she, then he again.
    let (first, second) = his.split_at(his.len() / 2);
    let joined = [first, &pause(), &hers, &pause(), second].concat();
    let labelled = label(&engine, &joined, SpeakerLabels::Found);
    let ms = |samples: usize| samples as u64 * 1000 / u64::from(SAMPLE_RATE);
    let (his_end, her_end) = (ms(first.len()) + 250, ms(first.len() + hers.len()) + 750);
    let right = labelled.words.iter().filter(|word| {
        let hers = (his_end..her_end).contains(&((word.start + word.end) / 2));
        word.speaker.as_deref() == Some(if hers { "B" } else { "A" })
    });
    let (right, words) = (right.count(), labelled.words.len());
    assert!(words > 20 && right * 10 >= words * 9, "{right} of {words}: {:?}", labelled.utterances);
    let plain = engine.transcribe(
        AudioStream::from_pcm_s16le(
            Cursor::new(joined.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect::<Vec<u8>>()),
            SAMPLE_RATE,
            1,
        )
        .unwrap(),
        &TranscribeOptions::default(),
    );
    let plain = plain.unwrap();
    assert_eq!((plain.text, plain.utterances), (labelled.text.clone(), None), "labels change no word");
    assert!(plain.words.iter().all(|word| word.speaker.is_none()));
}

#[test]
fn one_reader_stays_one_speaker() {
    let engine = engine();
    for name in ["32-21631-0002.opus", "669-129074-0012.opus", "1737-146161-0000.opus", "7312-92432-0003.opus"] {
        let labelled = label(&engine, &reader(name), SpeakerLabels::Found);
        assert!(speakers(&labelled).iter().all(|speaker| *speaker == "A"), "{name}: {:?}", labelled.utterances);
    }
}

#[test]
fn bad_input_is_no_fault() {
    let engine = engine();
    let silence = label(&engine, &vec![0.0; 5 * SAMPLE_RATE as usize], SpeakerLabels::Found);
    assert_eq!((silence.words.len(), silence.utterances.as_deref()), (0, Some(&[][..])));
    assert_eq!(label(&engine, &[], SpeakerLabels::Expected(20)).words.len(), 0);
    let music: Vec<f32> = (0..4 * SAMPLE_RATE as usize)
        .map(|at| [220.0, 277.2, 329.6].iter().map(|hertz| (at as f32 * hertz * 3.927e-4).sin()).sum::<f32>() * 0.1)
        .collect();
    label(&engine, &music, SpeakerLabels::Found);
    // A word or two, and a hint that is far too high.
    let short = &reader(HIS)[..2 * SAMPLE_RATE as usize];
    assert!(speakers(&label(&engine, short, SpeakerLabels::Found)).iter().all(|speaker| *speaker == "A"));
    label(&engine, short, SpeakerLabels::Expected(4));
    let one = label(&engine, &[reader(HIS), pause(), reader(HERS)].concat(), SpeakerLabels::Expected(1));
    assert!(speakers(&one).iter().all(|speaker| *speaker == "A"));
    for count in [0, 21] {
        let audio = AudioStream::from_pcm_s16le(Cursor::new(vec![0; 3200]), SAMPLE_RATE, 1).unwrap();
        let options = TranscribeOptions::default().speakers(SpeakerLabels::Expected(count));
        assert!(matches!(engine.transcribe(audio, &options), Err(Error::InvalidOption(_))), "{count}");
    }
}

fn known(name: &str, profile: VoiceProfile) -> KnownSpeaker {
    KnownSpeaker { name: name.into(), profile }
}

#[test]
fn known_people_are_named_and_strangers_are_not() {
    let (engine, his, hers) = (engine(), reader(HIS), reader(HERS));
    let enroll = |samples: &[f32]| engine.enroll(stream(samples)).unwrap();
    let (his_clip, his_talk) = his.split_at(his.len() / 2);
    let (her_clip, her_talk) = hers.split_at(hers.len() / 2);
    let (ada, stranger) = (enroll(her_clip), enroll(&reader("32-21631-0002.opus")));
    assert!(ada.speech_sec >= 5.0 && ada.model.len() == 16, "{ada:?}");
    assert!(!format!("{ada:?}").contains("direction"), "it is in no log: {ada:?}");
    let length: f32 = ada.direction.iter().map(|value| value * value).sum();
    assert!((length - 1.0).abs() < 1e-4);
    let talk = [his_talk, &pause(), her_talk].concat();
    let named = |people: Vec<KnownSpeaker>| {
        let options = TranscribeOptions::default().speakers(SpeakerLabels::Found).known_speakers(people);
        let done = engine.transcribe(stream(&talk), &options).unwrap();
        let (first, last) = (done.words.first().unwrap().clone(), done.words.last().unwrap().clone());
        assert_eq!((first.speaker.as_deref(), last.speaker.as_deref()), (Some("A"), Some("B")));
        (first.speaker_name, last.speaker_name)
    };
    let names = |first: Option<&str>, last: Option<&str>| (first.map(str::to_owned), last.map(str::to_owned));
    assert_eq!(named(vec![known("Ada", ada.clone())]), names(None, Some("Ada")));
    assert_eq!(named(vec![known("Eve", stranger.clone())]), names(None, None));
    let all = vec![known("Eve", stranger), known("Bob", enroll(his_clip)), known("Ada", ada.clone())];
    assert_eq!(named(all), names(Some("Bob"), Some("Ada")));
    // The same voice under two names is nobody's.
    assert_eq!(named(vec![known("Ada", ada.clone()), known("Ida", ada.clone())]), names(None, None));

    let refused = |options: TranscribeOptions| match engine.transcribe(stream(&talk), &options) {
        Err(Error::InvalidOption(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let reason = refused(TranscribeOptions::default().known_speakers([known("Ada", ada.clone())]));
    assert!(reason.contains("speaker labels"), "{reason}");
    let other = VoiceProfile::new("0123456789abcdef", ada.direction, 9.0);
    let labelled = TranscribeOptions::default().speakers(SpeakerLabels::Found);
    let reason = refused(labelled.known_speakers([known("Ada", other)]));
    assert!(reason.contains("Ada") && reason.contains("anew"), "{reason}");
}

#[test]
fn a_clip_shows_one_person() {
    let (engine, his, hers) = (engine(), reader(HIS), reader(HERS));
    let refused = |samples: &[f32]| match engine.enroll(stream(samples)) {
        Err(Error::UnsuitableClip(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refused(&[]).contains("0.0 s"));
    assert!(refused(&his[..4 * SAMPLE_RATE as usize]).contains("at least 5 s"));
    assert!(refused(&[his, pause(), hers].concat()).contains("more than one person"));
    for name in ["32-21631-0002.opus", "669-129074-0012.opus", "1737-146161-0000.opus", "7312-92432-0003.opus"] {
        engine.enroll(stream(&reader(name))).unwrap();
    }
}
