//! Weights of 32 bits to 4: runs of 32 inputs of an output, each with a scale and an offset.
//!
//! The largest and the smallest weight of a run are seldom the best ends of its 16 levels: a search over narrower ranges, each followed by
//! the line of least squares through numbers and weights, makes the error of the run as small as it finds it. Scale and offset are exact in
//! 16 bits, and numbers are chosen for them as they are stored.

use half::f16;

use super::WeightRun;

/// Weights of a run.
const RUN: usize = 32;
/// The highest level; the lowest is 0.
const HIGHEST: f32 = 15.0;
/// Parts of a run's range that levels are tried on.
const RANGES: [f32; 7] = [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7];
/// Steps that the weights of a run may span where they have levels already.
const STEPS: std::ops::RangeInclusive<u8> = 8..=15;
/// The largest distance from such a level, in steps: what 16 bits round away of an offset.
const NEAR_A_LEVEL: f32 = 2e-2;
/// Times that the line is drawn again through the numbers that its predecessor gives.
const ROUNDS: usize = 3;

type Values = [f32; RUN];

/// A run of weights in 4 bits.
#[derive(Clone, Copy, Debug)]
pub struct FourBitRun {
    /// 0 to 15 each.
    numbers: [i8; RUN],
    scale: f32,
    minimum: f32,
}

impl FourBitRun {
    /// Weights of a run.
    pub const WEIGHTS: usize = RUN;

    /// The runs of one output's weights, whose number is a multiple of [`FourBitRun::WEIGHTS`].
    pub fn row(weights: &[f32]) -> Vec<Self> {
        pulp::Arch::new().dispatch(Row(weights.as_chunks().0))
    }

    /// The run as matrices take it.
    pub fn weights(&self) -> WeightRun<'_> {
        WeightRun { numbers: &self.numbers, scale: self.scale, minimum: self.minimum }
    }
}

struct Row<'a>(&'a [Values]);

impl pulp::NullaryFnOnce for Row<'_> {
    type Output = Vec<FourBitRun>;

    #[inline(always)]
    fn call(self) -> Vec<FourBitRun> {
        let mut runs = Vec::with_capacity(self.0.len());
        for weights in self.0 {
            runs.push(quantize(weights));
        }
        runs
    }
}

/// The line from numbers to weights.
#[derive(Clone, Copy)]
struct Line {
    scale: f32,
    minimum: f32,
}

impl Line {
    /// As it is stored.
    #[inline(always)]
    fn new(scale: f32, minimum: f32) -> Self {
        Self { scale: f16::from_f32(scale).to_f32(), minimum: f16::from_f32(minimum).to_f32() }
    }

    /// The level nearest to each weight.
    #[inline(always)]
    fn numbers(self, weights: &Values) -> Values {
        let inverse = if self.scale > 0.0 { 1.0 / self.scale } else { 0.0 };
        each(|at| ((weights[at] - self.minimum) * inverse).round_ties_even().clamp(0.0, HIGHEST))
    }

    /// The sum of squared errors.
    #[inline(always)]
    fn error(self, weights: &Values, numbers: &Values) -> f32 {
        sum(&each(|at| {
            let off = numbers[at].mul_add(self.scale, self.minimum) - weights[at];
            off * off
        }))
    }

    /// The line of least squares through numbers and weights; none where all numbers are equal.
    #[inline(always)]
    fn through(weights: &Values, numbers: &Values) -> Option<Self> {
        let count = RUN as f32;
        let (number, weight) = (sum(numbers) / count, sum(weights) / count);
        let spread = sum(&each(|at| (numbers[at] - number) * (numbers[at] - number)));
        let shared = sum(&each(|at| (numbers[at] - number) * (weights[at] - weight)));
        let scale = if spread > 0.0 { shared / spread } else { return None };
        Some(Self::new(scale, weight - scale * number))
    }
}

/// The levels that the weights have already, as those of a file in 4 bits: between the least and the largest lie at most 15 equal
/// steps, and each weight is on one. None for other weights, and for those of few levels, which the search finds.
#[inline(always)]
fn levels(weights: &Values, low: f32, high: f32) -> Option<(Line, Values)> {
    for steps in STEPS {
        let line = Line::new((high - low) / f32::from(steps), low);
        let numbers = line.numbers(weights);
        let off = each(|at| (numbers[at].mul_add(line.scale, line.minimum) - weights[at]).abs());
        if line.scale > 0.0 && off.iter().all(|off| *off <= NEAR_A_LEVEL * line.scale) {
            return Some((line, numbers));
        }
    }
    None
}

#[inline(always)]
fn quantize(weights: &Values) -> FourBitRun {
    let low = weights.iter().copied().fold(f32::INFINITY, f32::min);
    let high = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (line, numbers) = levels(weights, low, high).unwrap_or_else(|| search(weights, low, high));
    let mut of = FourBitRun { numbers: [0; RUN], scale: line.scale, minimum: line.minimum };
    for (to, number) in of.numbers.iter_mut().zip(&numbers) {
        *to = *number as i8;
    }
    of
}

/// The line of the least error that is found, and its numbers.
#[inline(always)]
fn search(weights: &Values, low: f32, high: f32) -> (Line, Values) {
    let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
    let mut best = (f32::INFINITY, Line::new(0.0, middle), [0.0; RUN]);
    for range in RANGES {
        let mut line = Line::new(2.0 * half * range / HIGHEST, middle - half * range);
        for _ in 0..=ROUNDS {
            let numbers = line.numbers(weights);
            let error = line.error(weights, &numbers);
            if error < best.0 {
                best = (error, line, numbers);
            }
            match Line::through(weights, &numbers) {
                Some(next) => line = next,
                None => break,
            }
        }
    }
    (best.1, best.2)
}

