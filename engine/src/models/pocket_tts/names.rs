//! Names of tensors. Phonon is published, and saved by transformers, with the names of its own runtime.

use crate::error::Result;
use crate::weights::Weights;

/// Parts of the runtime's names, and what they are in transformers. The first that a name begins with is replaced, then all of
/// [`INNER`].
const OUTER: [(&str, &str); 14] = [
    ("flow_lm.condition_provider.conditioners.transcript_in_segment.embed.", "model.embed_tokens."),
    ("flow_lm.condition_provider.conditioners.speaker_wavs.output_proj.", "model.audio_prompt_proj."),
    ("flow_lm.condition_provider.conditioners.num_speakers.embed.", "model.num_speakers_embed."),
    ("flow_lm.condition_provider.conditioners.num_speakers.output_proj.", "model.num_speakers_proj."),
    ("flow_lm.condition_provider.conditioners.duration_delta.output_proj.", "model.duration_delta_proj."),
    ("flow_lm.input_linear.", "model.audio_latent_proj."),
    ("flow_lm.bos_emb", "model.bos_latent"),
    ("flow_lm.emb_mean", "latent_mean"),
    ("flow_lm.emb_std", "latent_std"),
    ("flow_lm.out_norm.", "model.norm."),
    ("flow_lm.out_eos.", "eos_head."),
    ("flow_lm.transformer.layers.", "model.layers."),
    ("flow_lm.flow_net.time_embed.", "flow_head.timestep_embeddings."),
    ("flow_lm.flow_net.", "flow_head."),
];

/// See [`OUTER`].
const INNER: [(&str, &str); 13] = [
    (".self_attn.out_proj.", ".self_attn.o_proj."),
    (".linear1.", ".mlp.fc1."),
    (".linear2.", ".mlp.fc2."),
    (".norm1.", ".input_layernorm."),
    (".norm2.", ".post_attention_layernorm."),
    (".mlp.3.alpha", ".norm.weight"),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
    (".cond_embed.", ".cond_proj."),
    (".res_blocks.", ".layers."),
    (".in_ln.", ".norm."),
    (".adaLN_modulation.1.", ".adaln_proj."),
    (".final_layer.linear.", ".final_layer.proj."),
];

/// Tensors that only a training or the runtime has: the weighting of its losses, what stands for a missing condition, and the audio
/// tokenizer, which is a folder of its own.
const UNUSED: [&str; 8] = [
    "loss_weighting.",
    "latent_stats_num_updates",
    "mimi.",
    "flow_lm.flow.w_s_t.",
    "flow_lm.condition_provider.conditioners.transcript_in_segment.learnt_padding",
    "flow_lm.condition_provider.conditioners.speaker_wavs.learnt_padding",
    "flow_lm.condition_provider.conditioners.num_speakers.learnt_padding",
    "flow_lm.condition_provider.conditioners.duration_delta.learnt_padding",
];

/// The tensors by their names in transformers, those that are not used marked.
///
/// # Errors
/// [`crate::Error::Weights`] when a tensor is there by both names.
pub fn in_transformers(weights: Weights) -> Result<Weights> {
    let weights = weights.renamed(rename)?;
    UNUSED.iter().for_each(|prefix| weights.ignore_all(prefix));
    Ok(weights)
}

fn rename(name: &str) -> String {
    let outer = OUTER.iter().find_map(|(from, to)| Some(format!("{to}{}", name.strip_prefix(from)?)));
    match outer {
        Some(name) => INNER.iter().fold(name, |name, (from, to)| name.replace(from, to)),
        None => name.to_owned(),
    }
}
