//! Checkpoints of the published size with random weights, written to a folder: `ParakeetForTDT` and
//! `NemotronAsrStreamingForRNNT`, 24 blocks of 1024.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

/// Width, blocks, feed-forward width, heads, subsampling channels, mels, predictor width, tokens with the blank.
const SIZE: usize = 1024;
const BLOCKS: usize = 24;
const INNER: usize = 4096;
const HEADS: usize = 8;
const CHANNELS: usize = 256;
const MELS: usize = 128;
const PREDICTOR: usize = 640;
const VOCABULARY: usize = 8193;
const STREAMING_VOCABULARY: usize = 1025;
const DURATIONS: usize = 5;

/// The published classes of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Tdt,
    Streaming,
}

impl Class {
    fn vocabulary(self) -> usize {
        match self {
            Self::Tdt => VOCABULARY,
            Self::Streaming => STREAMING_VOCABULARY,
        }
    }
}

/// Writes a `NemotronAsrStreamingForRNNT` in bf16 (1.2 GB). It hears nothing but blanks: so a step costs what it costs between
/// words.
///
/// # Errors
/// The error of the file system.
pub fn write_streaming_size(dir: &Path) -> std::io::Result<()> {
    let vocabulary = STREAMING_VOCABULARY;
    let config = json!({
        "model_type": "nemotron_asr_streaming",
        "vocab_size": vocabulary, "blank_token_id": vocabulary - 1, "decoder_hidden_size": PREDICTOR,
        "num_decoder_layers": 2, "max_symbols_per_step": 10,
        "encoder_config": {
            "hidden_size": SIZE, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "intermediate_size": INNER,
            "subsampling_conv_channels": CHANNELS, "num_mel_bins": MELS, "scale_input": false, "sliding_window": 71,
            "attention_bias": false, "convolution_bias": false, "default_num_lookahead_tokens": 13,
        },
    });
    let processor = json!({"supported_num_lookahead_tokens": [13, 6, 3, 1, 0], "default_num_lookahead_tokens": 13});
    std::fs::write(dir.join("processor_config.json"), processor.to_string())?;
    write(dir, &config, Class::Streaming, 100.0)
}

/// Writes a `ParakeetForTDT` in bf16 (1.2 GB). The bias of a blank's score says how rarely it emits tokens.
pub fn write_published_size(dir: &Path, blank: f32) -> std::io::Result<()> {
    let config = json!({
        "model_type": "parakeet_tdt",
        "vocab_size": VOCABULARY, "blank_token_id": VOCABULARY - 1, "decoder_hidden_size": PREDICTOR,
        "num_decoder_layers": 2, "durations": [0, 1, 2, 3, 4],
        "encoder_config": {
            "hidden_size": SIZE, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "intermediate_size": INNER,
            "subsampling_conv_channels": CHANNELS, "num_mel_bins": MELS, "scale_input": false,
            "attention_bias": false, "convolution_bias": false,
        },
    });
    write(dir, &config, Class::Tdt, blank)
}

fn write(dir: &Path, config: &Value, class: Class, blank: f32) -> std::io::Result<()> {
    std::fs::write(dir.join("config.json"), config.to_string())?;
    std::fs::write(dir.join("tokenizer.json"), tokenizer(class.vocabulary()).to_string())?;
    let tensors = tensors(class);
    let after_blank = if class == Class::Tdt { DURATIONS } else { 0 };
    let centre = |name: &str, from_end: usize| (name == "joint.head.bias" && from_end == after_blank).then_some(blank);
    write_weights(dir, &tensors, centre)
}

/// Writes `model.safetensors` in bf16: random values, about zero or, for the weights of norms, about one, where `centre` does not say
/// another; it gets a tensor's name and how far a value is from the last.
pub(crate) fn write_weights(
    dir: &Path,
    tensors: &[(String, Vec<usize>)],
    centre: impl Fn(&str, usize) -> Option<f32>,
) -> std::io::Result<()> {
    let mut header = Map::new();
    let mut at = 0;
    for (name, shape) in tensors {
        let bytes = 2 * shape.iter().product::<usize>();
        header.insert(name.clone(), json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes]}));
        at += bytes;
    }
    let header = Value::Object(header).to_string();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(dir.join("model.safetensors"))?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for (name, shape) in tensors {
        // Norm weights near one, others small enough that activations neither vanish nor explode.
        let (usual, spread) = match name {
            name if name.ends_with("running_var") || (name.contains("norm") && name.ends_with("weight")) => (1.0, 0.1),
            name if name.ends_with("bias") || name.ends_with("running_mean") => (0.0, 0.02),
            _ => (0.0, (3.0 / shape[1..].iter().product::<usize>() as f32).sqrt()),
        };
        let count = shape.iter().product::<usize>();
        for at in 0..count {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let even = (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            let centre = centre(name, count - 1 - at).unwrap_or(usual);
            file.write_all(&(((centre + spread * even).to_bits() >> 16) as u16).to_le_bytes())?;
        }
    }
    file.flush()
}