#[inline(always)]
fn each(value: impl Fn(usize) -> f32) -> Values {
    let mut all = [0.0; RUN];
    for (at, to) in all.iter_mut().enumerate() {
        *to = value(at);
    }
    all
}

/// The sum, by halves, so that it has one order in vectors of any width.
#[inline(always)]
fn sum(values: &Values) -> f32 {
    let mut values = *values;
    let mut half = RUN / 2;
    while half > 0 {
        for at in 0..half {
            values[at] += values[at + half];
        }
        half /= 2;
    }
    values[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws like those of trained weights: many small ones, few large ones.
    fn draws(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(|_| (0..6).map(|_| draw()).sum::<f32>() * 0.03 + 0.002).collect()
    }

    fn value(run: &FourBitRun, at: usize) -> f64 {
        f64::from(run.scale) * f64::from(run.numbers[at]) + f64::from(run.minimum)
    }

    fn squared_error(run: &FourBitRun, weights: &[f32]) -> f64 {
        weights.iter().enumerate().map(|(at, weight)| (value(run, at) - f64::from(*weight)).powi(2)).sum()
    }

    /// Levels from the smallest weight to the largest, as GGUF's Q4_1 has them.
    fn plain_error(weights: &[f32]) -> f64 {
        let low = weights.iter().copied().fold(f32::INFINITY, f32::min);
        let high = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let [scale, low] = [(high - low) / 15.0, low].map(|factor| f64::from(f16::from_f32(factor).to_f32()));
        let near = |weight: f64| ((weight - low) / scale).round().clamp(0.0, 15.0) * scale + low;
        weights.iter().map(|weight| (near(f64::from(*weight)) - f64::from(*weight)).powi(2)).sum()
    }

    /// Every number is that of the nearest level, no run errs more than the plain one, all together err much less, and the factors are exact
    /// in 16 bits.
    #[test]
    fn runs_are_near_their_weights() {
        let weights = draws(400 * RUN, 1);
        let (mut all, mut plain) = (0.0, 0.0);
        let runs = FourBitRun::row(&weights);
        assert_eq!(runs.len(), 400);
        for (run, weights) in runs.iter().zip(weights.chunks_exact(RUN)) {
            for factor in [run.scale, run.minimum] {
                assert_eq!(f16::from_f32(factor).to_f32(), factor);
            }
            for (at, weight) in weights.iter().enumerate() {
                assert!((0..16).contains(&run.numbers[at]));
                let off = |number: i8| {
                    (f64::from(run.scale) * f64::from(number) + f64::from(run.minimum) - f64::from(*weight)).abs()
                };
                let least = (0..16).map(off).fold(f64::INFINITY, f64::min);
                assert!(off(run.numbers[at]) <= least * 1.0001, "{weight}");
            }
            let (ours, theirs) = (squared_error(run, weights), plain_error(weights));
            assert!(ours <= theirs * 1.0001, "{ours}, {theirs}");
            (all, plain) = (all + ours, plain + theirs);
        }
        assert!(all < 0.85 * plain, "{all}, {plain}");
    }

    /// Weights that are levels stay as they are; so do equal ones, and zeros.
    #[test]
    fn levels_are_exact() {
        let levels: Values = each(|at| ((7 * at) % 16) as f32 * 0.125 - 0.5);
        let runs = FourBitRun::row(&[levels, [0.375; RUN], [0.0; RUN]].concat());
        for (run, weights) in runs.iter().zip([levels, [0.375; RUN], [0.0; RUN]]) {
            assert_eq!(squared_error(run, &weights), 0.0);
        }
    }

    /// Weights that a file had in 4 bits with a scale, whichever of its 16 levels a run has: they stay as they are but for what 16 bits
    /// round away of the offset.
    #[test]
    fn levels_of_a_file_stay() {
        let mut state = 5u32;
        let mut draw = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % most
        };
        for _ in 0..2000 {
            let size = (200 + draw(2000)) as f32 * 1e-5;
            let scale = f16::from_f32(if draw(2) == 0 { size } else { -size }).to_f32();
            // The weight of the largest size has the lowest number, as a file's writer chooses the scale.
            let most = 9 + draw(7);
            let numbers: [u32; RUN] = std::array::from_fn(|at| if at == 7 { 0 } else { draw(most) });
            let weights = numbers.map(|number| scale * (number as f32 - 8.0));
            let run = FourBitRun::row(&weights)[0];
            for (at, weight) in weights.iter().enumerate() {
                let off = (value(&run, at) - f64::from(*weight)).abs();
                assert!(off <= 6e-3 * f64::from(scale.abs()), "{off} of a step of {scale}, levels {numbers:?}");
            }
        }
    }

    /// A run far larger than another in the same row does not coarsen it.
    #[test]
    fn runs_have_levels_of_their_own() {
        let mut weights = draws(2 * RUN, 2);
        let alone = FourBitRun::row(&weights[..RUN])[0];
        weights[RUN..].iter_mut().for_each(|weight| *weight *= 1e3);
        let beside = FourBitRun::row(&weights)[0];
        assert_eq!((alone.numbers, alone.scale, alone.minimum), (beside.numbers, beside.scale, beside.minimum));
    }
}
