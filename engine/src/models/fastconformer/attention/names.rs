//! The names of tensors.

/// Names of NeMo, by which Cohere's checkpoint is published, and those of the class.
const NAMES: [(&str, &str); 25] = [
    ("encoder.pre_encode.conv.", "encoder.subsampling.layers."),
    ("encoder.pre_encode.out.", "encoder.subsampling.linear."),
    ("transf_decoder._embedding.position_embedding.pos_enc", "decoder.pos_emb.weight"),
    ("transf_decoder._embedding.token_embedding.", "decoder.embed_tokens."),
    ("transf_decoder._embedding.layer_norm.", "decoder.embedding_layernorm."),
    ("transf_decoder._decoder.final_layer_norm.", "decoder.norm."),
    ("transf_decoder._decoder.layers.", "decoder.layers."),
    ("encoder_decoder_proj.", "decoder.proj."),
    (".self_attn.linear_q.", ".self_attn.q_proj."),
    (".self_attn.linear_k.", ".self_attn.k_proj."),
    (".self_attn.linear_v.", ".self_attn.v_proj."),
    (".self_attn.linear_out.", ".self_attn.o_proj."),
    (".self_attn.linear_pos.", ".self_attn.relative_k_proj."),
    (".self_attn.pos_bias_", ".self_attn.bias_"),
    (".first_sub_layer.", ".self_attn."),
    (".second_sub_layer.", ".encoder_attn."),
    (".query_net.", ".q_proj."),
    (".key_net.", ".k_proj."),
    (".value_net.", ".v_proj."),
    (".out_projection.", ".o_proj."),
    (".third_sub_layer.dense_in.", ".mlp.fc1."),
    (".third_sub_layer.dense_out.", ".mlp.fc2."),
    (".layer_norm_1.", ".input_layernorm."),
    (".layer_norm_2.", ".post_attention_layernorm."),
    (".layer_norm_3.", ".final_layernorm."),
];

/// The class's name of a tensor, without the leading `model.` of those beside the output projection.
pub fn class_name(name: &str) -> String {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let name = NAMES.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
    name.replace("log_softmax.mlp.layer0.", "proj_out.").replace(".conv.batch_norm.", ".conv.norm.")
}
