//! A loaded network: a voice and text to latents, one a frame.

use std::path::{Path, PathBuf};

use auricle_kernels::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::Device;

use super::backbone::Backbone;
use super::config::{Config, Sampling};
use super::flow::FlowHead;
use super::names::in_transformers;
use super::transformer::Cache;
use crate::error::{Error, Result};
use crate::models::noise::Noise;
use crate::weights::Weights;

/// Tokens of a second of speech, and seconds beside them, by which the published class bounds an utterance.
const TOKENS_PER_SECOND: f64 = 3.0;
const MORE_SECONDS: f64 = 2.0;

/// Backbone and flow head.
#[derive(Debug)]
pub struct Network {
    backbone: Backbone,
    flow: FlowHead,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    config: Config,
    dir: PathBuf,
    parameters: usize,
}

/// A voice as the keys and values that all its utterances begin with.
#[derive(Clone, Debug)]
pub struct Prefix(Cache);

/// An utterance between its frames.
#[derive(Clone, Debug)]
pub struct Sequence {
    cache: Cache,
    /// Inputs that the backbone has not seen: the text at first, then the last latent.
    inputs: Vec<f32>,
    noise: Noise,
    end: End,
}

/// How an utterance is drawn.
#[derive(Clone, Copy, Debug)]
pub struct SequenceOptions {
    /// Equal seeds give equal speech.
    pub seed: u64,
    /// Without noise.
    pub greedy: bool,
    /// Frames that follow the end of speech.
    pub frames_after_end: usize,
}

/// A frame of an utterance.
#[derive(Clone, Debug, PartialEq)]
pub struct Latent {
    /// At the audio tokenizer's scale.
    pub values: Vec<f32>,
    /// Logit of the end of speech.
    pub end_logit: f32,
    /// No frame follows.
    pub is_last: bool,
}

/// The rule by which an utterance ends.
#[derive(Clone, Debug)]
struct End {
    frames: usize,
    most: usize,
    after: usize,
    /// Frames that are left, once speech has ended.
    left: Option<usize>,
}

impl End {
    /// True if the frame of this logit is the last.
    fn is_last(&mut self, logit: f32, sampling: &Sampling) -> bool {
        self.left = match self.left {
            Some(left) => Some(left.saturating_sub(1)),
            None if self.frames >= sampling.earliest_end && logit > sampling.eos_threshold => Some(self.after),
            None => None,
        };
        self.frames += 1;
        self.left == Some(0) || self.frames >= self.most
    }
}

impl Network {
    /// Loads `config.json`, `generation_config.json` and `model.safetensors` of a folder. The backbone has weights of the given
    /// precision.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, precision: Precision) -> Result<Self> {
        let config = Config::read(dir)?;
        let weights = in_transformers(Weights::open(dir, &Device::flex())?)?;
        let network = Self {
            backbone: Backbone::load(&weights, &config, precision)?,
            flow: FlowHead::load(&weights, &config)?,
            mean: weights.root().values("latent_mean", &[config.latent])?,
            deviation: weights.root().values("latent_std", &[config.latent])?,
            parameters: weights.parameters(),
            dir: dir.to_path_buf(),
            config,
        };
        weights.finish()?;
        Ok(network)
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The prefix of a voice, `[frames, voice_width]`.
    pub fn prefix(&self, voice: &[f32]) -> Prefix {
        let mut cache = self.backbone.start();
        thread_pool::run(|pool| {
            let inputs = self.backbone.embed_voice(pool, voice);
            self.backbone.forward(pool, &[&inputs], &mut [&mut cache])
        });
        Prefix(cache)
    }

