//! The encoder of the published 0.6B size, 30 s of audio, on the CPU. `benches/torch_encoder.py` times the same class in
//! PyTorch.

use auricle_engine::unstable::models::fastconformer::FastConformer;
use burn::tensor::{Device, Distribution, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};

fn encoder(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    auricle_tests::write_published_size(dir.path(), 0.0).expect("a checkpoint in the temporary folder");
    let device = Device::flex();
    let model = FastConformer::load(dir.path(), &device).expect("the checkpoint that was just written");
    let features = Tensor::<3>::random([1, 3000, 128], Distribution::Normal(0.0, 1.0), &device);
    let mut group = c.benchmark_group("encoder-0.6b");
    group.sample_size(10);
    group.bench_function("30 s of audio, flex f32", |b| {
        b.iter(|| {
            let (frames, _) = model.encoder().forward(features.clone(), &[3000]).expect("30 s fit the positions");
            frames.sum().into_scalar::<f32>()
        })
    });
    group.finish();
}

criterion_group!(benches, encoder);
criterion_main!(benches);
