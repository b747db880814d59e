//! Mixes many channels to one.
//!
//! The mean, not a surround down-mix: speech may be in any one channel (a call with one speaker per side, a conference recorder with
//! 64 microphones), and the mean loses none of them and cannot clip. Only where the channels cancel each other, as in a stereo
//! recording of opposite polarity, is the loudest channel taken in its place.

use super::LIMIT;

/// Frames of which the energies are summed before they count.
const BLOCK: u32 = 32;
/// Weight of such a block in the running energies: they reach back about 1,000 frames, 20 to 60 ms.
const WEIGHT: f32 = 1.0 / 32.0;
/// The channels cancel each other when the mean has less than this part (-6 dB) of what unrelated channels would leave, and do so
/// no more above the second.
const CANCELED: f32 = 0.25;
const RESTORED: f32 = 0.5;
/// Frames for which they must do so.
const PATIENCE: u32 = 256;
/// Energy below which there is nothing to lose: -80 dB of full scale.
const SILENCE: f32 = 1e-8;
/// Frames from one mix to another, so that none is heard as a click.
const FADE: f32 = 512.0;

/// Mixes a stream of interleaved channels.
#[derive(Debug, Default)]
pub(super) struct Mixer {
    /// The one channel that is taken.
    only: Option<usize>,
    /// Channels of the last frames.
    count: usize,
    /// Running energy of a block of each channel and of the mean.
    channels: Vec<f32>,
    mean: f32,
    /// Frames of the current block, and their energies.
    frames: u32,
    block_channels: Vec<f32>,
    block_mean: f32,
    /// Frames in a row that call for the other mix.
    against: u32,
    /// The channel that is taken in place of the mean.
    loudest: Option<usize>,
    /// Weight of each channel; none while all count alike.
    weights: Option<Vec<f32>>,
    /// Frames whose channels canceled each other.
    canceled: u64,
    rate: u32,
}

