//! Encoded symbols, pitch and energy of frames to what the generator makes samples of.

use burn::tensor::{Tensor, TensorData};

use super::adain::AdaInBlock;
use super::convolution::Convolution;
use super::style::StyleLayers;
use crate::error::Result;
use crate::models::kokoro::config::Config;
use crate::models::kokoro::decoder::{BLOCKS, Halving, width};
use crate::weights::Scope;

/// The decoder.
#[derive(Debug)]
pub struct Decoder {
    encode: AdaInBlock,
    blocks: Vec<AdaInBlock>,
    /// The encoded symbols, narrower, which each block sees again.
    residual: Convolution,
    /// Computed on the CPU, where the curves are.
    pitch: Halving,
    energy: Halving,
}

impl Decoder {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config, styles: &mut StyleLayers) -> Result<Self> {
        let (encode, residual) = (scope.scope("encode"), scope.scope("asr_res.0"));
        let (inner, narrow) = (width(&encode.scope("conv1"))?, width(&residual)?);
        let mut block = |at: usize| {
            let outputs = if at + 1 == BLOCKS { config.generator.channels } else { inner };
            AdaInBlock::load(&scope.scope("decode").scope(at), inner + 2 + narrow, outputs, styles)
        };
        Ok(Self {
            blocks: (0..BLOCKS).map(&mut block).collect::<Result<_>>()?,
            encode: AdaInBlock::load(&encode, config.hidden + 2, inner, styles)?,
            residual: Convolution::load(&residual, [config.hidden, narrow, 1], 1, [1.0; 2])?,
            pitch: Halving::load(&scope.scope("F0_conv"))?,
            energy: Halving::load(&scope.scope("N_conv"))?,
        })
    }

    /// `[2 frames, channels]` of encoded symbols `[frames, hidden]`, each repeated for its frames, and curves `[2 frames]`.
    pub fn forward(&self, encoded: Tensor<2>, [pitch, energy]: [&[f32]; 2], factors: &Tensor<1>) -> Tensor<2> {
        let curves = self.pitch.forward(pitch).into_iter().zip(self.energy.forward(energy));
        let curves: Vec<f32> = curves.flat_map(|(pitch, energy)| [pitch, energy]).collect();
        let curves = TensorData::new(curves, [encoded.dims()[0], 2]);
        let curves = Tensor::from_data(curves, &encoded.device());
        let residual = Tensor::cat(vec![self.residual.forward(encoded.clone()), curves.clone()], 1);
        let first = self.encode.forward(Tensor::cat(vec![encoded, curves], 1), factors);
        self.blocks.iter().fold(first, |x, block| block.forward(Tensor::cat(vec![x, residual.clone()], 1), factors))
    }
}
