//! How an utterance is drawn: its noise, and the rule by which it ends.

use super::config::{Config, Sampling};
use crate::error::{Error, Result};
use crate::models::noise::Noise;

/// Tokens of a second of speech, and seconds beside them, by which the published class bounds an utterance.
const TOKENS_PER_SECOND: f64 = 3.0;
const MORE_SECONDS: f64 = 2.0;

/// How an utterance is drawn.
#[derive(Clone, Copy, Debug)]
pub struct SequenceOptions {
    /// Equal seeds give equal speech.
    pub seed: u64,
    /// Without noise.
    pub greedy: bool,
    /// Frames that follow the end of speech.
    pub frames_after_end: usize,
}

/// The draw of an utterance between its frames.
#[derive(Clone, Debug)]
pub struct Draw {
    pub noise: Noise,
    end: End,
}

/// The rule by which an utterance ends.
#[derive(Clone, Debug)]
struct End {
    frames: usize,
    most: usize,
    after: usize,
    /// Frames that are left, once speech has ended.
    left: Option<usize>,
}

impl Draw {
    /// Of a text of so many tokens, after so many positions of a voice.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a text of more tokens than the network has positions for.
    pub fn new(config: &Config, voice: usize, tokens: usize, options: SequenceOptions) -> Result<Self> {
        let seconds = tokens as f64 / TOKENS_PER_SECOND + MORE_SECONDS;
        let most = (seconds * config.frame_rate).ceil() as usize;
        let room = config.positions.saturating_sub(voice + tokens);
        if room == 0 {
            return Err(Error::InvalidOption(format!("a text of {tokens} tokens is too long for the voice")));
        }
        let temperature = if options.greedy { 0.0 } else { config.sampling.temperature };
        let end = End { frames: 0, most: most.min(room), after: options.frames_after_end, left: None };
        Ok(Self { noise: Noise::new(options.seed, temperature), end })
    }

    /// Frames at most.
    pub fn most_frames(&self) -> usize {
        self.end.most
    }

    /// True if the frame of this logit of the end of speech is the last.
    pub fn is_last(&mut self, logit: f32, sampling: &Sampling) -> bool {
        self.end.is_last(logit, sampling)
    }
}

impl End {
    /// True if the frame of this logit is the last.
    fn is_last(&mut self, logit: f32, sampling: &Sampling) -> bool {
        self.left = match self.left {
            Some(left) => Some(left.saturating_sub(1)),
            None if self.frames >= sampling.earliest_end && logit > sampling.eos_threshold => Some(self.after),
            None => None,
        };
        self.frames += 1;
        self.left == Some(0) || self.frames >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of frames of an utterance with these logits.
    fn frames(logits: &[f32], most: usize, after: usize) -> usize {
        let sampling = Sampling { eos_threshold: 0.0, earliest_end: 2, ..Sampling::default() };
        let mut end = End { frames: 0, most, after, left: None };
        1 + logits.iter().take_while(|logit| !end.is_last(**logit, &sampling)).count()
    }

    #[test]
    fn an_utterance_ends_some_frames_after_its_end() {
        let logits = [1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0];
        // The first frame is too early.
        assert_eq!(frames(&logits, 99, 0), 4);
        assert_eq!(frames(&logits, 99, 2), 6);
        assert_eq!(frames(&logits, 5, 2), 5);
        assert_eq!(frames(&[-1.0; 20], 7, 2), 7);
    }
}
