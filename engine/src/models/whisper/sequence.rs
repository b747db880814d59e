//! Decoding of consecutive windows: segments between timestamps, the start of the next window, and its prompt of earlier text. The prompt includes
//! the timestamps, as in training.

use std::ops::Range;

use super::config::SpecialTokens;
use super::decoding::DecodedWindow;

/// The earlier text in the next window's prompt.
#[derive(Clone, Debug)]
pub struct Previous {
    /// The user's prompt of expected words.
    prompt: Vec<u32>,
    /// The prompt and the text since.
    text: Vec<u32>,
    /// Most tokens that are kept.
    room: usize,
    /// True if the latest text is a reliable prompt.
    reliable: bool,
}

/// Milliseconds between two timestamps.
const TIMESTAMP_MS: u64 = 20;

/// Text between timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Places of its text in the tokens.
    pub tokens: Range<usize>,
    /// Start, ms from the start of the window.
    pub from_ms: u64,
    /// End, ms; none where no timestamp follows.
    pub to_ms: Option<u64>,
}

/// Text sampled at this temperature or a higher one is not used as a prompt.
const UNRELIABLE: f32 = 0.5;

impl Previous {
    /// The state before the first window; prompts have at most `room` tokens.
    pub fn new(prompt: Vec<u32>, room: usize) -> Self {
        Self { text: prompt.clone(), prompt, room, reliable: true }
    }

    /// The prompt tokens of the next window.
    pub fn tokens(&self) -> &[u32] {
        if self.reliable { &self.text } else { &self.prompt }
    }

    /// Adds the accepted tokens of a window, decoded at this temperature.
    pub fn add(&mut self, tokens: &[u32], temperature: f32) {
        self.text.extend_from_slice(tokens);
        self.text.drain(..self.text.len().saturating_sub(self.room));
        self.reliable = temperature < UNRELIABLE;
    }
}

impl SpecialTokens {
    /// Number of a window's accepted tokens, and the frames of 20 ms that they cover; no frames if the whole window is
    /// complete.
    ///
    /// A window with an unfinished last sentence is cut at the end of the sentence before: the rest belongs to the next
    /// window.
    pub fn accepted(&self, tokens: &[u32]) -> (usize, Option<usize>) {
        let is_time = |at: usize| tokens.get(at).is_some_and(|token| self.is_timestamp(*token));
        let count = tokens.len();
        let one_at_the_end = count >= 2 && is_time(count - 1) && !is_time(count - 2);
        let pair = (1..count).rev().find(|at| is_time(*at) && is_time(at - 1));
        match pair.filter(|_| !one_at_the_end) {
            Some(second) => (second, Some((tokens[second - 1] - self.first_timestamp()) as usize)),
            None => (count, None),
        }
    }

    /// The segments of a window's tokens: text between timestamps.
    pub fn segments(&self, tokens: &[u32]) -> Vec<Segment> {
        let time_ms = |token: u32| u64::from(token - self.first_timestamp()) * TIMESTAMP_MS;
        let mut segments = Vec::new();
        let (mut from_ms, mut at) = (0, 0);
        while at < tokens.len() {
            if self.is_timestamp(tokens[at]) {
                from_ms = time_ms(tokens[at]);
                at += 1;
                continue;
            }
            let length = tokens[at..].iter().position(|token| self.is_timestamp(*token));
            let next = length.map_or(tokens.len(), |length| at + length);
            let to_ms = tokens.get(next).map(|token| time_ms(*token).max(from_ms));
            segments.push(Segment { tokens: at..next, from_ms, to_ms });
            at = next;
        }
        segments
    }
}

impl DecodedWindow {
    /// Keeps the first `kept` tokens.
    pub fn truncate(&mut self, kept: usize) {
        let columns = self.weights.len() / (self.tokens.len() + 1);
        self.tokens.truncate(kept);
        self.confidences.truncate(kept);
        self.weights.truncate((self.tokens.len() + 1) * columns);
    }
}
