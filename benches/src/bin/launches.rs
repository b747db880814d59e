//! Kernel launches of the steps that have budgets, as CubeCL reports them.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use auricle_engine::DeviceChoice;
use auricle_engine::unstable::device;
use auricle_tests::launches::{conformer_block, kokoro_clause, live_step, pocket_frame, recording_step, whisper_token};
use burn::tensor::Device;
use clap::Parser;

/// Kernel launches of the steps that have budgets, as CubeCL reports them
#[derive(Parser)]
#[command(after_help = "Example:
  python benches/whisper_folder.py tiny checkpoints/tiny
  cargo run --release --bin launches -- --device vulkan:0 --whisper checkpoints/tiny --kernels")]
struct Arguments {
    /// A GPU: gpu, vulkan:N
    #[arg(long, default_value = "gpu")]
    device: DeviceChoice,
    /// Folder of a Whisper checkpoint that never ends its text by itself [default: the tests' tiny one]
    #[arg(long)]
    whisper: Option<PathBuf>,
    /// Folder of a Kokoro checkpoint [default: the tests' tiny one]
    #[arg(long)]
    kokoro: Option<PathBuf>,
    /// Folder of a Pocket TTS checkpoint [default: the tests' tiny one]
    #[arg(long)]
    pocket: Option<PathBuf>,
    /// Also print the launches of each kernel
    #[arg(long)]
    kernels: bool,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let chosen = device::open(arguments.device)?;
    if chosen.device == Device::flex() {
        return Err(
            "the CPU launches no kernels; say --device gpu, or vulkan:N with a number that `auricle devices` lists"
                .into(),
        );
    }
    let device = &chosen.device;
    let whisper = arguments.whisper.unwrap_or_else(|| auricle_tests::fixtures().join("whisper/taught"));
    println!("{} ({})\n\n| Step | Launches |\n|---|---|", chosen.info.name, chosen.info.driver);
    let mut rows = Vec::new();
    let mut add = |name: String, launches: auricle_kernels::launches::Launches| {
        println!("| {name} | {} |", launches.total());
        rows.push((name, launches));
    };
    for windows in [1, 4] {
        let ([first, repeated], layers) = whisper_token(&whisper, device, windows);
        add(format!("A token of Whisper, {layers} layers, windows: {windows}"), first);
        add("The same as a record".into(), repeated);
    }
    add("A block of FastConformer over a whole utterance".into(), conformer_block(device));
    for streams in [1, 8, 64] {
        let [first, repeated] = live_step(device, streams);
        add(format!("A step of 80 ms of the starter, streams: {streams}"), first);
        add("The same as a record".into(), repeated);
    }
    add("A step of 8.96 s of the starter".into(), recording_step(device));
    let kokoro = arguments.kokoro.unwrap_or_else(|| auricle_tests::fixtures().join("kokoro"));
    add("A clause of Kokoro".into(), kokoro_clause(&kokoro, device));
    let pocket = arguments.pocket.unwrap_or_else(|| auricle_tests::fixtures().join("pocket_tts/pocket"));
    for streams in [1, 8] {
        let [first, repeated] = pocket_frame(&pocket, device, streams);
        add(format!("A frame of Pocket TTS, streams: {streams}"), first);
        add("The same as a record".into(), repeated);
    }
    for (name, launches) in rows.iter().filter(|_| arguments.kernels) {
        println!("\n{name}:\n\n| Kernel | Launches |\n|---|---|");
        for (kernel, count) in launches.by_kernel() {
            // A bar would end the cell.
            println!("| `{}` | {count} |", kernel.replace(" | ", " "));
        }
    }
    Ok(())
}