fn tensors(class: Class) -> Vec<(String, Vec<usize>)> {
    let streams = class == Class::Streaming;
    let mut list: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: String, shape: &[usize]| list.push((name, shape.to_vec()));
    let subsampling = "encoder.subsampling";
    let stages = if streams {
        [
            "conv_in",
            "layers.0.depthwise_conv",
            "layers.0.pointwise_conv",
            "layers.1.depthwise_conv",
            "layers.1.pointwise_conv",
        ]
    } else {
        ["layers.0", "layers.2", "layers.3", "layers.5", "layers.6"]
    };
    for (name, shape) in stages.into_iter().zip([[1, 3, 3], [1, 3, 3], [CHANNELS, 1, 1], [1, 3, 3], [CHANNELS, 1, 1]]) {
        add(format!("{subsampling}.{name}.weight"), &[&[CHANNELS], &shape[..]].concat());
        add(format!("{subsampling}.{name}.bias"), &[CHANNELS]);
    }
    // A causal convolution pads one more mel band.
    let bins = if streams { MELS / 8 + 1 } else { MELS / 8 };
    add(format!("{subsampling}.linear.weight"), &[SIZE, CHANNELS * bins]);
    add(format!("{subsampling}.linear.bias"), &[SIZE]);
    for block in 0..BLOCKS {
        let block = format!("encoder.layers.{block}");
        for norm in ["feed_forward1", "self_att", "conv", "feed_forward2", "out"] {
            add(format!("{block}.norm_{norm}.weight"), &[SIZE]);
            add(format!("{block}.norm_{norm}.bias"), &[SIZE]);
        }
        for part in ["feed_forward1", "feed_forward2"] {
            add(format!("{block}.{part}.linear1.weight"), &[INNER, SIZE]);
            add(format!("{block}.{part}.linear2.weight"), &[SIZE, INNER]);
        }
        for part in ["q_proj", "k_proj", "v_proj", "o_proj", "relative_k_proj"] {
            add(format!("{block}.self_attn.{part}.weight"), &[SIZE, SIZE]);
        }
        add(format!("{block}.self_attn.bias_u"), &[HEADS, SIZE / HEADS]);
        add(format!("{block}.self_attn.bias_v"), &[HEADS, SIZE / HEADS]);
        add(format!("{block}.conv.pointwise_conv1.weight"), &[2 * SIZE, SIZE, 1]);
        add(format!("{block}.conv.depthwise_conv.weight"), &[SIZE, 1, 9]);
        for part in if streams { &["weight", "bias"][..] } else { &["weight", "bias", "running_mean", "running_var"] } {
            add(format!("{block}.conv.norm.{part}"), &[SIZE]);
        }
        add(format!("{block}.conv.pointwise_conv2.weight"), &[SIZE, SIZE, 1]);
    }
    add("encoder_projector.weight".into(), &[PREDICTOR, SIZE]);
    add("encoder_projector.bias".into(), &[PREDICTOR]);
    let vocabulary = class.vocabulary();
    add("decoder.embedding.weight".into(), &[vocabulary, PREDICTOR]);
    for layer in 0..2 {
        for part in ["ih", "hh"] {
            add(format!("decoder.lstm.weight_{part}_l{layer}"), &[4 * PREDICTOR, PREDICTOR]);
            add(format!("decoder.lstm.bias_{part}_l{layer}"), &[4 * PREDICTOR]);
        }
    }
    add("decoder.decoder_projector.weight".into(), &[PREDICTOR, PREDICTOR]);
    add("decoder.decoder_projector.bias".into(), &[PREDICTOR]);
    let outputs = if streams { vocabulary } else { vocabulary + DURATIONS };
    add("joint.head.weight".into(), &[outputs, PREDICTOR]);
    add("joint.head.bias".into(), &[outputs]);
    list
}

/// A vocabulary of made-up word pieces.
fn tokenizer(size: usize) -> Value {
    let vocabulary: Map<String, Value> = (0..size - 1)
        .map(|id| (format!("\u{2581}w{id}"), json!(id)))
        .chain([("<unk>".into(), json!(size - 1))])
        .collect();
    json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true},
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": vocabulary, "merges": []},
    })
}
