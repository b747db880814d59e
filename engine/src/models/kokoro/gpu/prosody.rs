//! Durations of symbols, and pitch and energy of frames.

use auricle_kernels::norm::layer_norm;
use burn::tensor::Tensor;

use super::adain::AdaInBlock;
use super::convolution::Convolution;
use super::lstm::BidirectionalLstm;
use super::style::{self, StyleLayers, StyleProduct};
use crate::device::read;
use crate::error::Result;
use crate::layers::{Bias, Linear};
use crate::models::kokoro::config::Config;
use crate::weights::Scope;

/// The predictor.
#[derive(Debug)]
pub struct Prosody {
    styles: StyleProduct,
    /// An LSTM and the place of the factors of the norm that follows it.
    layers: Vec<(BidirectionalLstm, usize)>,
    lstm: BidirectionalLstm,
    durations: Linear,
    shared: BidirectionalLstm,
    pitch: Curve,
    energy: Curve,
    hidden: usize,
    longest: usize,
}

/// A value for each half frame.
#[derive(Debug)]
struct Curve {
    blocks: Vec<AdaInBlock>,
    projection: Convolution,
}

impl Prosody {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let Config { hidden, style, longest, .. } = *config;
        let mut styles = StyleLayers::new(style);
        let lstm = |scope: Scope| BidirectionalLstm::load(&scope, hidden + style, hidden / 2);
        let sequence = scope.scope("text_encoder.lstms");
        let mut layers = Vec::with_capacity(config.layers);
        for at in 0..config.layers {
            layers.push((lstm(sequence.scope(2 * at))?, styles.load(&sequence.scope(2 * at + 1), hidden)?));
        }
        let half = hidden / 2;
        let mut curve = |name: &str| {
            let mut block = |at: usize, inputs, outputs| {
                AdaInBlock::load(&scope.scope(name).scope(at), inputs, outputs, &mut styles)
            };
            Ok(Curve {
                blocks: vec![block(0, hidden, hidden)?, block(1, hidden, half)?, block(2, half, half)?],
                projection: Convolution::load(&scope.scope(format!("{name}_proj")), [half, 1, 1], 1, [1.0; 2])?,
            })
        };
        let (pitch, energy) = (curve("F0")?, curve("N")?);
        Ok(Self {
            layers,
            lstm: lstm(scope.scope("lstm"))?,
            durations: Linear::load(&scope.scope("duration_proj.linear_layer"), hidden, longest, Bias::With)?,
            shared: lstm(scope.scope("shared"))?,
            pitch,
            energy,
            styles: styles.finish(scope.device()),
            hidden,
            longest,
        })
    }

    /// The features that pitch and energy are predicted from, `[symbols, hidden + style]`, of encoded symbols `[symbols, hidden]`.
    pub fn features(&self, encoded: Tensor<2>, style: &[f32]) -> Tensor<2> {
        let count = encoded.dims()[0];
        let row = style::row(style, &encoded.device());
        let factors = self.styles.forward(row.clone());
        let rows = row.expand([count, style.len()]);
        let mut x = Tensor::cat(vec![encoded, rows.clone()], 1);
        for (lstm, first) in &self.layers {
            let part = |at: usize| factors.clone().narrow(0, first + at * self.hidden, self.hidden);
            x = Tensor::cat(vec![layer_norm(lstm.forward(x), part(0), part(1)), rows.clone()], 1);
        }
        x
    }

    /// The duration of each symbol at the voice's own speed, frames, of the features.
    ///
    /// # Errors
    /// As [`read`].
    pub fn durations(&self, features: Tensor<2>) -> Result<Vec<f32>> {
        let scores = read(self.durations.forward(self.lstm.forward(features)))?;
        let sum = |row: &[f32]| row.iter().map(|score| 1.0 / (1.0 + (-score).exp())).sum();
        Ok(scores.chunks_exact(self.longest).map(sum).collect())
    }

    /// Pitch, hertz, and energy of each half frame, of the features of each frame.
    ///
    /// # Errors
    /// As [`read`].
    pub fn curves(&self, features: Tensor<2>, style: &[f32]) -> Result<[Vec<f32>; 2]> {
        let factors = self.styles.forward(style::row(style, &features.device()));
        let shared = self.shared.forward(features);
        let curves = [&self.pitch, &self.energy].map(|curve| {
            let x = curve.blocks.iter().fold(shared.clone(), |x, block| block.forward(x, &factors));
            curve.projection.forward(x)
        });
        // Both are read at once.
        let mut pitch = read(Tensor::cat(curves.into(), 0))?;
        let energy = pitch.split_off(pitch.len() / 2);
        Ok([pitch, energy])
    }
}
