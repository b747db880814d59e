//! Voice activity detection over half a minute of audio: a file's blocks, live steps of one stream, and of many together.
//!
//! `taskset -c 0 cargo bench --workspace --bench detector`: on one core. The throughput is in samples; 16,000 a second
//! is real time.

use auricle_engine::unstable::models::silero::{CHUNK, Silero, VadState};
use auricle_engine::unstable::vad::stream::VadStream;
use auricle_engine::{Error, audio::BLOCK};
use criterion::{Criterion, Throughput};

const SAMPLES: usize = 938 * CHUNK;
const STREAMS: usize = 32;

fn main() -> Result<(), Error> {
    let audio: Vec<f32> =
        (0..SAMPLES).map(|point| (point as f32 * 0.05).sin() * (point as f32 * 0.0003).cos()).collect();
    let detector = Silero::load(&auricle_tests::fixtures().join("silero"))?;
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("detector");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    for (name, size) in [("whole", SAMPLES), ("blocks-500ms", BLOCK), ("live-32ms", CHUNK)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut listener = VadStream::new(&detector);
                audio
                    .chunks(size)
                    .map(|piece| listener.push(piece).map_or(0, |probabilities| probabilities.len()))
                    .sum::<usize>()
            });
        });
    }
    group.throughput(Throughput::Elements((STREAMS * SAMPLES) as u64));
    group.sample_size(10).bench_function("32-streams-live-32ms", |bencher| {
        bencher.iter(|| {
            let mut memories = vec![VadState::default(); STREAMS];
            audio
                .chunks(CHUNK)
                .map(|piece| {
                    detector
                        .probabilities(&[piece; STREAMS], &mut memories)
                        .map_or(0, |probabilities| probabilities.len())
                })
                .sum::<usize>()
        });
    });
    group.finish();
    criterion.final_summary();
    Ok(())
}
