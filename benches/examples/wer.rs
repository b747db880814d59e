//! Word error rate of a model over a folder of speech with `refs.tsv` (file, tab, text), and how fast it got there.
//!
//!     cargo run --release --example wer -- FOLDER [--model svc-best] [--device auto] [--look-ahead MS] [--show]
//!         [--lm FILE|off] [--lm-weight W] [--word-bonus W] [--internal W] [--unknown-letter W] [--beam N]
//!
//! Without `--lm`, it is done twice: greedily, and with the language model that ships with the starter.
//! Both texts are lower-cased and stripped of punctuation; substitutions, insertions and deletions over the whole set are
//! divided by the reference's words. Numbers count as they are written, so references should spell them as the model does.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use auricle_benches::{WordErrors, normalised};
use auricle_engine::audio::AudioStream;
use auricle_engine::{Engine, EngineOptions, LanguageModelChoice, TranscribeOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut folder, mut show) = (None, false);
    let mut engine = EngineOptions::default();
    let mut options = TranscribeOptions::default();
    let mut language_models = vec![LanguageModelChoice::Off, LanguageModelChoice::Shipped];
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--model" => options.model = value()?,
            "--device" => engine.device = value()?.parse()?,
            "--models" => engine.models = value()?.into(),
            "--look-ahead" => options.look_ahead_ms = Some(value()?.parse()?),
            "--lm" => language_models = vec![value()?.parse()?],
            "--lm-weight" => options.fusion.lm = value()?.parse()?,
            "--word-bonus" => options.fusion.word = value()?.parse()?,
            "--unknown-letter" => options.fusion.unknown_letter = value()?.parse()?,
            "--internal" => options.fusion.internal = value()?.parse()?,
            "--beam" => options.beam = Some(value()?.parse()?),
            "--show" => show = true,
            _ => folder = Some(PathBuf::from(argument)),
        }
    }
    let folder = folder.ok_or("name a folder with refs.tsv")?;
    let engine = Engine::open(engine)?;
    for language_model in language_models {
        options.language_model = language_model;
        score(&engine, &folder, &options, show)?;
    }
    Ok(())
}

fn score(
    engine: &Engine,
    folder: &Path,
    options: &TranscribeOptions,
    show: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let references = std::fs::read_to_string(folder.join("refs.tsv"))?;
    engine.load(options)?;
    let (mut errors, mut words, mut files) = (WordErrors::default(), 0, 0);
    let (mut audio_s, mut seconds) = (0.0, 0.0);
    for (file, reference) in references.lines().filter_map(|line| line.split_once('\t')) {
        let start = Instant::now();
        let transcript =
            engine.transcribe(AudioStream::open(&folder.join(file))?, options, &mut |_| ControlFlow::Continue(()))?;
        seconds += start.elapsed().as_secs_f64();
        audio_s += transcript.audio_duration_sec;
        let (reference, heard) = (normalised(reference), normalised(&transcript.text));
        let here = WordErrors::between(&reference, &heard);
        if show {
            println!("{file}\n  said:  {}\n  heard: {}", reference.join(" "), transcript.text);
        }
        errors.add(&here);
        words += reference.len();
        files += 1;
    }
    let rate = |count: usize| 100.0 * count as f64 / words.max(1) as f64;
    let search = match &options.language_model {
        LanguageModelChoice::Off => "greedy".into(),
        LanguageModelChoice::Shipped => "with the language model that ships".into(),
        LanguageModelChoice::File(path) => format!("with {}", path.display()),
    };
    println!(
        "{} on {}, {search}: WER {:.2} % ({} words in {files} files: {:.2} % substituted, {:.2} % deleted, \
         {:.2} % inserted)",
        options.model,
        engine.device().name,
        rate(errors.total()),
        words,
        rate(errors.substituted),
        rate(errors.deleted),
        rate(errors.inserted),
    );
    println!("{audio_s:.0} s of audio in {seconds:.1} s: {:.0} x real time, one file at a time", audio_s / seconds);
    Ok(())
}
