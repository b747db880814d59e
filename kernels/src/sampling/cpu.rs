//! The body on the CPU: a row at a time.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::{HEADER, SamplingOps, SamplingParams, SamplingRequest, SoftmaxStats, TopTokens, Vocabulary};
use crate::flex::{contiguous, floats, tensor};

/// A uniform random number above 0 and below 1: a hash of the seed and the token.
pub(super) fn uniform(seed: u32, token: u32) -> f32 {
    let mut x = token.wrapping_mul(0x9e37_79b9) ^ seed;
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^= x >> 16;
    ((x >> 9) as f32 + 0.5) / (1 << 23) as f32
}

impl Vocabulary {
    pub(super) fn mask(&self, logits: &mut [f32], params: &SamplingParams) {
        let vocab_size = logits.len();
        for (_, tokens) in self.classes.iter().filter(|(class, _)| class & params.masked_classes != 0) {
            for token in tokens {
                if let Some(logit) = logits.get_mut(*token as usize) {
                    *logit = MASKED;
                }
            }
        }
        let first_timestamp = self.first_timestamp.min(vocab_size);
        let (text, timestamps) = logits.split_at_mut(first_timestamp);
        text[..params.text_start.min(first_timestamp)].fill(MASKED);
        let start = params.timestamps.start.clamp(first_timestamp, vocab_size);
        let end = params.timestamps.end.clamp(start, vocab_size);
        timestamps[..start - first_timestamp].fill(MASKED);
        timestamps[end - first_timestamp..].fill(MASKED);
        if params.prefer_timestamps {
            let max = timestamps.iter().copied().fold(MASKED, f32::max);
            if max > MASKED {
                let sum = timestamps.iter().map(|logit| (logit - max).exp()).sum::<f32>();
                if max + sum.ln() > text.iter().copied().fold(MASKED, f32::max) {
                    text.fill(MASKED);
                }
            }
        }
    }

    pub(super) fn top_tokens(&self, logits: &mut [f32], params: &SamplingParams, count: usize) -> TopTokens {
        let unmasked_log_sum = if count > 1 { SoftmaxStats::of(logits).log_sum() } else { 0.0 };
        self.mask(logits, params);
        let stats = SoftmaxStats::of(logits);
        let mut top = TopK { entries: Vec::with_capacity(count + 1), threshold: MASKED, count };
        // A token of probability 0 is never drawn.
        if params.temperature > 0.0 {
            let candidates = logits.iter().enumerate().filter(|(_, logit)| **logit > MASKED);
            candidates.for_each(|(token, logit)| top.insert(token, params.rank_value(token, *logit)));
        } else {
            logits.iter().enumerate().for_each(|(token, logit)| top.insert(token, *logit));
        }
        let tokens = top.entries.into_iter().map(|(_, token)| (token as u32, logits[token])).collect();
        TopTokens { tokens, unmasked_log_sum, stats }
    }
}

/// The `count` largest values and their tokens, the largest first; of equal values the earlier comes first.
struct TopK {
    entries: Vec<(f32, usize)>,
    /// Only values above it are inserted.
    threshold: f32,
    count: usize,
}

impl TopK {
    #[inline(always)]
    fn insert(&mut self, token: usize, value: f32) {
        if value > self.threshold {
            let place = self.entries.iter().take_while(|(other, _)| *other >= value).count();
            self.entries.insert(place, (value, token));
            self.entries.truncate(self.count);
            self.threshold = if self.entries.len() == self.count { self.entries[self.count - 1].0 } else { MASKED };
        }
    }
}

/// The logit of a masked token.
const MASKED: f32 = f32::NEG_INFINITY;

impl SamplingOps for Flex {
    fn top_tokens(
        logits: FloatTensor<Self>,
        _classes: IntTensor<Self>,
        _params: FloatTensor<Self>,
        request: SamplingRequest,
    ) -> FloatTensor<Self> {
        let vocab_size = logits.shape()[1];
        let logits = contiguous(logits);
        let logits = floats(&logits);
        let width = HEADER + 2 * request.count;
        let mut out = Vec::with_capacity(request.params.len() * width);
        for (params, logits) in request.params.iter().zip(logits.chunks_exact(vocab_size.max(1))) {
            let top = request.vocabulary.top_tokens(&mut logits.to_vec(), params, request.count);
            out.extend([top.unmasked_log_sum, top.stats.max, top.stats.sum, top.stats.weighted_sum]);
            out.extend(top.tokens.iter().flat_map(|(token, logit)| [*token as f32, *logit]));
            out.extend([-1.0, 0.0].into_iter().cycle().take(2 * (request.count - top.tokens.len())));
        }
        tensor(out, [request.params.len(), width].into())
    }
}
