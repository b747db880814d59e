//! What may be written next: suppressed tokens, and timestamps that come in pairs and never go back.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::config::Config;

/// What may be written.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    config: &'a Config,
    timestamps: bool,
}

const NEVER: f32 = f32::NEG_INFINITY;

impl<'a> Rules<'a> {
    /// The rules of a checkpoint, with timestamps written or not.
    pub fn new(config: &'a Config, timestamps: bool) -> Self {
        Self { config, timestamps }
    }

    /// Takes the chance from what may not follow `said`, the tokens after the prompt, in `scores` `[vocabulary]`.
    pub fn apply(&self, scores: &mut [f32], said: &[u32]) {
        if said.is_empty() {
            forbid(scores, &self.config.suppressed_first);
        }
        forbid(scores, &self.config.suppressed);
        if self.timestamps {
            self.keep_time(scores, said);
        }
    }

    fn keep_time(&self, scores: &mut [f32], said: &[u32]) {
        let special = &self.config.special;
        let first = special.first_timestamp() as usize;
        scores[special.no_timestamps as usize] = NEVER;
        let is_time = |at: usize| said.len().checked_sub(at).map(|at| special.is_timestamp(said[at]));
        let last_was_time = is_time(1) == Some(true);
        let one_before_was_time = is_time(2) != Some(false);
        if last_was_time {
            if one_before_was_time {
                // A segment has begun: its text follows.
                scores[first..].fill(NEVER);
            } else {
                // A segment has ended: the next one's time follows, or nothing.
                scores[..special.end as usize].fill(NEVER);
            }
        }
        if let Some(last) = said.iter().rev().find(|token| special.is_timestamp(**token)) {
            // The time a segment ends at may be the next one's beginning; a segment is not empty.
            let same_again = last_was_time && !one_before_was_time;
            scores[first..*last as usize + usize::from(!same_again)].fill(NEVER);
        }
        if said.is_empty() {
            scores[..first].fill(NEVER);
            if let Some(latest) = self.config.latest_first {
                let past = (first + latest + 1).min(scores.len());
                scores[past..].fill(NEVER);
            }
        }
        // Where all timestamps together are likelier than any other token, one of them it is.
        let (others, times) = scores.split_at_mut(first);
        let most = times.iter().copied().fold(NEVER, f32::max);
        if most > NEVER {
            let sum = times.iter().map(|score| (score - most).exp()).sum::<f32>();
            if most + sum.ln() > others.iter().copied().fold(NEVER, f32::max) {
                others.fill(NEVER);
            }
        }
    }
}

fn forbid(scores: &mut [f32], tokens: &[u32]) {
    tokens.iter().for_each(|token| scores[*token as usize] = NEVER);
}

/// How much shorter tokens get when they are compressed: a text that says the same over and over gets far shorter.
pub fn compression_ratio(tokens: &[u32], vocab_size: usize) -> f32 {
    let width = ((vocab_size as f64).log2() / 8.0) as usize + 1;
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes().into_iter().take(width)).collect();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let compressed = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    bytes.len() as f32 / compressed.len().max(1) as f32
}
