//! A few rows times a large matrix, many rows in 8 bits, one query over many keys (the sizes of Whisper base), and the pointwise part of an LSTM step
//! (the starter's), on the CPU, against burn's own operations.

use auricle_kernels::attention::single_query::cpu::KvCache;
use auricle_kernels::product::gemv::{PackedMatrix, Precision};
use auricle_kernels::product::int8::cpu::{Int8Matrix, Int8Rows};
use auricle_kernels::recurrent::lstm;
use auricle_kernels::thread_pool;
use burn::tensor::{Device, Distribution, Tensor, activation, module};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn gemv(c: &mut Criterion) {
    let device = Device::flex();
    let random = |count: usize| {
        let x = Tensor::<1>::random([count], Distribution::Normal(0.0, 1.0), &device);
        x.into_data().try_into_vec::<f32>().unwrap_or_default()
    };
    for (inputs, outputs) in [(512, 2048), (512, 51_865)] {
        let weights = random(inputs * outputs);
        let burns = Tensor::<1>::from_floats(weights.as_slice(), &device).reshape([outputs, inputs]).transpose();
        let burns = burns.clone() + burns.zeros_like();
        let mut group = c.benchmark_group(format!("gemv/{inputs}x{outputs}"));
        for count in [1, 8] {
            let x = random(count * inputs);
            for precision in [Precision::F32, Precision::Int8] {
                let matrix = PackedMatrix::new(&weights, inputs, outputs, precision);
                group.throughput(Throughput::Bytes(matrix.bytes() as u64));
                let name = format!("{count} {precision:?}");
                group.bench_function(name, |b| thread_pool::run(|pool| b.iter(|| matrix.forward(pool, &x, None))));
            }
            let x = Tensor::<1>::from_floats(x.as_slice(), &device).reshape([count, inputs]);
            group.throughput(Throughput::Bytes(4 * (inputs * outputs) as u64));
            group.bench_function(format!("{count} burn"), |b| {
                b.iter(|| module::linear(x.clone(), burns.clone(), None).into_data());
            });
        }
        group.finish();
    }
    for (inputs, outputs) in [(512, 512), (512, 2048), (2048, 512)] {
        let (x, weights) = (random(1500 * inputs), random(inputs * outputs));
        let matrix = Int8Matrix::new(&weights, inputs, outputs);
        let mut group = c.benchmark_group(format!("int8_matrix/1500x{inputs}x{outputs}"));
        group.throughput(Throughput::Elements((1500 * inputs * outputs) as u64));
        group.bench_function("rounded", |b| {
            thread_pool::run(|pool| b.iter(|| matrix.forward(pool, &Int8Rows::new(pool, &x, inputs), None)));
        });
        let burns = Tensor::<1>::from_floats(weights.as_slice(), &device).reshape([outputs, inputs]).transpose();
        let burns = burns.clone() + burns.zeros_like();
        let x = Tensor::<1>::from_floats(x.as_slice(), &device).reshape([1500, inputs]);
        group.bench_function("burn, f32", |b| {
            b.iter(|| module::linear(x.clone(), burns.clone(), None).into_data());
        });
        group.finish();
    }
    let (head, count) = (64, 1500);
    let mut caches = [Precision::F32, Precision::Int8].map(|precision| KvCache::with_capacity(head, count, precision));
    for _ in 0..count {
        let (key, value) = (random(head), random(head));
        caches.iter_mut().for_each(|seen| seen.push(&key, &value));
    }
    let (query, mut out, mut looked) = (random(head), vec![0.0; head], Vec::new());
    let mut group = c.benchmark_group("kv_cache");
    for (seen, name) in caches.iter().zip(["", " int8"]) {
        group
            .bench_function(format!("{count}x{head}{name}"), |b| b.iter(|| seen.attend(&query, &mut out, &mut looked)));
    }
    group.finish();

    let (rows, hidden) = (16, 256);
    let (gates, mut memory, mut output) = (random(4 * rows * hidden), random(rows * hidden), vec![0.0; rows * hidden]);
    let burns = Tensor::<1>::from_floats(gates.as_slice(), &device).reshape([rows, 4 * hidden]);
    let before = Tensor::<1>::from_floats(memory.as_slice(), &device).reshape([rows, hidden]);
    let mut group = c.benchmark_group("lstm");
    group.bench_function(format!("{rows}x{hidden}"), |b| {
        b.iter(|| {
            let rows = memory.chunks_exact_mut(hidden).zip(output.chunks_exact_mut(hidden));
            for (gates, (memory, output)) in gates.chunks_exact(4 * hidden).zip(rows) {
                lstm::cell(gates, memory, output);
            }
        });
    });
    group.bench_function(format!("{rows}x{hidden} burn"), |b| {
        b.iter(|| {
            let gate = |k: usize| burns.clone().narrow(1, k * hidden, hidden);
            let [input, forget, open] = [0, 1, 3].map(|k| activation::sigmoid(gate(k)));
            let memory = forget * before.clone() + input * activation::tanh(gate(2));
            (open * activation::tanh(memory.clone()), memory)
        });
    });
    group.finish();
}

criterion_group!(benches, gemv);
criterion_main!(benches);
