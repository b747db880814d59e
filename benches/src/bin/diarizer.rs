//! Time and memory of the diarizer over a recording, offline or in the chunks of a live stream, without recognition.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use auricle_benches::process::own_peak_mb;
use auricle_engine::DeviceChoice;
use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::unstable::device;
use auricle_engine::unstable::models::sortformer::{Sortformer, SpeakerStream};
use auricle_engine::unstable::speakers::activity::ActiveSpans;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time and memory of the diarizer over a recording, without recognition
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --bin diarizer -- models/samples/jfk.flac
  cargo run --release --bin diarizer -- talk.mp3 --checkpoint models/nemotron-3-diarization --live 9,4")]
struct Arguments {
    /// A sound file
    file: PathBuf,
    /// The checkpoint's folder [default: the published size with random weights]
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Repeat the file to so many minutes
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// The chunk of a live stream and its look-ahead, in frames of 80 ms: 9,4 or 6,2 or 3,1 [default: offline]
    #[arg(long, value_name = "CHUNK,LOOK_AHEAD", value_delimiter = ',')]
    live: Vec<usize>,
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let opened = device::open(arguments.device)?;
    let random = tempfile::tempdir()?;
    let folder = match &arguments.checkpoint {
        Some(folder) => folder,
        None => {
            auricle_tests::write_diarizer_size(random.path(), auricle_tests::DIARIZER_BLOCKS)?;
            random.path()
        }
    };
    let began = Instant::now();
    let model = Sortformer::load(folder, &opened.device)?;
    let loaded = began.elapsed();
    let config = model.config();
    let chunking = match arguments.live[..] {
        [] => config.offline(),
        [chunk, look_ahead] if chunk > 0 => config.live(chunk, look_ahead),
        _ => return Err("--live takes two numbers, a chunk of one frame or more and its look-ahead: 9,4".into()),
    };
    let samples = AudioStream::open(&arguments.file)?.read_to_end()?;
    let wanted = (arguments.minutes * 60.0 * f64::from(SAMPLE_RATE)) as usize;
    let (mut front_end, mut stream) = (model.log_mels()?, model.stream(chunking));
    let mut spans = ActiveSpans::new(model.speakers(), model.frame_ms());
    let (mut steps, mut longest) = (0, 0.0f64);
    let mut advance = |stream: &mut SpeakerStream| -> Result<(), Box<dyn Error>> {
        while let Some(step) = stream.next_step() {
            let began = Instant::now();
            let scored = model.step(&[(stream.kept(), stream.heard(step))])?;
            scored.iter().for_each(|scored| spans.push(&stream.advance(step, scored)));
            longest = longest.max(began.elapsed().as_secs_f64());
            steps += 1;
        }
        Ok(())
    };
    let began = Instant::now();
    let blocks = samples.chunks(SAMPLE_RATE as usize).cycle();
    let mut pushed = 0;
    for block in blocks.take_while(|_| !samples.is_empty()) {
        let block = &block[..block.len().min(wanted - pushed)];
        stream.push(&front_end.push(block));
        advance(&mut stream)?;
        pushed += block.len();
        if pushed >= wanted {
            break;
        }
    }
    stream.push(&front_end.finish());
    stream.finish();
    advance(&mut stream)?;
    let (took, audio_s) = (began.elapsed().as_secs_f64(), pushed as f64 / f64::from(SAMPLE_RATE));
    println!("| Measurement | Value |\n|---|---|");
    println!("| device | {} |", opened.info.name);
    println!("| parameters, loaded in | {:.1} M, {:.2} s |", model.parameters() as f64 / 1e6, loaded.as_secs_f64());
    println!("| {audio_s:.0} s of audio | {took:.1} s, {:.1}x real time |", audio_s / took);
    println!(
        "| steps, mean and longest | {steps}, {:.0} and {:.0} ms |",
        took * 1e3 / f64::from(steps.max(1)),
        longest * 1e3
    );
    println!("| stretches of speech | {} |", spans.finish().len());
    if let Some(peak) = own_peak_mb() {
        println!("| memory, peak | {peak} MB |");
    }
    Ok(())
}
