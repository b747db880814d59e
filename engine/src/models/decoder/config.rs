//! Configuration of a decoder-only language model: from `config.json` of a published folder, or from a GGUF file's metadata.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::weights::gguf::{Gguf, Value};

/// Largest width, depth or vocabulary that is accepted: a wrong file is refused before memory is asked for.
const LARGEST: usize = 1 << 24;

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Llama and SmolLM2.
    Llama,
    /// Qwen2 and Qwen2.5: with biases on queries, keys and values.
    Qwen2,
    /// Qwen3: queries and keys are normalised, and may think.
    Qwen3,
}

impl Family {
    fn of(name: &str) -> Option<Self> {
        match name {
            "llama" => Some(Self::Llama),
            "qwen2" => Some(Self::Qwen2),
            "qwen3" => Some(Self::Qwen3),
            _ => None,
        }
    }

    /// The family of a folder of safetensors, if its `config.json` names one.
    pub fn of_folder(dir: &Path) -> Option<Self> {
        #[derive(Deserialize)]
        struct Named {
            model_type: Option<String>,
        }
        let text = std::fs::read_to_string(dir.join("config.json")).ok()?;
        let named: Named = serde_json::from_str(&text).ok()?;
        Self::of(&named.model_type?)
    }

    /// The class of `transformers`.
    pub fn class(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }
}

/// Widths and constants of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The family.
    pub family: Family,
    /// Width of a token.
    pub size: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Values of a head.
    pub head: usize,
    /// Width inside the feed-forward part.
    pub inner: usize,
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Scores after a token: one for each token of the vocabulary, or of another head's classes.
    pub outputs: usize,
    /// Epsilon of the norms.
    pub epsilon: f32,
    /// Angle of each pair of values of a head from one position to the next: `[head / 2]`.
    pub frequencies: Vec<f32>,
    /// The output matrix is that of the embeddings.
    pub tied: bool,
    /// Biases on queries, keys and values.
    pub input_bias: bool,
    /// A bias on the output of the attention.
    pub output_bias: bool,
    /// Biases in the feed-forward part.
    pub inner_bias: bool,
    /// Most tokens of a sequence.
    pub context: usize,
    /// Tokens that end a text, as the model's configuration names them.
    pub end: Vec<u32>,
}

#[derive(Deserialize)]
struct ConfigFile {
    model_type: Option<String>,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    vocab_size: usize,
    rms_norm_eps: f32,
    max_position_embeddings: usize,
    rope_theta: Option<f64>,
    rope_scaling: Option<RopeParameters>,
    rope_parameters: Option<RopeParameters>,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default = "silu")]
    hidden_act: String,
    eos_token_id: Option<TokenIds>,
}

