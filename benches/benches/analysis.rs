//! All passes over 100,000 words of talk, without and with the tagger of the models folder.
//!
//! `taskset -c 0 cargo bench --workspace --bench analysis`: on one core. The throughput is in words; the goal is 100,000 a second.

use auricle_engine::Word;
use auricle_engine::analysis::summary::SummaryForm;
use auricle_engine::analysis::{Passes, Redaction, Tagger, analyze};
use auricle_engine::{Catalog, EngineOptions, load_tagger};
use criterion::{Criterion, Throughput};

const WORDS: usize = 100_000;

const TALK: &str = "Good morning, this is Priya Raman from the claims office. I was wondering if you could tell me, um, what happened \
    on the way home? Sure, so we were driving down the road and the other car came out of nowhere, it was terrible. My number is four \
    one five five five five oh one three two and my email is priya at example dot com. We paid about 250 dollars for the repair last \
    week, and I think that the damn garage did a good job. It was raining, and the traffic was slow. ";

fn main() {
    let words: Vec<Word> = TALK
        .split_whitespace()
        .cycle()
        .take(WORDS)
        .enumerate()
        .map(|(at, text)| Word {
            text: text.into(),
            start: at as u64 * 300,
            end: at as u64 * 300 + 250,
            confidence: 0.9,
            speaker: None,
            speaker_name: None,
            channel: None,
        })
        .collect();
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("analysis");
    group.throughput(Throughput::Elements(WORDS as u64)).sample_size(10);
    let redaction = Some(Redaction::default());
    let mut all = Passes::default();
    all.redaction.clone_from(&redaction);
    all.profanity_filter = true;
    all.entities = true;
    all.sentiment = true;
    all.moderation = true;
    all.chapters = true;
    all.summary = Some(SummaryForm::Bullets);
    let mut redact = Passes::default();
    redact.redaction = redaction;
    let options = EngineOptions::default();
    let tagger = Catalog::read(&options.models).and_then(|catalog| load_tagger(&catalog, &options.tagger));
    let tagger = tagger.expect("the models folder has a catalog, and its tagger loads");
    let mut measure = |name: &str, passes: &Passes, tagger: Option<&dyn Tagger>| {
        group.bench_function(name, |bencher| {
            bencher.iter(|| analyze(words.clone(), Some("en"), passes, tagger).map(|done| done.words.len()));
        });
    };
    for (name, passes) in [("redaction", redact), ("all", all)] {
        measure(name, &passes, None);
        if let Some(tagger) = &tagger {
            measure(&format!("{name}, tagger"), &passes, Some(&**tagger));
        }
    }
    group.finish();
    criterion.final_summary();
}
