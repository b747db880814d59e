//! The CubeCL kernel: samples to log-mel frames in one launch.
//!
//! A cube computes a few frames, a row of units each: the windowed samples go into shared memory as `n_fft / 2` complex
//! numbers (even samples real, odd ones imaginary), Stockham stages of radix 5, 4 and 2 ping-pong between two halves of
//! it, the spectrum of the real signal is unpacked as powers, and each unit sums the bins of one mel filter after
//! another. No subgroup operation is used: software rasterisers have none.

use cubecl::prelude::*;

use super::normalize::cube_max;
use crate::spectral::logmel::config::{LogScale, Normalization, Padding};
use crate::spectral::logmel::cpu::{LOG_GUARD, LOG10_FLOOR};

/// Constants of a compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelConfig {
    pub n_fft: usize,
    pub win_length: usize,
    pub hop: usize,
    pub mels: usize,
    pub padding: Padding,
    pub log: LogScale,
    /// For Whisper's normalisation each cube writes the largest value of its frames to `peaks`.
    pub normalization: Normalization,
    /// Radices of the stages, in order; their product is `n_fft / 2`.
    pub radices: Vec<usize>,
    /// Units that share a frame.
    pub lanes: usize,
    /// Frames of a cube.
    pub frames_per_cube: usize,
}

impl KernelConfig {
    /// Transform samples before the window.
    fn offset(&self) -> usize {
        (self.n_fft - self.win_length) / 2
    }

    /// Product of the radices before `stage`: the length of the transforms that the stage combines.
    fn joined(&self, stage: usize) -> usize {
        self.radices[..stage].iter().product()
    }

    /// Offsets of the cosines, the sines and the mel weights in `tables`; the window comes first.
    pub fn table_offsets(&self) -> [usize; 3] {
        [self.win_length, self.win_length + self.n_fft, self.win_length + 2 * self.n_fft]
    }
}

