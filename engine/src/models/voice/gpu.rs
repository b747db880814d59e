//! The network in tensors, for GPUs: windows of one length at once.

use burn::tensor::{Tensor, activation};

use super::config::{Config, FRONT_TAPS, VARIANCE_FLOOR};
use super::convolution::Convolution;
use crate::error::Result;
use crate::layers::{Bias, Linear};
use crate::weights::{Scope, Weights};

/// The network.
#[derive(Clone, Debug)]
pub struct Network {
    front: Convolution,
    blocks: Vec<Block>,
    join: Convolution,
    attend: Linear,
    context: Linear,
    weigh: Linear,
    embed: Linear,
}

/// An SE-Res2 block.
#[derive(Clone, Debug)]
struct Block {
    first: Convolution,
    parts: Vec<Convolution>,
    last: Convolution,
    squeeze: Linear,
    excite: Linear,
}

impl Network {
    /// Reads the tensors.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let &Config { mels, channels, bottleneck, pooled, embedding, .. } = config;
        let blocks = weights.scope("blocks");
        let load_block = |(at, dilation): (usize, &usize)| Block::load(&blocks.scope(at), config, *dilation);
        Ok(Self {
            front: Convolution::load(&weights.scope("front"), mels, channels, FRONT_TAPS, 1)?,
            blocks: config.dilations.iter().enumerate().map(load_block).collect::<Result<_>>()?,
            join: Convolution::load(&weights.scope("join"), channels * config.dilations.len(), pooled, 1, 1)?,
            attend: Linear::load_pointwise(&weights.scope("attend"), pooled, bottleneck, Bias::With)?,
            context: Linear::load(&weights.scope("context"), 2 * pooled, bottleneck, Bias::Without)?,
            weigh: Linear::load_pointwise(&weights.scope("weigh"), bottleneck, pooled, Bias::With)?,
            embed: Linear::load(&weights.scope("embed"), 2 * pooled, embedding, Bias::With)?,
        })
    }

    /// `[rows, frames, mels]` to `[rows, embedding]`, each of unit length.
    pub fn embed(&self, mels: Tensor<3>) -> Tensor<2> {
        let device = mels.device();
        let mut x = self.front.forward_halving(mels.clone() - mels.mean_dim(1));
        let mut outputs = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            x = block.forward(x);
            outputs.push(x.clone());
        }
        let x = self.join.forward(Tensor::cat(outputs, 2));
        let even = Tensor::ones(x.dims(), &device) / x.dims()[1] as f32;
        let context: Tensor<3> = self.context.forward(statistics(&x, even)).unsqueeze_dim(1);
        let weights = activation::softmax(self.weigh.forward((self.attend.forward(x.clone()) + context).tanh()), 1);
        let out = self.embed.forward(statistics(&x, weights));
        let length = (out.clone() * out.clone()).sum_dim(1).sqrt().clamp_min(1e-12);
        out / length
    }
}

impl Block {
    fn load(scope: &Scope, config: &Config, dilation: usize) -> Result<Self> {
        let channels = config.channels;
        let part = channels / config.parts;
        let parts = scope.scope("parts");
        Ok(Self {
            first: Convolution::load(&scope.scope("first"), channels, channels, 1, 1)?,
            parts: (0..config.parts - 1)
                .map(|at| Convolution::load(&parts.scope(at), part, part, 3, dilation))
                .collect::<Result<_>>()?,
            last: Convolution::load(&scope.scope("last"), channels, channels, 1, 1)?,
            squeeze: Linear::load(&scope.scope("squeeze"), channels, config.bottleneck, Bias::With)?,
            excite: Linear::load(&scope.scope("excite"), config.bottleneck, channels, Bias::With)?,
        })
    }

    /// `[rows, frames, channels]` to the same.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let y = self.first.forward(x.clone());
        let mut parts = y.chunk(self.parts.len() + 1, 2).into_iter();
        let mut done: Vec<Tensor<3>> = parts.next().into_iter().collect();
        for (at, (layer, part)) in self.parts.iter().zip(parts).enumerate() {
            // The first layer hears its own part alone; the others hear the result before theirs as well.
            let heard = if at == 0 { part } else { part + done[at].clone() };
            done.push(layer.forward(heard));
        }
        let y = self.last.forward(Tensor::cat(done, 2));
        let gate = activation::relu(self.squeeze.forward(y.clone().mean_dim(1)));
        x + y * activation::sigmoid(self.excite.forward(gate))
    }
}

/// Mean and deviation over frames, `[rows, 2 channels]`, of `[rows, frames, channels]`; the weights sum to 1 over frames.
fn statistics(x: &Tensor<3>, weights: Tensor<3>) -> Tensor<2> {
    let [rows, _, channels] = x.dims();
    let weighted = x.clone() * weights;
    let mean = weighted.clone().sum_dim(1).reshape([rows, channels]);
    let square = (weighted * x.clone()).sum_dim(1).reshape([rows, channels]);
    let deviation = (square - mean.clone() * mean.clone()).clamp_min(VARIANCE_FLOOR).sqrt();
    Tensor::cat(vec![mean, deviation], 1)
}
