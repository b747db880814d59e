//! Log-mel frames of half a minute of audio: the plain Rust twin, the same in burn's operations, and the GPU kernel.
//!
//! `taskset -c 0 cargo bench --workspace --bench logmel`: on one core. The throughput is in samples; 16,000 a
//! second is real time.

use auricle_kernels::spectral::logmel::{LogMel, LogMelByMatmul, LogMelConfig, LogMelError, LogMelStream, logmel_cpu};
use burn::tensor::{Device, DeviceKind, Tensor, TensorData};
use criterion::{BenchmarkId, Criterion, Throughput};

const SAMPLES: usize = 480_000;

fn front_ends() -> [(&'static str, LogMelConfig); 3] {
    [
        ("parakeet80", LogMelConfig::parakeet(80)),
        ("nemotron128", LogMelConfig::nemotron(128)),
        ("whisper80", LogMelConfig::whisper(80)),
    ]
}

fn main() -> Result<(), LogMelError> {
    let audio: Vec<f32> =
        (0..SAMPLES).map(|point| (point as f32 * 0.05).sin() * (point as f32 * 0.0003).cos()).collect();
    let mut criterion = Criterion::default().configure_from_args();
    cpu(&mut criterion, &audio)?;
    stream(&mut criterion, &audio)?;
    devices(&mut criterion, &audio)?;
    criterion.final_summary();
    Ok(())
}

/// The twin on slices.
fn cpu(criterion: &mut Criterion, audio: &[f32]) -> Result<(), LogMelError> {
    let mut group = criterion.benchmark_group("logmel/cpu");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    for (name, config) in front_ends() {
        let front_end = LogMel::new(config, &Device::flex())?;
        group.bench_function(name, |bencher| bencher.iter(|| logmel_cpu(&front_end, audio)));
    }
    group.finish();
    Ok(())
}

/// The twin, 80 ms a push.
fn stream(criterion: &mut Criterion, audio: &[f32]) -> Result<(), LogMelError> {
    let mut group = criterion.benchmark_group("logmel/stream-80ms");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    let front_end = LogMel::new(LogMelConfig::nemotron(128), &Device::flex())?;
    let mut stream = LogMelStream::new(&front_end)?;
    group.bench_function("nemotron128", |bencher| {
        bencher.iter(|| {
            let mut values = 0;
            for samples in audio.chunks(1_280) {
                values += stream.push(samples).len();
            }
            values + stream.finish().len()
        });
    });
    group.finish();
    Ok(())
}

/// Kernel and burn operations on tensors, read-back included.
fn devices(criterion: &mut Criterion, audio: &[f32]) -> Result<(), LogMelError> {
    use DeviceKind::{Cpu, DiscreteGpu, IntegratedGpu, VirtualGpu};
    let adapter = [DiscreteGpu(0), IntegratedGpu(0), VirtualGpu(0), Cpu]
        .into_iter()
        .find_map(|kind| Device::wgpu_options().device_kind(kind).init().ok());
    for (place, device) in [("flex", Some(Device::flex())), ("wgpu", adapter)] {
        let Some(device) = device else {
            println!("skipped: no Vulkan driver found (Debian: apt-get install mesa-vulkan-drivers libvulkan1)");
            continue;
        };
        let mut group = criterion.benchmark_group(format!("logmel/{place}"));
        group.throughput(Throughput::Elements(SAMPLES as u64)).sample_size(10);
        let tensor: Tensor<2> = Tensor::from_data(TensorData::new(audio.to_vec(), [1, SAMPLES]), &device);
        for (name, config) in front_ends() {
            let front_end = LogMel::new(config, &device)?;
            let by_matmul = LogMelByMatmul::new(&front_end, &device);
            group.bench_function(BenchmarkId::new("kernel", name), |bencher| {
                bencher
                    .iter(|| front_end.forward(tensor.clone(), &[SAMPLES]).map(|features| features.mels.into_data()));
            });
            group.bench_function(BenchmarkId::new("matmul", name), |bencher| {
                bencher
                    .iter(|| by_matmul.forward(tensor.clone(), &[SAMPLES]).map(|features| features.mels.into_data()));
            });
        }
        group.finish();
    }
    Ok(())
}
