//! The network on the CPU: each window by itself in plain memory, which stays in a core's cache.

use auricle_kernels::activation::tanh_in_place;
use auricle_kernels::pooling::mean_and_deviation;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};

use super::config::{Config, FRONT_TAPS, VARIANCE_FLOOR};
use crate::error::Result;
use crate::layers::{Bias, Packed};
use crate::weights::{Scope, Weights};

/// A window has the thread to itself: other threads have other windows.
const ALONE: &ThreadPool = &ThreadPool::SINGLE_THREADED;

/// The network.
#[derive(Clone, Debug)]
pub struct Network {
    front: Convolution,
    blocks: Vec<Block>,
    join: Packed,
    attend: Packed,
    context: Packed,
    weigh: Packed,
    embed: Packed,
    config: Config,
}

/// An SE-Res2 block.
#[derive(Clone, Debug)]
struct Block {
    first: Packed,
    parts: Vec<Convolution>,
    last: Packed,
    squeeze: Packed,
    excite: Packed,
}

/// A convolution over frames with zeros at both ends, then ReLU.
#[derive(Clone, Debug)]
struct Convolution {
    /// `[taps * inputs]` to `[outputs]`, the earliest tap first.
    product: Packed,
    inputs: usize,
    taps: usize,
    dilation: usize,
    stride: usize,
}

impl Network {
    /// Reads the tensors.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(weights: &Weights, config: &Config, precision: Precision) -> Result<Self> {
        let &Config { mels, channels, bottleneck, pooled, embedding, .. } = config;
        let blocks = weights.scope("blocks");
        let load_block = |(at, dilation): (usize, &usize)| Block::load(&blocks.scope(at), config, *dilation, precision);
        let all = channels * config.dilations.len();
        Ok(Self {
            front: Convolution::load(&weights.scope("front"), [mels, channels, FRONT_TAPS], [1, 2], precision)?,
            blocks: config.dilations.iter().enumerate().map(load_block).collect::<Result<_>>()?,
            join: for_frames(&weights.scope("join"), all, pooled, precision)?,
            attend: for_frames(&weights.scope("attend"), pooled, bottleneck, precision)?,
            context: Packed::load_scaled(&weights.scope("context"), &[bottleneck, 2 * pooled], Bias::Without, 1.0)?,
            weigh: for_frames(&weights.scope("weigh"), bottleneck, pooled, precision)?,
            embed: Packed::load(&weights.scope("embed"), 2 * pooled, embedding, Precision::F32)?,
            config: config.clone(),
        })
    }

    /// Embeds windows of `frames` each: `[rows, frames, mels]` to `[rows, embedding]`, each of unit length.
    pub fn embed(&self, mels: &[f32], frames: usize) -> Vec<f32> {
        let mut windows: Vec<_> =
            mels.chunks_exact(frames * self.config.mels).map(|window| (window, Vec::new())).collect();
        thread_pool::run(|pool| {
            pool.for_each_item(&mut windows, |_, (window, embedding)| *embedding = self.embed_window(window));
        });
        windows.into_iter().flat_map(|(_, embedding)| embedding).collect()
    }

    /// `[frames, mels]` to `[embedding]`.
    fn embed_window(&self, mels: &[f32]) -> Vec<f32> {
        let Config { mels: bands, pooled, .. } = self.config;
        let mean = mean_over_frames(mels, bands);
        let centred: Vec<f32> =
            mels.chunks_exact(bands).flat_map(|row| row.iter().zip(&mean).map(|(value, mean)| value - mean)).collect();
        let mut x = self.front.forward(&centred);
        let (width, all) = (self.config.channels, self.config.channels * self.blocks.len());
        let mut outputs = vec![0.0; x.len() * self.blocks.len()];
        for (at, block) in self.blocks.iter().enumerate() {
            x = block.forward(x);
            for (to, row) in outputs.chunks_exact_mut(all).zip(x.chunks_exact(width)) {
                to[at * width..][..width].copy_from_slice(row);
            }
        }
        let mut x = self.join.forward(ALONE, &outputs);
        relu(&mut x);
        let context = self.context.forward(ALONE, &mean_and_deviation(&x, None, pooled, VARIANCE_FLOOR));
        let mut attended = self.attend.forward(ALONE, &x);
        for row in attended.chunks_exact_mut(context.len()) {
            row.iter_mut().zip(&context).for_each(|(value, context)| *value += context);
        }
        tanh_in_place(&mut attended);
        let scores = self.weigh.forward(ALONE, &attended);
        let mut out = self.embed.forward(ALONE, &mean_and_deviation(&x, Some(&scores), pooled, VARIANCE_FLOOR));
        let length = out.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-12);
        out.iter_mut().for_each(|value| *value /= length);
        out
    }
}

