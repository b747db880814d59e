//! Time of matrix products on a GPU, by how they are divided.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use auricle_engine::DeviceChoice;
use auricle_engine::unstable::device;
use auricle_kernels::launches::count;
use auricle_kernels::product::float::UnitTile;
use auricle_kernels::product::float::{Division, MOST_ROWS, Tile, divided_product};
use auricle_kernels::recording::Recording;
use burn::tensor::{DType, Distribution, Tensor};
use clap::Parser;

/// Time of matrix products on a GPU, by how they are divided
///
/// Prints the fastest divisions of each shape, and that which the engine takes.
#[derive(Parser)]
#[command(after_help = "Example:
  cargo run --release --bin products -- --device gpu --rows 1,64,240")]
struct Arguments {
    /// A GPU: gpu, vulkan:N
    #[arg(long, default_value = "gpu")]
    device: DeviceChoice,
    /// Numbers of rows
    #[arg(long, value_delimiter = ',', default_value = "1,8,16,64,240,960,3360")]
    rows: Vec<usize>,
    /// Depths and numbers of columns of the weights
    #[arg(long, value_delimiter = ',', default_value = "1024x1024,1024x3072,1024x4096,4096x1024")]
    shapes: Vec<String>,
    /// Values of 16 bits
    #[arg(long)]
    half: bool,
    /// Divisions to print of each shape
    #[arg(long, default_value_t = 3)]
    best: usize,
    /// Print all divisions
    #[arg(long)]
    all: bool,
    /// Time that a division runs before it is measured, ms
    #[arg(long, default_value_t = 100)]
    warm_ms: u64,
    /// Time of a division's measurement, ms
    #[arg(long, default_value_t = 20)]
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
        let (depth, columns) = shape.split_once('x').ok_or("a shape is DEPTHxCOLUMNS")?;
        let (depth, columns): (usize, usize) = (depth.parse()?, columns.parse()?);
        for &rows in &arguments.rows {
            let random =
                |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), device).cast(dtype);
            // More weights than a cache holds, as in a model.
            let copies = (200_000_000 / (depth * columns * dtype.size())).clamp(1, 24);
            let x = random([rows, depth]);
            let weights: Vec<_> = (0..copies).map(|_| random([depth, columns])).collect();
            device.sync()?;
            let mut times = Vec::new();
            for division in divisions(rows, arguments.half) {
                let (_, launches) = count(|| divided_product(x.clone(), weights[0].clone(), division));
                // Another division computes the product if the card or the shape does not fit.
                let by_kernel = launches.by_kernel();
                let has = |kernel: &str| by_kernel.iter().any(|(name, _)| name.contains(kernel));
                let fell_back = match division {
                    Division::Units(_) => !has("ProductKernel"),
                    Division::Matrix => has("TilesKernel") || has("ColumnsKernel"),
                    Division::Vectors { .. } => !has("VectorsKernel"),
                    Division::Columns { .. } | Division::Tiles(_) => false,
                };
                if fell_back {
                    continue;
                }
                // Repetitions of a record, as launches cost the host more than small products take.
                let products = || {
                    let product = |weight: &Tensor<2>| divided_product(x.clone(), weight.clone(), division);
                    weights.iter().map(product).collect::<Vec<_>>()
                };
                let record = Recording::new(Tensor::from_data([0], device), |_| products());
                let run = || {
                    match &record {
                        Some(record) => drop(record.repeat(vec![0]).expect("a repetition")),
                        None => drop(products()),
                    }
                    device.sync()
                };
                // A card that waited for kernels to compile has lowered its clock.
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(arguments.warm_ms) {
                    run()?;
                }
                let (began, mut calls) = (Instant::now(), 0);
                while calls < 3 || (began.elapsed() < Duration::from_millis(arguments.ms) && calls < 200) {
                    run()?;
                    calls += copies;
                }
                let time = began.elapsed().as_secs_f64() * 1e6 / calls as f64;
                times.push((time, division));
            }
            times.sort_by(|a, b| a.0.total_cmp(&b.0));
            let flops = 2.0 * rows as f64 * depth as f64 * columns as f64;
            let shape = [rows, depth, columns];
            let time_of = |taken| times.iter().find(|(_, division)| *division == taken).map(|(time, _)| *time);
            // On a device without matrix units the engine divides by hand.
            let taken = time_of(Division::of(shape, dtype)).or_else(|| time_of(Division::without_units(shape)));
            println!("{rows} x {depth} x {columns}: the engine's {:.1} us", taken.unwrap_or(f64::NAN));
            let shown = if arguments.all { times.len() } else { arguments.best };
            for (time, division) in times.iter().take(shown) {
                println!("  {time:8.1} us {:6.2} TFLOP/s {division:?}", flops / time / 1e6);
            }
        }
    }
    Ok(())
}

