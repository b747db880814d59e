//! The kernels of sampling, single-query attention and state caches against their CPU twins, on the CPU and on a Vulkan adapter.

use auricle_kernels::attention::single_query::{self, KeyRanges};
use auricle_kernels::cache::state::{BatchSlots, prepend, store, write_columns};
use auricle_kernels::product::gemv::{PackedMatrix, Precision};
use auricle_kernels::product::int8::Int8Matrix;
use auricle_kernels::sampling::{SamplingParams, TokenMask, TopTokens, unpack};
use auricle_kernels::thread_pool;
use auricle_tests::devices;
use burn::tensor::{Device, Tensor, TensorData, activation};

/// Uniform random numbers in [0, 1).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next() * end as f32) as usize).min(end - 1)
    }

    fn values(&mut self, count: usize, size: f32) -> Vec<f32> {
        (0..count).map(|_| (self.next() * 2.0 - 1.0) * size).collect()
    }
}

fn row(chance: &mut Chance, size: usize) -> SamplingParams {
    let from = chance.below(size);
    SamplingParams {
        masked_classes: chance.below(8) as u32,
        text_start: if chance.next() < 0.5 { 0 } else { chance.below(size) },
        timestamps: if chance.next() < 0.5 { 0..usize::MAX } else { from..from + chance.below(size) },
        prefer_timestamps: chance.next() < 0.5,
        temperature: if chance.next() < 0.6 { 0.0 } else { 0.2 + chance.next() },
        seed: (chance.next() * 4e9) as u32,
    }
}

fn assert_close(what: &str, a: f32, b: f32) {
    assert!((a - b).abs() <= 2e-4 * b.abs().max(1.0), "{what}: {a} is not {b}");
}

#[test]
fn sampling_on_a_device_equals_the_cpu_twin() {
    for (device, _) in devices() {
        let mut chance = Chance(5);
        for (size, split, count) in [(37, 20, 1), (384, 384, 3), (1030, 900, 10), (300, 299, 1), (5, 2, 4)] {
            let some = |chance: &mut Chance| (0..size / 6).map(|_| chance.below(size) as u32).collect::<Vec<_>>();
            let marked = vec![(1, some(&mut chance)), (2, some(&mut chance)), (4, vec![split as u32 - 1])];
            let mask = TokenMask::new(size, split, marked, &device);
            let rows: Vec<SamplingParams> = (0..24).map(|_| row(&mut chance, size)).collect();
            let mut scores = chance.values(rows.len() * size, 9.0);
            // Equal ones, of which the first is to be chosen.
            scores.iter_mut().step_by(7).for_each(|score| *score = 8.5);
            let tensor = Tensor::from_data(TensorData::new(scores.clone(), [rows.len(), size]), &device);
            let found = mask.top_tokens_batch(tensor, &rows, count).into_data().try_to_vec::<f32>().unwrap();
            let found = unpack(&found, count);
            assert_eq!(found.len(), rows.len());
            for ((found, row), scores) in found.iter().zip(&rows).zip(scores.chunks_mut(size)) {
                let TopTokens { tokens: best, unmasked_log_sum, stats } = mask.top_tokens(scores, row, count);
                let tokens = |best: &[(u32, f32)]| best.iter().map(|(token, _)| *token).collect::<Vec<_>>();
                assert_eq!(tokens(&found.tokens), tokens(&best), "of {size}, {row:?}");
                assert!(found.tokens.iter().zip(&best).all(|(a, b)| a.1 == b.1));
                assert_close("the unmasked sum", found.unmasked_log_sum, unmasked_log_sum);
                if !best.is_empty() {
                    assert_close("the sum", found.stats.log_sum(), stats.log_sum());
                    assert_close("the entropy", found.stats.entropy(), stats.entropy());
                }
            }
        }
    }
}

/// Sampling follows the distribution: each token's share of many draws is near its probability.
#[test]
fn samples_follow_the_distribution() {
    let (temperature, scores) = (0.7, [1.0, 0.2, -0.5, 2.0, f32::NEG_INFINITY, 0.9]);
    let mask = TokenMask::new(scores.len(), scores.len(), Vec::new(), &Device::flex());
    let weights: Vec<f32> = scores.iter().map(|score| (score / temperature).exp()).collect();
    let (sum, draws) = (weights.iter().sum::<f32>(), 20_000);
    let mut counts = [0; 6];
    for seed in 0..draws {
        let row = SamplingParams { temperature, seed: seed * 2_654_435, ..SamplingParams::greedy() };
        let best = mask.top_tokens(&mut scores.clone(), &row, 1).tokens;
        counts[best[0].0 as usize] += 1;
    }
    for (count, weight) in counts.iter().zip(weights) {
        let (share, wanted) = (*count as f32 / draws as f32, weight / sum);
        // Five deviations of a share.
        let off = 5.0 * (wanted * (1.0 - wanted) / draws as f32).sqrt();
        assert!((share - wanted).abs() <= off, "{share} is not {wanted}");
    }
}

