//! Sampling on a GPU: one launch, one cube per row of logits.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{HEADER, PARAMS, SamplingOps, SamplingRequest};
use crate::reduce::{cube_max, cube_sum};

/// Units of a cube at most: a power of two.
const UNITS: usize = 1024;
/// Values that a unit loads before it computes with them: a card takes long for one.
const LOADS: usize = 4;
/// Below every logit; shaders have no infinity.
const LOWEST: f32 = -3.0e38;

impl SamplingOps for Cube {
    fn top_tokens(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
        params: FloatTensor<Self>,
        request: SamplingRequest,
    ) -> FloatTensor<Self> {
        let (client, device) = (logits.client.clone(), logits.device());
        let shape = [request.params.len(), HEADER + 2 * request.count].into();
        let out = Self::float_empty(shape, &device, FloatDType::F32);
        let units = crate::cube::units(&client, UNITS);
        top_tokens_kernel::launch(
            &client,
            CubeCount::Static(request.params.len() as u32, 1, 1),
            CubeDim::new_1d(units as u32),
            logits.into_tensor_arg(),
            classes.into_tensor_arg(),
            params.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            request.vocabulary.first_timestamp as u32,
            request.count as u32,
            units,
        );
        out
    }
}

/// The tokens that are not masked in a row; the fields of [`super::SamplingParams`].
#[derive(CubeType, Clone, Copy)]
struct RowMask {
    classes: i32,
    text_start: usize,
    timestamps_start: usize,
    timestamps_end: usize,
    first_timestamp: usize,
}

/// One cube per row: see [`super::TokenMask::top_tokens_batch`].
#[cube(launch)]
fn top_tokens_kernel(
    logits: &Tensor<f32>,
    classes: &Tensor<i32>,
    params: &Tensor<f32>,
    out: &mut Tensor<f32>,
    first_timestamp: u32,
    count: u32,
    #[comptime] units: usize,
) {
    let mut values = Shared::<[f32]>::new_slice(units);
    let mut tokens = Shared::<[u32]>::new_slice(units);
    let unit = UNIT_POS as usize;
    let row = CUBE_POS_X as usize;
    let (base, step, vocab_size) = (row * logits.stride(0), logits.stride(1), logits.shape(1));
    let packed = row * PARAMS;
    let mask = RowMask {
        classes: i32::cast_from(params[packed]),
        text_start: u32::cast_from(params[packed + 1]) as usize,
        timestamps_start: u32::cast_from(params[packed + 2]) as usize,
        timestamps_end: u32::cast_from(params[packed + 3]) as usize,
        first_timestamp: first_timestamp as usize,
    };
    let prefer_timestamps = params[packed + 4] > f32::new(0.5);
    let temperature = params[packed + 5];
    let seed = u32::cast_from(params[packed + 6]) * 65536u32 + u32::cast_from(params[packed + 7]);

    // The largest logit of all tokens, of the allowed text tokens and of the allowed timestamps.
    let mut max_all = f32::new(LOWEST);
    let mut max_text = f32::new(LOWEST);
    let mut max_timestamps = f32::new(LOWEST);
    let mut token = unit;
    while token < vocab_size {
        let loaded = load(logits, classes, base, step, vocab_size, token, units);
        #[unroll]
        for next in 0..LOADS {
            let at = token + next * units;
            if at < vocab_size {
                let logit = loaded.logits[next];
                max_all = max(max_all, logit);
                if is_allowed(loaded.classes[next], &mask, at) {
                    if at < mask.first_timestamp {
                        max_text = max(max_text, logit);
                    } else {
                        max_timestamps = max(max_timestamps, logit);
                    }
                }
            }
        }
        token += LOADS * units;
    }
    let max_all = cube_max(&mut values, max_all, units);
    let max_text = cube_max(&mut values, max_text, units);
    let max_timestamps = cube_max(&mut values, max_timestamps, units);

    let mut sum_all = f32::new(0.0);
    let mut sum_timestamps = f32::new(0.0);
    token = unit;
    while token < vocab_size {
        let loaded = load(logits, classes, base, step, vocab_size, token, units);
        #[unroll]
        for next in 0..LOADS {
            let at = token + next * units;
            if at < vocab_size {
                let logit = loaded.logits[next];
                sum_all += (logit - max_all).exp();
                if at >= mask.first_timestamp && is_allowed(loaded.classes[next], &mask, at) {
                    sum_timestamps += (logit - max_timestamps).exp();
                }
            }
        }
        token += LOADS * units;
    }
    let sum_all = cube_sum(&mut values, sum_all, units);
    let sum_timestamps = cube_sum(&mut values, sum_timestamps, units);
    let mut text_start = mask.text_start;
    let mut max_allowed = max(max_text, max_timestamps);
    if prefer_timestamps && max_timestamps > f32::new(LOWEST) && max_timestamps + sum_timestamps.ln() > max_text {
        text_start = mask.first_timestamp;
        max_allowed = max_timestamps;
    }
    let mask = RowMask {
        classes: mask.classes,
        text_start,
        timestamps_start: mask.timestamps_start,
        timestamps_end: mask.timestamps_end,
        first_timestamp: mask.first_timestamp,
    };

    let mut sum = f32::new(0.0);
    let mut weighted_sum = f32::new(0.0);
    token = unit;
    while token < vocab_size {
        let loaded = load(logits, classes, base, step, vocab_size, token, units);
        #[unroll]
        for next in 0..LOADS {
            let at = token + next * units;
            if at < vocab_size && is_allowed(loaded.classes[next], &mask, at) {
                let relative = max(loaded.logits[next] - max_allowed, f32::new(-87.0));
                let weight = relative.exp();
                sum += weight;
                weighted_sum += weight * relative;
            }
        }
        token += LOADS * units;
    }
    let sum = cube_sum(&mut values, sum, units);
    let weighted_sum = cube_sum(&mut values, weighted_sum, units);

    let place = row * out.stride(0);
    if unit == 0 {
        out[place] = max_all + sum_all.ln();
        out[place + 1] = max_allowed;
        out[place + 2] = sum;
        out[place + 3] = weighted_sum;
    }
    // Each rank is the best token after that of the rank before.
    let mut last = f32::new(-LOWEST);
    let mut last_token = 0u32;
    for rank in 0..count as usize {
        let mut best = f32::new(LOWEST);
        let mut best_token = vocab_size as u32;
        token = unit;
        while token < vocab_size {
            let loaded = load(logits, classes, base, step, vocab_size, token, units);
            #[unroll]
            for next in 0..LOADS {
                let at = token + next * units;
                if at < vocab_size && is_allowed(loaded.classes[next], &mask, at) {
                    let mut value = loaded.logits[next];
                    if temperature > f32::new(0.0) {
                        value = value / temperature - (f32::new(0.0) - uniform(seed, at as u32).ln()).ln();
                    }
                    let after = value < last || (value == last && at as u32 > last_token);
                    if after && value > best {
                        best = value;
                        best_token = at as u32;
                    }
                }
            }
            token += LOADS * units;
        }
        values[unit] = best;
        tokens[unit] = best_token;
        sync_cube();
        let mut reach = comptime!(units / 2).runtime();
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
            let to = place + HEADER + rank * 2;
            let found = last_token as usize;
            if found < vocab_size {
                out[to] = f32::cast_from(last_token);
                out[to + 1] = logits[base + found * step];
            } else {
                out[to] = f32::new(-1.0);
                out[to + 1] = f32::new(0.0);
            }
        }
    }
}

