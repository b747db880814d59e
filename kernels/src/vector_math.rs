//! Branch-free scalar functions that compile to vector code, for the CPU kernels.
//!
//! Code that runs in the widest vectors of the processor is a [`pulp::NullaryFnOnce`] with an `#[inline(always)]` body. A closure, or
//! a function that `for_each` calls, would be vectorised only if the compiler inlines it.

/// Number of values of one task of a thread: 64 KiB.
pub(crate) const CHUNK: usize = 16 * 1024;
/// The square root of 2 / pi.
pub(crate) const SQRT_2_BY_PI: f32 = 0.797_884_6;

/// `1 / (1 + e^-x)`, within 2e-7.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `tanh x`, within 3e-7.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}

/// `x / 2 * (1 + erf(x / sqrt 2))`, within 4e-7 of `x`. The error function is formula 7.1.26 of Abramowitz and Stegun.
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    let half = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / 0.327_591_1_f32.mul_add(half, 1.0);
    let p = 1.061_405_4_f32
        .mul_add(t, -1.453_152)
        .mul_add(t, 1.421_413_7)
        .mul_add(t, -0.284_496_74)
        .mul_add(t, 0.254_829_6);
    // 1 - erf(|x| / sqrt 2). For large |x| it is 0 instead of a subnormal number, as in [`exp_or_zero`].
    let rest = if half < 8.0 { p * t * exp(-half * half) } else { 0.0 };
    0.5 * x * if x < 0.0 { rest } else { 2.0 - rest }
}

/// `e^x` without branches, so that it compiles to vector code: 2^n times a polynomial on +-ln(2)/2 (the coefficients of Cephes'
/// `expf`). Arguments are clamped to the range in which neither factor overflows.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.0, 87.0);
    // Adding and subtracting 1.5 * 2^23 rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = 1.987_569e-4_f32
        .mul_add(r, 1.398_199_9e-3)
        .mul_add(r, 8.333_452e-3)
        .mul_add(r, 4.166_579_6e-2)
        .mul_add(r, 1.666_666_5e-1)
        .mul_add(r, 0.5);
    let p = p.mul_add(r * r, r) + 1.0;
    // The lowest bits of `rounded` are n; shifted, they are the exponent of 2^n minus that of 1.
    f32::from_bits((rounded.to_bits() << 23).wrapping_add(1f32.to_bits())) * p
}

/// Softmax of each row, in place.
pub(crate) struct Softmax<'a> {
    pub logits: &'a mut [f32],
    /// Values of a row.
    pub width: usize,
}

impl pulp::NullaryFnOnce for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for row in self.logits.chunks_exact_mut(self.width) {
            softmax(row);
        }
    }
}

/// `e^x` of a logit minus the largest of its row, and 0 below 1e-28. [`exp`] at its lowest, once scaled, is a subnormal number, and
/// products of subnormal numbers are many times as slow. The scores of trained attention often lie so low, those of random weights
/// never.
#[inline(always)]
pub(crate) fn exp_or_zero(x: f32) -> f32 {
    if x < -64.0 { 0.0 } else { exp(x) }
}

/// The largest value; minus infinity if there is none.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lane_max = [f32::NEG_INFINITY; LANES];
    let (lanes, rest) = values.as_chunks::<LANES>();
    for chunk in lanes {
        for (max, value) in lane_max.iter_mut().zip(chunk) {
            *max = if *value > *max { *value } else { *max };
        }
    }
    let mut max = f32::NEG_INFINITY;
    for value in lane_max.iter().chain(rest) {
        max = if *value > max { *value } else { max };
    }
    max
}

/// The largest absolute value; 0 if there is none.
#[inline(always)]
pub(crate) fn largest_magnitude(values: &[f32]) -> f32 {
    let mut lane_max = [0f32; LANES];
    let (lanes, rest) = values.as_chunks::<LANES>();
    for chunk in lanes {
        for (max, value) in lane_max.iter_mut().zip(chunk) {
            *max = if value.abs() > *max { value.abs() } else { *max };
        }
    }
    lane_max.iter().chain(rest).fold(0f32, |max, value| if value.abs() > max { value.abs() } else { max })
}

/// Softmax of one row, in place.
#[inline(always)]
pub(crate) fn softmax(logits: &mut [f32]) {
    let max = max(logits);
    let mut lane_sums = [0f32; LANES];
    let (lanes, rest) = logits.as_chunks_mut::<LANES>();
    for chunk in lanes.iter_mut() {
        for (value, sum) in chunk.iter_mut().zip(&mut lane_sums) {
            *value = exp_or_zero(*value - max);
            *sum += *value;
        }
    }
    let mut sum = 0.0;
    for value in rest {
        *value = exp_or_zero(*value - max);
        sum += *value;
    }
    for lane_sum in lane_sums {
        sum += lane_sum;
    }
    let scale = 1.0 / sum;
    for value in logits {
        *value *= scale;
    }
}

const LANES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_gives_normal_numbers_or_zero() {
        for count in [5, 16, 1500] {
            let mut scores: Vec<f32> = (0..count).map(|n| -110.0 * n as f32 / count as f32).collect();
            let exact: Vec<f64> = scores.iter().map(|x| f64::from(*x).exp()).collect();
            let sum: f64 = exact.iter().sum();
            softmax(&mut scores);
            assert!(scores.iter().all(|value| *value == 0.0 || value.is_normal()));
            assert!(scores.iter().zip(&exact).all(|(ours, exact)| (f64::from(*ours) - exact / sum).abs() < 1e-6));
        }
    }

    #[test]
    fn gelu_gives_normal_numbers_or_zero() {
        for step in -4000..=4000 {
            let value = gelu(step as f32 / 100.0);
            assert!(value == 0.0 || value.is_normal(), "{step}: {value:e}");
        }
    }

    #[test]
    fn exponentials_are_accurate_over_their_range() {
        for step in -87_000..=87_000 {
            let x = step as f32 / 1000.0;
            let (ours, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((ours - exact).abs() <= 3e-7 * exact, "e^{x}: {ours} is not {exact}");
            let (ours, exact) = (f64::from(tanh(x)), f64::from(x).tanh());
            assert!((ours - exact).abs() <= 3e-7, "tanh {x}: {ours} is not {exact}");
        }
        assert!((sigmoid(1e30), sigmoid(-1e30)) == (1.0, sigmoid(-87.0)) && sigmoid(0.0) == 0.5);
    }
}
