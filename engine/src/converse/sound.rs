//! The sound of a pause: what a turn detector says of it, beside the words.

use super::turn_end::Ending;

/// Silence after which the detector is asked, and asked again, ms.
const ASKED_MS: [u32; 2] = [200, 500];
/// Probability from which on the caller has finished.
const FINISHED: f32 = 0.5;

/// The detector's view of the current pause.
#[derive(Debug, Default)]
pub struct Sound {
    /// Questions of this pause.
    asked: usize,
    /// The last question that was asked, in any pause.
    last: u64,
    waits: bool,
    finished: Option<bool>,
}

impl Sound {
    /// Forgets the pause: another one begins, or none.
    pub fn forget(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }

    /// The next question, if it is time for one. After a pause that sounds finished there is none.
    pub fn next_question(&mut self, quiet_ms: u32) -> Option<u64> {
        let due = *ASKED_MS.get(self.asked)?;
        if quiet_ms < due || self.finished == Some(true) {
            return None;
        }
        self.asked += 1;
        self.last += 1;
        self.waits = true;
        Some(self.last)
    }

    /// Takes the answer to a question: the probability that the caller has finished. One to an earlier question is ignored.
    pub fn answer(&mut self, question: u64, probability: f32) {
        if question == self.last && self.waits {
            self.waits = false;
            self.finished = Some(probability >= FINISHED);
        }
    }

    /// How a turn sounds whose words sound like `words`. Words that cannot end a sentence decide alone; of all others the detector knows
    /// more. While its answer is awaited nothing tells.
    pub fn ending(&self, words: Ending) -> Ending {
        match (words, self.finished) {
            (Ending::Open, _) => Ending::Open,
            (_, Some(true)) => Ending::Complete,
            (_, Some(false)) => Ending::Open,
            (_, None) if self.waits => Ending::Unsure,
            (words, None) => words,
        }
    }
}
