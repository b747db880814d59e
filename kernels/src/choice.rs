//! Which token comes next: the likeliest ones, or one drawn by its chance, of those that may be written.
//!
//! Tokens are of two kinds, told apart by their number: those before a table's `split` and those from it on (timestamps, or
//! none). On a GPU one cube looks at one row of scores, so that a few values a row are all that is read back; the twin in
//! plain Rust takes a row at a time.

use std::ops::Range;
use std::sync::Arc;

use burn::backend::Dispatch;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, backend_extension};
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::spread::Spread;

/// Values of a row's rules, as the kernel reads them.
const RULES: usize = 8;
/// Values of a row's outcome before its tokens: the sum before the rules, and the spread after them.
const FACTS: usize = 4;

/// Which tokens are marked, and where the second kind begins.
#[derive(Clone, Debug)]
pub struct Table {
    lists: Arc<Lists>,
    /// `[tokens]`: the marks of each.
    marks: Tensor<1, Int>,
}

#[derive(Debug)]
struct Lists {
    marked: Vec<(u32, Vec<u32>)>,
    split: usize,
}

/// What may be chosen in a row of scores, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Tokens with any of these marks may not.
    pub marks: u32,
    /// Of the first kind: those before it may not.
    pub first: usize,
    /// Of the second kind: only those may.
    pub second: Range<usize>,
    /// Where all of the second kind that may are together likelier than any of the first, it is one of them.
    pub together: bool,
    /// 0: the likeliest. Above it one is drawn, the more evenly the larger it is.
    pub temperature: f32,
    /// What chance begins with.
    pub seed: u32,
}

/// What was found in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Tokens and their scores, the best first, of equals the first; fewer where fewer may be chosen, or where scores are no
    /// numbers.
    pub best: Vec<(u32, f32)>,
    /// The logarithm of the sum of `e^score` over all tokens, whether they may be chosen or not; 0 where one alone is asked for.
    pub before: f32,
    /// The spread of those that may be chosen.
    pub spread: Spread,
}

impl Row {
    /// Everything may be chosen, and the likeliest is.
    pub fn open() -> Self {
        Self { marks: 0, first: 0, second: 0..usize::MAX, together: false, temperature: 0.0, seed: 0 }
    }

    fn packed(&self, size: usize) -> [f32; RULES] {
        let (from, to) = (self.second.start.min(size), self.second.end.min(size));
        [
            self.marks as f32,
            self.first.min(size) as f32,
            from as f32,
            to as f32,
            f32::from(u8::from(self.together)),
            self.temperature,
            (self.seed >> 16) as f32,
            (self.seed & 0xffff) as f32,
        ]
    }

    /// What a token is ranked by.
    fn value(&self, token: usize, score: f32) -> f32 {
        if self.temperature > 0.0 {
            // The largest of scores with Gumbel noise is a draw by their chances.
            score / self.temperature - (-chance(self.seed, token as u32).ln()).ln()
        } else {
            score
        }
    }
}

/// A number above 0 and below 1 that depends on both evenly.
fn chance(seed: u32, token: u32) -> f32 {
    let mut x = token.wrapping_mul(0x9e37_79b9) ^ seed;
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^= x >> 16;
    ((x >> 9) as f32 + 0.5) / (1 << 23) as f32
}

impl Table {
    /// A table of `size` tokens of which those from `split` on are of the second kind; `marked` are marks (bits) and the tokens
    /// that have them.
    pub fn new(size: usize, split: usize, marked: Vec<(u32, Vec<u32>)>, device: &Device) -> Self {
        let mut marks = vec![0i32; size];
        for (mark, tokens) in &marked {
            for token in tokens {
                if let Some(marks) = marks.get_mut(*token as usize) {
                    *marks |= *mark as i32;
                }
            }
        }
        let marks = Tensor::from_data(TensorData::new(marks, [size]), device);
        Self { lists: Arc::new(Lists { marked, split }), marks }
    }

    /// How many tokens there are.
    pub fn size(&self) -> usize {
        self.marks.dims()[0]
    }

    /// Takes the chance from what may not be chosen in `scores` `[tokens]`.
    pub fn forbid(&self, scores: &mut [f32], row: &Row) {
        self.lists.forbid(scores, row);
    }

