//! Log-mel windows to encoder frames: two convolutions, positions, transformer blocks.

use auricle_kernels::activation::Activation;
use auricle_kernels::activation::gelu;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::product::int8::cpu::Int8Matrix;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Tensor, module};

use super::attention::Attention;
use super::block_form::BlockForm;
use super::config::EncoderConfig;
use super::rounded::{self, RoundedBlock, RoundedStem};
use crate::device::is_cpu;
use crate::error::Result;
use crate::layers::{self, Bias, LayerNorm, Linear};
use crate::weights::Scope;

/// The encoder.
#[derive(Clone, Debug)]
pub struct Encoder {
    body: Body,
    norm: LayerNorm,
}

#[derive(Clone, Debug)]
enum Body {
    Full(Box<Stem>, Vec<Block>),
    /// On a CPU that is faster with 8 bits.
    Rounded(Box<RoundedStem>, Vec<RoundedBlock>),
}

#[derive(Clone, Debug)]
struct Stem {
    first: Convolution,
    second: Convolution,
    /// `[frames, size]`
    positions: Tensor<2>,
}

/// A convolution of three frames with its activation.
#[derive(Clone, Debug)]
enum Convolution {
    Cpu(Box<BurnConvolution>),
    /// By products, which a GPU computes faster than burn's convolution.
    Gpu(Box<layers::Convolution>),
}

#[derive(Clone, Debug)]
struct BurnConvolution {
    /// `[size, inputs, 3]`
    weight: Tensor<3>,
    bias: Tensor<1>,
    stride: usize,
}

/// A block of self-attention and a feed-forward module, each added to its input.
#[derive(Clone, Debug)]
pub struct Block {
    attention_norm: LayerNorm,
    attention: Attention,
    feed_forward: FeedForward,
}

/// The feed-forward module of a block, which processes each frame or token independently.
#[derive(Clone, Debug)]
pub struct FeedForward {
    norm: LayerNorm,
    up: Linear,
    down: Linear,
    activation: Activation,
}

impl FeedForward {
    /// Reads the module of a block, and its norm.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, form: &BlockForm, [size, inner]: [usize; 2], precision: Precision) -> Result<Self> {
        Ok(Self {
            norm: LayerNorm::load(&scope.scope(form.norm), size)?,
            up: Linear::load_with(&scope.scope(form.up), [inner, size], Bias::With, 1.0, precision)?,
            down: Linear::load_with(&scope.scope(form.down), [size, inner], Bias::With, 1.0, precision)?,
            activation: form.activation,
        })
    }

    /// As it is, with products by [`Linear::with_wide_precision`].
    #[must_use]
    pub fn with_wide_precision(self, precision: Precision) -> Self {
        let (up, down) = (self.up.with_wide_precision(precision), self.down.with_wide_precision(precision));
        Self { up, down, ..self }
    }

    /// The norm of the module's input.
    pub fn norm(&self) -> &LayerNorm {
        &self.norm
    }

    /// Adds the module's output for the input that [`FeedForward::norm`] has `normed` to `x`.
    fn forward_added(&self, [x, normed]: [Tensor<3>; 2]) -> Tensor<3> {
        self.down.forward_added(self.up.forward_activated(normed, self.activation), x)
    }

    /// Adds the module's output for the input that [`FeedForward::norm`] has `normed` to `x`: the sum, and its `norm`.
    pub fn forward_normed(&self, [x, normed]: [Tensor<3>; 2], norm: &LayerNorm) -> [Tensor<3>; 2] {
        self.down.forward_normed(self.up.forward_activated(normed, self.activation), x, norm)
    }
}

impl Block {
    /// Reads a block; 8 bits are for the CPU alone, 16 for GPUs.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, form: &BlockForm, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let EncoderConfig { size, heads, inner, .. } = *config;
        Ok(Self {
            attention_norm: LayerNorm::load(&scope.scope(form.own_norm), size)?,
            attention: Attention::load(&scope.scope("self_attn"), form, size, heads, [precision, precision])?,
            feed_forward: FeedForward::load(scope, form, [size, inner], precision)?,
        })
    }

    /// Applies the block to `[rows, frames, size]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let normed = self.attention_norm.forward(x.clone());
        self.feed_forward.forward_added(self.attention.self_attention([x, normed], self.feed_forward.norm()))
    }
}

