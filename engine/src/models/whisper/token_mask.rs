//! Rules for the next token: suppressed tokens, and timestamps in pairs that never decrease.

use std::io::Write as _;

use auricle_kernels::sampling::{SamplingParams, TokenMask};
use burn::tensor::Device;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::config::{Config, SpecialTokens};

/// Rules for the tokens that may be decoded.
#[derive(Clone, Debug)]
pub struct TokenRules {
    mask: TokenMask,
    special: SpecialTokens,
    latest_first: Option<usize>,
}

/// Classes of tokens: always suppressed, suppressed at the first position, suppressed in text with timestamps.
const NEVER: u32 = 1;
const NOT_FIRST: u32 = 2;
const NOT_WITH_TIMESTAMPS: u32 = 4;

impl TokenRules {
    /// The rules of a checkpoint.
    pub fn new(config: &Config, device: &Device) -> Self {
        let marked = vec![
            (NEVER, config.suppressed.clone()),
            (NOT_FIRST, config.suppressed_first.clone()),
            (NOT_WITH_TIMESTAMPS, vec![config.special.no_timestamps]),
        ];
        let split = config.special.first_timestamp() as usize;
        let mask = TokenMask::new(config.vocab_size, split, marked, device);
        Self { mask, special: config.special.clone(), latest_first: config.latest_first }
    }

    /// The token classes; timestamps follow the text tokens.
    pub fn token_mask(&self) -> &TokenMask {
        &self.mask
    }

    /// Sampling parameters for the token after `decoded`, the tokens that follow the prompt.
    pub fn after(&self, decoded: &[u32], timestamps: bool) -> SamplingParams {
        let mut row = SamplingParams { masked_classes: NEVER, ..SamplingParams::greedy() };
        if decoded.is_empty() {
            row.masked_classes |= NOT_FIRST;
        }
        if timestamps {
            self.constrain_timestamps(&mut row, decoded);
        }
        row
    }

    fn constrain_timestamps(&self, row: &mut SamplingParams, decoded: &[u32]) {
        let first = self.special.first_timestamp() as usize;
        let is_time = |at: usize| decoded.len().checked_sub(at).map(|at| self.special.is_timestamp(decoded[at]));
        let last_was_time = is_time(1) == Some(true);
        let one_before_was_time = is_time(2) != Some(false);
        row.masked_classes |= NOT_WITH_TIMESTAMPS;
        // If all timestamps together are likelier than any other token, a timestamp is chosen.
        row.prefer_timestamps = true;
        if let Some(last) = decoded.iter().rev().find(|token| self.special.is_timestamp(**token)) {
            // A segment's end may equal the next one's start, but a segment is not empty.
            let same_again = last_was_time && !one_before_was_time;
            row.timestamps.start = *last as usize + usize::from(!same_again);
        }
        if last_was_time && one_before_was_time {
            // A segment has begun: text follows.
            row.timestamps = usize::MAX..usize::MAX;
        } else if last_was_time {
            // A segment has ended: the next one's start or the end follows.
            row.text_start = self.special.end as usize;
        }
        if decoded.is_empty() {
            row.text_start = first;
            if let Some(latest) = self.latest_first {
                row.timestamps.end = first + latest + 1;
            }
        }
    }
}

/// Ratio of the tokens' size before and after compression; repetitive text has a high ratio.
pub fn compression_ratio(tokens: &[u32], vocab_size: usize) -> f32 {
    let width = ((vocab_size as f64).log2() / 8.0) as usize + 1;
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes().into_iter().take(width)).collect();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let compressed = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    bytes.len() as f32 / compressed.len().max(1) as f32
}
