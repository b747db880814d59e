//! Kokoro alone: its numbers, for `tests/published/kokoro`, and its speed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use auricle_engine::unstable::device;
use auricle_engine::unstable::models::kokoro::{Advanced, Network, Stages, Values};
use auricle_engine::{DeviceChoice, Precision};
use auricle_tests::Oracle;
use burn::tensor::Device;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The error over the norm of what comes before the generator, at most.
const MOST_ERROR: f64 = 1e-3;
/// The same of the samples: a phase near half a turn may come out with the other sign, and turns are added up in 64 bits.
const MOST_SAMPLE_ERROR: f64 = 0.1;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every stage against those that `tests/published/kokoro/oracle.py` wrote; fails where one is off
    Compare {
        model: PathBuf,
        oracle: PathBuf,
        /// cpu, gpu, vulkan:N
        #[arg(long, default_value = "cpu")]
        device: DeviceChoice,
    },
    /// Seconds of speech and of computing, each utterance once a round: a JSON line of both sums for each round
    Speed {
        model: PathBuf,
        oracle: PathBuf,
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// full, or int8
        #[arg(long, default_value = "full")]
        precision: Precision,
        /// cpu, gpu, vulkan:N
        #[arg(long, default_value = "cpu")]
        device: DeviceChoice,
        /// Print the seconds of each step of the last utterance
        #[arg(long)]
        steps: bool,
    },
}

/// An utterance of an oracle.
struct Utterance {
    name: String,
    symbols: Vec<usize>,
    row: Vec<f32>,
    noise: Vec<f32>,
    speed: f32,
}

fn main() {
    match Cli::parse().command {
        Command::Compare { model, oracle, device } => compare(&load(&model, device, Precision::F32), &oracle),
        Command::Speed { model, oracle, rounds, precision, device, steps } => {
            speed(&load(&model, device, precision), &oracle, rounds, steps);
        }
    }
}

fn load(model: &Path, device: DeviceChoice, precision: Precision) -> Network {
    let device = device::open(device).expect("the device opens").device;
    Network::load(model, &device, precision).expect("the model loads")
}

fn numbers<const D: usize>(oracle: &Oracle, name: &str) -> Vec<f32> {
    Oracle::values(oracle.tensor::<D>(name, &Device::flex()))
}

fn utterances(oracle: &Oracle) -> Vec<Utterance> {
    let facts = oracle.facts.as_object().expect("oracle.json has utterances");
    let utterance = |(name, fact): (&String, &serde_json::Value)| Utterance {
        name: name.clone(),
        symbols: oracle.integers(&format!("{name}_symbols")),
        row: numbers::<1>(oracle, &format!("{name}_row")),
        noise: numbers::<1>(oracle, &format!("{name}_noise")),
        speed: fact["speed"].as_f64().expect("a speed") as f32,
    };
    facts.iter().map(utterance).collect()
}

fn error(ours: &[f32], theirs: &[f32]) -> f64 {
    assert_eq!(ours.len(), theirs.len(), "lengths of a stage");
    let norm: f64 = theirs.iter().map(|value| f64::from(*value).powi(2)).sum();
    let off: f64 = ours.iter().zip(theirs).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    (off / norm).sqrt()
}

fn compare(network: &Network, oracle: &Path) {
    let oracle = Oracle::open(oracle);
    let mut is_good = true;
    for Utterance { name, symbols, row, noise, speed } in utterances(&oracle) {
        let stages = network.stages(&symbols, &row, speed).expect("an utterance");
        assert_eq!(stages.durations, oracle.integers(&format!("{name}_durations")), "durations of {name}");
        let of = |stage: &str| format!("{name}_{stage}");
        let read = |values: &Values| values.read().expect("the device answers");
        let decoded = oracle.tensor::<2>(&of("decoded"), &Device::flex()).transpose();
        let before: [(&str, Vec<f32>, Vec<f32>); 6] = [
            ("hidden", read(&stages.hidden), numbers::<2>(&oracle, &of("hidden"))),
            ("features", read(&stages.features), numbers::<2>(&oracle, &of("features"))),
            ("encoded", read(&stages.encoded), numbers::<2>(&oracle, &of("encoded"))),
            ("pitch", stages.pitch.clone(), numbers::<1>(&oracle, &of("pitch"))),
            ("energy", stages.energy.clone(), numbers::<1>(&oracle, &of("energy"))),
            ("decoded", read(&stages.decoded), Oracle::values(decoded)),
        ];
        for (stage, ours, theirs) in before {
            let error = error(&ours, &theirs);
            is_good &= error < MOST_ERROR;
            println!("{name} {stage}: {error:.1e}");
        }
        let error =
            error(&samples(network, stages, &noise, &row, &mut Vec::new()), &numbers::<1>(&oracle, &of("samples")));
        is_good &= error < MOST_SAMPLE_ERROR;
        println!("{name} samples: {error:.1e}");
    }
    if !is_good {
        std::process::exit(1);
    }
}

/// The samples of an utterance, and the seconds of each step.
fn samples(network: &Network, stages: Stages, noise: &[f32], row: &[f32], steps: &mut Vec<f64>) -> Vec<f32> {
    let begun = Instant::now();
    let mut utterance = network.start(stages, noise, row).expect("stages of this network");
    steps.push(begun.elapsed().as_secs_f64());
    loop {
        let begun = Instant::now();
        let advanced = network.advance(&utterance).expect("a step");
        steps.push(begun.elapsed().as_secs_f64());
        match advanced {
            Advanced::Unfinished(next) => utterance = next,
            Advanced::Samples(samples) => return samples,
        }
    }
}

fn speed(network: &Network, oracle: &Path, rounds: usize, show_steps: bool) {
    let oracle = Oracle::open(oracle);
    let utterances = utterances(&oracle);
    let mut steps = Vec::new();
    for round in 0..=rounds {
        let (mut spoken, begun) = (0, Instant::now());
        for Utterance { symbols, row, noise, speed, .. } in &utterances {
            steps.clear();
            let begun = Instant::now();
            let stages = network.stages(symbols, row, *speed).expect("an utterance");
            steps.push(begun.elapsed().as_secs_f64());
            // In 8 bits a duration may be another.
            let noise: Vec<f32> = noise.iter().copied().cycle().take(network.sample_count(&stages.pitch)).collect();
            spoken += samples(network, stages, &noise, row, &mut steps).len();
        }
        // The first round warms up.
        if round > 0 {
            let line =
                serde_json::json!({ "speech": spoken as f64 / 24_000.0, "seconds": begun.elapsed().as_secs_f64() });
            println!("{line}");
        }
    }
    if show_steps {
        eprintln!("{steps:.3?}");
    }
}
