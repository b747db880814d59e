//! A folder of CTranslate2 as a checkpoint: the names of its tensors, with those that it keeps in one taken apart.

use std::path::Path;

use burn::tensor::Device;
use serde::Deserialize;
use tokenizers::Tokenizer;

use super::super::config::{Config, ConfigFile, GenerationFile, median_filter};
use super::{Parts, byte_pairs, read_tokenizer, unwritten};
use crate::error::{Error, Result};
use crate::text::byte_level;
use crate::weights::ctranslate2::{Ct2File, Variable};
use crate::weights::{Stored, StoredTensor, Weights};

const KIND: &str = "WhisperSpec";
/// The last revision of the names.
const REVISION: u32 = 3;
const PROJECTION: &str = "decoder/projection/weight";
const EMBEDDINGS: &str = "decoder/embeddings/weight";
/// The number of the activation function GELU.
const GELU: i64 = 3;

/// `config.json` of a folder.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Ct2Config {
    alignment_heads: Option<Vec<(usize, usize)>>,
    suppress_ids: Option<Vec<i64>>,
    suppress_ids_begin: Option<Vec<i64>>,
}

/// Opens a folder, whose weights are in `path`.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn open(dir: &Path, path: &Path, device: &Device) -> Result<Parts> {
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    let file = Ct2File::open(path)?;
    match file.kind() {
        (KIND, 0..=REVISION) => {}
        (KIND, revision) => return Err(bad(format!("revision {revision} of {KIND}; {REVISION} is supported"))),
        (other, _) => {
            return Err(bad(format!("a model of CTranslate2 for another network, {other}; {KIND} is supported")));
        }
    }
    let config = config_file(&file).map_err(bad)?;
    let tokenizer = tokenizer(dir)?;
    let multilingual = unwritten::is_multilingual(&tokenizer, config.vocab_size);
    let stated = stated(dir)?;
    let is_there =
        |(layer, head): &(usize, usize)| *layer < config.decoder_layers && *head < config.decoder_attention_heads;
    // A distilled checkpoint may have those of the one that it was distilled from.
    let heads = stated.alignment_heads.filter(|heads| !heads.is_empty() && heads.iter().all(is_there));
    let generation = GenerationFile {
        alignment_heads: heads.or_else(|| unwritten::alignment_heads(&config, multilingual)),
        suppress_tokens: stated.suppress_ids.or_else(|| Some(unwritten::suppressed(&tokenizer))),
        begin_suppress_tokens: stated.suppress_ids_begin.or_else(|| Some(unwritten::suppressed_first(&tokenizer))),
        max_initial_timestamp_index: Some(unwritten::LATEST_FIRST),
        is_multilingual: Some(multilingual),
        ..GenerationFile::default()
    };
    let config = Config::new(config, generation, &tokenizer).map_err(bad)?;
    let weights = weights(file, device)?;
    Ok(Parts { tokenizer, config, weights })
}

/// The variables that are tensors, without the scales of others.
fn tensors(file: &Ct2File) -> impl Iterator<Item = (&str, &Variable)> {
    file.variables().filter(|(name, variable)| !variable.shape.is_empty() && !name.ends_with("_scale"))
}

/// The sizes, from settings and shapes.
fn config_file(file: &Ct2File) -> std::result::Result<ConfigFile, String> {
    let shape = |name: &str| {
        let found = file.variable(name).map(|variable| variable.shape.as_slice());
        found.filter(|shape| !shape.is_empty()).ok_or_else(|| format!("{name} is missing"))
    };
    let first = |name: &str| shape(name).map(|shape| shape[0]);
    let setting = |name: &str| {
        let value = file.setting(name).and_then(|value| usize::try_from(value).ok());
        value.ok_or_else(|| format!("{name} is missing, or no number"))
    };
    let layers =
        |side: &str| (0..).take_while(|at| first(&format!("{side}/layer_{at}/ffn/linear_0/weight")).is_ok()).count();
    for side in ["encoder", "decoder"] {
        if file.setting(&format!("{side}/activation")).is_some_and(|function| function != GELU) {
            return Err("its activation function is not GELU".into());
        }
        if file.setting(&format!("{side}/pre_norm")).is_some_and(|before| before != 1) {
            return Err("its norms are behind its blocks, not before them".into());
        }
    }
    let &[vocab_size, size] = shape(EMBEDDINGS)? else { return Err(format!("{EMBEDDINGS} is no matrix")) };
    let &[_, mels, _] = shape("encoder/conv1/weight")? else { return Err("encoder/conv1/weight is no filter".into()) };
    Ok(ConfigFile {
        d_model: size,
        encoder_layers: layers("encoder"),
        decoder_layers: layers("decoder"),
        encoder_attention_heads: setting("encoder/num_heads")?,
        decoder_attention_heads: setting("decoder/num_heads")?,
        encoder_ffn_dim: first("encoder/layer_0/ffn/linear_0/weight")?,
        decoder_ffn_dim: first("decoder/layer_0/ffn/linear_0/weight")?,
        num_mel_bins: mels,
        max_source_positions: first("encoder/position_encodings/encodings")?,
        max_target_positions: first("decoder/position_encodings/encodings")?,
        vocab_size,
        activation_function: None,
        scale_embedding: file.setting("decoder/scale_embeddings").is_some_and(|scale| scale != 0),
        median_filter_width: median_filter(),
    })
}

