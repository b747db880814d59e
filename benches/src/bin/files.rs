//! Throughput of whole recordings: many at once through the engine, with detection, features, batches and search.

use std::error::Error;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use auricle_benches::process::{cpu_seconds, own_peak_mb};
use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions, Precision, TranscribeOptions};
use clap::Parser;

/// The allocator of the `auricle` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Throughput of whole recordings, several at once, in seconds of audio per second of work
///
/// The recordings are the shipped sample, repeated, as PCM in memory: reading and decoding of files are left out. Each row runs twice, as
/// the first run compiles kernels for its shapes.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --bin files -- models/starter/asr-en --device cpu --files 1,4 --minutes 1
  cargo run --release --bin files -- --device gpu --precision half --files 1,8,64")]
struct Arguments {
    /// Folder of a checkpoint [default: random weights of a Parakeet TDT at the published size of 0.6 billion]
    folder: Option<PathBuf>,
    /// Device to compute on: auto, cpu, gpu, vulkan:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of the encoder: full, half or int8
    #[arg(long, default_value = "full")]
    precision: Precision,
    /// Numbers of recordings at a time
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    files: Vec<usize>,
    /// Length of each recording, in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// No speech detector: silence is encoded too
    #[arg(long)]
    with_silence: bool,
    /// Bias of a blank's score in random weights: the higher, the fewer tokens
    #[arg(long, default_value_t = 4.0)]
    blank: f32,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let models = tempfile::tempdir()?;
    let folder = match &arguments.folder {
        Some(folder) => folder.canonicalize()?,
        None => {
            let folder = models.path().join("random");
            std::fs::create_dir(&folder)?;
            auricle_tests::write_published_size(&folder, arguments.blank)?;
            folder
        }
    };
    let detector = format!(
        "[detector]\npublished = \"none\"\nfolder = \"none\"\nstarter = {:?}\n",
        auricle_tests::models().join("starter/vad"),
    );
    let detector = if arguments.with_silence { String::new() } else { detector };
    let catalog = format!(
        "{detector}[[model]]\nid = \"files\"\nkind = \"prerecorded\"\ndefault = true\npublished = \"none\"\nfolder = {folder:?}\nstarter = {:?}\n\
         languages = [\"en\"]\nstarter_languages = [\"en\"]\n",
        auricle_tests::models().join("starter/asr-en"),
    );
    std::fs::write(models.path().join("catalog.toml"), catalog)?;
    let most = arguments.files.iter().copied().max().unwrap_or(1);
    let options = EngineOptions::default()
        .models(models.path())
        .device(arguments.device)
        .precision(arguments.precision)
        .recordings(most);
    let engine = Engine::open(options)?;
    let options = TranscribeOptions::default();
    engine.load(&options)?;
    let samples = AudioStream::open(auricle_tests::speech())?.read_to_end()?;
    let clip: Vec<u8> = samples.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect();
    let bytes = (arguments.minutes * 60.0 * f64::from(SAMPLE_RATE)) as usize * 2;
    let pcm: Vec<u8> = clip.iter().copied().cycle().take(bytes).collect();

    println!("{}\n", engine.device_names());
    println!(
        "| Files | Audio, s | First run, s | Second run, s | Times real time | Processor time, s | Words | Peak memory, MB |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for &files in &arguments.files {
        let mut words = 0;
        let mut run = || -> Result<[f64; 2], Box<dyn Error>> {
            let (began, before) = (Instant::now(), cpu_seconds(std::process::id()));
            words = std::thread::scope(|scope| {
                let transcribe = || {
                    let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm.clone()), SAMPLE_RATE, 1)?;
                    engine.transcribe(audio, &options).map(|transcript| transcript.words.len())
                };
                let threads: Vec<_> = (0..files).map(|_| scope.spawn(transcribe)).collect();
                threads.into_iter().try_fold(0, |all, thread| match thread.join() {
                    Ok(words) => words.map(|words| all + words),
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            })?;
            Ok([began.elapsed().as_secs_f64(), cpu_seconds(std::process::id()) - before])
        };
        let ([first, _], [second, processor]) = (run()?, run()?);
        let audio = arguments.minutes * 60.0 * files as f64;
        println!(
            "| {files} | {audio:.0} | {first:.2} | {second:.2} | {:.0} | {processor:.1} | {words} | {} |",
            audio / second,
            own_peak_mb().unwrap_or_default(),
        );
    }
    Ok(())
}
