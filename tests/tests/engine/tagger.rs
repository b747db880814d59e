//! The tagger beside patterns and lists. That of the fixtures has random weights: what it finds is nonsense, and of any form.

use std::path::Path;
use std::sync::Arc;

use auricle_engine::analysis::{Passes, Redaction, Tagger, WrittenText, analyze, redact};
use auricle_engine::blocking::Engine;
use auricle_engine::{Catalog, DeviceChoice, EngineOptions, TaggerChoice, Word, load_tagger};
use auricle_tests::{fixtures, tiny_models};

const PIECES: &[&str] = &[
    "my",
    "name",
    "is",
    "John",
    "Smith.",
    "priya",
    "I",
    "live",
    "at",
    "12",
    "Oak",
    "Street,",
    "555-0132",
    "oh",
    "[PERSON_NAME]",
    "####",
    "日本語",
    "مرحبا",
    "—",
    "()",
    "'s",
    "O'Brien's",
    "🙂",
    "ß",
    "$5",
    "x@y.org",
    "password",
    "hunter2!",
    "from",
    "Leeds?",
    "born",
    "March",
    "3rd,",
    "\u{200b}",
    "NASA",
    "McKay",
];

/// A random text from a seed (xorshift).
fn random(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    for _ in 0..length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(PIECES[(state % PIECES.len() as u64) as usize]);
        text.push_str(if state.is_multiple_of(11) { "  " } else { " " });
    }
    text
}

fn fixture() -> TaggerChoice {
    TaggerChoice::Folder(fixtures().join("bert/words"))
}

fn tagger() -> Arc<dyn Tagger> {
    let models = tiny_models();
    load_tagger(&Catalog::read(models.path()).unwrap(), &fixture()).unwrap().unwrap()
}

#[test]
fn text_outside_the_spans_stays_and_the_spans_are_exact() {
    let tagger = tagger();
    let mut hidden = 0;
    for seed in 1..200 {
        let text = random(seed, 5 + seed as usize);
        let (redacted, spans) = WrittenText::new(&text).tagged(&*tagger).unwrap().redact(&Redaction::default());
        let letters: Vec<char> = text.chars().collect();
        let (mut rebuilt, mut at) = (String::new(), 0);
        for span in &spans {
            assert_eq!(letters[span.start_char..span.end_char].iter().collect::<String>(), span.text);
            rebuilt.extend(&letters[at..span.start_char]);
            rebuilt.push_str(&format!("[{}]", span.label.name()));
            at = span.end_char;
        }
        rebuilt.extend(&letters[at..]);
        assert_eq!(rebuilt, redacted);
        hidden += spans.len();
    }
    let without: usize = (1..200)
        .map(|seed| random(seed, 5 + seed as usize))
        .map(|text| WrittenText::new(&text).redact(&Redaction::default()).1.len())
        .sum();
    assert_ne!(hidden, without, "the tagger finds something");
}

#[test]
fn times_never_change_and_entities_have_places_in_what_remains() {
    let tagger = tagger();
    for seed in 1..200 {
        let text = random(seed, 60);
        let before: Vec<Word> = WrittenText::new(&text).to_words();
        let after = redact(&before, &Redaction::default(), Some(&*tagger)).unwrap();
        let mut at = 0;
        for word in &after.words {
            assert_eq!(word.start, before[at].start);
            while before[at].end < word.end {
                at += 1;
            }
            assert_eq!(word.end, before[at].end);
            at += 1;
        }
        assert_eq!(at, before.len());
        let mut passes = Passes::default();
        (passes.redaction, passes.entities) = (Some(Redaction::default()), true);
        let done = analyze(before, Some("en"), &passes, Some(&*tagger)).unwrap();
        for entity in done.analysis.entities.iter().flatten() {
            // Scripts without spaces have none between words.
            let own = done.words.iter().filter(|word| entity.start <= word.start && word.end <= entity.end);
            let own: String = own.map(|word| word.text.as_str()).collect();
            assert!(own.contains(&entity.text.replace(' ', "")), "{entity:?} in {own:?}");
        }
    }
}

#[test]
fn the_engine_has_the_tagger_that_its_options_name() {
    let models = tiny_models();
    let open = |tagger: TaggerChoice, models: &Path| {
        Engine::open(EngineOptions::default().models(models).device(DeviceChoice::Cpu).tagger(tagger)).unwrap()
    };
    assert!(open(TaggerChoice::Shipped, models.path()).tagger().unwrap().is_none());
    assert!(open(TaggerChoice::Off, models.path()).tagger().unwrap().is_none());
    let engine = open(fixture(), models.path());
    assert!(engine.loaded_models().is_empty());
    assert!(engine.tagger().unwrap().is_some());
    assert_eq!(engine.loaded_models()[0].0, fixtures().join("bert/words"));
    let catalog = std::fs::read_to_string(models.path().join("catalog.toml")).unwrap();
    let named = |folder: &Path| {
        std::fs::write(models.path().join("catalog.toml"), format!("{catalog}[tagger]\nstarter = {folder:?}\n"))
            .unwrap();
        open(TaggerChoice::Shipped, models.path()).tagger()
    };
    assert!(named(&fixtures().join("bert/words")).unwrap().is_some());
    let error = named(Path::new("nowhere")).unwrap_err().to_string();
    assert!(error.contains("nowhere/config.json"), "{error}");
}
