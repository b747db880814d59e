//! The encoder of symbols that samples are made from: convolutions and an LSTM.

use auricle_kernels::norm::layer_norm;
use burn::tensor::{Tensor, activation};

use super::convolution::Convolution;
use super::lstm::BidirectionalLstm;
use crate::error::Result;
use crate::layers::row_indices;
use crate::models::kokoro::config::Config;
use crate::models::kokoro::text_encoder::SLOPE;
use crate::weights::Scope;

/// The encoder.
#[derive(Debug)]
pub struct TextEncoder {
    /// `[symbols, hidden]`
    symbols: Tensor<2>,
    /// Convolution, and factor and bias of the norm over channels.
    layers: Vec<(Convolution, Tensor<1>, Tensor<1>)>,
    lstm: BidirectionalLstm,
}

impl TextEncoder {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let Config { hidden, symbols, text_taps, .. } = *config;
        let layer = |at: usize| {
            let layer = scope.scope("cnn").scope(at);
            let norm = layer.scope(1);
            let convolution = Convolution::load(&layer.scope(0), [hidden, hidden, text_taps], 1, [1.0; 2])?;
            Ok((convolution, norm.tensor("gamma", [hidden])?, norm.tensor("beta", [hidden])?))
        };
        Ok(Self {
            symbols: scope.scope("embedding").tensor("weight", [symbols, hidden])?,
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            lstm: BidirectionalLstm::load(&scope.scope("lstm"), hidden, hidden / 2)?,
        })
    }

    /// `[symbols, hidden]`.
    pub fn forward(&self, symbols: &[usize]) -> Tensor<2> {
        let mut x = self.symbols.clone().select(0, row_indices(symbols, &self.symbols.device()));
        for (convolution, gamma, beta) in &self.layers {
            let normed = layer_norm(convolution.forward(x), gamma.clone(), beta.clone());
            x = activation::leaky_relu(normed, f64::from(SLOPE));
        }
        self.lstm.forward(x)
    }
}