fn silu() -> String {
    "silu".into()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenIds {
    One(u32),
    Several(Vec<u32>),
}

impl TokenIds {
    fn list(self) -> Vec<u32> {
        match self {
            Self::One(token) => vec![token],
            Self::Several(tokens) => tokens,
        }
    }
}

#[derive(Deserialize)]
struct RopeParameters {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

/// Base of the angles where a configuration names none.
const DEFAULT_THETA: f64 = 10_000.0;

impl Config {
    /// Reads `config.json` and, if it is there, `generation_config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, malformed or of another architecture.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|error| bad(format!("cannot read: {error}")))?;
        let file: ConfigFile = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let ends = generation_ends(dir)?;
        Self::of_file(file, ends).map_err(bad)
    }

    /// Reads the part of a larger model's `config.json` that describes its decoder, whose texts end with the tokens `ends`.
    ///
    /// # Errors
    /// The fault, as of [`Config::read`].
    pub fn of_part(part: serde_json::Value, ends: Vec<u32>) -> std::result::Result<Self, String> {
        Self::of_file(serde_json::from_value(part).map_err(|error| error.to_string())?, ends)
    }

    fn of_file(file: ConfigFile, ends: Vec<u32>) -> std::result::Result<Self, String> {
        let name = file.model_type.as_deref().unwrap_or_default();
        let family = Family::of(name).ok_or_else(|| {
            format!("model_type {name:?} is no language model that is supported: llama, qwen2, qwen3")
        })?;
        if file.hidden_act != "silu" {
            return Err(format!("hidden_act {:?} is not supported; silu is", file.hidden_act));
        }
        if file.use_sliding_window {
            return Err("use_sliding_window is not supported".into());
        }
        let head = file.head_dim.unwrap_or_else(|| match family {
            Family::Qwen3 => 128,
            _ => file.hidden_size / file.num_attention_heads.max(1),
        });
        let rope = file.rope_parameters.or(file.rope_scaling);
        let theta = rope.as_ref().and_then(|rope| rope.rope_theta).or(file.rope_theta).unwrap_or(DEFAULT_THETA);
        let mut end = file.eos_token_id.map(TokenIds::list).unwrap_or_default();
        end.extend(ends);
        let mut config = Self {
            family,
            size: file.hidden_size,
            layers: file.num_hidden_layers,
            heads: file.num_attention_heads,
            kv_heads: file.num_key_value_heads.unwrap_or(file.num_attention_heads),
            head,
            inner: file.intermediate_size,
            vocabulary: file.vocab_size,
            outputs: file.vocab_size,
            epsilon: file.rms_norm_eps,
            frequencies: Vec::new(),
            tied: file.tie_word_embeddings,
            // Qwen2 always has these biases, and no others.
            input_bias: family == Family::Qwen2 || file.attention_bias,
            output_bias: family != Family::Qwen2 && file.attention_bias,
            inner_bias: family == Family::Llama && file.mlp_bias,
            context: file.max_position_embeddings,
            end,
        };
        config.complete()?;
        config.frequencies = frequencies(head, theta);
        if let Some(rope) = &rope {
            rope.scale(&mut config.frequencies)?;
        }
        Ok(config)
    }

    /// Reads the metadata of a GGUF file. `factors` divide the angles.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn of_gguf(file: &Gguf) -> Result<Self> {
        let values = Metadata { file, path: file.path().to_path_buf() };
        let name = values.text("general.architecture")?;
        let family = Family::of(&name).ok_or_else(|| {
            values.bad(format!("architecture {name:?} is no language model that is supported: llama, qwen2, qwen3"))
        })?;
        let key = |name_of: &str| format!("{name}.{name_of}");
        let integer = |name: &str| values.integer(&key(name));
        let (size, heads) = (integer("embedding_length")?, integer("attention.head_count")?);
        let or = |name: &str, other: usize| match file.value(&key(name)) {
            None => Ok(other),
            Some(_) => integer(name),
        };
        let head = or("attention.key_length", size / heads.max(1))?;
        for same in ["attention.value_length", "rope.dimension_count"] {
            if or(same, head)? != head {
                return Err(values.bad(format!("{} differs from the length of a key", key(same))));
            }
        }
        if let Some(Value::Text(scaling)) = file.value(&key("rope.scaling.type"))
            && scaling != "none"
        {
            return Err(values.bad(format!("rotary scaling {scaling:?} is not supported in GGUF")));
        }
        let theta = values.float(&key("rope.freq_base"))?.unwrap_or(DEFAULT_THETA);
        let epsilon = values
            .float(&key("attention.layer_norm_rms_epsilon"))?
            .ok_or_else(|| values.bad(format!("{} is missing", key("attention.layer_norm_rms_epsilon"))))?;
        let vocabulary = match file.value("tokenizer.ggml.tokens") {
            Some(Value::Texts(tokens)) => tokens.len(),
            _ => return Err(values.bad("tokenizer.ggml.tokens is missing".into())),
        };
        let ends = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"];
        let end = ends.iter().filter_map(|key| match file.value(key) {
            Some(Value::Integer(token)) => u32::try_from(*token).ok(),
            _ => None,
        });
        let mut config = Self {
            family,
            size,
            layers: integer("block_count")?,
            heads,
            kv_heads: or("attention.head_count_kv", heads)?,
            head,
            inner: integer("feed_forward_length")?,
            vocabulary,
            outputs: vocabulary,
            epsilon: epsilon as f32,
            frequencies: Vec::new(),
            tied: file.tensor("output.weight").is_none(),
            input_bias: file.tensor("blk.0.attn_q.bias").is_some(),
            output_bias: file.tensor("blk.0.attn_output.bias").is_some(),
            inner_bias: file.tensor("blk.0.ffn_gate.bias").is_some(),
            context: integer("context_length")?,
            end: end.collect(),
        };
        config.complete().map_err(|reason| values.bad(reason))?;
        config.frequencies = frequencies(head, theta);
        Ok(config)
    }

    /// Checks that the widths fit each other, and sorts the end tokens.
    fn complete(&mut self) -> std::result::Result<(), String> {
        let widths = [
            ("width", self.size),
            ("number of layers", self.layers),
            ("number of heads", self.heads),
            ("number of key heads", self.kv_heads),
            ("width of a head", self.head),
            ("inner width", self.inner),
            ("vocabulary", self.vocabulary),
            ("context", self.context),
        ];
        if let Some((name, value)) = widths.iter().find(|(_, value)| !(1..=LARGEST).contains(value)) {
            return Err(format!("the {name} is {value}; 1 to {LARGEST} are supported"));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(format!("{} heads are no multiple of {} key heads", self.heads, self.kv_heads));
        }
        if !self.head.is_multiple_of(2) {
            return Err(format!("a head of {} values cannot be rotated in pairs", self.head));
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(format!("the norms' epsilon is {}", self.epsilon));
        }
        self.end.sort_unstable();
        self.end.dedup();
        if let Some(token) = self.end.iter().find(|token| **token as usize >= self.vocabulary) {
            return Err(format!("the end token {token} lies outside the vocabulary of {}", self.vocabulary));
        }
        Ok(())
    }
}

