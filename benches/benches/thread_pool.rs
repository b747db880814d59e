//! A step of a decoder of Whisper base's size, fifty products on the thread pool: alone, beside the steps of another caller, and
//! beside a caller that holds the pool and computes on its own thread.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use auricle_kernels::product::gemv::{PackedMatrix, Precision};
use auricle_kernels::thread_pool::{self, ThreadPool};
use criterion::{Criterion, criterion_group, criterion_main};

const PRODUCTS: usize = 50;
const SIZE: usize = 512;

fn steps(c: &mut Criterion) {
    let values: Vec<f32> = (0..SIZE * 4 * SIZE).map(|at| ((at * 7919) % 101) as f32 / 101.0 - 0.5).collect();
    let matrix = PackedMatrix::new(&values, SIZE, 4 * SIZE, Precision::Int8);
    let x = &values[..SIZE];
    let step = |pool: &ThreadPool| {
        for _ in 0..PRODUCTS {
            black_box(matrix.forward(pool, x, None));
        }
    };
    let mut group = c.benchmark_group("thread_pool");
    group.bench_function("a step alone", |b| b.iter(|| thread_pool::run(step)));
    let mut beside = |name: &str, other: &(dyn Fn() + Sync)| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    other();
                }
            });
            group.bench_function(name, |b| b.iter(|| thread_pool::run(step)));
            stop.store(true, Ordering::Relaxed);
        });
    };
    beside("a step beside another's steps", &|| thread_pool::run(step));
    beside("a step beside a caller without calls", &|| thread_pool::run(|_| step(&ThreadPool::SINGLE_THREADED)));
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
