//! Turns of a speaker, from the speech probabilities of the detector.

use std::collections::VecDeque;

use super::settings::{Eagerness, TurnDetection};

/// Length of a chunk of the detector, ms.
pub const CHUNK_MS: u32 = 32;
/// Speech goes on while its probability is this much below the threshold.
const HYSTERESIS: f32 = 0.15;
/// Speech that begins a turn or ends a pause, ms. A click is shorter.
const BURST_MS: u32 = 60;
/// Probability from which on a speaker has finished.
const FINISHED: f32 = 0.5;
/// Questions to the turn detector in a pause.
const MOST_QUESTIONS: u32 = 2;
/// The threshold and the padding where the client chooses none.
const THRESHOLD: f32 = 0.5;
const PADDING_MS: u32 = 300;

/// The change that a chunk brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Speech began this long before the end of the chunk.
    Started {
        ago_ms: u32,
    },
    Stopped,
    /// The turn detector is to be asked whether the speaker has finished.
    Ask,
}

/// Silences of a semantic detection, ms.
struct Pauses {
    /// After which the turn detector is asked, and as long again after which it is asked again.
    ask_ms: u32,
    /// The longest within a turn.
    longest_ms: u32,
    /// The longest where no turn detector can be asked.
    unasked_ms: u32,
}

impl Eagerness {
    /// Silence that ends a turn which sounds finished, ms.
    pub fn least_pause_ms(self) -> u32 {
        self.pauses().ask_ms
    }

    /// The longest silence within a turn, ms.
    pub fn longest_pause_ms(self) -> u32 {
        self.pauses().longest_ms
    }

    fn pauses(self) -> Pauses {
        match self {
            Self::Low => Pauses { ask_ms: 800, longest_ms: 8_000, unasked_ms: 1_500 },
            Self::Medium | Self::Auto => Pauses { ask_ms: 400, longest_ms: 4_000, unasked_ms: 800 },
            Self::High => Pauses { ask_ms: 200, longest_ms: 2_000, unasked_ms: 400 },
        }
    }
}

/// Tells turns from pauses.
pub struct SpeechGate {
    rules: TurnDetection,
    /// True while the detector reports speech.
    is_speech: bool,
    /// Speech since the last chunk without, ms.
    burst_ms: u32,
    /// Silence within the turn, ms.
    quiet_ms: u32,
    is_speaking: bool,
    /// Number of the pause, and its questions so far.
    pause: u32,
    asked: u32,
    /// The pauses of the questions that wait for their answers.
    questions: VecDeque<u32>,
    /// True if a turn detector can be asked.
    pub can_ask: bool,
}

impl SpeechGate {
    pub fn new(rules: TurnDetection) -> Self {
        Self {
            rules,
            is_speech: false,
            burst_ms: 0,
            quiet_ms: 0,
            is_speaking: false,
            pause: 0,
            asked: 0,
            questions: VecDeque::new(),
            can_ask: false,
        }
    }

    pub fn set_rules(&mut self, rules: TurnDetection) {
        self.rules = rules;
    }

    pub fn is_speaking(&self) -> bool {
        self.is_speaking
    }

    /// Audio before the beginning of speech that is part of the turn, ms.
    pub fn padding_ms(&self) -> u32 {
        match self.rules {
            TurnDetection::ServerVad { prefix_padding_ms, .. } => prefix_padding_ms,
            TurnDetection::SemanticVad { .. } => PADDING_MS,
        }
    }

    /// Takes the speech probability of a chunk.
    pub fn push(&mut self, probability: f32) -> Option<Change> {
        let threshold = match self.rules {
            TurnDetection::ServerVad { threshold, .. } => threshold as f32,
            TurnDetection::SemanticVad { .. } => THRESHOLD,
        };
        self.is_speech = probability >= if self.is_speech { threshold - HYSTERESIS } else { threshold };
        if !self.is_speech {
            self.burst_ms = 0;
            return self.pause();
        }
        self.burst_ms = self.burst_ms.saturating_add(CHUNK_MS);
        if self.burst_ms < BURST_MS {
            return None;
        }
        if self.quiet_ms > 0 {
            self.pause = self.pause.wrapping_add(1);
            (self.quiet_ms, self.asked) = (0, 0);
        }
        let starts = !std::mem::replace(&mut self.is_speaking, true);
        starts.then_some(Change::Started { ago_ms: self.burst_ms })
    }

