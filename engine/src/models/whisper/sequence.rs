//! Windows one after another: where the next begins, and what it is told was said before. What is told includes the
//! timestamps, as in training.

use super::config::Special;
use super::decoding::DecodedWindow;

/// What the next window is told.
#[derive(Clone, Debug)]
pub struct Previous {
    /// What to expect anyway.
    prompt: Vec<u32>,
    /// The prompt, and what was said since.
    said: Vec<u32>,
    /// Tokens that are remembered.
    room: usize,
    /// Whether what was said last can be relied on.
    reliable: bool,
}

/// A text that was left to chance from here on says little about the next.
const UNRELIABLE: f32 = 0.5;

impl Previous {
    /// Before the first window; `room` tokens are told at most.
    pub fn new(prompt: Vec<u32>, room: usize) -> Self {
        Self { said: prompt.clone(), prompt, room, reliable: true }
    }

    /// What to tell the next window.
    pub fn tokens(&self) -> &[u32] {
        if self.reliable { &self.said } else { &self.prompt }
    }

    /// Takes what stands of a window, written at this temperature.
    pub fn add(&mut self, tokens: &[u32], temperature: f32) {
        self.said.extend_from_slice(tokens);
        self.said.drain(..self.said.len().saturating_sub(self.room));
        self.reliable = temperature < UNRELIABLE;
    }
}

impl Special {
    /// How many of a window's tokens stand, and how many frames of 20 ms they cover; no frames if all of the window is done
    /// with.
    ///
    /// A window whose last sentence has begun but not ended is cut where the sentence before ended: the rest is for the next.
    pub fn settled(&self, tokens: &[u32]) -> (usize, Option<usize>) {
        let is_time = |at: usize| tokens.get(at).is_some_and(|token| self.is_timestamp(*token));
        let count = tokens.len();
        let one_at_the_end = count >= 2 && is_time(count - 1) && !is_time(count - 2);
        let pair = (1..count).rev().find(|at| is_time(*at) && is_time(at - 1));
        match pair.filter(|_| !one_at_the_end) {
            Some(second) => (second, Some((tokens[second - 1] - self.first_timestamp()) as usize)),
            None => (count, None),
        }
    }
}

impl DecodedWindow {
    /// Leaves the first tokens.
    pub fn truncate(&mut self, kept: usize) {
        let columns = self.weights.len() / (self.tokens.len() + 1);
        self.tokens.truncate(kept);
        self.confidences.truncate(kept);
        self.weights.truncate((self.tokens.len() + 1) * columns);
    }
}
