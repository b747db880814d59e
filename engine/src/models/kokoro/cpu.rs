//! The network on the CPU.

use auricle_kernels::channels::Channels;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool;

use super::albert::Albert;
use super::config::Config;
use super::decoder::Decoder;
use super::generator::Generator;
use super::prosody::Prosody;
use super::stages::{Decoded, Read, Values};
use super::text_encoder::TextEncoder;
use crate::error::Result;
use crate::layers::Packed;
use crate::weights::Weights;

/// The network.
#[derive(Debug)]
pub struct Network {
    albert: Albert,
    narrow: Packed,
    prosody: Prosody,
    text: TextEncoder,
    decoder: Decoder,
    pub generator: Generator,
    hidden: usize,
    style: usize,
}

impl Network {
    /// The encoder of symbols has weights of the given precision.
    ///
    /// # Errors
    /// As `Scope::values`.
    pub fn load(weights: &Weights, config: &Config, precision: Precision) -> Result<Self> {
        Ok(Self {
            albert: Albert::load(&weights.scope("bert"), &config.albert, config.symbols, precision)?,
            narrow: Packed::load(&weights.scope("bert_encoder"), config.albert.size, config.hidden, Precision::F32)?,
            prosody: Prosody::load(&weights.scope("predictor"), config)?,
            text: TextEncoder::load(&weights.scope("text_encoder"), config)?,
            decoder: Decoder::load(&weights.scope("decoder"), config)?,
            generator: Generator::load(&weights.scope("decoder.generator"), config)?,
            hidden: config.hidden,
            style: config.style,
        })
    }

    /// The durations of symbols in the prosody's half of a style, and the features that they are predicted from.
    pub fn read(&self, symbols: &[usize], style: &[f32]) -> Read {
        thread_pool::run(|pool| {
            let hidden = self.albert.forward(pool, symbols);
            let features = self.prosody.features(pool, &self.narrow.forward(pool, &hidden), style);
            let exact_durations = self.prosody.durations(pool, &features);
            Read { hidden: Values::Rows(hidden), features: Values::Rows(features), exact_durations }
        })
    }

    /// The generator's input: symbols and their `features` for so many frames each, in the samples' and the prosody's half of a style.
    pub fn decode(&self, symbols: &[usize], features: &[f32], durations: &[usize], styles: [&[f32]; 2]) -> Decoded {
        let [for_samples, for_prosody] = styles;
        thread_pool::run(|pool| {
            let seen = repeated(features, self.hidden + self.style, durations);
            let [pitch, energy] = self.prosody.curves(pool, &seen, for_prosody);
            let encoded = self.text.forward(pool, symbols);
            let frames = Channels::from_frames(&repeated(&encoded, self.hidden, durations), self.hidden);
            let decoded = self.decoder.forward(pool, &frames, [&pitch, &energy], for_samples);
            Decoded { pitch, energy, encoded: Values::Rows(encoded), decoded: Values::Channels(decoded) }
        })
    }
}

/// Rows of `width` values, each repeated.
fn repeated(rows: &[f32], width: usize, counts: &[usize]) -> Vec<f32> {
    rows.chunks_exact(width).zip(counts).flat_map(|(row, count)| row.repeat(*count)).collect()
}