/// One query a row over a span of keys, which may be a view, and through a cache that is filled in place.
#[test]
fn one_query_sees_its_span() {
    for (device, on_cpu) in devices() {
        let mut chance = Chance(3);
        for (rows, heads, head, columns) in
            [(3, 2, 16, 9), (2, 3, 64, 300), (1, 2, 80, 1500), (4, 1, 128, 40), (2, 1, 8, 2100)]
        {
            let mut random = |shape: [usize; 4]| {
                let values = chance.values(shape.iter().product(), 1.0);
                Tensor::<4>::from_data(TensorData::new(values, shape), &device)
            };
            let query = random([rows, 1, heads, head]).swap_dims(1, 2);
            let whole = random([rows, heads, columns + 5, head]);
            let keys = write_columns(
                whole.clone().narrow(2, 0, columns) * 1.0,
                columns - 2,
                random([rows, 2, heads, head]).swap_dims(1, 2),
            );
            let values = whole.narrow(2, 3, columns);
            let spans: Vec<_> = (0..rows).map(|row| row..columns - row / 2).collect();
            let found = single_query::attend(
                query.clone(),
                keys.clone(),
                values.clone(),
                &KeyRanges::new(spans.clone(), &device),
            );
            assert_eq!(found.dims(), [rows, 1, heads * head]);
            for (row, span) in spans.into_iter().enumerate() {
                let of = |tensor: &Tensor<4>| tensor.clone().narrow(0, row, 1).narrow(2, span.start, span.len());
                let scores = query.clone().narrow(0, row, 1).matmul(of(&keys).swap_dims(2, 3));
                let wanted = activation::softmax(scores, 3).matmul(of(&values)).reshape([1, 1, heads * head]);
                let off = (found.clone().narrow(0, row, 1) - wanted).abs().max().into_scalar::<f32>();
                assert!(off < 1e-5, "on the CPU {on_cpu}, {heads} heads of {head}, {columns} columns: {off}");
            }
        }
    }
}

/// An 8-bit matrix against its CPU twin, for one row, several rows, and more rows than one block.
#[test]
fn an_eight_bit_matrix_equals_the_cpu_twin() {
    for (device, _) in devices() {
        let mut chance = Chance(11);
        for (inputs, outputs, rows) in [(4, 1, 1), (64, 37, 3), (384, 51, 8), (132, 200, 21)] {
            let weights = chance.values(inputs * outputs, 2.0);
            let x = chance.values(rows * inputs, 1.0);
            let wanted = thread_pool::run(|pool| {
                PackedMatrix::new(&weights, inputs, outputs, Precision::Int8).forward(pool, &x, None)
            });
            let tensor = Tensor::<2>::from_data(TensorData::new(x, [rows, inputs]), &device);
            let found = Int8Matrix::new(&weights, inputs, &device).forward(tensor);
            assert_eq!(found.dims(), [rows, outputs]);
            for (found, wanted) in found.into_data().try_to_vec::<f32>().unwrap().iter().zip(&wanted) {
                assert!(
                    (found - wanted).abs() < 1e-4 * wanted.abs().max(1.0),
                    "{inputs}, {rows}: {found} is not {wanted}"
                );
            }
        }
    }
}

/// Rows in any order of slots, new columns that are not contiguous, and empty slots.
#[test]
fn slots_keep_the_last_columns() {
    for (device, _) in devices() {
        let mut chance = Chance(9);
        let (count, outer, inner) = (7, 3, 5);
        for (columns, more) in [(4, 1), (2, 6), (1, 1), (5, 5)] {
            let mut expected = chance.values(count * outer * columns * inner, 1.0);
            let shape = [count, outer, columns, inner];
            let mut kept = Tensor::<4>::from_data(TensorData::new(expected.clone(), shape), &device);
            for rows in
                [vec![(3, true), (0, false), (6, true)], vec![(0, true)], vec![(6, true), (1, true), (2, false)]]
            {
                let new = chance.values(rows.len() * more * outer * inner, 1.0);
                let shape = [rows.len(), more, outer, inner];
                let slots = BatchSlots::new(rows.clone(), &device);
                // As keys are: split into heads, and so not contiguous.
                let tensor = Tensor::<4>::from_data(TensorData::new(new.clone(), shape), &device).swap_dims(1, 2);
                let seen = prepend(&kept, &slots, tensor);
                kept = store(kept, &slots, &seen);
                assert_eq!(seen.dims(), [rows.len(), outer, columns + more, inner]);
                let mut wanted = Vec::new();
                for (row, (slot, begun)) in rows.iter().enumerate() {
                    for o in 0..outer {
                        let mut line: Vec<f32> =
                            expected[(slot * outer + o) * columns * inner..][..columns * inner].to_vec();
                        if !begun {
                            line.fill(0.0);
                        }
                        let column = |t: usize| &new[((row * more + t) * outer + o) * inner..][..inner];
                        line.extend((0..more).flat_map(column));
                        let last = &line[line.len() - columns * inner..];
                        expected[(slot * outer + o) * columns * inner..][..columns * inner].copy_from_slice(last);
                        wanted.extend(line);
                    }
                }
                assert_eq!(seen.into_data().try_to_vec::<f32>().unwrap(), wanted, "{columns} and {more}");
                assert_eq!(kept.clone().into_data().try_to_vec::<f32>().unwrap(), expected, "{columns} and {more}");
            }
        }
    }
}
