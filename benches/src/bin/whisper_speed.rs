//! Speed of a Whisper checkpoint: time of the encoder and of a decoder step, for several windows at once.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use auricle_benches::process::own_peak_mb;
use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::unstable::device::{self, in_own_memory};
use auricle_engine::unstable::models::whisper::{DecodeOptions, DecodingBatch, Whisper};
use auricle_engine::{DeviceChoice, Precision};
use clap::Parser;
use serde_json::json;

/// The allocator of the `auricle` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Speed of a Whisper checkpoint: time of the encoder and of a decoder step, for several windows at once
///
/// Prints one JSON object per batch size, with the best of the repeats; the time of the encoder includes the features.
/// benches/whisper_peers.py runs it next to other programs.
#[derive(Parser)]
#[command(after_help = "Example:
  python benches/whisper_folder.py tiny checkpoints/tiny
  cargo run --release --bin whisper_speed -- checkpoints/tiny --device cpu --precision int8")]
struct Arguments {
    /// Folder of a checkpoint that never ends its text by itself: benches/whisper_folder.py makes one with random weights
    folder: PathBuf,
    /// Device to compute on: auto, cpu, gpu, vulkan:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of the weights: full, half, int8 or int4
    #[arg(long, default_value = "full")]
    precision: Precision,
    /// Numbers of windows of 30 s that are decoded together
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    batches: Vec<usize>,
    /// Tokens of each window
    #[arg(long, default_value_t = 100)]
    tokens: usize,
    /// Timed runs of each batch size
    #[arg(long, default_value_t = 3)]
    repeats: usize,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let device = device::open(arguments.device)?;
    let model =
        in_own_memory(&device.device, || Whisper::load_with(&arguments.folder, &device.device, arguments.precision))?;
    let window = speech(Whisper::WINDOW)?;
    let tokens = arguments.tokens;
    for batch in arguments.batches {
        let windows = vec![window.as_slice(); batch];
        let mut best = [f64::INFINITY; 3];
        // One more run than asked for: the first compiles and selects kernels.
        for _ in 0..=arguments.repeats {
            let begin = Instant::now();
            let frames = model.encode(&windows)?;
            model.device().sync()?;
            let encoded = begin.elapsed().as_secs_f64();
            let mut decoding = DecodingBatch::new(false);
            let ask = || DecodeOptions {
                language: *model.config().special.languages.values().next().unwrap_or(&0),
                max_tokens: tokens,
                ..DecodeOptions::default()
            };
            let asks = (0..batch).map(|row| (row as u64, ask())).collect();
            let begin = Instant::now();
            let mut done = decoding.add(&model, &[frames], asks)?;
            let prompted = begin.elapsed().as_secs_f64();
            while done.is_empty() {
                done = decoding.step(&model)?;
            }
            let stepped = begin.elapsed().as_secs_f64() - prompted;
            if done.len() != batch || done.iter().any(|(_, said)| said.tokens.len() != tokens) {
                return Err("the checkpoint ends its text early, so the times cannot be compared; `benches/whisper_folder.py` makes one that does not".into());
            }
            for (best, seconds) in best.iter_mut().zip([encoded, prompted, stepped]) {
                *best = best.min(seconds);
            }
        }
        let [encoded, prompted, stepped] = best;
        let line = json!({
            "batch": batch,
            "tokens": tokens,
            "encode_ms": 1000.0 * encoded / batch as f64,
            "prompt_ms": 1000.0 * prompted / batch as f64,
            "step_ms": 1000.0 * stepped / (tokens - 1).max(1) as f64,
            "total_ms": 1000.0 * (encoded + prompted + stepped) / batch as f64,
            "peak_mb": own_peak_mb(),
        });
        println!("{line}");
    }
    Ok(())
}

/// The shipped sample, repeated.
fn speech(samples: usize) -> Result<Vec<f32>, Box<dyn Error>> {
    let mut audio = AudioStream::open(auricle_tests::speech())?.read_to_end()?;
    let pause = SAMPLE_RATE as usize;
    audio.extend(vec![0.0; pause]);
    Ok(audio.iter().copied().cycle().take(samples).collect())
}
