//! Kernels of attention, GELU and few rows against burn's own operations, for shapes of every kind.

use auricle_kernels::attention::full;
use auricle_kernels::attention::single_query::cpu::PagedKvCache;
use auricle_kernels::product::gemv::{PackedMatrix, Precision};
use auricle_kernels::{activation as kernels, thread_pool};
use auricle_tests::{Oracle, devices};
use burn::tensor::{Device, Distribution, Tensor, activation};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn close<const D: usize>(what: &str, ours: Tensor<D>, burns: Tensor<D>, tolerance: f32) {
    assert_eq!(ours.dims(), burns.dims(), "{what}");
    let worst = (ours - burns).abs().max().into_scalar::<f32>();
    assert!(worst <= tolerance, "{what}: {worst}");
}

#[test]
fn gelu_equals_burns_for_any_shape() {
    for (device, _) in devices() {
        for shape in [[1, 1, 1], [2, 7, 33], [1, 3, 70_000]] {
            let x = Tensor::<3>::random(shape, Distribution::Normal(0.0, 4.0), &device);
            close("gelu", kernels::gelu(x.clone()), activation::gelu(x.clone()), 1e-6);
            let turned = x.swap_dims(1, 2);
            close("turned", kernels::gelu(turned.clone()), activation::gelu(turned), 1e-6);
        }
    }
    let ends = Tensor::<1>::from_floats([-1e30, -30.0, 0.0, 30.0, 1e30], &Device::flex());
    let out = Oracle::values(kernels::gelu(ends));
    assert_eq!(out[2..], [0.0, 30.0, 1e30]);
    assert!(out[0].abs() < 1e-30 && out[1].abs() < 1e-30, "{out:?}");
}

#[test]
fn attention_is_softmax_of_products() {
    for (device, on_cpu) in devices() {
        for [rows, queries, keys, heads, head] in
            [[1, 1, 1, 1, 1], [2, 5, 7, 3, 10], [1, 200, 150, 2, 64], [1, 97, 96, 1, 8], [3, 4, 0, 1, 8]]
        {
            if keys == 0 && !on_cpu {
                continue;
            }
            let size = heads * head;
            let query = random([rows, queries, size], &device);
            let (key, value) = (random([rows, keys, size], &device), random([rows, keys, size], &device));
            let ours = full::attend(query.clone(), key.clone(), value.clone(), heads);
            if keys == 0 {
                assert!(Oracle::values(ours).iter().all(|value| *value == 0.0));
                continue;
            }
            let split = |x: Tensor<3>| {
                let count = x.dims()[1];
                x.reshape([rows, count, heads, head]).swap_dims(1, 2)
            };
            let scores = split(query).matmul(split(key).swap_dims(2, 3));
            let burns = activation::softmax(scores, 3).matmul(split(value));
            let burns = burns.swap_dims(1, 2).reshape([rows, queries, size]);
            close(&format!("{rows} {queries} {keys} {heads} {head}"), ours, burns, 1e-4);
        }
    }
}

#[test]
fn gemv_of_a_few_rows_equals_burns_product() {
    let device = Device::flex();
    for [inputs, outputs] in [[1, 1], [3, 32], [40, 33], [64, 1000], [385, 70]] {
        let weights = random([outputs, inputs], &device);
        let values = Oracle::values(weights.clone());
        let bias = random([outputs], &device);
        for rows in [1, 2, 3, 5, 8, 9, 20] {
            let x = random([rows, inputs], &device);
            for precision in [Precision::F32, Precision::Int8] {
                let matrix = PackedMatrix::new(&values, inputs, outputs, precision);
                assert_eq!((matrix.inputs(), matrix.outputs()), (inputs, outputs));
                let kept: Vec<f32> = (0..outputs).flat_map(|output| matrix.output(output)).collect();
                let kept = Tensor::<1>::from_floats(kept.as_slice(), &device).reshape([outputs, inputs]);
                let x_values = Oracle::values(x.clone());
                let ours =
                    thread_pool::run(|pool| matrix.forward(pool, &x_values, Some(&Oracle::values(bias.clone()))));
                let ours = Tensor::<1>::from_floats(ours.as_slice(), &device).reshape([rows, outputs]);
                let burns = x.clone().matmul(kept.clone().transpose()) + bias.clone().unsqueeze();
                close(&format!("{rows} rows, {inputs} x {outputs}, {precision:?}"), ours, burns, 2e-4);
                match precision {
                    Precision::F32 | Precision::F16 => assert_eq!(Oracle::values(kept), values),
                    // Half a quantization step of an output's largest weight.
                    Precision::Int8 | Precision::Int4 => {
                        let step = weights.clone().abs().max_dim(1) / 254.0 * 1.001;
                        let off = (kept - weights.clone()).abs() - step.expand([outputs, inputs]);
                        assert!(off.max().into_scalar::<f32>() <= 0.0, "{inputs} x {outputs}");
                    }
                }
            }
        }
    }
    let nought = PackedMatrix::new(&[0.0; 64], 2, 32, Precision::Int8);
    assert_eq!(thread_pool::run(|pool| nought.forward(pool, &[1.0, 2.0], None)), [0.0; 32]);
}

#[test]
fn one_query_sees_all_keys_so_far() {
    let device = Device::flex();
    for head in [1, 10, 32, 64, 80] {
        let mut seen = PagedKvCache::new(head);
        let (keys, values) = (random([100, head], &device), random([100, head], &device));
        let (mut out, mut looked) = (vec![0.0; head], Vec::new());
        for count in 1..=100 {
            let row = |all: &Tensor<2>| Oracle::values(all.clone().narrow(0, count - 1, 1));
            seen.push(&row(&keys), &row(&values));
            assert_eq!(seen.count(), count);
            if ![1, 2, 31, 32, 33, 64, 100].contains(&count) {
                continue;
            }
            let query = random([1, head], &device);
            seen.attend(&Oracle::values(query.clone()), &mut out, &mut looked);
            let weights = activation::softmax(query.matmul(keys.clone().narrow(0, 0, count).transpose()), 1);
            let burns = weights.clone().matmul(values.clone().narrow(0, 0, count));
            let tensor = |values: &[f32]| Tensor::<1>::from_floats(values, &device).reshape([1, values.len()]);
            close(&format!("{count} keys of {head}"), tensor(&out), burns, 1e-4);
            close(&format!("looked at {count}"), tensor(&looked), weights, 1e-5);
        }
    }
}
