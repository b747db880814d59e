//! How many live streams a device takes: the time of a step of so many streams, features and search included.
//!
//!     cargo run --release --example streams -- [FOLDER] [--device auto] [--look-aheads 0,13] [--rows 1,8,64] [--steps 10]
//!
//! FOLDER is a streaming checkpoint; without one, random weights of the published size of 0.6 billion, which hear blanks only.
//! A look-ahead is in encoder frames: with 0 each stream has a step every 80 ms of audio, with 13 every 1.12 s. Streams keep up
//! while a step takes no longer than that; what is left over is for everything else.

use std::path::PathBuf;
use std::time::Instant;

use auricle_engine::models::fastconformer::{FastConformer, Stream};
use auricle_engine::{DeviceChoice, device};
use burn::tensor::{Distribution, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut folder, mut choice, mut steps) = (None, DeviceChoice::Auto, 10);
    let (mut look_aheads, mut rows) = (vec![0, 13], vec![1, 8, 64]);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let numbers = |text: String| text.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
        match argument.as_str() {
            "--device" => choice = value()?.parse()?,
            "--look-aheads" => look_aheads = numbers(value()?)?,
            "--rows" => rows = numbers(value()?)?,
            "--steps" => steps = value()?.parse::<usize>()?.max(1),
            _ => folder = Some(PathBuf::from(argument)),
        }
    }
    let made = tempfile::tempdir()?;
    let folder = match folder {
        Some(folder) => folder,
        None => {
            auricle_tests::write_streaming_size(made.path())?;
            made.path().to_owned()
        }
    };
    let chosen = device::open(choice)?;
    let model = FastConformer::load(&folder, &chosen.device)?;
    println!("{} million parameters on {}\n", model.parameters() / 1_000_000, chosen.info.name);
    println!(
        "| Look-ahead, frames | Streams | A step, ms: median | slowest | Audio a step, ms | Streams in real time, by the median |"
    );
    println!("|---|---|---|---|---|---|");
    let config = &model.config().encoder;
    for look_ahead in look_aheads {
        let chunk = (look_ahead + 1) * config.subsampling_factor;
        let audio_ms = (look_ahead + 1) as f64 * model.frame_ms();
        for &rows in &rows {
            let mut streams = (0..rows).map(|_| model.stream(1, look_ahead, 0)).collect::<Result<Vec<Stream>, _>>()?;
            let mut times = Vec::new();
            for step in 0..steps + 2 {
                let shape = [rows, chunk, config.num_mel_bins];
                let features = Tensor::<3>::random(shape, Distribution::Normal(0.0, 1.0), &chosen.device);
                // An utterance's first frames are not real.
                let valid = vec![if step == 0 { model.encoder().lead()..chunk } else { 0..chunk }; rows];
                let mut streams: Vec<&mut Stream> = streams.iter_mut().collect();
                let began = Instant::now();
                let encoded = model.encode(&mut streams, features, &valid)?;
                model.search_together(&mut streams, &encoded, &vec![None; rows])?;
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            // The first two meet kernels and shapes that are new.
            let mut times = times.split_off(2);
            times.sort_by(f64::total_cmp);
            let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
            let fit =
                if median <= audio_ms { format!("{:.0}", rows as f64 * audio_ms / median) } else { "too slow".into() };
            println!("| {look_ahead} | {rows} | {median:.1} | {slowest:.1} | {audio_ms:.0} | {fit} |");
        }
    }
    Ok(())
}
