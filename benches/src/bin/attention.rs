//! Time of attention on a GPU: by tiles, by products, and by a cube for each query.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use auricle_engine::DeviceChoice;
use auricle_engine::unstable::device;
use auricle_kernels::attention::relative::{KeyValueRing, RelativePositions, VisibleKeys, Way, Window, attend_by};
use auricle_kernels::cache::ring::{RowFrames, StepFrames};
use burn::tensor::{DType, Distribution, Tensor};
use clap::Parser;

/// Time of attention on a GPU in the ways that it has, over whole utterances and in steps of live streams
#[derive(Parser)]
#[command(after_help = "Example:
  cargo run --release --bin attention -- --device gpu --half")]
struct Arguments {
    /// A GPU: gpu, vulkan:N
    #[arg(long, default_value = "gpu")]
    device: DeviceChoice,
    /// Rows, heads, frames and values of a head; with relative positions if a p follows, and after so many kept frames of a stream each
    /// if @COLUMNS does [default: Whisper turbo's, Parakeet's, and steps of the streaming form of Parakeet's size]
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1x20x1500x64,8x20x1500x64,1x8x313x128p,32x8x313x128p,1x8x1x128p@70,64x8x1x128p@70,960x8x1x128p@70,1x8x14x128p@70,64x8x14x128p@70"
    )]
    shapes: Vec<Shape>,
    /// Values of 16 bits
    #[arg(long)]
    half: bool,
    /// Time of a measurement, ms
    #[arg(long, default_value_t = 100)]
    ms: u64,
}

/// The shape of a call.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    heads: usize,
    frames: usize,
    head: usize,
    has_positions: bool,
    /// Kept frames of each row's stream.
    columns: Option<usize>,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not ROWSxHEADSxFRAMESxHEAD[p][@COLUMNS]");
        let (numbers, columns) = match text.split_once('@') {
            Some((numbers, columns)) => (numbers, Some(columns.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let (numbers, has_positions) = numbers.strip_suffix('p').map_or((numbers, false), |numbers| (numbers, true));
        let numbers = numbers.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>().map_err(|_| wrong())?;
        let [rows, heads, frames, head] = numbers[..] else { return Err(wrong()) };
        Ok(Self { rows, heads, frames, head, has_positions, columns })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, heads, frames, head, has_positions, columns } = self;
        write!(out, "{rows}x{heads}x{frames}x{head}{}", if *has_positions { "p" } else { "" })?;
        columns.map_or(Ok(()), |columns| write!(out, "@{columns}"))
    }
}

/// Calls that a card is given before the program waits for it.
const CALLS: u32 = 20;

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let chosen = device::open(arguments.device)?;
    let device = &chosen.device;
    let dtype = if arguments.half { DType::F16 } else { DType::F32 };
    println!("{} ({}), {dtype:?}", chosen.info.name, chosen.info.driver);
    for &shape in &arguments.shapes {
        let Shape { rows, heads, frames, head, has_positions, columns } = shape;
        let random = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), device).cast(dtype);
        let input = || random([rows * frames, heads * head]).reshape([rows, frames, heads, head]).swap_dims(1, 2);
        let inputs = [input(), input(), input()];
        let kept = columns.unwrap_or(0);
        let positions = has_positions.then(|| RelativePositions {
            keys: random([kept + 2 * frames - 1, heads * head]),
            biases: random([2, heads * head]),
        });
        let ring = columns.map(|columns| {
            let ring = || random([rows * heads * columns, head]).reshape([rows, heads, columns, head]);
            KeyValueRing { keys: ring(), values: ring() }
        });
        let of_rows = (0..rows).map(|slot| RowFrames { slot, written: kept, new: 0..frames }).collect();
        let window = match columns {
            Some(columns) => Window::Chunks { size: frames, left: columns / frames },
            None => Window::Full,
        };
        let visible = VisibleKeys { frames: StepFrames::new(of_rows, device), window, first: 0 };
        let products = if has_positions { 3.0 } else { 2.0 };
        let flops = 2.0 * products * (rows * heads * frames * (kept + frames) * head) as f64;
        let ways = if columns.is_some() { [Way::Tiles, Way::ByQuery] } else { [Way::Tiles, Way::Products] };
        for way in ways {
            let compute = || drop(attend_by(way, inputs.clone(), ring.as_ref(), positions.as_ref(), &visible, 0.1));
            // A card that waited for kernels to compile has lowered its clock.
            for wanted in [arguments.ms, arguments.ms] {
                let (began, mut calls) = (Instant::now(), 0);
                while began.elapsed() < Duration::from_millis(wanted) {
                    (0..CALLS).for_each(|_| compute());
                    device.sync()?;
                    calls += CALLS;
                }
                let ms = began.elapsed().as_secs_f64() * 1e3 / f64::from(calls);
                println!("{shape}, {way:?}: {ms:.3} ms, {:.2} TFLOP/s", flops / ms / 1e9);
            }
        }
    }
    Ok(())
}
