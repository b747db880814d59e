//! Eightfold convolutional subsampling: mel frames of 10 ms in, encoder frames of 80 ms out.

use std::ops::Range;

use auricle_kernels::activation;
use auricle_kernels::activation::Activation;
use auricle_kernels::cache::state::BatchSlots;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, TensorData, module};

use super::super::stages::{self, KERNEL, Padding, STRIDE};
use super::arena::StateTensor;
use crate::error::Result;
use crate::layers::{Bias, Linear};
use crate::models::fastconformer::config::{Class, EncoderConfig};
use crate::weights::Scope;

/// The most values that the first stage, which has the most, computes at a time for whole utterances: as f32 half of the 2 GiB that a
/// buffer may have on most cards.
const MAX_VALUES: usize = 1 << 28;

/// One stride-2 convolution, and the 1x1 convolution after it in all stages but the first.
#[derive(Clone, Debug)]
struct Stage {
    /// `[channels, inputs / groups, 3, 3]`
    weight: Tensor<4>,
    /// `[channels]`
    bias: Tensor<1>,
    groups: usize,
    pointwise: Option<Linear>,
}

/// The stages and the projection to the encoder's width. The products take channels side by side, `[batch, frames, bins, channels]`, as
/// which the convolutions leave them.
#[derive(Clone, Debug)]
pub struct Subsampling {
    stages: Vec<Stage>,
    /// Takes the channels of a bin side by side, where the published one takes the bins of a channel.
    projection: Linear,
    padding: Padding,
}

impl Subsampling {
    /// Reads the stages under `scope` by the names of `class`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, class: Class, config: &EncoderConfig) -> Result<Self> {
        let channels = config.subsampling_conv_channels;
        let padding = Padding::from(class);
        let (first, others) = stages::scopes(scope, padding, config);
        let mut stages = vec![Stage::load(&first, None, channels)?];
        for (strided, pointwise) in &others {
            stages.push(Stage::load(strided, Some(pointwise), channels)?);
        }
        let (bins, size) = (padding.bins_after(stages.len(), config.num_mel_bins), config.hidden_size);
        let linear = scope.scope("linear");
        let (published, bias) = (linear.values("weight", &[size, channels * bins])?, linear.values("bias", &[size])?);
        let mut weight = vec![0.0; published.len()];
        for (at, value) in published.into_iter().enumerate() {
            let (output, channel, bin) = (at / (channels * bins), at / bins % channels, at % bins);
            weight[(bin * channels + channel) * size + output] = value;
        }
        let projection = Linear::from_values(weight, channels * bins, size, Some(bias), scope.device());
        Ok(Self { stages, projection, padding })
    }

    /// Shapes of a stream's state between chunks: the last input frame of each stage, `[channels, 1, bins]`.
    pub fn carried(&self, mels: usize) -> Vec<[usize; 3]> {
        let mut bins = mels;
        let stage = |stage: &Stage| {
            let channels = if stage.pointwise.is_some() { stage.groups } else { 1 };
            let shape = [channels, 1, bins];
            bins = self.padding.bins(bins);
            shape
        };
        self.stages.iter().map(stage).collect()
    }

    /// Subsamples whole utterances: `features` `[batch, frames, mels]`, of which `lengths` frames are real, to `[batch,
    /// frames / 8, hidden]` and the number of real frames there.
    pub fn forward(&self, features: Tensor<3>, lengths: &[usize]) -> (Tensor<3>, Vec<usize>) {
        debug_assert_eq!(self.padding, Padding::Symmetric);
        let [rows, frames, mels] = features.dims();
        let channels = self.stages.first().map_or(1, |stage| stage.weight.dims()[0]);
        let of_row = channels * frames.div_ceil(STRIDE) * mels.div_ceil(STRIDE);
        let step = (MAX_VALUES / of_row.max(1)).max(1);
        if rows <= step {
            return self.forward_together(features, lengths);
        }
        let parts = lengths.chunks(step).enumerate();
        let parts = parts
            .map(|(at, lengths)| self.forward_together(features.clone().narrow(0, at * step, lengths.len()), lengths));
        let (parts, lengths): (Vec<_>, Vec<_>) = parts.unzip();
        (Tensor::cat(parts, 0), lengths.concat())
    }

    fn forward_together(&self, features: Tensor<3>, lengths: &[usize]) -> (Tensor<3>, Vec<usize>) {
        let mut lengths = lengths.to_vec();
        let mut x = features.unsqueeze_dim::<4>(1);
        for stage in &self.stages {
            let [_, _, frames, _] = x.dims();
            // A frame past an utterance's end would leak into the last real ones, so it is zeroed at every stage.
            x = stage.forward(mask_frames(x, &valid(&lengths, frames)), [(1, 1), (1, 1)]);
            lengths.iter_mut().for_each(|n| *n = n.div_ceil(STRIDE));
        }
        let [_, _, frames, _] = x.dims();
        let x = mask_frames(x, &valid(&lengths, frames));
        (self.project(x), lengths)
    }

    /// Subsamples a chunk of a causal stream: `features` `[batch, 8 n, mels]`, of which each row's `valid` frames are
    /// real (the first chunk of an utterance begins with 7 frames that are not), to `[batch, n, hidden]` and the real
    /// ranges there.
    pub fn forward_chunk(
        &self,
        features: Tensor<3>,
        valid: &[Range<usize>],
        carried: &mut [StateTensor],
        slots: &BatchSlots,
    ) -> (Tensor<3>, Vec<Range<usize>>) {
        debug_assert_eq!(self.padding, Padding::Causal);
        let mut valid = valid.to_vec();
        let mut x = features.unsqueeze_dim::<4>(1);
        for (stage, carried) in self.stages.iter().zip(carried) {
            let joined = carried.follow(slots, mask_frames(x, &valid));
            // Frequency is padded as in the causal convolution of the published class: 2 low, 1 high.
            x = stage.forward(joined, [(0, 0), (KERNEL - 1, STRIDE - 1)]);
            // Frame t of the output depends on frames 2t-1, 2t, 2t+1 of the input.
            valid.iter_mut().for_each(|v| *v = v.start / STRIDE..v.end.div_ceil(STRIDE));
        }
        (self.project(mask_frames(x, &valid)), valid)
    }

    /// Projects `[batch, channels, frames, bins]` to `[batch, frames, hidden]`.
    fn project(&self, x: Tensor<4>) -> Tensor<3> {
        let [batch, channels, frames, bins] = x.dims();
        self.projection.forward(x.permute([0, 2, 3, 1]).reshape([batch, frames, bins * channels]))
    }
}

