//! A turn detector at the ends of recordings: its probabilities and its time.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use auricle_engine::audio::AudioStream;
use auricle_engine::unstable::device;
use auricle_engine::unstable::models::smart_turn::SmartTurn;
use auricle_engine::{DeviceChoice, Precision};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A turn detector at the ends of recordings: its probabilities and its time
///
/// Prints the probability that the speaker has finished at the end of each file, a tab and the file, a line each; on standard error
/// the median time of a decision.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --bin turn_end -- models/smart-turn-v3/smart-turn-v3.2-cpu.onnx models/samples/jfk.flac
  taskset -c 0 cargo run --release --bin turn_end -- turn.onnx clips/*.wav --precision int8 --batch 4")]
struct Arguments {
    /// The network: an .onnx file, or a folder
    network: PathBuf,
    /// Sound files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    #[arg(long, default_value = "full")]
    precision: Precision,
    /// Decisions of a step
    #[arg(long, default_value_t = 1)]
    batch: usize,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let opened = device::open(arguments.device)?;
    let network = SmartTurn::load(&arguments.network, &opened.device, arguments.precision)?;
    let mut times = Vec::new();
    for files in arguments.files.chunks(arguments.batch.max(1)) {
        let recordings: Vec<Vec<f32>> =
            files.iter().map(|file| AudioStream::open(file)?.read_to_end()).collect::<Result<_, _>>()?;
        let windows: Vec<&[f32]> = recordings.iter().map(Vec::as_slice).collect();
        let began = Instant::now();
        let probabilities = network.probabilities(&windows)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        for (file, probability) in files.iter().zip(probabilities) {
            println!("{probability:.6}\t{}", file.display());
        }
    }
    times.sort_by(f64::total_cmp);
    eprintln!("{:.1} ms a step of {}, the median of {}", times[times.len() / 2], arguments.batch, times.len());
    Ok(())
}
