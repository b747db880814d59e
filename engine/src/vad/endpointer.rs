//! Endpointing: the beginnings and ends of turns.

use super::segmenter::{SegmentationParameters, Segmenter, SpeechBoundary};
use crate::error::Result;

/// Rules that end a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointingRules {
    /// Silence that ends the turn, ms.
    pub silence_ms: u32,
    /// Time without a token that ends the turn even if the detector reports speech, ms; at least `silence_ms`.
    pub blank_ms: u32,
    /// Length after which the turn ends at its next short pause, ms.
    pub longest_ms: u32,
}

impl Default for EndpointingRules {
    fn default() -> Self {
        Self { silence_ms: 700, blank_ms: 2_500, longest_ms: 60_000 }
    }
}

impl EndpointingRules {
    /// Sets the silence that ends the turn, ms.
    #[must_use]
    pub fn silence_ms(mut self, silence_ms: u32) -> Self {
        self.silence_ms = silence_ms;
        self
    }

    /// Sets the time without a token that ends the turn, ms.
    #[must_use]
    pub fn blank_ms(mut self, blank_ms: u32) -> Self {
        self.blank_ms = blank_ms;
        self
    }

    /// Sets the length after which the turn ends at its next short pause, ms.
    #[must_use]
    pub fn longest_ms(mut self, longest_ms: u32) -> Self {
        self.longest_ms = longest_ms;
        self
    }
}

/// A pause between words, ms.
const SHORT_PAUSE_MS: u64 = 240;
/// A turn without a pause ends this long after `longest_ms`, ms.
const MAX_OVERRUN_MS: u64 = 15_000;

/// Change that a chunk of the detector brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Speech has begun.
    Speech {
        /// The first sample of speech.
        since: usize,
    },
    /// Silence has lasted long enough to end a turn.
    Silence,
}

/// Finds the turns of a live session.
#[derive(Clone, Debug)]
pub struct Endpointer {
    rules: EndpointingRules,
    segmenter: Segmenter,
    /// End of the turn's last token, ms from the turn's start.
    last_token_ms: Option<u64>,
}

impl Endpointer {
    /// An endpointer at the start of a session.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn new(rules: EndpointingRules) -> Result<Self> {
        let speech = SegmentationParameters {
            on: 0.5,
            off: 0.35,
            least_speech_ms: 95,
            least_silence_ms: rules.silence_ms as usize,
            padding_ms: 0,
        };
        // A pause shorter than `silence_ms` has no tokens and must not end the turn.
        let rules = EndpointingRules { blank_ms: rules.blank_ms.max(rules.silence_ms), ..rules };
        Ok(Self { rules, segmenter: Segmenter::new(speech)?, last_token_ms: None })
    }

    /// Takes the speech probability of the next chunk.
    pub fn push(&mut self, probability: f32) -> Option<Endpoint> {
        self.segmenter.push(&[probability]).into_iter().next_back().map(|boundary| match boundary {
            SpeechBoundary::Start(since) => Endpoint::Speech { since },
            SpeechBoundary::End(_) => Endpoint::Silence,
        })
    }

    /// Takes the end of a step's last token, if there is one, and the end of the encoded audio, both ms from the turn's
    /// start. True if the turn ends by [`EndpointingRules`] although the detector reports no silence.
    pub fn update(&mut self, last_token_ms: Option<u64>, encoded_ms: u64) -> bool {
        self.last_token_ms = last_token_ms.or(self.last_token_ms);
        let longest = u64::from(self.rules.longest_ms);
        let Some(last_token_ms) = self.last_token_ms else {
            return encoded_ms > longest + MAX_OVERRUN_MS;
        };
        let blank = encoded_ms.saturating_sub(last_token_ms);
        blank >= u64::from(self.rules.blank_ms)
            || (encoded_ms > longest && blank >= SHORT_PAUSE_MS)
            || encoded_ms > longest + MAX_OVERRUN_MS
    }

    /// Forgets speech that goes on: the next turn begins with new speech.
    pub fn forget_speech(&mut self) {
        self.segmenter.forget_speech();
    }

    /// Ends the turn; true if speech goes on.
    pub fn end_turn(&mut self) -> bool {
        self.last_token_ms = None;
        self.segmenter.is_speech()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(ms: usize) -> usize {
        ms / 32
    }

    #[test]
    fn a_turn_begins_with_speech_and_ends_after_enough_silence() {
        let mut endpointer = Endpointer::new(EndpointingRules::default()).unwrap();
        let mut push = |probability: f32, ms: usize| {
            (0..chunks(ms)).filter_map(|_| endpointer.push(probability)).collect::<Vec<_>>()
        };
        assert_eq!(push(0.1, 2_000), []);
        assert_eq!(push(0.9, 1_000), [Endpoint::Speech { since: chunks(2_000) * 512 }]);
        assert_eq!(push(0.1, 600), [], "a pause for breath");
        assert_eq!(push(0.9, 500), []);
        assert_eq!(push(0.1, 800), [Endpoint::Silence]);
        assert_eq!(push(0.9, 40), [], "a click is no turn");
        assert_eq!(push(0.1, 2_000), []);
    }

    #[test]
    fn a_turn_without_silence_ends_by_its_tokens_and_length() {
        let rules = EndpointingRules::default();
        let mut endpointer = Endpointer::new(rules).unwrap();
        assert!(!endpointer.update(Some(3_000), 3_200));
        assert!(!endpointer.update(None, 5_400));
        assert!(endpointer.update(None, 5_500), "noise after the last word");
        endpointer.end_turn();
        assert!(!endpointer.update(None, 9_000), "no word yet: nothing to end");
        assert!(!endpointer.update(Some(60_000), 60_100));
        assert!(endpointer.update(Some(60_400), 60_700), "too long, at a pause");
        endpointer.end_turn();
        assert!(endpointer.update(Some(75_080), 75_081), "far too long");
    }

    #[test]
    fn a_pause_shorter_than_the_silence_rule_does_not_end_a_turn() {
        let mut endpointer =
            Endpointer::new(EndpointingRules { silence_ms: 5_000, ..EndpointingRules::default() }).unwrap();
        assert!(!endpointer.update(Some(1_000), 5_900));
        assert!(endpointer.update(None, 6_000));
    }
}
