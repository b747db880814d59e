//! Differences between the classes of this architecture, and the sizes of a decoder.

use auricle_kernels::activation::Activation;

use crate::layers::Bias;

/// The names of a published class's tensors, and what else differs between the classes of this architecture.
#[derive(Debug)]
pub struct BlockForm {
    /// Norm before self-attention.
    pub own_norm: &'static str,
    /// Norm before cross-attention.
    pub cross_norm: &'static str,
    /// Norm before the feed-forward module.
    pub norm: &'static str,
    /// First layer of the feed-forward module.
    pub up: &'static str,
    /// Second layer of it.
    pub down: &'static str,
    /// Output of both attentions.
    pub output: &'static str,
    /// Norm after the last block.
    pub last_norm: &'static str,
    /// Norm of the embedded tokens.
    pub embedding_norm: Option<&'static str>,
    /// Bias of the keys.
    pub key_bias: Bias,
    /// Activation of the feed-forward module.
    pub activation: Activation,
}

impl BlockForm {
    /// `WhisperForConditionalGeneration`
    pub const WHISPER: Self = Self {
        own_norm: "self_attn_layer_norm",
        cross_norm: "encoder_attn_layer_norm",
        norm: "final_layer_norm",
        up: "fc1",
        down: "fc2",
        output: "out_proj",
        last_norm: "layer_norm",
        embedding_norm: None,
        key_bias: Bias::Without,
        activation: Activation::Gelu,
    };
    /// The audio encoder of `Qwen3ASRForConditionalGeneration`
    pub const QWEN3_ASR: Self = Self { key_bias: Bias::With, ..Self::WHISPER };
    /// `CohereAsrForConditionalGeneration` and `CanaryForConditionalGeneration`
    pub const CONFORMER: Self = Self {
        own_norm: "input_layernorm",
        cross_norm: "post_attention_layernorm",
        norm: "final_layernorm",
        up: "mlp.fc1",
        down: "mlp.fc2",
        output: "o_proj",
        last_norm: "norm",
        embedding_norm: Some("embedding_layernorm"),
        key_bias: Bias::With,
        activation: Activation::Relu,
    };
}

/// The sizes of a decoder.
#[derive(Clone, Debug)]
pub struct DecoderConfig {
    /// Its class.
    pub form: &'static BlockForm,
    /// Width of a token.
    pub size: usize,
    /// Blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward modules.
    pub inner: usize,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Block and head of each attention head that follows the audio.
    pub alignment_heads: Vec<(usize, usize)>,
}

impl DecoderConfig {
    /// Heads of each block whose attention follows the audio.
    pub fn heads_of_blocks(&self) -> Vec<Vec<usize>> {
        let mut heads = vec![Vec::new(); self.layers];
        for (layer, head) in &self.alignment_heads {
            heads[*layer].push(*head);
        }
        heads
    }
}

/// Tables that classes keep beside the blocks, or compute.
#[derive(Debug, Default)]
pub struct TokenTables {
    /// `[positions, size]`
    pub positions: Vec<f32>,
    /// The output projection, `[vocabulary, size]`, where it is not the embeddings.
    pub output: Option<Vec<f32>>,
    /// Its bias, `[vocabulary]`.
    pub output_bias: Option<Vec<f32>>,
}
