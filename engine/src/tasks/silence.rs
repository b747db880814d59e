//! Silence is not text: where a recording is all but empty, no token counts, whatever a model makes of it (an early starter
//! heard a word in digital silence). The level is a judgement, not tuned on faint speech: such a recording loses its words.

use crate::audio::SAMPLE_RATE;
use crate::models::fastconformer::Token;

/// A stretch whose root mean square stays below this (-65 dB of full scale) holds nothing to hear.
const EMPTY_RMS: f32 = 5.6e-4;

/// How far from something audible a token may lie, ms: recognisers write a word up to about this late, or, with a long
/// look-ahead, this early.
const REACH_MS: f64 = 1000.0;

/// Where a recording is audible, a flag an encoder frame (45,000 an hour).
#[derive(Debug)]
pub struct Audible {
    frame_samples: usize,
    frame_ms: f64,
    frames: Vec<bool>,
    /// Sum of squares and count of the frame that is not full yet.
    energy: f32,
    count: usize,
}

impl Audible {
    /// For frames of this length.
    pub fn new(frame_ms: f64) -> Self {
        let frame_samples = (frame_ms * f64::from(SAMPLE_RATE) / 1000.0) as usize;
        Self { frame_samples: frame_samples.max(1), frame_ms, frames: Vec::new(), energy: 0.0, count: 0 }
    }

    /// Takes the next samples.
    pub fn push(&mut self, mut samples: &[f32]) {
        while !samples.is_empty() {
            let (now, rest) = samples.split_at(samples.len().min(self.frame_samples - self.count));
            self.energy += now.iter().map(|s| s * s).sum::<f32>();
            self.count += now.len();
            if self.count == self.frame_samples {
                self.frames.push(self.is_heard());
                (self.energy, self.count) = (0.0, 0);
            }
            samples = rest;
        }
    }

    /// Whether the frame being filled is audible so far.
    fn is_heard(&self) -> bool {
        self.energy > EMPTY_RMS * EMPTY_RMS * self.count as f32
    }

    /// Drops the tokens that have nothing audible near them.
    pub fn keep_heard(&self, tokens: &mut Vec<Token>) {
        let reach = (REACH_MS / self.frame_ms) as usize;
        let last = self.frames.len();
        let audible = |frame: usize| self.frames.get(frame).copied().unwrap_or(frame == last && self.is_heard());
        tokens.retain(|token| (token.frame.saturating_sub(reach)..=token.frame + reach).any(audible));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_silence_go_and_those_near_sound_stay() {
        let mut audible = Audible::new(80.0);
        let second = SAMPLE_RATE as usize;
        audible.push(&vec![0.0; 5 * second]);
        audible.push(&vec![0.01; second]);
        audible.push(&vec![1e-5; 5 * second]);
        let token = |ms: usize| Token { id: 1, frame: ms / 80, span: 1, confidence: 0.5 };
        let mut tokens: Vec<Token> = [1000, 3800, 4200, 5500, 6900, 7200, 10_000].map(token).to_vec();
        audible.keep_heard(&mut tokens);
        assert_eq!(tokens, [4200, 5500, 6900].map(token));
    }
}
