//! Time of attention over whole utterances on a GPU, in one kernel and by products.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use auricle_engine::DeviceChoice;
use auricle_engine::unstable::device;
use auricle_kernels::frame_ring::StepFrames;
use auricle_kernels::fused_attention::{RelativePositions, VisibleKeys, Way, Window, attention_by};
use burn::tensor::{DType, Distribution, Tensor};
use clap::Parser;

/// Time of attention over whole utterances on a GPU, in one kernel and by products
#[derive(Parser)]
#[command(after_help = "Example:
  cargo run --release --bin attention -- --device gpu --half")]
struct Arguments {
    /// A GPU: gpu, vulkan:N
    #[arg(long, default_value = "gpu")]
    device: DeviceChoice,
    /// Rows, heads, frames and values of a head; with relative positions if a p follows [default: Whisper turbo's and Parakeet's]
    #[arg(long, value_delimiter = ',', default_value = "1x20x1500x64,8x20x1500x64,1x8x313x128p,32x8x313x128p")]
    shapes: Vec<String>,
    /// Values of 16 bits
    #[arg(long)]
    half: bool,
    /// Time of a measurement, ms
    #[arg(long, default_value_t = 100)]
    ms: u64,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let chosen = device::open(arguments.device)?;
    let device = &chosen.device;
    let dtype = if arguments.half { DType::F16 } else { DType::F32 };
    println!("{} ({}), {dtype:?}", chosen.info.name, chosen.info.driver);
    for shape in &arguments.shapes {
        let (numbers, has_positions) = match shape.strip_suffix('p') {
            Some(numbers) => (numbers, true),
            None => (shape.as_str(), false),
        };
        let numbers = numbers.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
        let [rows, heads, frames, head] = numbers[..] else {
            return Err(format!("{shape} is not ROWSxHEADSxFRAMESxHEAD").into());
        };
        let random = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), device).cast(dtype);
        let input = || random([rows * frames, heads * head]).reshape([rows, frames, heads, head]).swap_dims(1, 2);
        let inputs = [input(), input(), input()];
        let positions = has_positions.then(|| RelativePositions {
            keys: random([2 * frames - 1, heads * head]),
            biases: random([2, heads * head]),
        });
        let frames_of = StepFrames::alone(rows, 0..frames, device);
        let visible = VisibleKeys { frames: frames_of, window: Window::Full, first: 0 };
        let products = if has_positions { 3.0 } else { 2.0 };
        let flops = 2.0 * products * (rows * heads * frames * frames * head) as f64;
        for way in [Way::OneKernel, Way::Products] {
            let compute = || drop(attention_by(way, inputs.clone(), None, positions.as_ref(), &visible, 0.1));
            // A card that waited for kernels to compile has lowered its clock.
            for wanted in [arguments.ms, arguments.ms] {
                let (began, mut calls) = (Instant::now(), 0);
                while calls < 3 || began.elapsed() < Duration::from_millis(wanted) {
                    compute();
                    device.sync()?;
                    calls += 1;
                }
                let ms = began.elapsed().as_secs_f64() * 1e3 / f64::from(calls);
                println!("{shape}, {way:?}: {ms:.3} ms, {:.2} TFLOP/s", flops / ms / 1e9);
            }
        }
    }
    Ok(())
}
