//! The pauses of a speaker, from the speech probabilities of the detector.

use std::collections::VecDeque;

/// Length of a chunk of the detector, ms.
pub const CHUNK_MS: u32 = 32;
/// Probability from which on a chunk is speech, and below which speech ends.
const ON: f32 = 0.5;
const OFF: f32 = 0.35;
/// Speech that begins a turn or ends a pause, ms. A click is shorter.
const BURST_MS: u32 = 60;

/// The rules of a session: silences in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Silence after which a turn ends if the confidence that the speaker has finished reaches `threshold`.
    pub min_silence_ms: u32,
    /// Silence that ends a turn in any case.
    pub max_silence_ms: u32,
    pub threshold: f32,
}

/// The change that a chunk brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Speech began this long before the end of the chunk.
    Started { ago_ms: u32, probability: f32 },
    /// The turn detector is to be asked whether the speaker has finished.
    Ask,
    /// The turn is over.
    Stopped,
}

/// Follows speech and pauses.
#[derive(Default)]
pub struct Pauses {
    is_speech: bool,
    /// Speech since the last chunk without, ms.
    burst_ms: u32,
    /// Silence within the turn, ms.
    quiet_ms: u32,
    is_speaking: bool,
    /// The number of the pause.
    pause: u64,
    has_asked: bool,
    /// The pauses of the questions that wait for their answers.
    questions: VecDeque<u64>,
}

impl Pauses {
    /// Takes the speech probability of a chunk.
    pub fn push(&mut self, probability: f32, rules: &Rules) -> Option<Change> {
        self.is_speech = probability >= if self.is_speech { OFF } else { ON };
        if self.is_speech {
            self.burst_ms = self.burst_ms.saturating_add(CHUNK_MS);
            if self.burst_ms < BURST_MS {
                return None;
            }
            if self.quiet_ms > 0 {
                self.begin_pause();
            }
            let starts = !std::mem::replace(&mut self.is_speaking, true);
            return starts.then_some(Change::Started { ago_ms: self.burst_ms, probability });
        }
        self.burst_ms = 0;
        if !self.is_speaking {
            return None;
        }
        self.quiet_ms = self.quiet_ms.saturating_add(CHUNK_MS);
        if self.quiet_ms >= rules.max_silence_ms {
            self.end_turn();
            return Some(Change::Stopped);
        }
        if self.quiet_ms >= rules.min_silence_ms && !self.has_asked {
            self.has_asked = true;
            return Some(Change::Ask);
        }
        None
    }

    /// The turn detector has been asked in this pause.
    pub fn asked(&mut self) {
        self.questions.push_back(self.pause);
    }

    /// Takes the answer to the oldest question; true if the turn is over.
    pub fn judged(&mut self, confidence: f32, rules: &Rules) -> bool {
        let is_current = self.questions.pop_front() == Some(self.pause) && self.is_speaking && self.quiet_ms > 0;
        let is_over = is_current && confidence >= rules.threshold;
        if is_over {
            self.end_turn();
        }
        is_over
    }

    fn begin_pause(&mut self) {
        self.pause += 1;
        (self.quiet_ms, self.has_asked) = (0, false);
    }

    /// The turn ends here.
    pub fn end_turn(&mut self) {
        self.begin_pause();
        (self.is_speaking, self.burst_ms) = (false, 0);
    }

    /// No answers come to what was asked.
    pub fn forget_questions(&mut self) {
        self.questions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { min_silence_ms: 100, max_silence_ms: 320, threshold: 0.5 };

    fn pushed(pauses: &mut Pauses, probability: f32, chunks: usize) -> Vec<(usize, Change)> {
        (1..=chunks).filter_map(|at| pauses.push(probability, &RULES).map(|change| (at, change))).collect()
    }

    #[test]
    fn a_turn_ends_early_only_where_the_speaker_has_surely_finished() {
        let mut pauses = Pauses::default();
        assert_eq!(pushed(&mut pauses, 0.1, 20), [], "nothing has been said");
        assert_eq!(pushed(&mut pauses, 0.9, 9), [(2, Change::Started { ago_ms: 64, probability: 0.9 })]);
        assert_eq!(pushed(&mut pauses, 0.1, 20), [(4, Change::Ask), (10, Change::Stopped)]);

        pushed(&mut pauses, 0.9, 9);
        assert_eq!(pushed(&mut pauses, 0.1, 5), [(4, Change::Ask)]);
        pauses.asked();
        assert!(!pauses.judged(0.4, &RULES), "it is unsure");
        pushed(&mut pauses, 0.9, 3);
        pushed(&mut pauses, 0.1, 5);
        pauses.asked();
        pushed(&mut pauses, 0.9, 3);
        assert!(!pauses.judged(0.9, &RULES), "speech goes on");
        pushed(&mut pauses, 0.1, 5);
        pauses.asked();
        assert!(pauses.judged(0.6, &RULES));
        assert_eq!(pushed(&mut pauses, 0.1, 50), []);
    }
}