impl Mixer {
    /// Takes one channel alone, counted from 0, instead of mixing.
    pub(super) fn of(only: Option<usize>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Number of channels, once there are frames.
    pub(super) fn channels(&self) -> usize {
        self.count
    }

    /// Appends one sample for each frame of `channels` interleaved channels at this rate: `[frames * channels]` -> `[frames]`.
    pub(super) fn mix(&mut self, interleaved: &[f32], channels: usize, rate: u32, out: &mut Vec<f32>) {
        (self.rate, self.count) = (rate, channels);
        out.reserve(interleaved.len() / channels.max(1));
        if channels < 2 {
            return out.extend(interleaved.iter().copied().take(interleaved.len() * channels).map(sanitize));
        }
        if let Some(only) = self.only {
            let frames = interleaved.chunks_exact(channels);
            return out.extend(frames.map(|frame| frame.get(only).copied().map_or(0.0, sanitize)));
        }
        if self.channels.len() != channels {
            let canceled = self.canceled;
            *self = Self { count: channels, canceled, rate, ..Self::default() };
            self.channels = vec![0.0; channels];
            self.block_channels = vec![0.0; channels];
        }
        let scale = 1.0 / channels as f32;
        let mut rest = interleaved;
        while rest.len() >= channels {
            if channels == 2 && self.frames == 0 && self.weights.is_none() && rest.len() >= 2 * BLOCK as usize {
                let (block, after) = rest.split_at(2 * BLOCK as usize);
                self.mix_stereo_block(block, out);
                rest = after;
                continue;
            }
            let (frame, after) = rest.split_at(channels);
            rest = after;
            let mean = match frame {
                [left, right] => (sanitize(*left) + sanitize(*right)) * 0.5,
                _ => frame.iter().copied().map(sanitize).sum::<f32>() * scale,
            };
            self.follow(frame, mean);
            out.push(self.weighted(frame, scale).unwrap_or(mean));
        }
    }

    /// Appends the means of a whole block of two channels that count alike: what most recordings are.
    fn mix_stereo_block(&mut self, block: &[f32], out: &mut Vec<f32>) {
        let [mut left_energy, mut right_energy, mut mean_energy] = [0.0; 3];
        let (frames, _) = block.as_chunks::<2>();
        out.extend(frames.iter().map(|[left, right]| {
            let (left, right) = (sanitize(*left), sanitize(*right));
            let mean = (left + right) * 0.5;
            left_energy += left * left;
            right_energy += right * right;
            mean_energy += mean * mean;
            mean
        }));
        self.block_channels.copy_from_slice(&[left_energy, right_energy]);
        self.block_mean = mean_energy;
        self.end_block();
        // The last sample of the block that decides has its first step to the other mix.
        if self.weights.is_some()
            && let (Some(last), Some(mixed)) = (frames.last(), out.last_mut())
        {
            *mixed = self.weighted(last, 0.5).unwrap_or(*mixed);
        }
    }

    /// What there is to say about the mix, if anything.
    pub(super) fn warning(&self) -> Option<String> {
        let seconds = self.canceled as f64 / f64::from(self.rate.max(1));
        (seconds >= 0.1).then(|| {
            format!(
                "the channels cancel each other (opposite polarity) for {seconds:.1} s; the loudest was taken there"
            )
        })
    }

    /// Follows the energies, and decides for the mean or for a channel at the end of each block.
    fn follow(&mut self, frame: &[f32], mean: f32) {
        for (energy, sample) in self.block_channels.iter_mut().zip(frame) {
            let sample = sanitize(*sample);
            *energy += sample * sample;
        }
        self.block_mean += mean * mean;
        self.canceled += u64::from(self.loudest.is_some());
        self.frames += 1;
        if self.frames == BLOCK {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        self.frames = 0;
        for (energy, block) in self.channels.iter_mut().zip(&mut self.block_channels) {
            *energy += WEIGHT * (std::mem::take(block) - *energy);
        }
        self.mean += WEIGHT * (std::mem::take(&mut self.block_mean) - self.mean);
        let unrelated = self.channels.iter().sum::<f32>() / (self.channels.len() as f32).powi(2);
        let wanted = match self.loudest {
            None => unrelated > SILENCE * BLOCK as f32 && self.mean < CANCELED * unrelated,
            Some(_) => self.mean < RESTORED * unrelated,
        };
        self.against = if wanted == self.loudest.is_some() { 0 } else { self.against + BLOCK };
        if self.against < PATIENCE {
            return;
        }
        self.against = 0;
        self.loudest = match self.loudest {
            Some(_) => None,
            None => {
                self.canceled += u64::from(PATIENCE);
                let energies = self.channels.iter().enumerate();
                energies.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(channel, _)| channel)
            }
        };
        let alike = || vec![1.0 / self.count as f32; self.count];
        self.weights.get_or_insert_with(alike);
    }

    /// The sample of a frame whose channels do not count alike.
    fn weighted(&mut self, frame: &[f32], scale: f32) -> Option<f32> {
        let weights = self.weights.as_mut()?;
        let mut arrived = true;
        let mut sum = 0.0;
        for (channel, (weight, sample)) in weights.iter_mut().zip(frame).enumerate() {
            let target = match self.loudest {
                None => scale,
                Some(loudest) => f32::from(u8::from(channel == loudest)),
            };
            *weight += (target - *weight).clamp(-1.0 / FADE, 1.0 / FADE);
            arrived &= (*weight - target).abs() < 1e-6;
            sum += sanitize(*sample) * *weight;
        }
        if arrived && self.loudest.is_none() {
            self.weights = None;
        }
        Some(sum)
    }
}

/// Replaces NaN and infinities by 0 and clips other values to +-[`LIMIT`].
pub(crate) fn sanitize(sample: f32) -> f32 {
    if sample.is_finite() { sample.clamp(-LIMIT, LIMIT) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(interleaved: &[f32], channels: usize) -> Vec<f32> {
        let mut out = Vec::new();
        Mixer::default().mix(interleaved, channels, 16_000, &mut out);
        out
    }

    #[test]
    fn channels_are_averaged() {
        assert_eq!(mixed(&[0.5, -0.25], 1), [0.5, -0.25]);
        assert_eq!(mixed(&[0.5, 0.25, 1.0, -1.0], 2), [0.375, 0.0]);
        assert_eq!(mixed(&[0.3, 0.6, 0.9], 3), [0.6]);
        assert_eq!(mixed(&[1.0; 64], 64), [1.0]);
    }

    #[test]
    fn one_channel_is_taken_alone() {
        let mut out = Vec::new();
        let mut mixer = Mixer::of(Some(1));
        mixer.mix(&[0.5, 0.25, 1.0, -1.0], 2, 16_000, &mut out);
        assert_eq!((&out[..], mixer.channels()), (&[0.25, -1.0][..], 2));
        Mixer::of(Some(2)).mix(&[0.5, 0.25], 2, 16_000, &mut out);
        assert_eq!(out, [0.25, -1.0, 0.0]);
    }

    #[test]
    fn an_incomplete_last_frame_is_dropped() {
        assert_eq!(mixed(&[1.0, 1.0, 1.0], 2), [1.0]);
        assert_eq!(mixed(&[1.0, 1.0, 1.0, 1.0], 3), [1.0]);
        assert!(mixed(&[1.0], 0).is_empty());
    }

    #[test]
    fn a_bad_sample_spoils_neither_its_frame_nor_its_neighbours() {
        assert_eq!(mixed(&[f32::NAN, 0.5, f32::INFINITY, -0.5], 2), [0.25, -0.25]);
        assert_eq!(mixed(&[f32::NAN, f32::NEG_INFINITY], 1), [0.0, 0.0]);
        assert_eq!(mixed(&[1.5, -1.5, 1e30], 1), [1.5, -1.5, LIMIT]);
    }

    /// A voice-like sound at a level, `channels` of it with these signs and levels.
    fn sound(frames: usize, levels: &[f32]) -> Vec<f32> {
        let sample = |n: usize| (n as f32 * 0.05).sin() * (0.6 + 0.4 * (n as f32 * 0.0011).sin());
        (0..frames).flat_map(|n| levels.iter().map(move |level| sample(n) * level)).collect()
    }

    fn energy(samples: &[f32]) -> f32 {
        samples.iter().map(|sample| sample * sample).sum::<f32>() / samples.len() as f32
    }

    #[test]
    fn channels_of_opposite_polarity_do_not_cancel() {
        for levels in [&[0.4, -0.4][..], &[0.4, -0.37], &[0.4, -0.4, 0.3, -0.3]] {
            let (pushed, alone) = (sound(32_000, levels), sound(32_000, &levels[..1]));
            let mut mixer = Mixer::default();
            let mut out = Vec::new();
            // In pieces of any size, to the same samples.
            for piece in pushed.chunks(levels.len() * 333) {
                mixer.mix(piece, levels.len(), 16_000, &mut out);
            }
            assert_eq!(out, mixed(&pushed, levels.len()));
            let (heard, said) = (energy(&out[2_000..]), energy(&alone[2_000..]));
            assert!(heard > 0.9 * said, "{levels:?}: {heard} of {said}");
            assert!(mixer.warning().is_some_and(|warning| warning.contains("opposite polarity")));
        }
    }

    #[test]
    fn ordinary_channels_keep_their_mean_and_need_no_warning() {
        // The same in both, one side only, one much softer, and two sounds that have nothing to do with each other.
        let one_side = sound(16_000, &[0.5, 0.0]);
        let unrelated: Vec<f32> =
            (0..16_000).flat_map(|n| [(n as f32 * 0.05).sin() * 0.5, (n as f32 * 0.081).sin() * 0.5]).collect();
        for stereo in [sound(16_000, &[0.5, 0.5]), one_side, sound(16_000, &[0.5, -0.1]), unrelated] {
            let mut mixer = Mixer::default();
            let mut out = Vec::new();
            mixer.mix(&stereo, 2, 16_000, &mut out);
            let mean: Vec<f32> = stereo.as_chunks::<2>().0.iter().map(|[l, r]| (l + r) * 0.5).collect();
            assert!(out == mean && mixer.warning().is_none());
        }
    }

    #[test]
    fn the_mean_returns_where_the_channels_agree_again() {
        let both = [sound(16_000, &[0.5, -0.5]), sound(16_000, &[0.5, 0.5])].concat();
        let mean: Vec<f32> = both.as_chunks::<2>().0.iter().map(|[l, r]| (l + r) * 0.5).collect();
        let out = mixed(&both, 2);
        assert_eq!(out[28_000..], mean[28_000..]);
    }
}
