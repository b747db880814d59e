//! The diarizer of the published size with random weights, written to a folder: `Nemotron3DiarizationForAudioFrameClassification`, 31
//! blocks of 512, 8 speakers.

use std::path::Path;

use serde_json::json;

use crate::published::write_weights;

/// Width, feed-forward width, width of the head, mels, mel frames of a frame, speakers.
const SIZE: usize = 512;
const INNER: usize = 2048;
const HEAD: usize = 192;
const MELS: usize = 128;
const FACTOR: usize = 8;
const SPEAKERS: usize = 8;
/// Blocks of the published checkpoint.
pub const DIARIZER_BLOCKS: usize = 31;

/// Writes the diarizer with so many blocks in bf16: 200 MB with [`DIARIZER_BLOCKS`].
///
/// # Errors
/// The error of the file system.
pub fn write_diarizer_size(dir: &Path, blocks: usize) -> std::io::Result<()> {
    // All else is the class's default, which is published.
    let config = json!({"model_type": "nemotron3_diarization", "audio_config": {"num_hidden_layers": blocks}});
    std::fs::write(dir.join("config.json"), config.to_string())?;
    write_weights(dir, &tensors(blocks), |_, _| None)
}

fn tensors(blocks: usize) -> Vec<(String, Vec<usize>)> {
    let mut list: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: &str, shape: &[usize]| list.push((name.to_owned(), shape.to_vec()));
    let tower = "model.audio_tower";
    add(&format!("{tower}.embedder.projection.weight"), &[SIZE, FACTOR * MELS]);
    let blocks = (0..blocks).map(|block| format!("{tower}.layers.{block}"));
    let norms = blocks.clone().flat_map(|block| ["layer_norm1", "layer_norm2"].map(|norm| format!("{block}.{norm}")));
    for norm in norms.chain(["input_layer_norm", "layer_norm"].map(|norm| format!("{tower}.{norm}"))) {
        add(&format!("{norm}.weight"), &[SIZE]);
        add(&format!("{norm}.bias"), &[SIZE]);
    }
    for block in blocks {
        for part in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            add(&format!("{block}.self_attn.{part}.weight"), &[SIZE, SIZE]);
        }
        add(&format!("{block}.self_attn.o_proj.bias"), &[SIZE]);
        for (part, outputs, inputs) in [("fc1", INNER, SIZE), ("fc2", SIZE, INNER)] {
            add(&format!("{block}.mlp.{part}.weight"), &[outputs, inputs]);
            add(&format!("{block}.mlp.{part}.bias"), &[outputs]);
        }
    }
    for (name, outputs, inputs) in
        [("model.proj", HEAD, SIZE), ("classifier.dense", HEAD, HEAD), ("classifier.out_proj", SPEAKERS, HEAD)]
    {
        add(&format!("{name}.weight"), &[outputs, inputs]);
        add(&format!("{name}.bias"), &[outputs]);
    }
    add("model.upsampler.conv.weight", &[FACTOR * HEAD, HEAD, 3]);
    add("model.upsampler.conv.bias", &[FACTOR * HEAD]);
    add("silence_embeds", &[SIZE]);
    list
}
