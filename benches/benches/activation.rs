//! SiLU and GLU as one kernel against burn's own operations, on the CPU: the sizes of the 0.6B encoder, 30 s of audio.

use auricle_kernels::activation as kernels;
use burn::tensor::{Device, Distribution, Tensor, activation};
use criterion::{Criterion, criterion_group, criterion_main};

fn activations(c: &mut Criterion) {
    let device = Device::flex();
    let read = |x: Tensor<3>| x.into_data();
    let inner = Tensor::<3>::random([1, 375, 4096], Distribution::Normal(0.0, 2.0), &device);
    let doubled = Tensor::<3>::random([1, 375, 2048], Distribution::Normal(0.0, 2.0), &device);
    let mut group = c.benchmark_group("activation");
    group.bench_function("silu/kernel", |b| b.iter(|| read(kernels::silu(inner.clone()))));
    group.bench_function("silu/burn", |b| b.iter(|| read(activation::silu(inner.clone()))));
    group.bench_function("glu/kernel", |b| b.iter(|| read(kernels::glu(doubled.clone()))));
    group.bench_function("glu/burn", |b| b.iter(|| read(activation::glu(doubled.clone(), 2))));
    group.finish();
}

criterion_group!(benches, activations);
criterion_main!(benches);
