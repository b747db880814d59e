//! Chapters and summaries of transcripts in a file, and the time of each analysis pass.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use auricle_engine::unstable::text::analysis::{chapters, moderation, sentiment, summary};
use auricle_engine::{Word, segments};
use clap::Parser;
use serde_json::{Value, json};

/// Chapters and summaries of transcripts in a file, and the time of each analysis pass
///
/// Reads a JSON list of objects with `words` and writes a list with `starts`, the first word of each chapter, and `summary`.
/// `tests/oracles/qmsum.py` makes such a file of meetings and scores what comes out.
#[derive(Parser)]
struct Arguments {
    /// JSON list of transcripts
    file: PathBuf,
    /// Folder for the chapters and summaries
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also measure each pass over this number of words, all transcripts in a row
    #[arg(long, value_name = "N")]
    time: Option<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let transcripts: Vec<Value> = serde_json::from_slice(&std::fs::read(&arguments.file)?)?;
    let mut all: Vec<Word> = Vec::new();
    let mut rows = Vec::new();
    for transcript in &transcripts {
        let words: Vec<Word> = serde_json::from_value(transcript["words"].clone())?;
        let sentences = segments::sentences(&words);
        let found = chapters::chapters(&sentences, "en");
        let starts: Vec<usize> =
            found.iter().map(|chapter| words.partition_point(|word| word.start < chapter.start)).collect();
        let text = summary::summarise(&sentences, &found, "en", summary::SummaryForm::Bullets);
        rows.push(json!({"starts": starts, "summary": text}));
        let shift = all.last().map_or(0, |word| word.end);
        all.extend(words.into_iter().map(|word| Word { start: word.start + shift, end: word.end + shift, ..word }));
    }
    std::fs::write(&arguments.out, serde_json::to_vec(&rows)?)?;
    if let Some(count) = arguments.time {
        measure(&all[..count.min(all.len())]);
    }
    Ok(())
}

fn measure(words: &[Word]) {
    let sentences = segments::sentences(words);
    println!("{} words, {} sentences", words.len(), sentences.len());
    let timed = |name: &str, pass: &mut dyn FnMut()| {
        pass();
        let started = Instant::now();
        pass();
        println!("{name:<12}{:>6.0} ms", started.elapsed().as_secs_f64() * 1000.0);
    };
    let mut found = Vec::new();
    timed("sentiment", &mut || drop(sentiment::sentiment(&sentences)));
    timed("moderation", &mut || drop(moderation::moderate(&sentences)));
    timed("chapters", &mut || found = chapters::chapters(&sentences, "en"));
    let form = summary::SummaryForm::Bullets;
    timed("summary", &mut || drop(summary::summarise(&sentences, &found, "en", form)));
}