impl Convolution {
    fn load(scope: &Scope, inputs: usize, size: usize, stride: usize, precision: Precision) -> Result<Self> {
        if !is_cpu(scope.device()) {
            let layer = layers::Convolution::load_strided(scope, [inputs, size, 3, stride], precision)?;
            return Ok(Self::Gpu(Box::new(layer)));
        }
        let (weight, bias) = (scope.tensor("weight", [size, inputs, 3])?, scope.tensor("bias", [size])?);
        Ok(Self::Cpu(Box::new(BurnConvolution { weight, bias, stride })))
    }

    /// Applies the convolution: `[rows, frames, inputs]` to `[rows, frames / stride, size]`.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Cpu(layer) => {
                let BurnConvolution { weight, bias, stride } = layer.as_ref();
                let options = ConvOptions::new([*stride], [1], [1], 1);
                let x = module::conv1d(x.swap_dims(1, 2), weight.clone(), Some(bias.clone()), options);
                gelu(x).swap_dims(1, 2)
            }
            Self::Gpu(layer) => layer.forward_activated(x, Activation::Gelu),
        }
    }
}

impl Encoder {
    /// Reads the encoder; 8 bits are for the CPU alone, 16 for GPUs.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let size = config.size;
        let inner = if precision == Precision::F16 { precision } else { Precision::F32 };
        let block = |at: usize| Block::load(&scope.scope(format!("layers.{at}")), &BlockForm::WHISPER, config, inner);
        let numbers = 0..config.layers;
        let body = if precision.has_8_bits() && is_cpu(scope.device()) && Int8Matrix::is_fast() {
            let rounded = |at: usize| RoundedBlock::load(&scope.scope(format!("layers.{at}")), config);
            let stem = RoundedStem::load(scope, config)?;
            Body::Rounded(Box::new(stem), numbers.map(rounded).collect::<Result<_>>()?)
        } else {
            let stem = Stem {
                first: Convolution::load(&scope.scope("conv1"), config.mels, size, 1, inner)?,
                second: Convolution::load(&scope.scope("conv2"), size, size, 2, inner)?,
                positions: scope.scope("embed_positions").tensor("weight", [config.frames, size])?,
            };
            Body::Full(Box::new(stem), numbers.map(block).collect::<Result<_>>()?)
        };
        Ok(Self { body, norm: LayerNorm::load(&scope.scope("layer_norm"), size)? })
    }

    /// The first block's input: `features` `[rows, 2 frames, mels]` to `[rows, frames, size]`.
    pub fn embed(&self, features: Tensor<3>) -> Tensor<3> {
        let stem = match &self.body {
            Body::Rounded(stem, _) => return stem.forward(features),
            Body::Full(stem, _) => stem,
        };
        let x = stem.second.forward(stem.first.forward(features));
        let positions = stem.positions.clone().narrow(0, 0, x.dims()[1]);
        x.cast(DType::F32) + positions.unsqueeze_dim(0)
    }

    /// Runs a range of the blocks over `[rows, frames, size]`.
    pub fn run(&self, x: Tensor<3>, blocks: std::ops::Range<usize>) -> Tensor<3> {
        let full = match &self.body {
            Body::Rounded(_, rounded) => return rounded::apply(&rounded[blocks], x),
            Body::Full(_, full) => &full[blocks],
        };
        full.iter().fold(x, |x, block| block.forward(x))
    }

    fn blocks(&self) -> usize {
        match &self.body {
            Body::Full(_, blocks) => blocks.len(),
            Body::Rounded(_, blocks) => blocks.len(),
        }
    }

    /// Encodes `features` `[rows, 2 frames, mels]` to `[rows, frames, size]`.
    pub fn forward(&self, features: Tensor<3>) -> Tensor<3> {
        self.norm.forward(self.run(self.embed(features), 0..self.blocks()))
    }
}
