//! The configuration of a decoder with attention.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Class;

/// The decoder's part of a configuration.
#[derive(Clone, Debug)]
pub struct AttentionConfig {
    /// The published class.
    pub class: Class,
    /// Width of a token.
    pub size: usize,
    /// Blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward modules.
    pub inner: usize,
    /// Most tokens of a sequence, the prompt among them.
    pub positions: usize,
    /// The token that every sequence begins with, if it is stated.
    pub start: Option<u32>,
    /// The end of the text.
    pub end: u32,
    /// True if the output projection is the embeddings.
    pub tied: bool,
}

/// The decoder's settings of `config.json`: at its top (Cohere), or in `decoder_config` (Canary).
#[derive(Deserialize)]
#[serde(default)]
struct Sizes {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    hidden_act: String,
    max_position_embeddings: usize,
    attention_bias: bool,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            vocab_size: 16_384,
            hidden_size: 1024,
            num_hidden_layers: 8,
            num_attention_heads: 8,
            num_key_value_heads: None,
            head_dim: None,
            intermediate_size: 4096,
            hidden_act: "relu".into(),
            max_position_embeddings: 1024,
            attention_bias: true,
        }
    }
}

/// Settings of `generation_config.json` that change the text and are not those of greedy search.
const UNSUPPORTED: [&str; 6] = [
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "bad_words_ids",
    "no_repeat_ngram_size",
];

impl AttentionConfig {
    /// Reads the settings of `config.json` and, beside it, those of `generation_config.json`.
    ///
    /// # Errors
    /// The fault.
    pub fn read(dir: &Path, class: Class, config: &Value) -> Result<Self, String> {
        let sizes = match class {
            Class::Canary => config.get("decoder_config").cloned().unwrap_or_else(|| Value::Object(Map::new())),
            _ => config.clone(),
        };
        let sizes: Sizes = serde_json::from_value(sizes).map_err(|error| error.to_string())?;
        sizes.check()?;
        if class == Class::Canary && config["vocab_size"].as_u64().is_some_and(|size| size != sizes.vocab_size as u64) {
            return Err("vocab_size differs from decoder_config's".into());
        }
        let generation = generation(dir)?;
        let id = |name: &str| -> Result<Option<u32>, String> {
            let stated = [&generation, config].into_iter().map(|file| &file[name]).find(|value| !value.is_null());
            let one = stated.map(|value| match value.as_array().map(Vec::as_slice) {
                Some([one]) => one,
                _ => value,
            });
            let known = |value: &Value| value.as_u64().filter(|id| *id < sizes.vocab_size as u64).map(|id| id as u32);
            one.map(|value| known(value).ok_or_else(|| format!("{name} {value} is no token of the vocabulary")))
                .transpose()
        };
        let start = match id("decoder_start_token_id")? {
            None if class == Class::Canary => Some(7),
            None => id("bos_token_id")?,
            start => start,
        };
        Ok(Self {
            class,
            size: sizes.hidden_size,
            layers: sizes.num_hidden_layers,
            heads: sizes.num_attention_heads,
            inner: sizes.intermediate_size,
            positions: sizes.max_position_embeddings,
            start,
            end: id("eos_token_id")?.unwrap_or(3),
            tied: config["tie_word_embeddings"].as_bool().unwrap_or(class == Class::Canary),
        })
    }
}

impl Sizes {
    fn check(&self) -> Result<(), String> {
        let heads = self.num_attention_heads;
        let rules = [
            (self.hidden_act == "relu", format!("the decoder's hidden_act {} is not supported", self.hidden_act)),
            (self.attention_bias, "a decoder without attention_bias is not supported".into()),
            (
                heads > 0 && self.hidden_size > 0 && self.hidden_size.is_multiple_of(heads),
                "the decoder's hidden_size must be a multiple of its num_attention_heads".into(),
            ),
            (
                self.num_key_value_heads.is_none_or(|count| count == heads),
                "a decoder whose num_key_value_heads differ from num_attention_heads is not supported".into(),
            ),
            (
                self.head_dim.is_none_or(|width| width * heads == self.hidden_size),
                "a decoder whose head_dim is not hidden_size / num_attention_heads is not supported".into(),
            ),
            (
                self.hidden_size.is_multiple_of(2) && self.hidden_size > 2,
                "the decoder's hidden_size must be even".into(),
            ),
            (self.num_hidden_layers > 0, "the decoder's num_hidden_layers must be at least 1".into()),
            (self.max_position_embeddings > 16, "the decoder's max_position_embeddings must be above 16".into()),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(why))
    }
}

/// Reads `generation_config.json`; a folder may lack it.
fn generation(dir: &Path) -> Result<Value, String> {
    let bad = |error: &dyn std::fmt::Display| format!("generation_config.json beside it: {error}");
    let file: Value = match std::fs::read_to_string(dir.join("generation_config.json")) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| bad(&error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Value::Null),
        Err(error) => return Err(bad(&error)),
    };
    let is_stated = |name: &&&str| !file[**name].is_null() && file[**name] != 0;
    if let Some(name) = UNSUPPORTED.iter().find(is_stated) {
        return Err(bad(&format!("{name} is not supported")));
    }
    if file["num_beams"].as_u64().is_some_and(|beams| beams > 1) {
        return Err(bad(&"num_beams above 1 is not supported"));
    }
    Ok(file)
}