    /// Begins an utterance.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a text of more tokens than the network has positions for.
    pub fn start(&self, prefix: &Prefix, tokens: &[u32], options: SequenceOptions) -> Result<Sequence> {
        let seconds = tokens.len() as f64 / TOKENS_PER_SECOND + MORE_SECONDS;
        let most = (seconds * self.config.frame_rate).ceil() as usize;
        let room = self.config.positions.saturating_sub(prefix.0.positions() + tokens.len());
        if room == 0 {
            return Err(Error::InvalidOption(format!("a text of {} tokens is too long for the voice", tokens.len())));
        }
        let temperature = if options.greedy { 0.0 } else { self.config.sampling.temperature };
        Ok(Sequence {
            cache: prefix.0.clone(),
            inputs: thread_pool::run(|pool| self.backbone.embed_text(pool, tokens)),
            noise: Noise::new(options.seed, temperature),
            end: End { frames: 0, most: most.min(room), after: options.frames_after_end, left: None },
        })
    }

    /// Computes the next frame of each utterance; none depends on the others.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the weights give no numbers.
    pub fn step(&self, pool: &ThreadPool, sequences: &mut [&mut Sequence]) -> Result<Vec<Latent>> {
        let Config { latent: width, sampling, .. } = &self.config;
        let inputs: Vec<Vec<f32>> = sequences.iter_mut().map(|sequence| std::mem::take(&mut sequence.inputs)).collect();
        let rows: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let mut caches: Vec<_> = sequences.iter_mut().map(|sequence| &mut sequence.cache).collect();
        let hidden = self.backbone.forward_to_last(pool, &rows, &mut caches);
        let logits = self.backbone.end_logits(pool, &hidden);
        let noise: Vec<f32> = sequences.iter_mut().flat_map(|sequence| sequence.noise.draw(*width)).collect();
        let latents = self.flow.sample(pool, &hidden, &noise);
        if latents.iter().chain(&logits).any(|value| !value.is_finite()) {
            return Err(self.no_numbers());
        }
        let inputs = self.backbone.embed_latents(pool, &latents);
        let inputs = inputs.chunks_exact(self.config.backbone.size);
        let found = sequences.iter_mut().zip(latents.chunks_exact(*width)).zip(inputs.zip(logits));
        Ok(found
            .map(|((sequence, latent), (inputs, end_logit))| {
                sequence.inputs = inputs.to_vec();
                let scales = self.deviation.iter().zip(&self.mean);
                let values = latent.iter().zip(scales).map(|(value, (deviation, mean))| value * deviation + mean);
                Latent { values: values.collect(), end_logit, is_last: sequence.end.is_last(end_logit, sampling) }
            })
            .collect())
    }

    /// The error of weights that give no numbers.
    pub fn no_numbers(&self) -> Error {
        Error::Checkpoint { path: self.dir.clone(), reason: "the network's values are no numbers".into() }
    }

    /// Hidden states of a voice and a text, for the numeric tests.
    #[doc(hidden)]
    pub fn hidden(&self, voice: &[f32], tokens: &[u32]) -> Vec<f32> {
        thread_pool::run(|pool| {
            let inputs = [self.backbone.embed_voice(pool, voice), self.backbone.embed_text(pool, tokens)].concat();
            self.backbone.forward(pool, &[&inputs], &mut [&mut self.backbone.start()])
        })
    }

    /// Latents before they are brought to the audio tokenizer's scale, for the numeric tests.
    #[doc(hidden)]
    pub fn sample(&self, hidden: &[f32], noise: &[f32]) -> Vec<f32> {
        thread_pool::run(|pool| self.flow.sample(pool, hidden, noise))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of frames of an utterance with these logits.
    fn frames(logits: &[f32], most: usize, after: usize) -> usize {
        let sampling = Sampling { eos_threshold: 0.0, earliest_end: 2, ..Sampling::default() };
        let mut end = End { frames: 0, most, after, left: None };
        1 + logits.iter().take_while(|logit| !end.is_last(**logit, &sampling)).count()
    }

    #[test]
    fn an_utterance_ends_some_frames_after_its_end() {
        let logits = [1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0];
        // The first frame is too early.
        assert_eq!(frames(&logits, 99, 0), 4);
        assert_eq!(frames(&logits, 99, 2), 6);
        assert_eq!(frames(&logits, 5, 2), 5);
        assert_eq!(frames(&[-1.0; 20], 7, 2), 7);
    }
}