/// End tokens of `generation_config.json`, which may have more than `config.json`.
pub fn generation_ends(dir: &Path) -> Result<Vec<u32>> {
    #[derive(Deserialize)]
    struct GenerationFile {
        eos_token_id: Option<TokenIds>,
    }
    let path = dir.join("generation_config.json");
    let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let file: GenerationFile = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
            Ok(file.eos_token_id.map(TokenIds::list).unwrap_or_default())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(bad(format!("cannot read: {error}"))),
    }
}

/// `1 / theta^(2 i / head)`, in the precision in which the published classes compute it.
fn frequencies(head: usize, theta: f64) -> Vec<f32> {
    (0..head / 2).map(|at| 1.0 / (theta as f32).powf(2.0 * at as f32 / head as f32)).collect()
}

impl RopeParameters {
    fn scale(&self, frequencies: &mut [f32]) -> std::result::Result<(), String> {
        if self.partial_rotary_factor.is_some_and(|part| part != 1.0) {
            return Err("partial_rotary_factor is not supported".into());
        }
        match self.rope_type.as_deref() {
            None | Some("default") => Ok(()),
            Some("llama3") => {
                let need = |value: Option<f64>, name: &str| {
                    value.filter(|value| *value > 0.0).ok_or_else(|| format!("rotary scaling llama3 lacks {name}"))
                };
                let factor = need(self.factor, "factor")?;
                let low = need(self.low_freq_factor, "low_freq_factor")?;
                let high = need(self.high_freq_factor, "high_freq_factor")?;
                let trained = need(self.original_max_position_embeddings, "original_max_position_embeddings")?;
                if high <= low {
                    return Err("rotary scaling llama3: high_freq_factor is not above low_freq_factor".into());
                }
                for frequency in frequencies {
                    // Turns of this pair over the context of the training: many stay, few are slowed down, between them a mixture.
                    let exact = f64::from(*frequency);
                    let turns = trained * exact / (2.0 * std::f64::consts::PI);
                    let stay = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    *frequency = (stay * exact + (1.0 - stay) * exact / factor) as f32;
                }
                Ok(())
            }
            Some(other) => Err(format!("rotary scaling {other:?} is not supported; llama3 is")),
        }
    }
}

/// Metadata of a GGUF file, with its path for messages.
struct Metadata<'a> {
    file: &'a Gguf,
    path: PathBuf,
}

impl Metadata<'_> {
    fn bad(&self, reason: String) -> Error {
        Error::Checkpoint { path: self.path.clone(), reason }
    }

    fn text(&self, key: &str) -> Result<String> {
        match self.file.value(key) {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(self.bad(format!("{key} is missing"))),
        }
    }

    fn integer(&self, key: &str) -> Result<usize> {
        match self.file.value(key) {
            Some(Value::Integer(value)) => usize::try_from(*value).map_err(|_| self.bad(format!("{key} is {value}"))),
            Some(other) => Err(self.bad(format!("{key} is {other:?}, not one integer"))),
            None => Err(self.bad(format!("{key} is missing"))),
        }
    }

    fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.file.value(key) {
            None => Ok(None),
            Some(Value::Float(value)) if value.is_finite() && *value > 0.0 => Ok(Some(*value)),
            Some(other) => Err(self.bad(format!("{key} is {other:?}"))),
        }
    }
}
