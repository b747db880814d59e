//! The network on GPUs: whole utterances as rows of tensors, padded to the longest.

use auricle_kernels::activation;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData, module};

use super::chunk::MelChunk;
use super::config::Config;
use super::cpu::{EPSILON, TAPS};
use crate::device::read;
use crate::error::Result;
use crate::layers::{Bias, Convolution, Linear};
use crate::weights::{Scope, Weights};

/// The network.
#[derive(Debug)]
pub struct Network {
    embed: Convolution,
    norm: Norm,
    blocks: Vec<Block>,
    last_norm: Norm,
    out: Linear,
    mels: usize,
    outputs: usize,
}

/// A ConvNeXt block.
#[derive(Debug)]
struct Block {
    /// `[channels, 1, 7]` and `[channels]`.
    depthwise: (Tensor<3>, Tensor<1>),
    norm: Norm,
    up: Linear,
    down: Linear,
    /// `[1, 1, channels]`
    gamma: Tensor<3>,
}

/// Layer normalisation with the published epsilon.
#[derive(Debug)]
struct Norm {
    gamma: Tensor<3>,
    beta: Tensor<3>,
}

impl Norm {
    fn load(scope: &Scope, size: usize) -> Result<Self> {
        let read = |name: &str| Ok(scope.tensor(name, [size])?.reshape([1, 1, size]));
        Ok(Self { gamma: read("weight")?, beta: read("bias")? })
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let centred = x.clone() - x.mean_dim(2);
        let variance = (centred.clone() * centred.clone()).mean_dim(2);
        centred / (variance + EPSILON).sqrt() * self.gamma.clone() + self.beta.clone()
    }
}

impl Network {
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let Config { channels, n_mels, n_fft, .. } = *config;
        let backbone = weights.scope("backbone");
        let norm = |name: &str| Norm::load(&backbone.scope(name), channels);
        let blocks = backbone.scope("convnext");
        Ok(Self {
            embed: Convolution::load(&backbone.scope("embed"), n_mels, channels, TAPS)?,
            norm: norm("norm")?,
            blocks: (0..config.layers).map(|at| Block::load(&blocks.scope(at), config)).collect::<Result<_>>()?,
            last_norm: norm("final_layer_norm")?,
            out: Linear::load(&weights.scope("head").scope("out"), channels, n_fft + 2, Bias::With)?,
            mels: n_mels,
            outputs: n_fft + 2,
        })
    }

    /// The outputs, `[frames, n_fft + 2]`, of whole utterances.
    pub fn forward(&self, chunks: &[MelChunk], device: &Device) -> Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = chunks.iter().map(|chunk| chunk.mels.len() / self.mels).collect();
        let (rows, longest) = (chunks.len(), lengths.iter().copied().max().unwrap_or(0));
        if longest == 0 {
            return Ok(vec![Vec::new(); rows]);
        }
        let mut values = Vec::with_capacity(rows * longest * self.mels);
        for (row, chunk) in chunks.iter().enumerate() {
            values.extend_from_slice(chunk.mels);
            values.resize((row + 1) * longest * self.mels, 0.0);
        }
        let is_padded = lengths.iter().any(|length| *length != longest);
        let real: Option<Tensor<3>> = is_padded.then(|| {
            let ones = lengths.iter().flat_map(|length| (0..longest).map(move |at| f32::from(u8::from(at < *length))));
            Tensor::from_data(TensorData::new(ones.collect::<Vec<f32>>(), [rows, longest, 1]), device)
        });
        // Each convolution sees zeros past the end of an utterance, as it would alone.
        let clear = |x: Tensor<3>| match &real {
            Some(real) => x * real.clone(),
            None => x,
        };
        let mels = Tensor::from_data(TensorData::new(values, [rows, longest, self.mels]), device);
        let mut x = self.norm.forward(self.embed.forward(mels));
        for block in &self.blocks {
            x = block.forward(clear(x));
        }
        let out = read(self.out.forward(self.last_norm.forward(x)))?;
        let row = |(at, length): (usize, &usize)| out[at * longest * self.outputs..][..length * self.outputs].to_vec();
        Ok(lengths.iter().enumerate().map(row).collect())
    }
}

impl Block {
    fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let Config { channels, inner, .. } = *config;
        let depthwise = scope.scope("dwconv");
        Ok(Self {
            depthwise: (depthwise.tensor("weight", [channels, 1, TAPS])?, depthwise.tensor("bias", [channels])?),
            norm: Norm::load(&scope.scope("norm"), channels)?,
            up: Linear::load(&scope.scope("pwconv1"), channels, inner, Bias::With)?,
            down: Linear::load(&scope.scope("pwconv2"), inner, channels, Bias::With)?,
            gamma: scope.tensor("gamma", [channels])?.reshape([1, 1, channels]),
        })
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let (weight, bias) = self.depthwise.clone();
        let options = ConvOptions::new([1], [TAPS / 2], [1], weight.dims()[0]);
        let y = module::conv1d(x.clone().swap_dims(1, 2), weight, Some(bias), options).swap_dims(1, 2);
        let y = self.down.forward(activation::gelu(self.up.forward(self.norm.forward(y))));
        x + y * self.gamma.clone()
    }
}
