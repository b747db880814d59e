//! Inputs of the backbone that are known before an utterance begins: those of voices and texts, in plain memory on every device.

use auricle_kernels::thread_pool::ThreadPool;

use super::config::Config;
use crate::error::Result;
use crate::layers::{Bias, Packed};
use crate::weights::Scope;

/// The embeddings of tokens, and the projection of voices.
#[derive(Debug)]
pub struct Embeddings {
    /// `[vocabulary, size]`
    tokens: Vec<f32>,
    voice: Packed,
    before_voice: Option<u32>,
    size: usize,
}

impl Embeddings {
    /// Reads them of the scope `model`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(model: &Scope, config: &Config) -> Result<Self> {
        let size = config.backbone.size;
        let shape = [size, config.voice_width];
        Ok(Self {
            tokens: model.scope("embed_tokens").values("weight", &[config.vocabulary, size])?,
            voice: Packed::load_scaled(&model.scope("audio_prompt_proj"), &shape, Bias::Without, 1.0)?,
            before_voice: config.before_voice,
            size,
        })
    }

    /// The inputs of a voice: `[frames, voice_width]` to rows of `[size]`.
    pub fn of_voice(&self, pool: &ThreadPool, voice: &[f32]) -> Vec<f32> {
        let mut rows = self.of_tokens(self.before_voice.as_slice());
        rows.extend(self.voice.forward(pool, voice));
        rows
    }

    /// The inputs of tokens: rows of `[size]`.
    pub fn of_tokens(&self, tokens: &[u32]) -> Vec<f32> {
        let row = |token: &u32| self.tokens.get(*token as usize * self.size..).unwrap_or_default();
        tokens.iter().flat_map(|token| row(token).iter().take(self.size)).copied().collect()
    }
}
