//! Diarization error rate of speaker labels on a set of conversations.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auricle_benches::diarization_errors::{DiarizationErrors, Turn, read_rttm};
use auricle_engine::Catalog;
use auricle_engine::audio::AudioStream;
use auricle_engine::unstable::models::silero::Silero;
use auricle_engine::unstable::models::voice::VoiceEmbedder;
use auricle_engine::unstable::speakers::clustering::Clustering;
use auricle_engine::unstable::speakers::listener::{HeardWindow, Listener};
use auricle_engine::unstable::vad::shared::SharedVad;
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Device, Tensor, TensorData};
use clap::Parser;

/// Diarization error rate of speaker labels on a set of conversations
///
/// The set is a folder of sound files with an RTTM file beside each, as `recipes.conversations` writes them. Overlap counts, and
/// there is no collar. Runs on the CPU, without recognition.
#[derive(Parser)]
#[command(after_help = "Example:
  cargo run --release --bin der -- conversations")]
struct Arguments {
    /// Folder of sound files and RTTM files
    set: PathBuf,
    /// Folder of models with catalog.toml
    #[arg(long, default_value = "models")]
    models: PathBuf,
    /// Take where speech is from the reference
    #[arg(long)]
    true_speech: bool,
    /// Take the number of speakers from the reference
    #[arg(long)]
    true_count: bool,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let catalog = Catalog::read(&arguments.models)?;
    let device = Device::flex();
    let detector = catalog.detector().map(|dir| Silero::load(&dir).map(Arc::new)).transpose()?;
    let embedder = VoiceEmbedder::load(
        &catalog.starter_diarizer().ok_or("the catalog names no diarizer")?,
        &device,
        Precision::Int8,
    )?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&arguments.set)?.map(|e| Ok(e?.path())).collect::<Result<_, std::io::Error>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension != "rttm"));
    files.sort();
    let (mut all, mut right, mut hearing, mut clustering, mut audio_s) =
        (DiarizationErrors::default(), 0, Duration::ZERO, Duration::ZERO, 0.0);
    println!(
        "{:<20} {:>8} {:>8} {:>6} {:>7} {:>6} {:>9}",
        "file", "speakers", "found", "DER %", "missed", "false", "confused"
    );
    for file in &files {
        let reference = read_rttm(&std::fs::read_to_string(file.with_extension("rttm"))?)?;
        let mut names: Vec<&str> = reference.iter().map(|turn| turn.speaker.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let samples = AudioStream::open(file)?.read_to_end()?;
        audio_s += samples.len() as f64 / 16e3;
        let started = Instant::now();
        let windows = match arguments.true_speech {
            true => Listener::within(&samples, &speech(&reference), embedder.stream()?, embedder.mels()),
            false => {
                let mut listener =
                    Listener::new(detector.clone().map(SharedVad::new), embedder.stream()?, embedder.mels())?;
                let mut windows = listener.push(&samples)?;
                windows.extend(listener.finish()?);
                windows
            }
        };
        let embeddings = windows.iter().map(|window| embed(&embedder, window)).collect::<Result<Vec<_>, _>>()?;
        hearing += started.elapsed();
        let started = Instant::now();
        let mut labels = Clustering::new(arguments.true_count.then_some(names.len()));
        embeddings.iter().for_each(|embedding| labels.push(embedding));
        let labels = labels.finish();
        clustering += started.elapsed();
        let found = labels.iter().max().map_or(0, |last| last + 1);
        let hypothesis: Vec<Turn> = windows
            .iter()
            .zip(&labels)
            .map(|(window, speaker)| Turn {
                start: window.decided.start as f64 / 100.0,
                end: window.decided.end as f64 / 100.0,
                speaker: speaker.to_string(),
            })
            .collect();
        let errors = DiarizationErrors::between(&reference, &hypothesis);
        let of = |seconds: f64| 100.0 * seconds / errors.total;
        println!(
            "{:<20} {:>8} {found:>8} {:>6.1} {:>7.1} {:>6.1} {:>9.1}",
            file.file_stem().unwrap_or_default().to_string_lossy(),
            names.len(),
            errors.percent(),
            of(errors.missed),
            of(errors.false_alarm),
            of(errors.confusion),
        );
        all += errors;
        right += usize::from(found == names.len());
    }
    println!(
        "all: DER {:.1} % (missed {:.1}, false {:.1}, confused {:.1}), count right in {right} of {}",
        all.percent(),
        100.0 * all.missed / all.total,
        100.0 * all.false_alarm / all.total,
        100.0 * all.confusion / all.total,
        files.len()
    );
    println!(
        "{audio_s:.0} s of audio: heard in {:.1} s, clustered in {:.2} s",
        hearing.as_secs_f64(),
        clustering.as_secs_f64()
    );
    Ok(())
}

fn embed(embedder: &VoiceEmbedder, window: &HeardWindow) -> auricle_engine::Result<Vec<f32>> {
    let shape = [1, window.mels.len() / embedder.mels(), embedder.mels()];
    embedder.embed(Tensor::from_data(TensorData::new(window.mels.clone(), shape), &embedder.device()))
}

/// The frames of 10 ms in which anybody speaks.
fn speech(turns: &[Turn]) -> Vec<std::ops::Range<usize>> {
    let mut spans: Vec<(f64, f64)> = turns.iter().map(|turn| (turn.start, turn.end)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined.into_iter().map(|(start, end)| (start * 100.0) as usize..(end * 100.0) as usize).collect()
}
