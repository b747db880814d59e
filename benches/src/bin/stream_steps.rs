//! Time of one step of many live streams at once: features, encoder and search.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use auricle_engine::unstable::device::{self, in_own_memory};
use auricle_engine::unstable::models::fastconformer::{FastConformer, Stream};
use auricle_engine::{DeviceChoice, Precision};
use auricle_kernels::launches::count;
use burn::tensor::{Distribution, Tensor};
use clap::Parser;

/// Time of one step of many live streams at once: encoder and search
///
/// With a look-ahead of 0 encoder frames each stream has a step every 80 ms of audio, with 13 every 1.12 s. A device keeps up with
/// the streams while a step takes no longer than that.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --bin stream_steps -- models/starter/asr-en --device cpu
  cargo run --release --bin stream_steps -- --device gpu --look-aheads 0 --streams 1,64,240,480")]
struct Arguments {
    /// Folder of a streaming checkpoint [default: random weights at the published size of 0.6 billion, which emit blanks only]
    folder: Option<PathBuf>,
    /// Device to compute on: auto, cpu, gpu, vulkan:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of the encoder: full or half
    #[arg(long, default_value = "full")]
    precision: Precision,
    /// Look-aheads, in encoder frames
    #[arg(long, value_delimiter = ',', default_value = "0,13")]
    look_aheads: Vec<usize>,
    /// Numbers of streams
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    streams: Vec<usize>,
    /// Timed steps of each row of the table
    #[arg(long, default_value_t = 10)]
    steps: usize,
}

/// Steps before those that are timed.
const WARM_STEPS: usize = 6;

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let random_weights = tempfile::tempdir()?;
    let folder = match arguments.folder {
        Some(folder) => folder,
        None => {
            auricle_tests::write_streaming_size(random_weights.path())?;
            random_weights.path().to_owned()
        }
    };
    let chosen = device::open(arguments.device)?;
    let model =
        in_own_memory(&chosen.device, || FastConformer::load_with(&folder, &chosen.device, arguments.precision))?;
    println!("{} million parameters on {}\n", model.parameters() / 1_000_000, chosen.info.name);
    println!(
        "| Look-ahead, frames | Streams | A step, ms: median | slowest | Launches of the last | Audio a step, ms | Streams in real time, by the median |"
    );
    println!("|---|---|---|---|---|---|---|");
    let config = &model.config().encoder;
    for look_ahead in arguments.look_aheads {
        let chunk = (look_ahead + 1) * config.subsampling_factor;
        let audio_ms = (look_ahead + 1) as f64 * model.frame_ms();
        for &rows in &arguments.streams {
            let mut streams = (0..rows).map(|_| model.stream(1, look_ahead, 0)).collect::<Result<Vec<Stream>, _>>()?;
            let (mut times, mut launches) = (Vec::new(), 0);
            for step in 0..arguments.steps.max(1) + WARM_STEPS {
                let shape = [rows, chunk, config.num_mel_bins];
                let features = Tensor::<3>::random(shape, Distribution::Normal(0.0, 1.0), &chosen.device);
                // The first frames of an utterance are padding.
                let valid = vec![if step == 0 { model.encoder().lead()..chunk } else { 0..chunk }; rows];
                let mut streams: Vec<&mut Stream> = streams.iter_mut().collect();
                let began = Instant::now();
                let (result, of_step) = count(|| {
                    let encoded = model.encode(&mut streams, features, &valid)?;
                    model.search_together(&mut streams, &encoded, &vec![None; rows])
                });
                result?;
                // A repeated record launches next to nothing.
                launches = of_step.total();
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            // The first steps compile kernels for new shapes, and a card that waited for that has lowered its clock.
            let mut times = times.split_off(WARM_STEPS);
            times.sort_by(f64::total_cmp);
            let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
            let fit =
                if median <= audio_ms { format!("{:.0}", rows as f64 * audio_ms / median) } else { "too slow".into() };
            println!("| {look_ahead} | {rows} | {median:.1} | {slowest:.1} | {launches} | {audio_ms:.0} | {fit} |");
        }
    }
    Ok(())
}
