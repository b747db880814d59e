//! Speech synthesis: real-time factor, time to the first sound of a clause, and paced streams side by side. For one core start it under
//! `taskset -c 0` with `RAYON_NUM_THREADS=1`.

use std::time::{Duration, Instant};

use auricle_benches::process::cpu_seconds;
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions, Precision, SPEECH_RATE, SpeakOptions};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A clause of about two seconds, and a passage.
const CLAUSE: &str = "The train to the lake leaves at ten,";
const PASSAGE: &str = "The train to the lake leaves at ten in the morning. It takes a little over an hour, and there is a place to eat \
     on board. When you arrive, walk down to the water and turn left at the old mill. A boat goes across every twenty minutes. The \
     house stands behind the trees on the other side, and somebody will wait for you at the gate.";

#[derive(Parser)]
struct Cli {
    /// A folder of a voice model [default: the catalog's]
    #[arg(long)]
    checkpoint: Option<std::path::PathBuf>,
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Weights of 8 bits, in a model that has them
    #[arg(long)]
    int8: bool,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Paced streams at once
    #[arg(long, default_value_t = 16)]
    streams: usize,
}

fn main() {
    let Cli { checkpoint, device, int8, rounds, streams } = Cli::parse();
    let precision = if int8 { Precision::Int8 } else { Precision::F32 };
    let engine = Engine::open(EngineOptions::default().device(device).precision(precision)).expect("the engine opens");
    let mut options = SpeakOptions::default();
    options.checkpoint = checkpoint;
    engine.load_voice(&options).expect("the voice loads");
    println!("| Measurement | Value |\n|---|---|");
    let processor = cpu_seconds(std::process::id());
    let (spent, seconds) = (0..rounds)
        .map(|_| say(&engine, PASSAGE, &options))
        .fold((Duration::ZERO, 0.0), |(spent, seconds), said| (spent + said.took, seconds + said.seconds));
    println!("| real-time factor, {:.1} s of speech | {:.3} |", seconds, spent.as_secs_f64() / seconds);
    let processor = cpu_seconds(std::process::id()) - processor;
    println!("| processor time of a second of speech | {:.3} s |", processor / seconds);
    let mut first: Vec<Duration> = (0..4 * rounds).map(|_| say(&engine, CLAUSE, &options).first).collect();
    first.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (median, slowest) = (first[first.len() / 2], first[first.len() - 1]);
    println!(
        "| first frame of a clause, median and slowest of {} | {:.1} and {:.1} ms |",
        first.len(),
        ms(median),
        ms(slowest)
    );
    let paced = options.paced(true);
    let late: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let speaking: Vec<_> = (0..streams).map(|_| scope.spawn(|| late_frames(&engine, &paced))).collect();
        speaking.into_iter().map(|thread| thread.join().expect("a stream ends")).collect()
    });
    let (late, all) = late.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("| late frames of {streams} paced streams | {late} of {all} |");
}

struct Said {
    took: Duration,
    first: Duration,
    seconds: f64,
}

fn say(engine: &Engine, text: &str, options: &SpeakOptions) -> Said {
    let began = Instant::now();
    let (mut input, speech) = engine.speak(options).expect("a stream opens");
    input.push(text).expect("text is taken");
    input.finish();
    let (mut first, mut samples) = (None, 0);
    for frame in speech {
        samples += frame.expect("a frame").samples.len();
        first.get_or_insert_with(|| began.elapsed());
    }
    let seconds = samples as f64 / f64::from(SPEECH_RATE);
    Said { took: began.elapsed(), first: first.unwrap_or_default(), seconds }
}

/// Frames that come 20 ms and more after all before them were played, and all frames. The player waits for a late frame and goes on.
fn late_frames(engine: &Engine, options: &SpeakOptions) -> (usize, usize) {
    let (mut input, speech) = engine.speak(options).expect("a stream opens");
    input.push(PASSAGE).expect("text is taken");
    input.finish();
    let (mut began, mut played, mut late, mut all) = (None, Duration::ZERO, 0, 0);
    for frame in speech {
        let frame = frame.expect("a frame");
        let began = *began.get_or_insert_with(Instant::now);
        let now = began.elapsed();
        late += usize::from(now > played + Duration::from_millis(20));
        played = now.max(played) + Duration::from_secs_f64(frame.samples.len() as f64 / f64::from(SPEECH_RATE));
        all += 1;
    }
    (late, all)
}
