//! The next token of each row of logits: the likeliest tokens, or one drawn by its probability, among the tokens that a mask leaves.
//!
//! Tokens are text tokens or timestamps, by their id: timestamps begin at a [`TokenMask`]'s `first_timestamp`, and a
//! vocabulary may have none. On a GPU one cube reads one row of logits, and only a few values of each row are read back. The plain
//! Rust twin handles one row at a time.

mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
pub mod likeliest;
mod softmax_stats;

use std::ops::Range;
use std::sync::Arc;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Device, Int, Tensor, TensorData};
pub use softmax_stats::SoftmaxStats;

use cpu::uniform;

/// Values of one row's packed [`SamplingParams`].
const PARAMS: usize = 8;
/// Values of one row's packed [`TopTokens`] before its tokens: the unmasked log sum and the statistics.
const HEADER: usize = 4;

/// The classes of each token of a vocabulary, and the id of the first timestamp.
#[derive(Clone, Debug)]
pub struct TokenMask {
    vocabulary: Arc<Vocabulary>,
    /// `[tokens]`: the class bits of each token.
    classes: Tensor<1, Int>,
}

#[derive(Debug)]
struct Vocabulary {
    /// Class bits, and the tokens that have them.
    classes: Vec<(u32, Vec<u32>)>,
    first_timestamp: usize,
}

/// The tokens that may follow in one row of logits, and how one of them is picked.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Class bits: a token that has any of them is masked.
    pub masked_classes: u32,
    /// Text tokens below this id are masked.
    pub text_start: usize,
    /// Timestamps outside this range of ids are masked.
    pub timestamps: Range<usize>,
    /// Masks all text tokens when the timestamps together are likelier than the likeliest text token.
    pub prefer_timestamps: bool,
    /// 0 picks the likeliest token. Above 0 a token is drawn; a higher temperature makes the draw more even.
    pub temperature: f32,
    /// Seed of the draw.
    pub seed: u32,
}

/// The best tokens of one row of logits.
#[derive(Clone, Debug, PartialEq)]
pub struct TopTokens {
    /// Tokens and their logits, the best first; of equal logits the lower id comes first. There are fewer tokens than requested when
    /// the mask leaves fewer, or when logits are NaN.
    pub tokens: Vec<(u32, f32)>,
    /// The logarithm of the sum of `e^logit` over all tokens, masked or not; 0 when only one token is requested.
    pub unmasked_log_sum: f32,
    /// The statistics of the tokens that are not masked.
    pub stats: SoftmaxStats,
}

impl SamplingParams {
    /// Masks no token and picks the likeliest.
    pub fn greedy() -> Self {
        Self {
            masked_classes: 0,
            text_start: 0,
            timestamps: 0..usize::MAX,
            prefer_timestamps: false,
            temperature: 0.0,
            seed: 0,
        }
    }

    fn pack(&self, vocab_size: usize) -> [f32; PARAMS] {
        let (start, end) = (self.timestamps.start.min(vocab_size), self.timestamps.end.min(vocab_size));
        [
            self.masked_classes as f32,
            self.text_start.min(vocab_size) as f32,
            start as f32,
            end as f32,
            f32::from(u8::from(self.prefer_timestamps)),
            self.temperature,
            (self.seed >> 16) as f32,
            (self.seed & 0xffff) as f32,
        ]
    }

    /// The value by which tokens are ranked.
    fn rank_value(&self, token: usize, logit: f32) -> f32 {
        if self.temperature > 0.0 {
            // Gumbel-max trick: the largest logit with Gumbel noise is a draw from the softmax.
            logit / self.temperature - (-uniform(self.seed, token as u32).ln()).ln()
        } else {
            logit
        }
    }
}

impl TokenMask {
    /// A mask of `vocab_size` tokens, of which those from `first_timestamp` on are timestamps. `classes` are class bits and the tokens
    /// that have them.
    pub fn new(vocab_size: usize, first_timestamp: usize, classes: Vec<(u32, Vec<u32>)>, device: &Device) -> Self {
        let mut bits = vec![0i32; vocab_size];
        for (class, tokens) in &classes {
            for token in tokens {
                if let Some(bits) = bits.get_mut(*token as usize) {
                    *bits |= *class as i32;
                }
            }
        }
        let bits = Tensor::from_data(TensorData::new(bits, [vocab_size]), device);
        Self { vocabulary: Arc::new(Vocabulary { classes, first_timestamp }), classes: bits }
    }

    /// Number of tokens, text and timestamps.
    pub fn vocab_size(&self) -> usize {
        self.classes.dims()[0]
    }

    /// Sets the masked ones of `logits` `[tokens]` to minus infinity.
    pub fn apply(&self, logits: &mut [f32], params: &SamplingParams) {
        self.vocabulary.mask(logits, params);
    }

    /// The `count` best tokens of one row of `logits` `[tokens]`, which are masked as by [`TokenMask::apply`].
    pub fn top_tokens(&self, logits: &mut [f32], params: &SamplingParams, count: usize) -> TopTokens {
        self.vocabulary.top_tokens(logits, params, count)
    }

    /// The `count` best tokens of each row of `logits` `[rows, tokens]`: `[rows, 4 + 2 count]`, for [`unpack`].
    pub fn top_tokens_batch(&self, logits: Tensor<2>, params: &[SamplingParams], count: usize) -> Tensor<2> {
        let vocab_size = logits.dims()[1];
        let packed: Vec<f32> = params.iter().flat_map(|params| params.pack(vocab_size)).collect();
        let packed = Tensor::<2>::from_data(TensorData::new(packed, [params.len(), PARAMS]), &logits.device());
        let request = SamplingRequest { vocabulary: self.vocabulary.clone(), params: params.to_vec(), count };
        Tensor::from_dispatch(Dispatch::top_tokens(
            logits.into_dispatch(),
            self.classes.clone().into_dispatch(),
            packed.into_dispatch(),
            request,
        ))
    }
}

/// Reads the values of the tensor that [`TokenMask::top_tokens_batch`] returns, one [`TopTokens`] per row.
pub fn unpack(values: &[f32], count: usize) -> Vec<TopTokens> {
    let top_tokens = |row: &[f32]| {
        let (header, tokens) = row.split_at(HEADER);
        let found = tokens.as_chunks::<2>().0.iter().take_while(|[token, _]| *token >= 0.0);
        TopTokens {
            tokens: found.map(|[token, logit]| (*token as u32, *logit)).collect(),
            unmasked_log_sum: if count > 1 { header[0] } else { 0.0 },
            stats: SoftmaxStats { max: header[1], sum: header[2], weighted_sum: header[3] },
        }
    };
    values.chunks_exact(HEADER + 2 * count).map(top_tokens).collect()
}

/// The parameters of one [`TokenMask::top_tokens_batch`] call.
#[derive(Clone, Debug)]
pub(crate) struct SamplingRequest {
    vocabulary: Arc<Vocabulary>,
    params: Vec<SamplingParams>,
    count: usize,
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait SamplingOps: Backend {
    /// `logits` `[rows, tokens]`, `classes` `[tokens]`, `params` `[rows, PARAMS]` to `[rows, HEADER + 2 count]`.
    fn top_tokens(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
        params: FloatTensor<Self>,
        request: SamplingRequest,
    ) -> FloatTensor<Self>;
}
