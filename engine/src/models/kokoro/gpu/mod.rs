//! The network on GPUs, in tensors `[frames, channels]`.

mod adain;
mod albert;
mod convolution;
mod decoder;
mod generator;
mod lstm;
mod prosody;
mod source;
mod style;
mod text_encoder;

use burn::tensor::Tensor;

use self::albert::Albert;
use self::decoder::Decoder;
use self::generator::Generator;
pub use self::generator::Unfinished;
use self::prosody::Prosody;
use self::source::Source;
use self::style::{StyleLayers, StyleProduct};
use self::text_encoder::TextEncoder;
use super::config::Config;
use super::source as on_cpu;
use super::stages::{Advanced, Decoded, Read, Values};
use crate::error::Result;
use crate::layers::{Bias, Linear, row_indices};
use crate::weights::Weights;

/// The network.
#[derive(Debug)]
pub struct Network {
    albert: Albert,
    narrow: Linear,
    prosody: Prosody,
    text: TextEncoder,
    /// Of the decoder and the generator.
    styles: StyleProduct,
    decoder: Decoder,
    source: Source,
    generator: Generator,
}

impl Network {
    /// # Errors
    /// As `Scope::values`.
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let mut styles = StyleLayers::new(config.style);
        let decoder = weights.scope("decoder");
        Ok(Self {
            albert: Albert::load(&weights.scope("bert"), &config.albert, config.symbols)?,
            narrow: Linear::load(&weights.scope("bert_encoder"), config.albert.size, config.hidden, Bias::With)?,
            prosody: Prosody::load(&weights.scope("predictor"), config)?,
            text: TextEncoder::load(&weights.scope("text_encoder"), config)?,
            decoder: Decoder::load(&decoder, config, &mut styles)?,
            source: Source::new(&config.generator, decoder.device()),
            generator: Generator::load(&decoder.scope("generator"), config, &mut styles)?,
            styles: styles.finish(decoder.device()),
        })
    }

    /// The durations of symbols in the prosody's half of a style, and the features that they are predicted from.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn read(&self, symbols: &[usize], style: &[f32]) -> Result<Read> {
        let hidden = self.albert.forward(symbols);
        let features = self.prosody.features(self.narrow.forward(hidden.clone()), style);
        let exact_durations = self.prosody.durations(features.clone())?;
        let [hidden, features] = [hidden, features].map(|stage| Values::Tensor(Box::new(stage)));
        Ok(Read { hidden, features, exact_durations })
    }

    /// The generator's input: symbols and their `features` for so many frames each, in the samples' and the prosody's half of a style.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn decode(
        &self,
        symbols: &[usize],
        features: &Tensor<2>,
        durations: &[usize],
        [for_samples, for_prosody]: [&[f32]; 2],
    ) -> Result<Decoded> {
        let device = features.device();
        let frames = durations.iter().enumerate().flat_map(|(at, count)| std::iter::repeat_n(at, *count));
        let frames = row_indices(&frames.collect::<Vec<_>>(), &device);
        let [pitch, energy] = self.prosody.curves(features.clone().select(0, frames.clone()), for_prosody)?;
        let encoded = self.text.forward(symbols);
        let factors = self.styles.forward(style::row(for_samples, &device));
        let decoded = self.decoder.forward(encoded.clone().select(0, frames), [&pitch, &energy], &factors);
        let [encoded, decoded] = [encoded, decoded].map(|stage| Values::Tensor(Box::new(stage)));
        Ok(Decoded { pitch, energy, encoded, decoded })
    }

    /// The spectra of the excitation of a pitch: see [`Source::spectra`].
    pub fn excitation(&self, source: &on_cpu::Source, pitch: &[f32], frame: usize, noise: &[f32]) -> Tensor<2> {
        self.source.spectra(source, pitch, frame, noise)
    }

    /// Begins the samples of what was decoded, with the spectra of its excitation and the samples' half of a style.
    pub fn start(&self, decoded: Tensor<2>, excitation: Tensor<2>, style: &[f32]) -> Unfinished {
        let factors = self.styles.forward(style::row(style, &decoded.device()));
        self.generator.start(decoded, excitation, factors)
    }

    /// Computes the next part of an utterance's samples.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn advance(&self, utterance: &Unfinished) -> Result<Advanced<Unfinished>> {
        self.generator.advance(utterance)
    }
}
