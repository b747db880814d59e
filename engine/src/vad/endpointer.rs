//! Endpointing: the beginnings and ends of turns.

use super::segmenter::{SegmentationParameters, Segmenter, SpeechBoundary};
use crate::error::Result;

/// Rules that end a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointingRules {
    /// Silence that ends the turn, ms.
    pub silence_ms: u32,
    /// Silence that ends a turn whose speaker has finished, as a turn detector hears it, ms: 250, say. None, or one that is not below
    /// `silence_ms`, leaves turns to silence alone, as does an engine without a turn detector.
    pub finished_silence_ms: Option<u32>,
    /// Time without a token that ends the turn even if the detector reports speech, ms; at least `silence_ms`.
    pub blank_ms: u32,
    /// Length after which the turn ends at its next short pause, ms.
    pub longest_ms: u32,
}

impl Default for EndpointingRules {
    fn default() -> Self {
        Self { silence_ms: 700, finished_silence_ms: None, blank_ms: 2_500, longest_ms: 60_000 }
    }
}

impl EndpointingRules {
    /// Sets the silence that ends the turn, ms.
    #[must_use]
    pub fn silence_ms(mut self, silence_ms: u32) -> Self {
        self.silence_ms = silence_ms;
        self
    }

    /// Sets the silence that ends a turn whose speaker has finished, ms.
    #[must_use]
    pub fn finished_silence_ms(mut self, finished_silence_ms: u32) -> Self {
        self.finished_silence_ms = Some(finished_silence_ms);
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

/// Silence after which a turn detector is asked, and asked again, ms.
pub const QUESTIONS_MS: [u32; 2] = [200, 500];
/// Probability from which on a speaker has finished.
pub const FINISHED: f32 = 0.5;

/// A pause, and what a turn detector says of it.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    number: u32,
    /// Questions so far.
    asked: usize,
    /// True if the speaker has finished.
    finished: bool,
}

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
    pause: Pause,
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
        Ok(Self { rules, segmenter: Segmenter::new(speech)?, pause: Pause::default(), last_token_ms: None })
    }

    /// Takes the speech probability of the next chunk.
    pub fn push(&mut self, probability: f32) -> Option<Endpoint> {
        let boundary = self.segmenter.push(&[probability]).into_iter().next_back();
        if self.segmenter.quiet_ms().is_none() {
            self.pause = Pause { number: self.pause.number.wrapping_add(1), ..Pause::default() };
        }
        boundary.map(|boundary| match boundary {
            SpeechBoundary::Start(since) => Endpoint::Speech { since },
            SpeechBoundary::End(_) => Endpoint::Silence,
        })
    }

    /// The number of the pause, if it is time to ask a turn detector in it.
    pub fn next_question(&mut self) -> Option<u32> {
        let due = *QUESTIONS_MS.get(self.pause.asked)?;
        let is_due = self.segmenter.quiet_ms()? >= due as usize;
        let matters = due.max(self.rules.finished_silence_ms?) < self.rules.silence_ms;
        if !is_due || !matters || self.pause.finished {
            return None;
        }
        self.pause.asked += 1;
        Some(self.pause.number)
    }

    /// Takes a turn detector's answer: the probability that the speaker has finished. One about an earlier pause is ignored.
    pub fn judged(&mut self, pause: u32, probability: f32) {
        self.pause.finished |= pause == self.pause.number && probability >= FINISHED;
    }

    /// True if the speaker has finished and has been silent for long enough.
    pub fn is_finished(&self) -> bool {
        let quiet_ms = self.segmenter.quiet_ms().unwrap_or_default();
        self.pause.finished && self.rules.finished_silence_ms.is_some_and(|enough| quiet_ms >= enough as usize)
    }

    /// Silence since the turn's last speech, ms; none while speech goes on.
    pub fn quiet_ms(&self) -> Option<usize> {
        self.segmenter.quiet_ms()
    }

    /// The least silence that may end the turn, ms.
    pub fn ending_silence_ms(&self) -> u32 {
        self.rules.finished_silence_ms.unwrap_or(u32::MAX).min(self.rules.silence_ms)
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
    fn a_speaker_who_has_finished_is_not_waited_for() {
        let mut endpointer = Endpointer::new(EndpointingRules::default().finished_silence_ms(250)).unwrap();
        let push = |endpointer: &mut Endpointer, probability: f32, ms: usize| {
            for _ in 0..chunks(ms) {
                endpointer.push(probability);
            }
            endpointer.next_question()
        };
        assert_eq!(push(&mut endpointer, 0.1, 1_000), None, "nobody has spoken");
        assert_eq!(push(&mut endpointer, 0.9, 1_000), None);
        assert_eq!(push(&mut endpointer, 0.1, 128), None, "a breath");
        let first = push(&mut endpointer, 0.1, 96).expect("a pause");
        assert_eq!(endpointer.next_question(), None, "once");
        endpointer.judged(first, 0.2);
        assert!(!endpointer.is_finished());
        let again = push(&mut endpointer, 0.1, 320).expect("the pause goes on");
        assert_eq!(again, first);
        push(&mut endpointer, 0.9, 320);
        endpointer.judged(again, 0.9);
        let second = push(&mut endpointer, 0.1, 224).expect("another pause");
        assert!(second != first && !endpointer.is_finished(), "the answer was about the pause before");
        endpointer.judged(second, 0.9);
        assert!(!endpointer.is_finished(), "not yet");
        push(&mut endpointer, 0.1, 64);
        assert!(endpointer.is_finished());
    }

    #[test]
    fn nobody_is_asked_where_no_answer_would_matter() {
        for rules in [EndpointingRules::default(), EndpointingRules::default().silence_ms(600).finished_silence_ms(600)]
        {
            let mut endpointer = Endpointer::new(rules).unwrap();
            for probability in [[0.9; 20], [0.1; 20]].concat() {
                endpointer.push(probability);
                assert_eq!(endpointer.next_question(), None);
            }
        }
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
