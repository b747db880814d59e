//! Questions to the turn detector in a live stream: the samples that it judges, and those that wait for an answer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::models::smart_turn::SmartTurn;

/// The turn detector of a stream.
pub struct TurnJudge {
    pub network: Arc<SmartTurn>,
    /// The last samples, from `first` on.
    samples: VecDeque<f32>,
    first: usize,
    questions: VecDeque<Question>,
}

/// A question that waits: whether the speaker has finished at the end of a window.
pub struct Question {
    pub window: Vec<f32>,
    pub asker: Asker,
}

/// The asker of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The caller, who receives the answer.
    Caller,
    /// The stream's own rules, in a pause of this number.
    Pause(u32),
}

impl TurnJudge {
    /// A stream without samples.
    pub fn new(network: Arc<SmartTurn>) -> Self {
        Self { network, samples: VecDeque::new(), first: 0, questions: VecDeque::new() }
    }

    /// Samples of the longest window.
    fn window(&self) -> usize {
        self.network.config().window()
    }

    /// The number of all samples so far.
    pub fn end(&self) -> usize {
        self.first + self.samples.len()
    }

    /// Takes samples at 16 kHz.
    pub fn push(&mut self, samples: &[f32]) {
        self.samples.extend(samples);
    }

    /// Drops samples that no window has which ends at `processed` or later.
    pub fn forget_before(&mut self, processed: usize) {
        let wanted = processed.min(self.end()).saturating_sub(self.window());
        self.samples.drain(..wanted.saturating_sub(self.first));
        self.first = self.first.max(wanted);
    }

    /// Asks about the samples of a range of the stream.
    pub fn ask(&mut self, range: std::ops::Range<usize>, asker: Asker) {
        let end = range.end.clamp(self.first, self.end());
        let start = range.start.clamp(self.first, end).max(end.saturating_sub(self.window()));
        let window = self.samples.range(start - self.first..end - self.first).copied().collect();
        self.questions.push_back(Question { window, asker });
    }

    /// True if a question waits.
    pub fn has_question(&self) -> bool {
        !self.questions.is_empty()
    }

    /// The question that has waited longest.
    pub fn next_question(&self) -> Option<&Question> {
        self.questions.front()
    }

    /// Removes the question that has waited longest, as it has its answer.
    pub fn answered(&mut self) -> Option<Question> {
        self.questions.pop_front()
    }
}