impl Stage {
    fn load(strided: &Scope, pointwise: Option<&Scope>, channels: usize) -> Result<Self> {
        let depthwise = pointwise.is_some();
        let weight = strided.tensor("weight", [channels, 1, KERNEL, KERNEL])?;
        let bias = strided.tensor("bias", [channels])?;
        let pointwise = pointwise
            .map(|scope| Linear::load_scaled(scope, &[channels, channels, 1, 1], Bias::With, 1.0))
            .transpose()?;
        Ok(Self { weight, bias, groups: if depthwise { channels } else { 1 }, pointwise })
    }

    /// Applies the stage and its activation to `[batch, inputs, frames, bins]`.
    fn forward(&self, x: Tensor<4>, padding: [(usize, usize); 2]) -> Tensor<4> {
        let strided = ConvOptions::new_with_padding([STRIDE, STRIDE], padding, [1, 1], self.groups);
        let x = module::conv2d(x, self.weight.clone(), Some(self.bias.clone()), strided);
        match &self.pointwise {
            None => activation::relu(x),
            Some(layer) => {
                let x = layer.forward_activated(x.permute([0, 2, 3, 1]), Activation::Relu);
                x.permute([0, 3, 1, 2])
            }
        }
    }
}

fn valid(lengths: &[usize], frames: usize) -> Vec<Range<usize>> {
    lengths.iter().map(|length| 0..(*length).min(frames)).collect()
}

/// Zeroes the frames of `x` `[batch, channels, frames, bins]` outside each row's `valid`.
fn mask_frames(x: Tensor<4>, valid: &[Range<usize>]) -> Tensor<4> {
    let [batch, _, frames, _] = x.dims();
    if valid.iter().all(|v| v.start == 0 && v.end >= frames) {
        return x;
    }
    let mask: Vec<f32> =
        valid.iter().flat_map(|v| (0..frames).map(|t| if v.contains(&t) { 1.0 } else { 0.0 })).collect();
    let mask = Tensor::from_data(TensorData::new(mask, [batch, 1, frames, 1]), &x.device());
    x * mask
}
