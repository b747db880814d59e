//! How fast a Whisper checkpoint writes: seconds for the encoder and for a step of the decoder, several windows side by side.
//!
//!     cargo run --release --example whisper_speed -- FOLDER [--device cpu] [--precision int8] [--batches 1,8] [--tokens 100] [--repeats 3]
//!
//! FOLDER is a checkpoint that does not end by itself (`benches/whisper_folder.py` makes one with random weights at a published
//! size), so that each window takes as many steps as it is asked for. Each line is a JSON object, the best of the repeats;
//! `benches/whisper_peers.py` puts them beside those of other programs. Features are part of the encoder's time.

use std::time::Instant;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::models::whisper::{DecodeOptions, DecodingBatch, Whisper};
use auricle_engine::{Precision, device};
use serde_json::json;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut folder, mut choice) = (None, "auto".to_owned());
    let mut precision = Precision::F32;
    let (mut batches, mut tokens, mut repeats) = (vec![1, 8], 100, 3);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--device" => choice = value()?,
            "--precision" => precision = value()?.parse()?,
            "--batches" => batches = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--tokens" => tokens = value()?.parse()?,
            "--repeats" => repeats = value()?.parse()?,
            _ => folder = Some(argument),
        }
    }
    let folder = folder.ok_or("which checkpoint? see the first lines of benches/examples/whisper_speed.rs")?;
    let device = device::open(choice.parse()?)?;
    let model = Whisper::load_with(folder.as_ref(), &device.device, precision)?;
    let window = speech(Whisper::WINDOW)?;
    for batch in batches {
        let windows = vec![window.as_slice(); batch];
        let mut best = [f64::INFINITY; 3];
        // The first time, kernels are compiled and chosen.
        for _ in 0..=repeats {
            let begin = Instant::now();
            let frames = model.encode(&windows)?;
            model.device().sync()?;
            let encoded = begin.elapsed().as_secs_f64();
            let mut decoding = DecodingBatch::new(false);
            let ask = || DecodeOptions {
                language: *model.config().special.languages.values().next().unwrap_or(&0),
                most: tokens,
                ..DecodeOptions::default()
            };
            let asks = (0..batch).map(|row| (row as u64, ask())).collect();
            let begin = Instant::now();
            let mut done = decoding.add(&model, &frames, asks)?;
            let prompted = begin.elapsed().as_secs_f64();
            while done.is_empty() {
                done = decoding.step(&model)?;
            }
            let stepped = begin.elapsed().as_secs_f64() - prompted;
            if done.len() != batch || done.iter().any(|(_, said)| said.tokens.len() != tokens) {
                return Err("the checkpoint ends by itself: its times say nothing".into());
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
            "peak_mb": peak_mb(),
        });
        println!("{line}");
    }
    Ok(())
}

/// The sample that ships, over and over.
fn speech(samples: usize) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/samples/jfk.flac");
    let mut heard = AudioStream::open(path.as_ref())?.read_to_end()?;
    let pause = SAMPLE_RATE as usize;
    heard.extend(vec![0.0; pause]);
    Ok(heard.iter().copied().cycle().take(samples).collect())
}

/// The most memory that this process ever held, where the system tells.
fn peak_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kb| kb / 1024)
}