/// The folder's `config.json`; it may lack it.
fn stated(dir: &Path) -> Result<Ct2Config> {
    let path = dir.join("config.json");
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| Error::Checkpoint { path, reason: error.to_string() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ct2Config::default()),
        Err(error) => Err(Error::Checkpoint { path, reason: error.to_string() }),
    }
}

/// The folder's `tokenizer.json`, or one from its list of tokens.
fn tokenizer(dir: &Path) -> Result<Tokenizer> {
    let whole = dir.join("tokenizer.json");
    if whole.is_file() {
        return read_tokenizer(&whole);
    }
    let (list, lines) = (dir.join("vocabulary.json"), dir.join("vocabulary.txt"));
    let (path, is_json) = if list.is_file() { (list, true) } else { (lines, false) };
    let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
    let read = std::fs::read_to_string(&path);
    let text = read.map_err(|error| bad(format!("{error}; a folder has it, vocabulary.json or tokenizer.json")))?;
    let tokens: Vec<String> = match is_json {
        true => serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?,
        false => text.strip_suffix('\n').unwrap_or(&text).split('\n').map(str::to_owned).collect(),
    };
    let end = tokens.iter().position(|token| token == "<|endoftext|>");
    let (text, special) = tokens.split_at(end.ok_or_else(|| bad("it has no <|endoftext|>".into()))?);
    let bytes = byte_level::bytes_of_chars();
    let byte = |letter: char| bytes.get(&letter).map_or_else(|| letter.to_string().into_bytes(), |byte| vec![*byte]);
    let text: Vec<Vec<u8>> = text.iter().map(|token| token.chars().flat_map(byte).collect()).collect();
    byte_pairs::tokenizer(&text, special).map_err(bad)
}

/// The tensors under their published names.
fn weights(file: Ct2File, device: &Device) -> Result<Weights> {
    let path = file.path().to_path_buf();
    let wrong = |tensor: &str, reason: &str| Error::Weights { tensor: tensor.into(), reason: reason.into() };
    if file.variable(PROJECTION).is_some() && file.resolved(PROJECTION) != EMBEDDINGS {
        return Err(wrong(PROJECTION, "is not the matrix of the embeddings, which it is in all published checkpoints"));
    }
    let mut published = Vec::new();
    for (name, _) in tensors(&file).filter(|(name, _)| *name != PROJECTION) {
        let names = published_names(name);
        let parts = parts(file.tensor(name)?, names.len()).ok_or_else(|| wrong(name, "cannot be taken apart"))?;
        for (own, part) in names.into_iter().zip(parts) {
            // The published form has no bias for keys: it would change no weight of attention.
            if !own.ends_with("k_proj.bias") {
                published.push((own, part));
            }
        }
    }
    Weights::of_file((&path, "CTranslate2"), file.into_file(), published, device)
}

/// A tensor in so many parts with as many rows each.
fn parts(whole: StoredTensor, count: usize) -> Option<Vec<StoredTensor>> {
    let StoredTensor { mut shape, stored, start, bytes } = whole;
    let rows = shape.first_mut()?;
    if !rows.is_multiple_of(count) {
        return None;
    }
    *rows /= count;
    let part = |at: usize| StoredTensor {
        shape: shape.clone(),
        stored: match &stored {
            Stored::Rows(scales) => Stored::Rows(scales[scales.len() / count * at..][..scales.len() / count].to_vec()),
            other => other.clone(),
        },
        start: start + (bytes / count * at) as u64,
        bytes: bytes / count,
    };
    Some((0..count).map(part).collect())
}

/// The published names of a variable's parts; its own if it is not known, which no part of the network takes.
fn published_names(name: &str) -> Vec<String> {
    let known = || {
        let (side, rest) = name.split_once('/')?;
        let (block, rest) = match rest.strip_prefix("layer_").and_then(|rest| rest.split_once('/')) {
            Some((number, rest)) if number.bytes().all(|digit| digit.is_ascii_digit()) => {
                (format!("layers.{number}."), rest)
            }
            _ => (String::new(), rest),
        };
        let (part, kind) = rest.rsplit_once('/')?;
        let kind = match kind {
            "gamma" | "encodings" => "weight",
            "beta" => "bias",
            other => other,
        };
        let own: &[&str] = match part {
            "embeddings" => &["embed_tokens"],
            "position_encodings" => &["embed_positions"],
            "conv1" => &["conv1"],
            "conv2" => &["conv2"],
            "layer_norm" => &["layer_norm"],
            "ffn/layer_norm" => &["final_layer_norm"],
            "ffn/linear_0" => &["fc1"],
            "ffn/linear_1" => &["fc2"],
            "self_attention/layer_norm" => &["self_attn_layer_norm"],
            "self_attention/linear_0" => &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            "self_attention/linear_1" => &["self_attn.out_proj"],
            "attention/layer_norm" => &["encoder_attn_layer_norm"],
            "attention/linear_0" => &["encoder_attn.q_proj"],
            "attention/linear_1" => &["encoder_attn.k_proj", "encoder_attn.v_proj"],
            "attention/linear_2" => &["encoder_attn.out_proj"],
            _ => return None,
        };
        Some(own.iter().map(|own| format!("model.{side}.{block}{own}.{kind}")).collect())
    };
    known().unwrap_or_else(|| vec![name.to_owned()])
}
