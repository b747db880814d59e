//! The body on the CPU, channel by channel.

use crate::channels::Channels;
use crate::thread_pool::ThreadPool;

/// Added to a variance, as published.
pub(super) const EPSILON: f32 = 1e-5;

/// The activation that follows a normalisation.
#[derive(Clone, Copy, Debug)]
pub enum Activation<'a> {
    /// The values, those below 0 times this.
    LeakyRelu(f32),
    /// `x + sin(a x)^2 / a`, with an `a` for each channel.
    Snake(&'a [f32]),
}

/// Instance normalisation: each channel with mean 0 and variance 1 over its frames, times its `scale`, plus its `shift`; then an
/// activation.
///
/// # Panics
/// When there are not as many scales, shifts or parameters of an activation as channels.
pub fn instance_norm(
    x: &Channels,
    pool: &ThreadPool,
    scale: &[f32],
    shift: &[f32],
    activation: Activation,
) -> Channels {
    let count = x.channels();
    assert!(
        scale.len() == count && shift.len() == count && !matches!(activation, Activation::Snake(a) if a.len() != count),
        "channels: numbers of a normalisation"
    );
    let mut out = x.clone();
    out.for_each_channel(pool, |channel, row| {
        let [scale, shift] = [scale[channel], shift[channel]];
        pulp::Arch::new().dispatch(Normalise { row, scale, shift, channel, activation });
    });
    out
}

struct Normalise<'a> {
    row: &'a mut [f32],
    scale: f32,
    shift: f32,
    channel: usize,
    activation: Activation<'a>,
}

impl pulp::NullaryFnOnce for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { row, scale, shift, channel, activation } = self;
        let count = row.len() as f32;
        let mean = sum(row, |value| value) / count;
        let variance = sum(row, |value| (value - mean) * (value - mean)) / count;
        let scale = scale / (variance + EPSILON).sqrt();
        let shift = shift - mean * scale;
        match activation {
            Activation::LeakyRelu(slope) => {
                for value in row {
                    let x = value.mul_add(scale, shift);
                    *value = if x < 0.0 { x * slope } else { x };
                }
            }
            Activation::Snake(factors) => {
                let factor = factors[channel];
                let inverse = 1.0 / factor;
                for value in row {
                    let x = value.mul_add(scale, shift);
                    *value = inverse.mul_add(sin_squared(factor * x), x);
                }
            }
        }
    }
}

/// The sum of a function of the values.
#[inline(always)]
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    const LANES: usize = 32;
    let mut sums = [0f32; LANES];
    let (lanes, rest) = values.as_chunks::<LANES>();
    for chunk in lanes {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += of(*value);
        }
    }
    // A long utterance has many values a lane: the lanes are added in double precision.
    (sums.iter().map(|sum| f64::from(*sum)).sum::<f64>() + rest.iter().map(|value| f64::from(of(*value))).sum::<f64>())
        as f32
}

/// `sin(x)^2`, within 4e-7 for arguments up to 1,000, by the polynomial of Taylor on a quarter of its period to either side.
#[inline(always)]
fn sin_squared(x: f32) -> f32 {
    // Adding and subtracting 1.5 * 2^23 rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let n = x.mul_add(std::f32::consts::FRAC_1_PI, ROUND) - ROUND;
    // Pi in two parts: the multiples of the first are exact.
    let r = n.mul_add(-3.140_625, x);
    let r = n.mul_add(-9.676_536e-4, r);
    let s = r * r;
    let p = (-2.505_210_8e-8_f32)
        .mul_add(s, 2.755_731_9e-6)
        .mul_add(s, -1.984_127e-4)
        .mul_add(s, 8.333_333e-3)
        .mul_add(s, -1.666_666_7e-1);
    let sine = (p * s).mul_add(r, r);
    sine * sine
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_pool;

    #[test]
    fn the_square_of_a_sine_is_accurate() {
        for step in -100_000..=100_000 {
            let x = step as f32 / 100.0;
            let (ours, exact) = (f64::from(sin_squared(x)), f64::from(x).sin().powi(2));
            assert!((ours - exact).abs() < 4e-7, "sin({x})^2: {ours}, not {exact}");
        }
    }

    #[test]
    fn a_normalisation_is_that_of_its_definition() {
        let rows: Vec<f32> = (0..2 * 77).map(|at| (at as f32 * 0.7).sin() * 3.0 + at as f32 * 0.01 + 5.0).collect();
        let x = Channels::from_rows(&rows, 2);
        let (scale, shift, factors) = ([1.5, -0.5], [0.2, 0.3], [0.7, 2.0]);
        let [leaky, snake] = thread_pool::run(|pool| {
            [Activation::LeakyRelu(0.2), Activation::Snake(&factors)]
                .map(|activation| instance_norm(&x, pool, &scale, &shift, activation))
        });
        for (channel, ((scale, shift), factor)) in scale.iter().zip(shift).zip(factors).enumerate() {
            let values: Vec<f64> = x.channel(channel).iter().map(|value| f64::from(*value)).collect();
            let mean = values.iter().sum::<f64>() / 77.0;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 77.0;
            for (at, value) in values.iter().enumerate() {
                let y = (value - mean) / (variance + 1e-5).sqrt() * f64::from(*scale) + f64::from(shift);
                let a = f64::from(factor);
                let wanted = [if y < 0.0 { 0.2 * y } else { y }, y + (a * y).sin().powi(2) / a];
                for (ours, wanted) in [&leaky, &snake].into_iter().zip(wanted) {
                    let ours = f64::from(ours.channel(channel)[at]);
                    assert!((ours - wanted).abs() < 1e-5, "{ours}, not {wanted}");
                }
            }
        }
    }
}