/// Divisions that may be good for so many rows.
fn divisions(rows: usize, half: bool) -> Vec<Division> {
    let mut all = Vec::new();
    if rows <= 64 {
        all.extend([128, 256, 512].map(|units| Division::Vectors { units }));
    }
    if rows <= MOST_ROWS {
        all.extend([4, 8, 16, 32].map(|columns| Division::Columns { columns }));
    }
    let tiles: &[[usize; 6]] = match rows {
        ..=8 => &[[8, 32, 1, 4, 4, 16], [16, 32, 2, 4, 4, 16], [16, 16, 2, 2, 4, 16]],
        9..=32 => &[
            [16, 32, 2, 4, 4, 16],
            [16, 64, 4, 4, 4, 8],
            [32, 32, 4, 4, 4, 8],
            [32, 32, 4, 4, 4, 16],
            [32, 32, 4, 2, 2, 16],
            [16, 16, 2, 2, 4, 16],
            [16, 32, 4, 4, 8, 8],
        ],
        33..=128 => &[
            [32, 32, 4, 4, 4, 8],
            [32, 32, 4, 4, 4, 16],
            [32, 32, 4, 2, 2, 16],
            [64, 32, 4, 4, 2, 16],
            [64, 32, 8, 4, 4, 8],
            [64, 64, 8, 4, 2, 8],
            [64, 64, 4, 4, 1, 16],
            [64, 64, 8, 8, 4, 4],
            [32, 64, 4, 8, 4, 8],
            [64, 64, 8, 8, 4, 8],
        ],
        _ => &[
            [64, 32, 4, 4, 2, 16],
            [64, 64, 8, 4, 2, 8],
            [64, 64, 4, 4, 1, 16],
            [64, 64, 8, 8, 4, 4],
            [64, 64, 8, 8, 2, 8],
            [64, 64, 8, 8, 1, 16],
            [128, 64, 8, 8, 1, 16],
            [128, 64, 8, 8, 2, 8],
            [128, 128, 8, 8, 1, 8],
            [128, 128, 8, 8, 1, 16],
            [128, 128, 16, 8, 1, 8],
        ],
    };
    all.extend(tiles.iter().map(|[rows, columns, unit_rows, unit_columns, groups, depth]| {
        Division::Tiles(Tile {
            rows: *rows,
            columns: *columns,
            unit_rows: *unit_rows,
            unit_columns: *unit_columns,
            groups: *groups,
            depth: *depth,
        })
    }));
    if half {
        let unit_tiles = [
            [64, 64, 32, 2, 2, 2],
            [64, 128, 32, 2, 2, 2],
            [128, 64, 32, 4, 1, 2],
            [128, 128, 32, 2, 2, 1],
            [128, 128, 32, 2, 2, 2],
            [128, 128, 32, 2, 4, 2],
            [128, 128, 64, 2, 2, 1],
            [128, 256, 32, 2, 4, 1],
            [256, 128, 32, 4, 2, 1],
        ];
        all.extend(unit_tiles.map(|[rows, columns, depth, planes_down, planes_along, buffers]| {
            Division::Units(UnitTile { rows, columns, depth, planes_down, planes_along, buffers })
        }));
        all.push(Division::Matrix);
    }
    all
}