    /// The `count` best of one row of scores `[tokens]`, which are changed as by [`Table::forbid`].
    pub fn choose(&self, scores: &mut [f32], row: &Row, count: usize) -> Choice {
        self.lists.choose(scores, row, count)
    }

    /// The `count` best of each row of `scores` `[rows, tokens]`, to be [unpacked](unpack) once they are read.
    pub fn choose_all(&self, scores: Tensor<2>, rows: &[Row], count: usize) -> Tensor<2> {
        let size = scores.dims()[1];
        let packed: Vec<f32> = rows.iter().flat_map(|row| row.packed(size)).collect();
        let packed = Tensor::<2>::from_data(TensorData::new(packed, [rows.len(), RULES]), &scores.device());
        let job = Job { lists: self.lists.clone(), rows: rows.to_vec(), count };
        Tensor::from_dispatch(Dispatch::choose_rows(
            scores.into_dispatch(),
            self.marks.clone().into_dispatch(),
            packed.into_dispatch(),
            job,
        ))
    }
}

/// What [`Table::choose_all`] found for each row.
pub fn unpack(values: &[f32], count: usize) -> Vec<Choice> {
    let choice = |row: &[f32]| {
        let (facts, best) = row.split_at(FACTS);
        let found = best.as_chunks::<2>().0.iter().take_while(|[token, _]| *token >= 0.0);
        Choice {
            best: found.map(|[token, score]| (*token as u32, *score)).collect(),
            before: if count > 1 { facts[0] } else { 0.0 },
            spread: Spread { most: facts[1], sum: facts[2], weighted: facts[3] },
        }
    };
    values.chunks_exact(FACTS + 2 * count).map(choice).collect()
}

impl Lists {
    fn forbid(&self, scores: &mut [f32], row: &Row) {
        let size = scores.len();
        for (_, tokens) in self.marked.iter().filter(|(mark, _)| mark & row.marks != 0) {
            for token in tokens {
                if let Some(score) = scores.get_mut(*token as usize) {
                    *score = NEVER;
                }
            }
        }
        let split = self.split.min(size);
        let (first, second) = scores.split_at_mut(split);
        first[..row.first.min(split)].fill(NEVER);
        let from = row.second.start.clamp(split, size);
        let to = row.second.end.clamp(from, size);
        second[..from - split].fill(NEVER);
        second[to - split..].fill(NEVER);
        if row.together {
            let most = second.iter().copied().fold(NEVER, f32::max);
            if most > NEVER {
                let sum = second.iter().map(|score| (score - most).exp()).sum::<f32>();
                if most + sum.ln() > first.iter().copied().fold(NEVER, f32::max) {
                    first.fill(NEVER);
                }
            }
        }
    }

    fn choose(&self, scores: &mut [f32], row: &Row, count: usize) -> Choice {
        let before = if count > 1 { Spread::of(scores).log_sum() } else { 0.0 };
        self.forbid(scores, row);
        let spread = Spread::of(scores);
        let mut best = Best { found: Vec::with_capacity(count + 1), least: NEVER, count };
        // What has no chance is not among them.
        if row.temperature > 0.0 {
            let some = scores.iter().enumerate().filter(|(_, score)| **score > NEVER);
            some.for_each(|(token, score)| best.consider(token, row.value(token, *score)));
        } else {
            scores.iter().enumerate().for_each(|(token, score)| best.consider(token, *score));
        }
        let best = best.found;
        Choice { best: best.into_iter().map(|(_, token)| (token as u32, scores[token])).collect(), before, spread }
    }
}

/// The tokens of the largest values, the largest first; of equals the first.
struct Best {
    found: Vec<(f32, usize)>,
    /// What is not above it is not among them.
    least: f32,
    count: usize,
}

impl Best {
    #[inline(always)]
    fn consider(&mut self, token: usize, value: f32) {
        if value > self.least {
            let place = self.found.iter().take_while(|(other, _)| *other >= value).count();
            self.found.insert(place, (value, token));
            self.found.truncate(self.count);
            self.least = if self.found.len() == self.count { self.found[self.count - 1].0 } else { NEVER };
        }
    }
}

const NEVER: f32 = f32::NEG_INFINITY;

/// One call's parameters.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    lists: Arc<Lists>,
    rows: Vec<Row>,
    count: usize,
}

