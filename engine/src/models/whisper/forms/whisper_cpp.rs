//! A file of whisper.cpp as a checkpoint: the names of its tensors, and a tokenizer from its vocabulary.

use std::path::Path;

use burn::tensor::Device;

use super::super::config::{Config, ConfigFile, GenerationFile, median_filter};
use super::{Parts, byte_pairs, unwritten};
use crate::error::{Error, Result};
use crate::weights::whisper_cpp::GgmlFile;

/// Parts of the names in a block, and the published ones.
const PARTS: [(&str, &str); 14] = [
    ("attn_ln", "self_attn_layer_norm"),
    ("attn.query", "self_attn.q_proj"),
    ("attn.key", "self_attn.k_proj"),
    ("attn.value", "self_attn.v_proj"),
    ("attn.out", "self_attn.out_proj"),
    ("cross_attn_ln", "encoder_attn_layer_norm"),
    ("cross_attn.query", "encoder_attn.q_proj"),
    ("cross_attn.key", "encoder_attn.k_proj"),
    ("cross_attn.value", "encoder_attn.v_proj"),
    ("cross_attn.out", "encoder_attn.out_proj"),
    ("mlp_ln", "final_layer_norm"),
    ("mlp.0", "fc1"),
    ("mlp.2", "fc2"),
    ("ln", "layer_norm"),
];

/// Opens a file.
///
/// # Errors
/// [`Error::Checkpoint`], which names the file and its fault.
pub fn open(path: &Path, device: &Device) -> Result<Parts> {
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    let file = GgmlFile::open(path)?;
    let sizes = file.sizes();
    // Some files have the end of the text among the tokens of text.
    let text = match file.tokens() {
        [text @ .., last] if last == b"<|endoftext|>" => text,
        text => text,
    };
    let special = unwritten::special_tokens(text.len(), sizes.vocabulary).map_err(bad)?;
    let tokenizer = byte_pairs::tokenizer(text, &special).map_err(bad)?;
    let config = config_file(&file).map_err(bad)?;
    let multilingual = unwritten::is_multilingual(&tokenizer, sizes.vocabulary);
    let generation = GenerationFile {
        alignment_heads: unwritten::alignment_heads(&config, multilingual),
        suppress_tokens: Some(unwritten::suppressed(&tokenizer)),
        begin_suppress_tokens: Some(unwritten::suppressed_first(&tokenizer)),
        max_initial_timestamp_index: Some(unwritten::LATEST_FIRST),
        is_multilingual: Some(multilingual),
        ..GenerationFile::default()
    };
    let config = Config::new(config, generation, &tokenizer).map_err(bad)?;
    let weights = file.into_weights(device, published_name)?;
    Ok(Parts { tokenizer, config, weights })
}

fn config_file(file: &GgmlFile) -> std::result::Result<ConfigFile, String> {
    let sizes = file.sizes();
    // No number of the file is the width inside a feed-forward module.
    let inner = |side: &str| match file.shape(&format!("{side}.blocks.0.mlp.0.weight")) {
        Some([inner, _]) => Ok(*inner),
        _ => Err(format!("{side}.blocks.0.mlp.0.weight is missing, or no matrix")),
    };
    Ok(ConfigFile {
        d_model: sizes.size,
        encoder_layers: sizes.encoder_layers,
        decoder_layers: sizes.decoder_layers,
        encoder_attention_heads: sizes.encoder_heads,
        decoder_attention_heads: sizes.decoder_heads,
        encoder_ffn_dim: inner("encoder")?,
        decoder_ffn_dim: inner("decoder")?,
        num_mel_bins: sizes.mels,
        max_source_positions: sizes.frames,
        max_target_positions: sizes.positions,
        vocab_size: sizes.vocabulary,
        activation_function: None,
        scale_embedding: false,
        median_filter_width: median_filter(),
    })
}

/// The published name of a tensor; its own if it is not known, which no part of the network takes.
fn published_name(name: &str) -> String {
    let part = |name: &str| {
        let (part, kind) = name.rsplit_once('.')?;
        let (_, published) = PARTS.iter().find(|(own, _)| *own == part)?;
        Some(format!("{published}.{kind}"))
    };
    let known = || {
        let (side, rest) = name.split_once('.')?;
        let published = match (side, rest) {
            (_, "positional_embedding") => "embed_positions.weight".into(),
            ("decoder", "token_embedding.weight") => "embed_tokens.weight".into(),
            ("encoder", "ln_post.weight" | "ln_post.bias") => rest.replace("ln_post", "layer_norm"),
            ("encoder", "conv1.weight" | "conv1.bias" | "conv2.weight" | "conv2.bias") => rest.into(),
            ("decoder", "ln.weight" | "ln.bias") => part(rest)?,
            _ => {
                let (number, rest) = rest.strip_prefix("blocks.")?.split_once('.')?;
                format!("layers.{number}.{}", part(rest)?)
            }
        };
        Some(format!("model.{side}.{published}"))
    };
    known().unwrap_or_else(|| name.to_owned())
}
