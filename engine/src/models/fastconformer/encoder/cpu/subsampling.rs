//! Eightfold convolutional subsampling with channels innermost.

use std::ops::Range;

use auricle_kernels::convolution::depthwise::cpu::DepthwiseConv;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;

use super::super::stages::{self, KERNEL, Padding, STRIDE};
use crate::error::Result;
use crate::layers::{Bias, Packed, apply_in_place};
use crate::models::fastconformer::config::{Class, EncoderConfig};
use crate::weights::Scope;

/// The stages and the projection to the encoder's width.
#[derive(Debug)]
pub struct Subsampling {
    /// The first convolution, over a window of 3 x 3 values.
    first: Packed,
    /// The other stages: a depthwise convolution, then a 1x1 convolution over the channels.
    stages: Vec<(DepthwiseConv, Packed)>,
    projection: Packed,
    padding: Padding,
    mels: usize,
}

/// The last input frame of each causal stage: `[bins, channels]`.
#[derive(Clone, Debug)]
pub struct SubsamplingState(Vec<Vec<f32>>);

impl SubsamplingState {
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|stage| size_of_val(stage.as_slice())).sum()
    }
}

impl Subsampling {
    /// Reads the stages under `scope` by the names of `class`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, class: Class, config: &EncoderConfig) -> Result<Self> {
        let (channels, mels, size) = (config.subsampling_conv_channels, config.num_mel_bins, config.hidden_size);
        let padding = Padding::from(class);
        let weights = |scope: &Scope| {
            Ok((scope.values("weight", &[channels, 1, KERNEL, KERNEL])?, scope.values("bias", &[channels])?))
        };
        let (first, others) = stages::scopes(scope, padding, config);
        let (weight, bias) = weights(&first)?;
        let first = Packed::new(&weight, bias, Precision::F32);
        let stage = |(strided, over): &(Scope, Scope)| {
            let (weight, bias) = weights(strided)?;
            let over = Packed::load_scaled(over, &[channels, channels, 1, 1], Bias::With, 1.0)?;
            Ok((DepthwiseConv::new(&weight, bias), over))
        };
        let stages = others.iter().map(stage).collect::<Result<Vec<_>>>()?;
        // The published weights have channels outermost, bins inside; here bins are outermost.
        let bins = padding.bins_after(1 + stages.len(), mels);
        let linear = scope.scope("linear");
        let published = linear.values("weight", &[size, channels * bins])?;
        let inputs = (0..bins).flat_map(|bin| (0..channels).map(move |channel| channel * bins + bin));
        let inputs: Vec<usize> = inputs.collect();
        let rows = published.chunks_exact(channels * bins);
        let weight: Vec<f32> = rows.flat_map(|row| inputs.iter().map(|input| row[*input])).collect();
        let projection = Packed::new(&weight, linear.values("bias", &[size])?, Precision::F32);
        Ok(Self { first, stages, projection, padding, mels })
    }

    /// The state before the first chunk: silence before the utterance.
    pub fn start(&self) -> SubsamplingState {
        let channels = self.first.outputs();
        let widths = (0..=self.stages.len()).map(|stage| {
            let bins = self.padding.bins_after(stage, self.mels);
            if stage == 0 { bins } else { bins * channels }
        });
        SubsamplingState(widths.map(|width| vec![0.0; width]).collect())
    }

    /// Subsamples `features` `[rows, frames, mels]`, of which each row's `valid` are real, to `[rows, frames / 8,
    /// hidden]` and the real ranges there. Chunks of a causal stream have `8 n` frames and advance `carries`; whole
    /// utterances have any length.
    pub fn forward(
        &self,
        pool: &ThreadPool,
        features: Vec<f32>,
        frames: usize,
        valid: &[Range<usize>],
        carries: &mut [&mut SubsamplingState],
    ) -> (Vec<f32>, Vec<Range<usize>>) {
        let mut valid = valid.to_vec();
        let (mut x, mut frames, mut bins) = (features, frames, self.mels);
        let channels = self.first.outputs();
        for stage in 0..=self.stages.len() {
            let width = if stage == 0 { bins } else { bins * channels };
            zero_padding(&mut x, frames * width, width, &valid);
            let (count, wide) = (frames.div_ceil(STRIDE), self.padding.bins(bins));
            let shape = [frames * width, width];
            let carried: Vec<&mut Vec<f32>> = carries.iter_mut().map(|carry| &mut carry.0[stage]).collect();
            let mut next = match stage.checked_sub(1).map(|stage| &self.stages[stage]) {
                None => {
                    let mut places = vec![0f32; valid.len() * count * wide * KERNEL * KERNEL];
                    let out = places.chunks_exact_mut(count * wide * KERNEL * KERNEL);
                    self.windows(pool, &x, shape, carried, out, |frames, out| {
                        self.neighbours(frames, out);
                    });
                    self.first.forward(pool, &places)
                }
                Some((depthwise, over)) => {
                    let mut each = vec![0f32; valid.len() * count * wide * channels];
                    let out = each.chunks_exact_mut(count * wide * channels);
                    self.windows(pool, &x, shape, carried, out, |frames, out| {
                        depthwise.forward_frame(frames, self.before(), out);
                    });
                    over.forward(pool, &each)
                }
            };
            // Frame t of a causal stage depends on frames 2t-1, 2t, 2t+1 of its input.
            valid.iter_mut().for_each(|valid| *valid = valid.start / STRIDE..valid.end.div_ceil(STRIDE));
            apply_in_place(pool, &mut next, |values| values.iter_mut().for_each(|value| *value = value.max(0.0)));
            (x, frames, bins) = (next, count, wide);
        }
        zero_padding(&mut x, frames * bins * channels, bins * channels, &valid);
        (self.projection.forward(pool, &x), valid)
    }

    /// Zero bins below the first.
    fn before(&self) -> usize {
        match self.padding {
            Padding::Causal => KERNEL - 1,
            Padding::Symmetric => 1,
        }
    }

    /// Calls `of` with each window of three frames of `width` values, at a stride of two, in each row of `x` `[rows,
    /// row]`, and with the window's part of `out`. `carried` holds the frames before and is advanced.
    fn windows<'a>(
        &self,
        pool: &ThreadPool,
        x: &[f32],
        [row, width]: [usize; 2],
        carried: Vec<&mut Vec<f32>>,
        out: impl Iterator<Item = &'a mut [f32]>,
        of: impl Fn([&[f32]; 3], &mut [f32]) + Sync,
    ) {
        let mut work: Vec<_> = x.chunks_exact(row).zip(out).zip(carried).collect();
        let nothing = vec![0f32; width];
        let nothing = &nothing;
        pool.for_each_item(&mut work, |_, ((x, out), carried)| {
            let frames: Vec<&[f32]> = x.chunks_exact(width).collect();
            let count = frames.len().div_ceil(STRIDE);
            for (at, out) in out.chunks_exact_mut(out.len() / count).enumerate() {
                let past = if at == 0 { carried.as_slice() } else { frames[STRIDE * at - 1] };
                let next = frames.get(STRIDE * at + 1).copied().unwrap_or(nothing);
                of([past, frames[STRIDE * at], next], out);
            }
            if let (Padding::Causal, Some(last)) = (self.padding, frames.last()) {
                carried.copy_from_slice(last);
            }
        });
    }

    /// Copies the 3 x 3 windows of three frames, at every second bin.
    fn neighbours(&self, frames: [&[f32]; 3], out: &mut [f32]) {
        let before = self.before();
        for (bin, out) in out.chunks_exact_mut(KERNEL * KERNEL).enumerate() {
            for (frame, out) in frames.iter().zip(out.chunks_exact_mut(KERNEL)) {
                for (column, out) in out.iter_mut().enumerate() {
                    let at = (STRIDE * bin + column).wrapping_sub(before);
                    *out = frame.get(at).copied().unwrap_or(0.0);
                }
            }
        }
    }
}

/// Zeroes the frames of `x` `[rows, row]`, of `width` values each, outside each row's `valid` range.
fn zero_padding(x: &mut [f32], row: usize, width: usize, valid: &[Range<usize>]) {
    for (x, valid) in x.chunks_exact_mut(row).zip(valid) {
        let end = (valid.end * width).min(row);
        x[..(valid.start * width).min(end)].fill(0.0);
        x[end..].fill(0.0);
    }
}
