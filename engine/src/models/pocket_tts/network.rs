//! A loaded network: a voice and text to latents, one a frame.

use std::path::{Path, PathBuf};

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::Device;

use super::backbone::Backbone;
use super::config::Config;
use super::draw::{Draw, SequenceOptions};
use super::flow::FlowHead;
use super::names::in_transformers;
use super::transformer::Cache;
use crate::error::{Error, Result};
use crate::weights::Weights;

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
    draw: Draw,
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
        let draw = Draw::new(&self.config, prefix.0.positions(), tokens.len(), options)?;
        Ok(Sequence {
            cache: prefix.0.clone(),
            inputs: thread_pool::run(|pool| self.backbone.embed_text(pool, tokens)),
            draw,
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
        let noise: Vec<f32> = sequences.iter_mut().flat_map(|sequence| sequence.draw.noise.draw(*width)).collect();
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
                Latent { values: values.collect(), end_logit, is_last: sequence.draw.is_last(end_logit, sampling) }
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
