//! The times of words, against a forced alignment (`tests/fixtures/alignment/README.md`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use auricle_engine::blocking::Engine;
use auricle_engine::{
    DeviceChoice, EngineOptions, ListenOptions, LiveEvent, SecondPass, TranscribeOptions, Word, audio::AudioStream,
};
use auricle_tests::{fixtures, models};

/// Words in lower case without marks, with start and end, ms.
type Timed = Vec<(String, i64, i64)>;

/// The words of each file.
fn alignment() -> BTreeMap<String, Timed> {
    let mut files: BTreeMap<String, Timed> = BTreeMap::new();
    for line in std::fs::read_to_string(folder().join("words.tsv")).unwrap().lines() {
        let [file, word, start, end] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let timed = (word.to_owned(), start.parse().unwrap(), end.parse().unwrap());
        files.entry(file.to_owned()).or_default().push(timed);
    }
    assert_eq!(files.len(), 4);
    files
}

fn folder() -> PathBuf {
    fixtures().join("alignment")
}

fn heard(words: &[Word]) -> Timed {
    let bare =
        |text: &str| text.to_lowercase().chars().filter(|c| c.is_alphanumeric() || *c == '\'').collect::<String>();
    words.iter().map(|word| (bare(&word.text), word.start as i64, word.end as i64)).collect()
}

/// Differences of start and end of the words that both have, in their order (longest common subsequence).
fn differences(reference: &Timed, heard: &Timed) -> Vec<(i64, i64)> {
    let mut lengths = vec![vec![0; heard.len() + 1]; reference.len() + 1];
    for (r, (said, ..)) in reference.iter().enumerate().rev() {
        for (h, (found, ..)) in heard.iter().enumerate().rev() {
            lengths[r][h] =
                if said == found { lengths[r + 1][h + 1] + 1 } else { lengths[r + 1][h].max(lengths[r][h + 1]) };
        }
    }
    let (mut r, mut h, mut found) = (0, 0, Vec::new());
    while r < reference.len() && h < heard.len() {
        if reference[r].0 == heard[h].0 {
            found.push((heard[h].1 - reference[r].1, heard[h].2 - reference[r].2));
            (r, h) = (r + 1, h + 1);
        } else if lengths[r + 1][h] >= lengths[r][h + 1] {
            r += 1;
        } else {
            h += 1;
        }
    }
    found
}

/// Asserts that starts and ends are off by at most so many ms in the median, and so many in ten by at most 150.
fn check(name: &str, (median, most): (i64, usize), mut words: impl FnMut(&Path) -> Vec<Word>) {
    let found: Vec<(i64, i64)> = alignment()
        .iter()
        .flat_map(|(file, reference)| differences(reference, &heard(&words(&folder().join(file)))))
        .collect();
    assert!(found.len() >= 60, "{name}: {} words", found.len());
    let sides = [
        ("starts", found.iter().map(|(start, _)| start.abs()).collect::<Vec<_>>()),
        ("ends", found.iter().map(|(_, end)| end.abs()).collect()),
    ];
    for (side, mut off) in sides {
        off.sort_unstable();
        assert!(off[off.len() / 2] <= median, "{name}: {side} are off by {off:?} ms");
        let near = off.iter().filter(|off| **off <= 150).count();
        assert!(near * 10 >= off.len() * most, "{name}: {side} are off by {off:?} ms");
    }
}

const STREAMING: (i64, usize) = (60, 9);

fn engine() -> Engine {
    Engine::open(EngineOptions::default().models(models()).device(DeviceChoice::Cpu)).unwrap()
}

#[test]
fn words_of_a_recording_are_where_they_are_spoken() {
    let engine = engine();
    // The alignment has numbers in words.
    let options = TranscribeOptions::default().format_numbers(false);
    // Whisper's attention names frames less sharply than a transducer's tokens.
    check("default", (70, 8), |file| engine.transcribe_file(file, &options).unwrap().words);
    for look_ahead_ms in [80, 320, 1_120] {
        let options = options.clone().checkpoint(models().join("starter/asr-en")).look_ahead_ms(look_ahead_ms);
        check(&format!("{look_ahead_ms} ms"), STREAMING, |file| engine.transcribe_file(file, &options).unwrap().words);
    }
}

#[test]
fn words_of_a_live_session_are_where_they_are_spoken() {
    let engine = engine();
    check("live", STREAMING, |file| {
        let (mut input, events) = engine.listen(&ListenOptions::default().second_pass(SecondPass::Off)).unwrap();
        input.push(&AudioStream::open(file).unwrap().read_to_end().unwrap()).unwrap();
        input.finish().unwrap();
        let finals = events.filter_map(|event| match event.unwrap() {
            LiveEvent::Final(caption) => Some(caption.words),
            _ => None,
        });
        finals.flatten().collect()
    });
}