/// Log-mel frames of every row.
///
/// - `audio` `[rows, samples]`
/// - `tables`: window `[win_length]`, cosines and sines `[n_fft]` each, the weights of all mel filters
/// - `bands`: `[mels]` first bins, then `[mels + 1]` places of the filters' weights
/// - `extents` `[rows, 2]`, flat: valid samples and frames to compute
/// - `out` `[rows, frames, mels]`; frames not computed become 0
/// - `peaks` `[rows, groups]`: the largest value of each cube's frames, for Whisper's normalisation alone
#[cube(launch)]
pub(crate) fn logmel_kernel(
    audio: &Tensor<f32>,
    tables: &Tensor<f32>,
    bands: &Tensor<i32>,
    extents: &Tensor<i32>,
    out: &mut Tensor<f32>,
    peaks: &mut Tensor<f32>,
    left: i32,
    emphasis: f32,
    #[comptime] config: KernelConfig,
) {
    let half = comptime!(config.n_fft / 2);
    let mels = comptime!(config.mels);
    let mut re = Shared::<[f32]>::new_slice(comptime!(2 * config.frames_per_cube * half));
    let mut im = Shared::<[f32]>::new_slice(comptime!(2 * config.frames_per_cube * half));

    let lane = UNIT_POS_X as usize;
    let frame_in_cube = UNIT_POS_Y as usize;
    let row = CUBE_POS_Z as usize;
    let group = (CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize;
    let frame = group * comptime!(config.frames_per_cube) + frame_in_cube;
    let frames = out.shape(1);
    let computed = extents[row * 2 + 1] as usize;
    let base = frame_in_cube * half;
    let mut peak = f32::new(-1.0e30);

    // The condition is the same for the whole cube, as the barriers inside need.
    if group * comptime!(config.frames_per_cube) < computed {
        let start = left + (frame * comptime!(config.hop)) as i32;
        let mut pair = lane;
        while pair < half {
            let (even, odd) = samples(audio, tables, extents, row, start, pair, emphasis, comptime!(config.clone()));
            re[base + pair] = even;
            im[base + pair] = odd;
            pair += comptime!(config.lanes);
        }
        sync_cube();

        #[unroll]
        for stage in 0..comptime!(config.radices.len()) {
            butterflies(&mut re, &mut im, tables, base, lane, comptime!(config.clone()), comptime!(stage));
            sync_cube();
        }

        // The powers take the half of `re` that the last stage has read.
        let last = comptime!((config.radices.len() % 2) * config.frames_per_cube * half);
        let free = comptime!(config.frames_per_cube * half - last);
        let mut bin = lane;
        while bin < half {
            re[free + base + bin] = power(&re, &im, tables, base + last, bin, comptime!(config.clone()));
            bin += comptime!(config.lanes);
        }
        sync_cube();

        let mut mel = lane;
        while mel < mels {
            let first = bands[mel] as usize;
            let weights = bands[mels + mel] as usize;
            let count = bands[mels + mel + 1] as usize - weights;
            let mut sum = f32::new(0.0);
            for bin in 0..count {
                sum += re[free + base + first + bin] * tables[comptime!(config.table_offsets()[2]) + weights + bin];
            }
            let value = log(sum, comptime!(config.log));
            if frame < frames {
                let place = row * out.stride(0) + frame * out.stride(1) + mel * out.stride(2);
                if frame < computed {
                    out[place] = value;
                    peak = max(peak, value);
                } else {
                    out[place] = f32::new(0.0);
                }
            }
            mel += comptime!(config.lanes);
        }
    } else if frame < frames {
        let mut mel = lane;
        while mel < mels {
            let place = row * out.stride(0) + frame * out.stride(1) + mel * out.stride(2);
            out[place] = f32::new(0.0);
            mel += comptime!(config.lanes);
        }
    }

    if comptime!(config.normalization == Normalization::Whisper) {
        let largest = cube_max(peak, comptime!(config.lanes * config.frames_per_cube));
        if UNIT_POS == 0 && group * comptime!(config.frames_per_cube) < frames {
            let place = row * peaks.stride(0) + group * peaks.stride(1);
            peaks[place] = largest;
        }
    }
}

/// Windowed samples `2 * pair` and `2 * pair + 1` of the transform that begins at `start`.
#[cube]
fn samples(
    audio: &Tensor<f32>,
    tables: &Tensor<f32>,
    extents: &Tensor<i32>,
    row: usize,
    start: i32,
    pair: usize,
    emphasis: f32,
    #[comptime] config: KernelConfig,
) -> (f32, f32) {
    let even = sample(audio, tables, extents, row, start, pair * 2, emphasis, comptime!(config.clone()));
    let odd = sample(audio, tables, extents, row, start, pair * 2 + 1, emphasis, config);
    (even, odd)
}

/// The pre-emphasised, windowed sample at `point` of the transform that begins at `start`.
#[cube]
fn sample(
    audio: &Tensor<f32>,
    tables: &Tensor<f32>,
    extents: &Tensor<i32>,
    row: usize,
    start: i32,
    point: usize,
    emphasis: f32,
    #[comptime] config: KernelConfig,
) -> f32 {
    let mut windowed = f32::new(0.0);
    if point >= comptime!(config.offset()) && point < comptime!(config.offset() + config.win_length) {
        let mut at = start + point as i32;
        if comptime!(config.padding == Padding::Reflect) {
            at = mirror(at, audio.shape(1) as i32);
        }
        if at >= 0 && at < extents[row * 2] {
            let place = row * audio.stride(0);
            let value = audio[place + at as usize * audio.stride(1)];
            let mut before = f32::new(0.0);
            if at > 0 {
                before = audio[place + (at - 1) as usize * audio.stride(1)];
            }
            windowed = (value - emphasis * before) * tables[point - comptime!(config.offset())];
        }
    }
    windowed
}

/// A position folded into a row of `width` samples by mirrors at its first and last sample.
#[cube]
fn mirror(at: i32, width: i32) -> i32 {
    // After the first mirror the position is not negative, so the remainder is not negative either.
    let mut folded = max(at, 0 - at);
    if folded >= width {
        let last = max(width - 1, 0);
        let period = max(last * 2, 1);
        let turned = folded % period;
        folded = min(turned, last * 2 - turned);
    }
    folded
}

/// One Stockham stage of one frame.
#[cube]
fn butterflies(
    re: &mut Shared<[f32]>,
    im: &mut Shared<[f32]>,
    tables: &Tensor<f32>,
    base: usize,
    lane: usize,
    #[comptime] config: KernelConfig,
    #[comptime] stage: usize,
) {
    let radix = comptime!(config.radices[stage]);
    let joined = comptime!(config.joined(stage));
    let reach = comptime!(config.n_fft / 2 / radix);
    let source = base + comptime!((stage % 2) * config.frames_per_cube * config.n_fft / 2);
    let target = base + comptime!(((stage + 1) % 2) * config.frames_per_cube * config.n_fft / 2);
    // Twiddles are exp(-2 pi i k m / (joined radix)), of which the table holds every (1 / n_fft)th turn.
    let turn = comptime!(config.n_fft / (joined * radix));

    let mut item = lane;
    while item < reach {
        let k = item % joined;
        let from = source + item;
        let to = target + (item / joined) * comptime!(joined * radix) + k;
        let a0 = (re[from], im[from]);
        let at = from + reach;
        let a1 = turned((re[at], im[at]), tables, k * turn, comptime!(config.clone()), stage);
        if comptime!(radix == 2) {
            store(re, im, to, add(a0, a1));
            store(re, im, to + joined, sub(a0, a1));
        } else {
            let at = from + comptime!(2 * reach);
            let a2 = turned((re[at], im[at]), tables, k * comptime!(2 * turn), comptime!(config.clone()), stage);
            let at = from + comptime!(3 * reach);
            let a3 = turned((re[at], im[at]), tables, k * comptime!(3 * turn), comptime!(config.clone()), stage);
            if comptime!(radix == 4) {
                let even = add(a0, a2);
                let even_difference = sub(a0, a2);
                let odd = add(a1, a3);
                let odd_difference = right(sub(a1, a3));
                store(re, im, to, add(even, odd));
                store(re, im, to + joined, add(even_difference, odd_difference));
                store(re, im, to + comptime!(2 * joined), sub(even, odd));
                store(re, im, to + comptime!(3 * joined), sub(even_difference, odd_difference));
            } else {
                let at = from + comptime!(4 * reach);
                let a4 = turned((re[at], im[at]), tables, k * comptime!(4 * turn), comptime!(config.clone()), stage);
                // Cosines and sines of 72 and 144 degrees.
                let c1 = f32::new(0.309_017);
                let c2 = f32::new(-0.809_017);
                let s1 = f32::new(0.951_056_5);
                let s2 = f32::new(0.587_785_25);
                let outer = add(a1, a4);
                let outer_difference = sub(a1, a4);
                let inner = add(a2, a3);
                let inner_difference = sub(a2, a3);
                let near = add(a0, add(scale(outer, c1), scale(inner, c2)));
                let far = add(a0, add(scale(outer, c2), scale(inner, c1)));
                let near_turn = right(add(scale(outer_difference, s1), scale(inner_difference, s2)));
                let far_turn = right(sub(scale(outer_difference, s2), scale(inner_difference, s1)));
                store(re, im, to, add(a0, add(outer, inner)));
                store(re, im, to + joined, add(near, near_turn));
                store(re, im, to + comptime!(2 * joined), add(far, far_turn));
                store(re, im, to + comptime!(3 * joined), sub(far, far_turn));
                store(re, im, to + comptime!(4 * joined), sub(near, near_turn));
            }
        }
        item += comptime!(config.lanes);
    }
}

/// `value` times the twiddle of `turn` steps of `2 pi / n_fft`; the first stage needs none.
#[cube]
fn turned(
    value: (f32, f32),
    tables: &Tensor<f32>,
    turn: usize,
    #[comptime] config: KernelConfig,
    #[comptime] stage: usize,
) -> (f32, f32) {
    if comptime!(stage == 0) {
        value
    } else {
        let cos = tables[comptime!(config.table_offsets()[0]) + turn];
        let sin = tables[comptime!(config.table_offsets()[1]) + turn];
        (value.0 * cos + value.1 * sin, value.1 * cos - value.0 * sin)
    }
}

/// The power of bin `bin` of the real signal, from the packed spectrum at `base`.
#[cube]
fn power(
    re: &Shared<[f32]>,
    im: &Shared<[f32]>,
    tables: &Tensor<f32>,
    base: usize,
    bin: usize,
    #[comptime] config: KernelConfig,
) -> f32 {
    let half = comptime!(config.n_fft / 2);
    let near = base + bin;
    let far = base + (half - bin) % half;
    let cos = tables[comptime!(config.table_offsets()[0]) + bin];
    let sin = tables[comptime!(config.table_offsets()[1]) + bin];
    // Spectra of the even and the odd samples, each twice too large.
    let even = (re[near] + re[far], im[near] - im[far]);
    let odd = (im[near] + im[far], re[far] - re[near]);
    let x = (even.0 + cos * odd.0 + sin * odd.1) * f32::new(0.5);
    let y = (even.1 + cos * odd.1 - sin * odd.0) * f32::new(0.5);
    x * x + y * y
}

#[cube]
fn log(power: f32, #[comptime] scale: LogScale) -> f32 {
    if comptime!(scale == LogScale::NaturalGuarded) {
        (power + f32::new(comptime!(LOG_GUARD))).ln()
    } else {
        max(power, f32::new(comptime!(LOG10_FLOOR))).ln() * f32::new(comptime!(core::f32::consts::LOG10_E))
    }
}

#[cube]
fn store(re: &mut Shared<[f32]>, im: &mut Shared<[f32]>, to: usize, value: (f32, f32)) {
    re[to] = value.0;
    im[to] = value.1;
}

#[cube]
fn add(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    (a.0 + b.0, a.1 + b.1)
}

#[cube]
fn sub(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    (a.0 - b.0, a.1 - b.1)
}

#[cube]
fn scale(a: (f32, f32), by: f32) -> (f32, f32) {
    (a.0 * by, a.1 * by)
}

/// A quarter turn clockwise, that is times -i.
#[cube]
fn right(a: (f32, f32)) -> (f32, f32) {
    (a.1, f32::new(0.0) - a.0)
}
