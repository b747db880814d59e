//! Word error rate of a model over a folder of speech, and its speed.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use auricle_benches::speech_set::references;
use auricle_benches::word_errors::{WordErrors, normalize};
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions, LanguageModelChoice, Precision, TranscribeOptions};
use clap::Parser;

/// Word error rate of a model over a folder of speech, and its speed
///
/// Transcribes every file that the folder's refs.tsv names, one at a time. Both texts are compared in lower case and without
/// punctuation: substitutions, deletions and insertions over the whole set are divided by the words of the references. References
/// should spell numbers as the model does. Without --lm a model with a shipped language model runs twice: greedily, and with it.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --bin wer -- eval/librispeech-sample
  cargo run --release --bin wer -- eval/librispeech-sample --model svc-realtime --look-ahead 160 --lm off --show")]
struct Arguments {
    /// Folder with audio files and refs.tsv: a file name, a tab and a text a line
    folder: PathBuf,
    /// Model of the catalog [default: the engine's]
    #[arg(long)]
    model: Option<String>,
    /// Folder of models with catalog.toml [default: the one that ships]
    #[arg(long)]
    models: Option<PathBuf>,
    /// Device to compute on: auto, cpu, gpu, vulkan:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of the weights: full, half, int8 or int4 [default: int8 for Whisper on a CPU, else full]
    #[arg(long)]
    precision: Option<Precision>,
    /// Look-ahead of a streaming model, in milliseconds
    #[arg(long, value_name = "MS")]
    look_ahead: Option<u32>,
    /// Language model: a file, or off
    #[arg(long, value_name = "FILE|off")]
    lm: Option<LanguageModelChoice>,
    /// Weight of the language model's log probability
    #[arg(long, value_name = "WEIGHT")]
    lm_weight: Option<f32>,
    /// Bonus for each word
    #[arg(long, value_name = "BONUS", allow_negative_numbers = true)]
    word_bonus: Option<f32>,
    /// Weight of the internal language model, which is subtracted
    #[arg(long, value_name = "WEIGHT")]
    internal: Option<f32>,
    /// Log probability of a letter of a word that the language model does not know
    #[arg(long, value_name = "LOG_PROB", allow_negative_numbers = true)]
    unknown_letter: Option<f32>,
    /// Hypotheses that the search keeps
    #[arg(long, value_name = "N")]
    beam: Option<usize>,
    /// Expect medical terms
    #[arg(long)]
    medical: bool,
    /// Print the reference and the hypothesis of each file
    #[arg(long)]
    show: bool,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut open = EngineOptions::default().device(arguments.device).precision(arguments.precision);
    let mut options = TranscribeOptions::default().format_numbers(false);
    if let Some(models) = arguments.models {
        open.models = models;
    }
    options.model = arguments.model;
    options.look_ahead_ms = arguments.look_ahead;
    options.beam = arguments.beam;
    options.medical_mode = arguments.medical;
    let fusion = &mut options.fusion;
    fusion.lm = arguments.lm_weight.unwrap_or(fusion.lm);
    fusion.word = arguments.word_bonus.unwrap_or(fusion.word);
    fusion.internal = arguments.internal.unwrap_or(fusion.internal);
    fusion.unknown_letter = arguments.unknown_letter.unwrap_or(fusion.unknown_letter);
    let engine = Engine::open(open)?;
    let catalog = engine.catalog();
    let model = match &options.model {
        Some(model) => model,
        None => &catalog.default_model("prerecorded")?.id,
    };
    let language_models = match (arguments.lm, catalog.choose(model)?.language_model) {
        (Some(language_model), _) => vec![language_model],
        (None, Some(_)) => vec![LanguageModelChoice::Off, LanguageModelChoice::Shipped],
        (None, None) => vec![LanguageModelChoice::Off],
    };
    for language_model in language_models {
        options.language_model = language_model;
        score(&engine, &arguments.folder, &options, arguments.show)?;
    }
    Ok(())
}

fn score(engine: &Engine, folder: &Path, options: &TranscribeOptions, show: bool) -> Result<(), Box<dyn Error>> {
    let references = references(folder)?;
    engine.load(options)?;
    let (mut errors, mut words) = (WordErrors::default(), 0);
    let (mut audio_s, mut seconds) = (0.0, 0.0);
    for reference in &references {
        let start = Instant::now();
        let transcript = engine.transcribe_file(&reference.path, options)?;
        seconds += start.elapsed().as_secs_f64();
        audio_s += transcript.audio_duration_sec;
        let (expected, recognized) = (normalize(&reference.text), normalize(&transcript.text));
        if show {
            println!("{}\n  reference:  {}\n  hypothesis: {}", reference.name, expected.join(" "), transcript.text);
        }
        errors.add(&WordErrors::between(&expected, &recognized));
        words += expected.len();
    }
    let rate = |count: usize| 100.0 * count as f64 / words.max(1) as f64;
    let search = match &options.language_model {
        LanguageModelChoice::Off => "greedy".into(),
        LanguageModelChoice::Shipped => "with the shipped language model".into(),
        LanguageModelChoice::File(path) => format!("with {}", path.display()),
    };
    println!(
        "{} on {}, {search}: WER {:.2} % ({} words in {} files: {:.2} % substituted, {:.2} % deleted, \
         {:.2} % inserted)",
        options.model.as_deref().unwrap_or("the default model"),
        engine.device_names(),
        rate(errors.total()),
        words,
        references.len(),
        rate(errors.substituted),
        rate(errors.deleted),
        rate(errors.inserted),
    );
    println!("{audio_s:.0} s of audio in {seconds:.1} s: {:.0} x real time, one file at a time", audio_s / seconds);
    Ok(())
}
