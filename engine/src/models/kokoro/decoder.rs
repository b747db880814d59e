//! Encoded symbols, pitch and energy of frames to what the generator makes samples of.

use auricle_kernels::channels::Channels;
use auricle_kernels::convolution::dense::cpu::ChannelConvolution;
use auricle_kernels::thread_pool::ThreadPool;

use super::adain::{AdaInBlock, convolution};
use super::config::Config;
use super::weight_norm;
use crate::error::{Error, Result};
use crate::weights::Scope;

/// Blocks after the first; the last doubles the frames.
pub const BLOCKS: usize = 4;

/// The decoder.
#[derive(Debug)]
pub struct Decoder {
    encode: AdaInBlock,
    blocks: Vec<AdaInBlock>,
    /// The encoded symbols, narrower, which each block sees again.
    residual: ChannelConvolution,
    pitch: Halving,
    energy: Halving,
}

/// A convolution of three taps of a curve, to half the values.
#[derive(Debug)]
pub struct Halving {
    weight: Vec<f32>,
    bias: f32,
}

impl Decoder {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let (hidden, style) = (config.hidden, config.style);
        let (encode, residual) = (scope.scope("encode"), scope.scope("asr_res.0"));
        let (inner, narrow) = (width(&encode.scope("conv1"))?, width(&residual)?);
        let block = |at: usize| {
            let outputs = if at + 1 == BLOCKS { config.generator.channels } else { inner };
            AdaInBlock::load(&scope.scope("decode").scope(at), inner + 2 + narrow, outputs, style)
        };
        Ok(Self {
            encode: AdaInBlock::load(&encode, hidden + 2, inner, style)?,
            blocks: (0..BLOCKS).map(block).collect::<Result<_>>()?,
            residual: convolution(&residual, [hidden, narrow, 1], 1, 1.0)?,
            pitch: Halving::load(&scope.scope("F0_conv"))?,
            energy: Halving::load(&scope.scope("N_conv"))?,
        })
    }

    /// `[channels, 2 frames]` of encoded symbols `[hidden, frames]`, each repeated for its frames, and curves `[2 frames]`.
    pub fn forward(&self, pool: &ThreadPool, encoded: &Channels, curves: [&[f32]; 2], style: &[f32]) -> Channels {
        let [pitch, energy] = curves;
        let pitch = Channels::from_rows(&self.pitch.forward(pitch), 1);
        let energy = Channels::from_rows(&self.energy.forward(energy), 1);
        let residual = self.residual.forward(pool, encoded);
        let first = self.encode.forward(pool, &Channels::concatenated(&[encoded, &pitch, &energy]), style);
        self.blocks.iter().fold(first, |x, block| {
            block.forward(pool, &Channels::concatenated(&[&x, &residual, &pitch, &energy]), style)
        })
    }
}

/// Outputs of a convolution of the decoder: the published class has these widths as constants.
///
/// # Errors
/// [`Error::Weights`] when there is no such convolution.
pub fn width(scope: &Scope) -> Result<usize> {
    match weight_norm::shape(scope).as_deref() {
        Some([outputs, ..]) if *outputs > 0 => Ok(*outputs),
        _ => Err(Error::Weights { tensor: scope.name("weight_v"), reason: "missing, or without outputs".into() }),
    }
}

impl Halving {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope) -> Result<Self> {
        let bias = scope.values("bias", &[1])?;
        Ok(Self { weight: weight_norm::weight(scope, &[1, 1, 3])?, bias: bias[0] })
    }

    /// A value for each two of a curve.
    pub fn forward(&self, curve: &[f32]) -> Vec<f32> {
        let at = |at: Option<usize>| at.and_then(|at| curve.get(at)).copied().unwrap_or(0.0);
        let seen = |place: usize| [at(place.checked_sub(1)), at(Some(place)), at(Some(place + 1))];
        let value = |place| seen(place).iter().zip(&self.weight).map(|(x, weight)| x * weight).sum::<f32>() + self.bias;
        (0..curve.len()).step_by(2).map(value).collect()
    }
}
