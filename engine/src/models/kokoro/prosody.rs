//! Durations of symbols, and pitch and energy of frames.

use auricle_kernels::channels::Channels;
use auricle_kernels::convolution::dense::cpu::ChannelConvolution;
use auricle_kernels::norm::layer_norm_rows;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;

use super::adain::{AdaInBlock, convolution};
use super::config::Config;
use super::lstm::BidirectionalLstm;
use crate::error::Result;
use crate::layers::Packed;
use crate::weights::Scope;

/// The predictor.
#[derive(Debug)]
pub struct Prosody {
    /// An LSTM and the norm that follows it.
    layers: Vec<(BidirectionalLstm, AdaLayerNorm)>,
    lstm: BidirectionalLstm,
    durations: Packed,
    shared: BidirectionalLstm,
    pitch: Curve,
    energy: Curve,
    hidden: usize,
}

/// A layer norm whose factors and biases come from a style.
#[derive(Debug)]
struct AdaLayerNorm {
    /// `[2 hidden, style]`
    fc: Packed,
}

/// A value for each half frame.
#[derive(Debug)]
struct Curve {
    blocks: Vec<AdaInBlock>,
    projection: ChannelConvolution,
}

impl Prosody {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let Config { hidden, style, longest, .. } = *config;
        let lstm = |scope: Scope| BidirectionalLstm::load(&scope, hidden + style, hidden / 2);
        let layers = scope.scope("text_encoder.lstms");
        let layer = |at: usize| {
            let fc = Packed::load(&layers.scope(2 * at + 1).scope("fc"), style, 2 * hidden, Precision::F32)?;
            Ok((lstm(layers.scope(2 * at))?, AdaLayerNorm { fc }))
        };
        let curve = |name: &str| {
            let blocks = scope.scope(name);
            let half = hidden / 2;
            Ok(Curve {
                blocks: vec![
                    AdaInBlock::load(&blocks.scope(0), hidden, hidden, style)?,
                    AdaInBlock::load(&blocks.scope(1), hidden, half, style)?,
                    AdaInBlock::load(&blocks.scope(2), half, half, style)?,
                ],
                projection: convolution(&scope.scope(format!("{name}_proj")), [half, 1, 1], 1, 1.0)?,
            })
        };
        Ok(Self {
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            lstm: lstm(scope.scope("lstm"))?,
            durations: Packed::load(&scope.scope("duration_proj.linear_layer"), hidden, longest, Precision::F32)?,
            shared: lstm(scope.scope("shared"))?,
            pitch: curve("F0")?,
            energy: curve("N")?,
            hidden,
        })
    }

    /// The features that pitch and energy are predicted from, `[symbols, hidden + style]`, of encoded symbols `[symbols, hidden]`.
    pub fn features(&self, pool: &ThreadPool, encoded: &[f32], style: &[f32]) -> Vec<f32> {
        let width = self.hidden;
        let with_style = |x: &[f32]| x.chunks_exact(width).flat_map(|row| [row, style].concat()).collect::<Vec<f32>>();
        let mut x = with_style(encoded);
        for (lstm, norm) in &self.layers {
            let out = lstm.forward(pool, &x);
            let mut gamma = norm.fc.forward(pool, style);
            let beta = gamma.split_off(width);
            gamma.iter_mut().for_each(|gamma| *gamma += 1.0);
            let mut normed = vec![0.0; out.len()];
            layer_norm_rows(&out, &gamma, &beta, &mut normed);
            x = with_style(&normed);
        }
        x
    }

    /// The duration of each symbol at the voice's own speed, frames, of the features.
    pub fn durations(&self, pool: &ThreadPool, features: &[f32]) -> Vec<f32> {
        let scores = self.durations.forward(pool, &self.lstm.forward(pool, features));
        let sum = |row: &[f32]| row.iter().map(|score| 1.0 / (1.0 + (-score).exp())).sum();
        scores.chunks_exact(self.durations.outputs()).map(sum).collect()
    }

    /// Pitch, hertz, and energy of each half frame, of the features of each frame.
    pub fn curves(&self, pool: &ThreadPool, features: &[f32], style: &[f32]) -> [Vec<f32>; 2] {
        let shared = Channels::from_frames(&self.shared.forward(pool, features), self.hidden);
        [&self.pitch, &self.energy].map(|curve| {
            let x = curve.blocks.iter().fold(shared.clone(), |x, block| block.forward(pool, &x, style));
            curve.projection.forward(pool, &x).to_rows()
        })
    }
}
