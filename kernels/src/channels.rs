//! Frames of many channels, channel by channel in memory, on the CPU: what convolutions read and write, and instance normalisation with
//! what follows it.

use crate::thread_pool::ThreadPool;

/// Frames of zeros before and after the frames of each channel.
pub const MARGIN: usize = 32;
/// Values of a cache line.
const LINE: usize = 16;
/// Added to a variance, as published.
pub(crate) const EPSILON: f32 = 1e-5;

/// `[channels, frames]` with zeros around the frames of each channel.
#[derive(Clone, Debug)]
pub struct Channels {
    values: Vec<f32>,
    channels: usize,
    frames: usize,
    /// Values from one channel to the next.
    stride: usize,
}

/// The activation that follows a normalisation.
#[derive(Clone, Copy, Debug)]
pub enum Activation<'a> {
    /// The values, those below 0 times this.
    LeakyRelu(f32),
    /// `x + sin(a x)^2 / a`, with an `a` for each channel.
    Snake(&'a [f32]),
}

impl Channels {
    /// Zeros.
    pub fn zeros(channels: usize, frames: usize) -> Self {
        // An odd number of cache lines: with a power of two between them, all channels would compete for a few lines of the cache.
        let stride = LINE * ((frames + 2 * MARGIN).div_ceil(LINE) | 1);
        Self { values: vec![0.0; channels * stride], channels, frames, stride }
    }

    /// Of `values` `[channels, frames]`.
    ///
    /// # Panics
    /// When there is not a whole number of frames.
    pub fn from_rows(values: &[f32], channels: usize) -> Self {
        assert!(values.len().is_multiple_of(channels), "channels: a whole number of frames");
        let mut out = Self::zeros(channels, values.len() / channels);
        for channel in 0..channels {
            let frames = out.frames;
            out.channel_mut(channel).copy_from_slice(&values[channel * frames..][..frames]);
        }
        out
    }

    /// Of `values` `[frames, channels]`.
    ///
    /// # Panics
    /// When there is not a whole number of frames.
    pub fn from_frames(values: &[f32], channels: usize) -> Self {
        assert!(values.len().is_multiple_of(channels), "channels: a whole number of frames");
        let mut out = Self::zeros(channels, values.len() / channels);
        for channel in 0..channels {
            let column = values.iter().skip(channel).step_by(channels);
            out.channel_mut(channel).iter_mut().zip(column).for_each(|(to, value)| *to = *value);
        }
        out
    }

    /// `[frames, channels]`.
    pub fn to_frames(&self) -> Vec<f32> {
        (0..self.frames).flat_map(|frame| (0..self.channels).map(move |channel| self.channel(channel)[frame])).collect()
    }

    /// `[channels, frames]`, without the margins.
    pub fn to_rows(&self) -> Vec<f32> {
        (0..self.channels).flat_map(|channel| self.channel(channel)).copied().collect()
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The frames of a channel with the zeros around them.
    pub(crate) fn padded(&self, channel: usize) -> &[f32] {
        &self.values[channel * self.stride..][..self.stride]
    }

    /// The frames of a channel.
    pub fn channel(&self, channel: usize) -> &[f32] {
        &self.padded(channel)[MARGIN..][..self.frames]
    }

    /// The frames of a channel.
    pub fn channel_mut(&mut self, channel: usize) -> &mut [f32] {
        &mut self.values[channel * self.stride + MARGIN..][..self.frames]
    }

    /// The channels of all, one after another.
    ///
    /// # Panics
    /// When they differ in their number of frames.
    pub fn concatenated(parts: &[&Self]) -> Self {
        let frames = parts.first().map_or(0, |part| part.frames);
        assert!(parts.iter().all(|part| part.frames == frames), "channels: frames of the parts");
        let values: Vec<f32> = parts.iter().flat_map(|part| &part.values).copied().collect();
        let channels = parts.iter().map(|part| part.channels).sum();
        Self { values, channels, ..Self::zeros(0, frames) }
    }

    /// Applies `with` to the frames of each channel, with its number.
    pub fn for_each_channel(&mut self, pool: &ThreadPool, with: impl Fn(usize, &mut [f32]) + Sync) {
        let frames = self.frames;
        let mut rows: Vec<&mut [f32]> = self.values.chunks_exact_mut(self.stride).collect();
        pool.for_each_item(&mut rows, |channel, row| with(channel, &mut row[MARGIN..][..frames]));
    }

    /// Adds values of the same shape.
    ///
    /// # Panics
    /// When the shapes differ.
    pub fn add(&mut self, pool: &ThreadPool, other: &Self) {
        assert!(self.channels == other.channels && self.frames == other.frames, "channels: shapes of a sum");
        self.for_each_channel(pool, |channel, row| {
            row.iter_mut().zip(other.channel(channel)).for_each(|(to, value)| *to += value);
        });
    }

    /// Multiplies the values below 0.
    pub fn leaky_relu(&mut self, pool: &ThreadPool, slope: f32) {
        self.for_each_channel(pool, |_, row| {
            row.iter_mut().for_each(|value| *value = if *value < 0.0 { *value * slope } else { *value });
        });
    }

    /// Instance normalisation: each channel with mean 0 and variance 1 over its frames, times its `scale`, plus its `shift`; then an
    /// activation.
    ///
    /// # Panics
    /// When there are not as many scales, shifts or parameters of an activation as channels.
    pub fn normalised(&self, pool: &ThreadPool, scale: &[f32], shift: &[f32], activation: Activation) -> Self {
        let count = self.channels;
        assert!(
            scale.len() == count
                && shift.len() == count
                && !matches!(activation, Activation::Snake(a) if a.len() != count),
            "channels: numbers of a normalisation"
        );
        let mut out = self.clone();
        out.for_each_channel(pool, |channel, row| {
            let [scale, shift] = [scale[channel], shift[channel]];
            pulp::Arch::new().dispatch(Normalise { row, scale, shift, channel, activation });
        });
        out
    }
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
    fn layouts_agree() {
        let rows: Vec<f32> = (0..12).map(|at| at as f32).collect();
        let channels = Channels::from_rows(&rows, 3);
        assert_eq!((channels.channels(), channels.frames()), (3, 4));
        assert_eq!(channels.to_frames(), [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
        assert_eq!(Channels::from_frames(&channels.to_frames(), 3).to_rows(), rows);
        let both = Channels::concatenated(&[&channels, &Channels::from_rows(&[20., 21., 22., 23.], 1)]);
        assert_eq!((both.channels(), both.channel(3)), (4, [20., 21., 22., 23.].as_slice()));
    }

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
                .map(|activation| x.normalised(pool, &scale, &shift, activation))
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