#[backend_extension(Flex, Cube: cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
pub(crate) trait ChoiceOps: Backend {
    /// `scores` `[rows, tokens]`, `marks` `[tokens]`, `rows` `[rows, RULES]` to `[rows, FACTS + 2 count]`.
    fn choose_rows(
        scores: FloatTensor<Self>,
        marks: IntTensor<Self>,
        rows: FloatTensor<Self>,
        job: Job,
    ) -> FloatTensor<Self>;
}

impl ChoiceOps for Flex {
    fn choose_rows(
        scores: FloatTensor<Self>,
        _marks: IntTensor<Self>,
        _rows: FloatTensor<Self>,
        job: Job,
    ) -> FloatTensor<Self> {
        use burn::backend::TensorMetadata;

        let size = scores.shape()[1];
        let scores = if scores.is_contiguous() { scores } else { scores.to_contiguous() };
        let scores = scores.as_slice::<f32>().unwrap_or_default();
        let width = FACTS + 2 * job.count;
        let mut out = Vec::with_capacity(job.rows.len() * width);
        for (row, scores) in job.rows.iter().zip(scores.chunks_exact(size.max(1))) {
            let found = job.lists.choose(&mut scores.to_vec(), row, job.count);
            out.extend([found.before, found.spread.most, found.spread.sum, found.spread.weighted]);
            out.extend(found.best.iter().flat_map(|(token, score)| [*token as f32, *score]));
            out.extend([-1.0, 0.0].into_iter().cycle().take(2 * (job.count - found.best.len())));
        }
        crate::vectors::tensor(out, [job.rows.len(), width].into())
    }
}

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::{ChoiceOps, FACTS, Job, RULES};
    use crate::reduce::{largest, total};

    /// Units of a cube: a power of two.
    const UNITS: usize = 256;
    /// What is below every score that counts; shaders have no infinity.
    const LEAST: f32 = -3.0e38;

    impl ChoiceOps for Cube {
        fn choose_rows(
            scores: FloatTensor<Self>,
            marks: IntTensor<Self>,
            rows: FloatTensor<Self>,
            job: Job,
        ) -> FloatTensor<Self> {
            let (client, device) = (scores.client.clone(), scores.device());
            let shape = [job.rows.len(), FACTS + 2 * job.count].into();
            let out = Self::float_empty(shape, &device, FloatDType::F32);
            choose_kernel::launch(
                &client,
                CubeCount::Static(job.rows.len() as u32, 1, 1),
                CubeDim::new_1d(UNITS as u32),
                scores.into_tensor_arg(),
                marks.into_tensor_arg(),
                rows.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                job.lists.split as u32,
                job.count as u32,
            );
            out
        }
    }

    /// What may be chosen in a row; the fields of [`super::Row`].
    #[derive(CubeType, Clone, Copy)]
    struct Rules {
        marks: i32,
        first: usize,
        from: usize,
        to: usize,
        split: usize,
    }

    /// One cube a row: see [`super::Table::choose_all`].
    #[cube(launch)]
    fn choose_kernel(
        scores: &Tensor<f32>,
        marks: &Tensor<i32>,
        rows: &Tensor<f32>,
        out: &mut Tensor<f32>,
        split: u32,
        count: u32,
    ) {
        let mut values = Shared::<[f32]>::new_slice(UNITS);
        let mut tokens = Shared::<[u32]>::new_slice(UNITS);
        let unit = UNIT_POS as usize;
        let row = CUBE_POS_X as usize;
        let (base, step, size) = (row * scores.stride(0), scores.stride(1), scores.shape(1));
        let rules_at = row * RULES;
        let rules = Rules {
            marks: i32::cast_from(rows[rules_at]),
            first: u32::cast_from(rows[rules_at + 1]) as usize,
            from: u32::cast_from(rows[rules_at + 2]) as usize,
            to: u32::cast_from(rows[rules_at + 3]) as usize,
            split: split as usize,
        };
        let together = rows[rules_at + 4] > f32::new(0.5);
        let temperature = rows[rules_at + 5];
        let seed = u32::cast_from(rows[rules_at + 6]) * 65536u32 + u32::cast_from(rows[rules_at + 7]);

        // The largest score of all, and of each kind of those that may be chosen.
        let mut most = f32::new(LEAST);
        let mut most_first = f32::new(LEAST);
        let mut most_second = f32::new(LEAST);
        let mut token = unit;
        while token < size {
            let score = scores[base + token * step];
            most = max(most, score);
            if may(marks, &rules, token) {
                if token < rules.split {
                    most_first = max(most_first, score);
                } else {
                    most_second = max(most_second, score);
                }
            }
            token += UNITS;
        }
        let most = largest(&mut values, most, UNITS);
        let most_first = largest(&mut values, most_first, UNITS);
        let most_second = largest(&mut values, most_second, UNITS);

        let mut all = f32::new(0.0);
        let mut second = f32::new(0.0);
        token = unit;
        while token < size {
            let score = scores[base + token * step];
            all += (score - most).exp();
            if token >= rules.split && may(marks, &rules, token) {
                second += (score - most_second).exp();
            }
            token += UNITS;
        }
        let all = total(&mut values, all, UNITS);
        let second = total(&mut values, second, UNITS);
        let mut lowest = rules.first;
        let mut most_left = max(most_first, most_second);
        if together && most_second > f32::new(LEAST) && most_second + second.ln() > most_first {
            lowest = rules.split;
            most_left = most_second;
        }
        let rules = Rules { marks: rules.marks, first: lowest, from: rules.from, to: rules.to, split: rules.split };

        let mut sum = f32::new(0.0);
        let mut weighted = f32::new(0.0);
        token = unit;
        while token < size {
            if may(marks, &rules, token) {
                let less = max(scores[base + token * step] - most_left, f32::new(-87.0));
                let weight = less.exp();
                sum += weight;
                weighted += weight * less;
            }
            token += UNITS;
        }
        let sum = total(&mut values, sum, UNITS);
        let weighted = total(&mut values, weighted, UNITS);

        let place = row * out.stride(0);
        if unit == 0 {
            out[place] = most + all.ln();
            out[place + 1] = most_left;
            out[place + 2] = sum;
            out[place + 3] = weighted;
        }
        // Each rank is the best after the one before it.
        let mut last = f32::new(-LEAST);
        let mut last_token = 0u32;
        for rank in 0..count as usize {
            let mut best = f32::new(LEAST);
            let mut best_token = size as u32;
            token = unit;
            while token < size {
                if may(marks, &rules, token) {
                    let mut value = scores[base + token * step];
                    if temperature > f32::new(0.0) {
                        value = value / temperature - (f32::new(0.0) - chance(seed, token as u32).ln()).ln();
                    }
                    let after = value < last || (value == last && token as u32 > last_token);
                    if after && value > best {
                        best = value;
                        best_token = token as u32;
                    }
                }
                token += UNITS;
            }
            values[unit] = best;
            tokens[unit] = best_token;
            sync_cube();
            let mut reach = comptime!(UNITS / 2).runtime();
            while reach > 0 {
                if unit < reach {
                    let (a, b) = (values[unit], values[unit + reach]);
                    if b > a || (b == a && tokens[unit + reach] < tokens[unit]) {
                        values[unit] = b;
                        tokens[unit] = tokens[unit + reach];
                    }
                }
                sync_cube();
                reach /= 2;
            }
            last = values[0];
            last_token = tokens[0];
            sync_cube();
            if unit == 0 {
                let to = place + FACTS + rank * 2;
                let found = last_token as usize;
                if found < size {
                    out[to] = f32::cast_from(last_token);
                    out[to + 1] = scores[base + found * step];
                } else {
                    out[to] = f32::new(-1.0);
                    out[to + 1] = f32::new(0.0);
                }
            }
        }
    }

    #[cube]
    fn may(marks: &Tensor<i32>, rules: &Rules, token: usize) -> bool {
        let mut kind = token >= rules.first;
        if token >= rules.split {
            kind = token >= rules.from && token < rules.to;
        }
        kind && (marks[token] & rules.marks) == 0
    }

    /// As [`super::chance`].
    #[cube]
    fn chance(seed: u32, token: u32) -> f32 {
        let a = (token * 0x9e37_79b9u32) ^ seed;
        let b = (a ^ (a >> 16u32)) * 0x7feb_352du32;
        let c = (b ^ (b >> 15u32)) * 0x846c_a68bu32;
        let d = c ^ (c >> 16u32);
        (f32::cast_from(d >> 9u32) + f32::new(0.5)) / f32::new(8_388_608.0)
    }
}