impl Block {
    fn load(scope: &Scope, config: &Config, dilation: usize, precision: Precision) -> Result<Self> {
        let Config { channels, bottleneck, .. } = *config;
        let part = channels / config.parts;
        let parts = scope.scope("parts");
        let load_part = |at| Convolution::load(&parts.scope(at), [part, part, 3], [dilation, 1], precision);
        Ok(Self {
            first: for_frames(&scope.scope("first"), channels, channels, precision)?,
            parts: (0..config.parts - 1).map(load_part).collect::<Result<_>>()?,
            last: for_frames(&scope.scope("last"), channels, channels, precision)?,
            squeeze: Packed::load(&scope.scope("squeeze"), channels, bottleneck, Precision::F32)?,
            excite: Packed::load(&scope.scope("excite"), bottleneck, channels, Precision::F32)?,
        })
    }

    /// `[frames, channels]` to the same.
    fn forward(&self, mut x: Vec<f32>) -> Vec<f32> {
        let channels = self.excite.outputs();
        let part = channels / (self.parts.len() + 1);
        let mut y = self.first.forward(ALONE, &x);
        relu(&mut y);
        for (at, layer) in self.parts.iter().enumerate() {
            // The first layer hears its own part alone; the others hear the result before theirs as well.
            let first = (at + 1) * part;
            let mut heard = Vec::with_capacity(y.len() / channels * part);
            for row in y.chunks_exact(channels) {
                let own = &row[first..][..part];
                match at {
                    0 => heard.extend_from_slice(own),
                    _ => heard.extend(own.iter().zip(&row[first - part..]).map(|(own, before)| own + before)),
                }
            }
            let done = layer.forward(&heard);
            for (row, done) in y.chunks_exact_mut(channels).zip(done.chunks_exact(part)) {
                row[first..][..part].copy_from_slice(done);
            }
        }
        let mut y = self.last.forward(ALONE, &y);
        relu(&mut y);
        let mut gate = self.squeeze.forward(ALONE, &mean_over_frames(&y, channels));
        relu(&mut gate);
        let mut gate = self.excite.forward(ALONE, &gate);
        gate.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp()));
        for (x, y) in x.chunks_exact_mut(channels).zip(y.chunks_exact(channels)) {
            x.iter_mut().zip(y.iter().zip(&gate)).for_each(|(x, (y, gate))| *x += y * gate);
        }
        x
    }
}

impl Convolution {
    /// Reads `weight` `[outputs, inputs, taps]` and `bias`.
    fn load(
        scope: &Scope,
        [inputs, outputs, taps]: [usize; 3],
        [dilation, stride]: [usize; 2],
        precision: Precision,
    ) -> Result<Self> {
        let published = scope.values("weight", &[outputs, inputs, taps])?;
        let mut weight = Vec::with_capacity(published.len());
        for row in published.chunks_exact(inputs * taps) {
            weight.extend((0..taps).flat_map(|tap| row.iter().skip(tap).step_by(taps)));
        }
        let product = Packed::for_rows(&weight, scope.values("bias", &[outputs])?, precision);
        Ok(Self { product, inputs, taps, dilation, stride })
    }

    /// `[frames, inputs]` to `[frames / stride, outputs]`, rounded up.
    fn forward(&self, x: &[f32]) -> Vec<f32> {
        let (inputs, frames) = (self.inputs, x.len() / self.inputs);
        let before = self.taps / 2 * self.dilation;
        let mut heard = vec![0.0; frames.div_ceil(self.stride) * self.taps * inputs];
        for (at, row) in heard.chunks_exact_mut(self.taps * inputs).enumerate() {
            for (tap, to) in row.chunks_exact_mut(inputs).enumerate() {
                let place = (at * self.stride + tap * self.dilation).checked_sub(before);
                if let Some(place) = place.filter(|place| *place < frames) {
                    to.copy_from_slice(&x[place * inputs..][..inputs]);
                }
            }
        }
        let mut out = self.product.forward(ALONE, &heard);
        relu(&mut out);
        out
    }
}

/// Reads a layer over frames, `weight` `[outputs, inputs, 1]` and `bias`.
fn for_frames(scope: &Scope, inputs: usize, outputs: usize, precision: Precision) -> Result<Packed> {
    Packed::load_for_rows(scope, &[outputs, inputs, 1], Bias::With, 1.0, precision)
}

fn relu(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value = value.max(0.0));
}

/// `[frames, width]` to `[width]`.
fn mean_over_frames(x: &[f32], width: usize) -> Vec<f32> {
    let mut mean = vec![0.0; width];
    for row in x.chunks_exact(width) {
        mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    let frames = (x.len() / width) as f32;
    mean.iter_mut().for_each(|sum| *sum /= frames);
    mean
}
