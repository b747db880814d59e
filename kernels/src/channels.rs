//! Frames of many channels, channel by channel in memory, on the CPU: what convolutions and instance norms read and write.

use crate::thread_pool::ThreadPool;

/// Frames of zeros before and after the frames of each channel.
pub const MARGIN: usize = 32;
/// Values of a cache line.
const LINE: usize = 16;

/// `[channels, frames]` with zeros around the frames of each channel.
#[derive(Clone, Debug)]
pub struct Channels {
    values: Vec<f32>,
    channels: usize,
    frames: usize,
    /// Values from one channel to the next.
    stride: usize,
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
