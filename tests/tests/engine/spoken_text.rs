//! Errors of the starter on speech whose text is known, made by the starter voice: of a long recording against its parts, and of quiet speech
//! against the same at a usual level, recorded and live.

use std::io::Cursor;
use std::sync::OnceLock;

use auricle_engine::audio::AudioStream;
use auricle_engine::blocking::Engine;
use auricle_engine::{
    DeviceChoice, EngineOptions, ListenOptions, LiveEvent, SPEECH_RATE, SecondPass, SpeakOptions, TranscribeOptions,
};

const SENTENCES: [&str; 24] = [
    "The old man walked down to the river and sat on a stone.",
    "She put the letter on the table and went out of the room.",
    "We had never seen so many people in the street before.",
    "There was a small house at the end of the road.",
    "He said that he would come back in the morning.",
    "The children were playing in the garden behind the church.",
    "It was a cold night and the wind was very strong.",
    "My father had a great love for books and music.",
    "They took the road that leads over the hills to the sea.",
    "Nobody knew what had become of the captain and his men.",
    "The king gave an order to open the gates of the city.",
    "I have often thought of that day and of what you told me.",
    "After dinner they sat by the fire and talked about the war.",
    "The horse was tired and would not go any further.",
    "You must not believe everything that you read.",
    "In the middle of the forest there stood a large tree.",
    "She laughed and shook her head when she heard the story.",
    "The ship was lost with all hands in a terrible storm.",
    "He opened the window and looked at the stars for a long time.",
    "It is better to give than to receive.",
    "The doctor came at last and said there was no danger.",
    "Their mother had bread and milk ready for them.",
    "At the top of the mountain the air was clear and still.",
    "We shall meet again when the summer is over.",
];

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let options = EngineOptions::default().models(auricle_tests::models()).device(DeviceChoice::Cpu);
        Engine::open(options).unwrap()
    })
}

/// The sentences, said by two voices in turn, each with a pause after it.
fn spoken() -> &'static [Vec<f32>] {
    static SPOKEN: OnceLock<Vec<Vec<f32>>> = OnceLock::new();
    SPOKEN.get_or_init(|| {
        let say = |(at, sentence): (usize, &&str)| {
            let voice = ["kathleen", "26"][at % 2];
            let (mut input, speech) = engine().speak(&SpeakOptions::default().voice(voice)).unwrap();
            input.push(sentence).unwrap();
            input.finish();
            let mut samples: Vec<f32> = speech.flat_map(|frame| frame.unwrap().samples).collect();
            samples.resize(samples.len() + SPEECH_RATE as usize * 6 / 10, 0.0);
            samples
        };
        SENTENCES.iter().enumerate().map(say).collect()
    })
}

/// 16-bit samples, so many decibels quieter.
fn pcm(samples: &[f32], quieter_db: f32) -> Vec<u8> {
    let gain = 10f32.powf(-quieter_db / 20.0);
    samples.iter().flat_map(|sample| ((sample * gain * 32_767.0).round() as i16).to_le_bytes()).collect()
}

fn transcribe(samples: &[f32], quieter_db: f32) -> (String, Vec<String>) {
    let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm(samples, quieter_db)), SPEECH_RATE, 1).unwrap();
    let transcript = engine().transcribe(audio, &TranscribeOptions::default()).unwrap();
    (transcript.text, transcript.warnings)
}

fn listen(samples: &[f32], quieter_db: f32) -> String {
    let (mut input, events) =
        engine().listen(&ListenOptions::default().second_pass(SecondPass::Off).sample_rate(SPEECH_RATE)).unwrap();
    let pieces = std::thread::spawn({
        let pcm = pcm(samples, quieter_db);
        move || {
            for piece in pcm.chunks(SPEECH_RATE as usize / 5) {
                input.push_pcm16(piece).unwrap();
                while input.waiting_ms() > 2_000 {
                    std::thread::yield_now();
                }
            }
            input.finish().unwrap();
        }
    });
    let texts = events.filter_map(|event| match event.unwrap() {
        LiveEvent::Final(turn) => Some(turn.text),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join(" ");
    pieces.join().unwrap();
    text
}

fn words(text: &str) -> Vec<String> {
    let plain: String = text.to_lowercase().chars().filter(|c| c.is_alphanumeric() || c.is_whitespace()).collect();
    plain.split_whitespace().map(str::to_owned).collect()
}

/// Words that are wrong, missing or too many.
fn errors(text: &str, reference: &str) -> usize {
    strsim::generic_levenshtein(&words(text), &words(reference))
}

/// The words of all sentences, and 3 % of them.
fn reference() -> (String, usize) {
    let reference = SENTENCES.join(" ");
    let margin = words(&reference).len() * 3 / 100;
    (reference, margin)
}

#[test]
fn a_long_recording_has_no_more_errors_than_its_parts() {
    let ((reference, margin), spoken) = (reference(), spoken());
    let parts = spoken.iter().zip(SENTENCES).map(|(samples, sentence)| errors(&transcribe(samples, 0.0).0, sentence));
    let parts: usize = parts.sum();
    // Twice over, so that it is longer than any window.
    let whole = transcribe(&spoken.concat().repeat(2), 0.0).0;
    let whole = errors(&whole, &format!("{reference} {reference}"));
    assert!(whole <= 2 * (parts + margin), "{whole} errors in the whole, {parts} in the parts of its half");
    assert!(parts < words(&reference).len() / 3, "{parts}: the voice and the recogniser understand each other");
}

#[test]
fn quiet_speech_has_no_more_errors_than_loud_speech() {
    let ((reference, margin), whole) = (reference(), spoken().concat());
    let (loud, warnings) = transcribe(&whole, 0.0);
    assert!(warnings.is_empty(), "{warnings:?}");
    let loud = errors(&loud, &reference);
    for quieter_db in [50.0, 30.0] {
        let (quiet, warnings) = transcribe(&whole, quieter_db);
        let quiet = errors(&quiet, &reference);
        assert!(quiet <= loud + 2 * margin, "{quiet} errors at -{quieter_db} dB, {loud} at a usual level");
        assert!(warnings.iter().any(|warning| warning.contains("quiet")), "{warnings:?}");
    }
    let (loud, quiet) = (errors(&listen(&whole, 0.0), &reference), errors(&listen(&whole, 40.0), &reference));
    assert!(quiet <= loud + 2 * margin, "{quiet} errors live at -40 dB, {loud} at a usual level");
}