/// Logits and classes of tokens, as many units apart as a cube has.
#[derive(CubeType)]
struct Loaded {
    logits: Array<f32>,
    classes: Array<i32>,
}

/// Loads from `token` on; those beyond the vocabulary are the last one's.
#[cube]
fn load(
    logits: &Tensor<f32>,
    classes: &Tensor<i32>,
    base: usize,
    step: usize,
    vocab_size: usize,
    token: usize,
    #[comptime] units: usize,
) -> Loaded {
    let mut of_logits = Array::<f32>::new(LOADS);
    let mut of_classes = Array::<i32>::new(LOADS);
    #[unroll]
    for next in 0..LOADS {
        let at = min(token + next * units, vocab_size - 1);
        of_logits[next] = logits[base + at * step];
        of_classes[next] = classes[at];
    }
    Loaded { logits: of_logits, classes: of_classes }
}

#[cube]
fn is_allowed(class: i32, mask: &RowMask, token: usize) -> bool {
    let mut in_range = token >= mask.text_start;
    if token >= mask.first_timestamp {
        in_range = token >= mask.timestamps_start && token < mask.timestamps_end;
    }
    in_range && (class & mask.classes) == 0
}

/// See [`super::cpu::uniform`].
#[cube]
fn uniform(seed: u32, token: u32) -> f32 {
    let a = (token * 0x9e37_79b9u32) ^ seed;
    let b = (a ^ (a >> 16u32)) * 0x7feb_352du32;
    let c = (b ^ (b >> 15u32)) * 0x846c_a68bu32;
    let d = c ^ (c >> 16u32);
    (f32::cast_from(d >> 9u32) + f32::new(0.5)) / f32::new(8_388_608.0)
}