    fn pause(&mut self) -> Option<Change> {
        if !self.is_speaking {
            return None;
        }
        self.quiet_ms = self.quiet_ms.saturating_add(CHUNK_MS);
        let (longest_ms, ask_ms) = match &self.rules {
            TurnDetection::ServerVad { silence_duration_ms, .. } => (*silence_duration_ms, None),
            TurnDetection::SemanticVad { eagerness } => match (eagerness.pauses(), self.can_ask) {
                (pauses, true) => (pauses.longest_ms, Some(pauses.ask_ms)),
                (pauses, false) => (pauses.unasked_ms, None),
            },
        };
        if self.quiet_ms >= longest_ms {
            return Some(Change::Stopped);
        }
        let asks = ask_ms.is_some_and(|ms| self.asked < MOST_QUESTIONS && self.quiet_ms >= ms * (self.asked + 1));
        asks.then(|| {
            self.asked += 1;
            self.questions.push_back(self.pause);
            Change::Ask
        })
    }

    /// Takes the answer to the oldest question; true if the turn is over.
    pub fn judged(&mut self, probability: f32) -> bool {
        let asked_in = self.questions.pop_front();
        self.is_speaking && self.quiet_ms > 0 && asked_in == Some(self.pause) && probability >= FINISHED
    }

    /// Begins anew after a turn.
    pub fn reset(&mut self) {
        self.pause = self.pause.wrapping_add(1);
        (self.is_speaking, self.burst_ms, self.quiet_ms, self.asked) = (false, 0, 0, 0);
    }

    /// No answers come to what was asked.
    pub fn forget_questions(&mut self) {
        self.questions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(gate: &mut SpeechGate, probability: f32, chunks: usize) -> Vec<(usize, Change)> {
        (1..=chunks).filter_map(|at| gate.push(probability).map(|change| (at, change))).collect()
    }

    #[test]
    fn silence_ends_a_turn_and_a_click_neither_begins_nor_prolongs_one() {
        let rules = TurnDetection::ServerVad { threshold: 0.5, prefix_padding_ms: 0, silence_duration_ms: 320 };
        let mut gate = SpeechGate::new(rules);
        assert_eq!(pushed(&mut gate, 0.9, 1), []);
        assert_eq!(pushed(&mut gate, 0.1, 20), [], "a click");
        assert_eq!(pushed(&mut gate, 0.9, 10), [(2, Change::Started { ago_ms: 64 })]);
        assert_eq!(pushed(&mut gate, 0.4, 20), [], "within the hysteresis");
        assert_eq!(pushed(&mut gate, 0.1, 5), []);
        assert_eq!(pushed(&mut gate, 0.9, 1), []);
        assert_eq!(pushed(&mut gate, 0.1, 5), [(5, Change::Stopped)], "the click did not end the pause");
        gate.reset();
        assert_eq!(pushed(&mut gate, 0.1, 50), []);
    }

    #[test]
    fn a_finished_speaker_ends_a_turn_early_and_an_answer_to_an_earlier_pause_does_not() {
        let mut gate = SpeechGate::new(TurnDetection::SemanticVad { eagerness: Eagerness::High });
        gate.can_ask = true;
        pushed(&mut gate, 0.9, 10);
        assert_eq!(pushed(&mut gate, 0.1, 8), [(7, Change::Ask)]);
        pushed(&mut gate, 0.9, 4);
        assert!(!gate.judged(0.9), "speech goes on");
        assert_eq!(pushed(&mut gate, 0.1, 14), [(7, Change::Ask), (13, Change::Ask)]);
        assert!(!gate.judged(0.2));
        assert!(gate.judged(0.7));
        gate.reset();
        pushed(&mut gate, 0.9, 10);
        gate.can_ask = false;
        assert_eq!(pushed(&mut gate, 0.1, 13), [(13, Change::Stopped)]);
    }
}
