//! When a turn begins and ends.

use super::segmenter::{Edge, SegmentationParameters, Segmenter};
use crate::error::Result;

/// What decides the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointingRules {
    /// Silence that ends it, ms.
    pub silence_ms: u32,
    /// Without a token for so long (and no less than `silence_ms`), it ends though the detector hears something, ms.
    pub blank_ms: u32,
    /// A longer one ends at its next short pause, ms.
    pub longest_ms: u32,
}

impl Default for EndpointingRules {
    fn default() -> Self {
        Self { silence_ms: 700, blank_ms: 2_500, longest_ms: 60_000 }
    }
}

/// A pause between words, ms.
const SHORT_PAUSE_MS: u64 = 240;
/// A turn that is too long and has no pause ends after so much more, ms.
const AT_LAST_MS: u64 = 15_000;

/// What the detector's next chunk changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Somebody speaks, since this sample.
    Speech {
        /// The first sample of speech.
        since: usize,
    },
    /// Nobody has spoken for as long as ends a turn.
    Silence,
}

/// Follows a session from turn to turn.
#[derive(Clone, Debug)]
pub struct Endpointer {
    rules: EndpointingRules,
    segmenter: Segmenter,
    /// End of the turn's last token, ms from its start.
    said_ms: Option<u64>,
}

impl Endpointer {
    /// Before the first sample.
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
        // A pause that does not end the turn has no tokens either.
        let rules = EndpointingRules { blank_ms: rules.blank_ms.max(rules.silence_ms), ..rules };
        Ok(Self { rules, segmenter: Segmenter::new(speech)?, said_ms: None })
    }

    /// Takes the chance of speech in the next chunk.
    pub fn hear(&mut self, chance: f32) -> Option<Endpoint> {
        self.segmenter.push(&[chance]).into_iter().next_back().map(|edge| match edge {
            Edge::Start(since) => Endpoint::Speech { since },
            Edge::End(_) => Endpoint::Silence,
        })
    }

    /// Takes the end of a step's last token, if it gave any, and how far into the turn it came, ms; whether the turn is over
    /// though the detector has not said so.
    pub fn follow(&mut self, said_ms: Option<u64>, encoded_ms: u64) -> bool {
        self.said_ms = said_ms.or(self.said_ms);
        let longest = u64::from(self.rules.longest_ms);
        let Some(said) = self.said_ms else {
            return encoded_ms > longest + AT_LAST_MS;
        };
        let blank = encoded_ms.saturating_sub(said);
        blank >= u64::from(self.rules.blank_ms)
            || (encoded_ms > longest && blank >= SHORT_PAUSE_MS)
            || encoded_ms > longest + AT_LAST_MS
    }

    /// The turn is over; whether somebody speaks all the same.
    pub fn turn_over(&mut self) -> bool {
        self.said_ms = None;
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
        let mut keeper = Endpointer::new(EndpointingRules::default()).unwrap();
        let mut hear = |chance: f32, ms: usize| (0..chunks(ms)).filter_map(|_| keeper.hear(chance)).collect::<Vec<_>>();
        assert_eq!(hear(0.1, 2_000), []);
        assert_eq!(hear(0.9, 1_000), [Endpoint::Speech { since: chunks(2_000) * 512 }]);
        assert_eq!(hear(0.1, 600), [], "a pause for breath");
        assert_eq!(hear(0.9, 500), []);
        assert_eq!(hear(0.1, 800), [Endpoint::Silence]);
        assert_eq!(hear(0.9, 40), [], "a click is no turn");
        assert_eq!(hear(0.1, 2_000), []);
    }

    #[test]
    fn what_never_falls_silent_ends_all_the_same() {
        let rules = EndpointingRules::default();
        let mut keeper = Endpointer::new(rules).unwrap();
        assert!(!keeper.follow(Some(3_000), 3_200));
        assert!(!keeper.follow(None, 5_400));
        assert!(keeper.follow(None, 5_500), "noise after the last word");
        keeper.turn_over();
        assert!(!keeper.follow(None, 9_000), "no word yet: nothing to end");
        assert!(!keeper.follow(Some(60_000), 60_100));
        assert!(keeper.follow(Some(60_400), 60_700), "too long, at a pause");
        keeper.turn_over();
        assert!(keeper.follow(Some(75_080), 75_081), "far too long");
    }

    #[test]
    fn a_pause_that_is_to_be_borne_is() {
        let mut keeper =
            Endpointer::new(EndpointingRules { silence_ms: 5_000, ..EndpointingRules::default() }).unwrap();
        assert!(!keeper.follow(Some(1_000), 5_900));
        assert!(keeper.follow(None, 6_000));
    }
}
