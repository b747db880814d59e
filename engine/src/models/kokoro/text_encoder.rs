//! The encoder of symbols that samples are made from: convolutions and an LSTM.

use auricle_kernels::channels::Channels;
use auricle_kernels::convolution::dense::cpu::ChannelConvolution;
use auricle_kernels::norm::layer_norm_rows;
use auricle_kernels::thread_pool::ThreadPool;

use super::adain::convolution;
use super::config::Config;
use super::lstm::BidirectionalLstm;
use crate::error::Result;
use crate::weights::Scope;

/// Slope of the activation below 0.
pub const SLOPE: f32 = 0.2;

/// The encoder.
#[derive(Debug)]
pub struct TextEncoder {
    /// `[symbols, hidden]`
    symbols: Vec<f32>,
    /// Convolution, and factor and bias of the norm over channels.
    layers: Vec<(ChannelConvolution, Vec<f32>, Vec<f32>)>,
    lstm: BidirectionalLstm,
    hidden: usize,
}

impl TextEncoder {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let Config { hidden, symbols, text_taps, .. } = *config;
        let layer = |at: usize| {
            let layer = scope.scope("cnn").scope(at);
            let norm = layer.scope(1);
            Ok((
                convolution(&layer.scope(0), [hidden, hidden, text_taps], 1, 1.0)?,
                norm.values("gamma", &[hidden])?,
                norm.values("beta", &[hidden])?,
            ))
        };
        Ok(Self {
            symbols: scope.scope("embedding").values("weight", &[symbols, hidden])?,
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            lstm: BidirectionalLstm::load(&scope.scope("lstm"), hidden, hidden / 2)?,
            hidden,
        })
    }

    /// `[symbols, hidden]`.
    pub fn forward(&self, pool: &ThreadPool, symbols: &[usize]) -> Vec<f32> {
        let width = self.hidden;
        let mut x: Vec<f32> =
            symbols.iter().flat_map(|symbol| &self.symbols[symbol * width..][..width]).copied().collect();
        for (convolution, gamma, beta) in &self.layers {
            let convolved = convolution.forward(pool, &Channels::from_frames(&x, width)).to_frames();
            layer_norm_rows(&convolved, gamma, beta, &mut x);
            x.iter_mut().for_each(|value| *value = if *value < 0.0 { *value * SLOPE } else { *value });
        }
        self.lstm.forward(pool, &x)
    }
}
