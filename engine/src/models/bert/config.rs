//! `config.json` of a token classifier.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// Largest width that is accepted: a wrong file is refused before memory is asked for.
const WIDEST: usize = 1 << 18;

/// Widths of the network.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    model_type: String,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Width of a token's vector.
    pub hidden_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Heads of an attention.
    pub num_attention_heads: usize,
    /// Width inside a feed-forward module.
    pub intermediate_size: usize,
    /// Most tokens of a row.
    pub max_position_embeddings: usize,
    /// Number of token types.
    pub type_vocab_size: usize,
    /// Added to the variance in a norm.
    #[serde(default = "epsilon")]
    pub layer_norm_eps: f64,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    id2label: BTreeMap<String, String>,
    #[serde(default)]
    auricle_token_types: Option<String>,
    /// Taggers: least confidence of a finding.
    #[serde(default = "half")]
    pub auricle_least_confidence: f32,
}

/// Token types that tell the casing of a word: none, first letter, all letters, mixed.
const CASE_TYPES: usize = 4;

fn epsilon() -> f64 {
    1e-12
}

fn half() -> f32 {
    0.5
}

fn gelu() -> String {
    "gelu".into()
}

impl Config {
    /// Reads `config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, of another architecture, or has widths that do not fit each other.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
        let config: Self = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if config.model_type != "bert" {
            return Err(bad(format!("model_type {} is not bert", config.model_type)));
        }
        if config.hidden_act != "gelu" {
            return Err(bad(format!("activation {} is not supported; gelu is", config.hidden_act)));
        }
        if config.position_embedding_type.as_deref().is_some_and(|kind| kind != "absolute") {
            return Err(bad("only absolute position embeddings are supported".into()));
        }
        let widths = [
            config.vocab_size,
            config.hidden_size,
            config.num_hidden_layers,
            config.num_attention_heads,
            config.intermediate_size,
            config.max_position_embeddings,
            config.type_vocab_size,
        ];
        if widths.iter().any(|width| !(1..=WIDEST).contains(width)) {
            return Err(bad(format!("widths are from 1 to {WIDEST}")));
        }
        if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            let (heads, width) = (config.num_attention_heads, config.hidden_size);
            return Err(bad(format!("{heads} heads do not divide a width of {width}")));
        }
        if !(0.0..1.0).contains(&config.auricle_least_confidence) {
            return Err(bad("auricle_least_confidence is from 0 to 1".into()));
        }
        match config.auricle_token_types.as_deref() {
            None => {}
            Some("case") if config.type_vocab_size < CASE_TYPES => {
                let types = config.type_vocab_size;
                return Err(bad(format!("token types that tell the casing are {CASE_TYPES}, not {types}")));
            }
            Some("case") => {}
            Some(other) => return Err(bad(format!("auricle_token_types {other} is not supported; case is"))),
        }
        Ok(config)
    }

    /// Number of labels; the class's default is two.
    pub fn labels(&self) -> usize {
        if self.id2label.is_empty() { 2 } else { self.id2label.len() }
    }

    /// The name of a label, if the checkpoint names it.
    pub fn label(&self, id: usize) -> Option<&str> {
        self.id2label.get(&id.to_string()).map(String::as_str)
    }

    /// True if token types tell the casing of words; all are 0 otherwise.
    pub fn has_case_types(&self) -> bool {
        self.auricle_token_types.is_some()
    }
}
