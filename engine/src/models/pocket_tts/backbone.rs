//! The backbone: a causal transformer over one sequence of a voice, text, and the latents so far.

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;

use super::config::{ConditionConfig, Config};
use super::embeddings::Embeddings;
use super::transformer::{Cache, Transformer};
use crate::error::Result;
use crate::layers::{Packed, PackedNorm};
use crate::weights::{Scope, Weights};

/// The backbone, and the logit of the end of speech.
#[derive(Debug)]
pub struct Backbone {
    embeddings: Embeddings,
    /// With the condition, where the form has one.
    latent: Packed,
    /// The latent before the first.
    first_latent: Vec<f32>,
    transformer: Transformer,
    norm: PackedNorm,
    end: Packed,
    size: usize,
}

impl Backbone {
    pub fn load(weights: &Weights, config: &Config, precision: Precision) -> Result<Self> {
        let model = weights.scope("model");
        let size = config.backbone.size;
        let latent = model.scope("audio_latent_proj").values("weight", &[size, config.latent])?;
        Ok(Self {
            embeddings: Embeddings::load(&model, config)?,
            latent: Packed::new(&latent, condition(&model, config)?, Precision::F32),
            first_latent: model.values("bos_latent", &[config.latent])?,
            transformer: Transformer::load(&model, config.backbone.clone(), precision)?,
            norm: PackedNorm::load_with(&model.scope("norm"), size, config.backbone.epsilon)?,
            end: Packed::load(&weights.scope("eos_head"), size, 1, Precision::F32)?,
            size,
        })
    }

    /// An empty sequence.
    pub fn start(&self) -> Cache {
        self.transformer.start()
    }

    /// The inputs of a voice: `[frames, voice_width]` to rows of `[size]`.
    pub fn embed_voice(&self, pool: &ThreadPool, voice: &[f32]) -> Vec<f32> {
        self.embeddings.of_voice(pool, voice)
    }

    /// The inputs of a text, and of the latent before the first: rows of `[size]`.
    pub fn embed_text(&self, pool: &ThreadPool, tokens: &[u32]) -> Vec<f32> {
        let mut rows = self.embeddings.of_tokens(tokens);
        rows.extend(self.embed_latents(pool, &self.first_latent));
        rows
    }

    /// The inputs of latents, `[rows, latent]`, before they are brought to the audio tokenizer's scale.
    pub fn embed_latents(&self, pool: &ThreadPool, latents: &[f32]) -> Vec<f32> {
        self.latent.forward(pool, latents)
    }

    /// Appends the next inputs of sequences, `[positions, size]` each, and gives the hidden states of all positions, one sequence after
    /// another.
    pub fn forward(&self, pool: &ThreadPool, inputs: &[&[f32]], caches: &mut [&mut Cache]) -> Vec<f32> {
        let lengths: Vec<usize> = inputs.iter().map(|rows| rows.len() / self.size).collect();
        let mut x = inputs.concat();
        self.transformer.forward(pool, &mut x, &lengths, caches);
        self.norm.forward(pool, &x)
    }

    /// As [`Backbone::forward`], with the hidden state of the last position of each sequence alone.
    pub fn forward_to_last(&self, pool: &ThreadPool, inputs: &[&[f32]], caches: &mut [&mut Cache]) -> Vec<f32> {
        let hidden = self.forward(pool, inputs, caches);
        let ends = inputs.iter().scan(0, |end, rows| {
            *end += rows.len();
            Some(*end)
        });
        ends.flat_map(|end| &hidden[end - self.size..end]).copied().collect()
    }

    /// The logit of the end of speech for each hidden state.
    pub fn end_logits(&self, pool: &ThreadPool, hidden: &[f32]) -> Vec<f32> {
        self.end.forward(pool, hidden)
    }
}

/// The vector that is added to every latent, `[size]`: the bias of their projection.
pub fn condition(model: &Scope, config: &Config) -> Result<Vec<f32>> {
    match &config.condition {
        Some(condition) => condition.embed(model, config.backbone.size),
        None => Ok(vec![0.0; config.backbone.size]),
    }
}

impl ConditionConfig {
    /// The vector that is added to every latent.
    fn embed(&self, model: &Scope, size: usize) -> Result<Vec<f32>> {
        let rows = model.scope("num_speakers_embed").values("weight", &[self.speaker_rows, self.speaker_width])?;
        let speakers = &rows[self.speakers * self.speaker_width..][..self.speaker_width];
        let half = self.duration_width / 2;
        let phase = |at: usize| {
            let exponent = at as f32 / (half - 1) as f32;
            self.duration_scale * self.duration_delta / self.duration_period.powf(exponent)
        };
        let phases: Vec<f32> = (0..half).map(phase).collect();
        let cosines = phases.iter().map(|phase| phase.cos());
        let duration: Vec<f32> = cosines.chain(phases.iter().map(|phase| phase.sin())).collect();
        let mut sum = vec![0.0; size];
        for (name, values) in [("num_speakers_proj", speakers), ("duration_delta_proj", &duration)] {
            let weight = model.scope(name).values("weight", &[size, values.len()])?;
            for (sum, row) in sum.iter_mut().zip(weight.chunks_exact(values.len())) {
                *sum += row.iter().zip(values).map(|(weight, value)| weight * value).sum::<f32>();
            }
        }
        Ok(sum)
    }
}
