//! Greedy search for RNN-T and TDT over a batch of utterances, resumable from chunk to chunk.
//!
//! Transducers are decoded by label looping (Bataev and others, 2024): as long as a row meets blanks its predictor
//! does not change, so a block of frames is scored in one product, and only rows that emitted a token run the LSTM.

use super::confidence::{confidence, confidence_of};
use super::keyterms::{Bias, Keyterms};
use super::transducer::{JointOutput, PredictorState, TransducerNetwork, TransducerRules};
use super::{Token, argmax};
use crate::error::Result;

/// State of the greedy search of a batch of streams.
#[derive(Clone, Debug)]
pub struct GreedyState<P> {
    prediction: P,
    rows: Vec<Utterance>,
}

#[derive(Clone, Debug, Default)]
struct Utterance {
    /// Frame of the next score, from the utterance's first; a TDT duration may point past the available frames.
    frame: usize,
    /// Frames of earlier calls.
    consumed: usize,
    /// Tokens emitted at `frame`.
    symbols: usize,
    bias: Bias,
}

impl<P: PredictorState> GreedyState<P> {
    /// The state before `rows` utterances.
    pub fn start<T: TransducerNetwork<Prediction = P>>(transducer: &T, rules: &TransducerRules, rows: usize) -> Self {
        Self { prediction: transducer.start(rows, rules.blank), rows: vec![Utterance::default(); rows] }
    }

    /// The rows of several, as one batch.
    pub fn join(states: &[&Self]) -> Self {
        let predictions: Vec<&P> = states.iter().map(|state| &state.prediction).collect();
        Self {
            prediction: P::join(&predictions),
            rows: states.iter().flat_map(|state| state.rows.iter().cloned()).collect(),
        }
    }

    /// One row.
    pub fn row(&self, row: usize) -> Self {
        Self { prediction: self.prediction.select(&[row]), rows: vec![self.rows[row].clone()] }
    }

    /// Decodes the next `lengths[row]` of `total` frames of every row with the row's keyterms; returns the new tokens
    /// of each.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn decode<T: TransducerNetwork<Prediction = P>>(
        &mut self,
        transducer: &T,
        rules: &TransducerRules,
        frames: &T::Frames,
        total: usize,
        lengths: &[usize],
        keyterms: &[Option<&Keyterms>],
    ) -> Result<Vec<Vec<Token>>> {
        let mut tokens = vec![Vec::new(); lengths.len()];
        let mut blank_rounds = 0;
        loop {
            let active: Vec<usize> =
                (0..lengths.len()).filter(|&r| self.rows[r].frame < self.rows[r].consumed + lengths[r]).collect();
            if active.is_empty() {
                break;
            }
            let next = |row: usize| self.rows[row].frame - self.rows[row].consumed;
            let left = active.iter().map(|&row| lengths[row] - next(row)).max().unwrap_or(1);
            let width = transducer.frames_ahead(blank_rounds).min(left);
            let ahead = |&row: &usize| (0..width).map(move |ahead| row * total + (next(row) + ahead).min(total - 1));
            let at: Vec<usize> = active.iter().flat_map(ahead).collect();
            // Keyterms may raise any score, so all scores are needed.
            let whole = active.iter().any(|row| keyterms[*row].is_some());
            let output = transducer.joint_output(frames, &at, &self.prediction, &active, whole)?;
            let (mut emitted_rows, mut emitted_tokens) = (Vec::new(), Vec::new());
            for (at, &row) in active.iter().enumerate() {
                let state = &mut self.rows[row];
                let end = state.consumed + lengths[row];
                let first = state.frame;
                while state.frame < end.min(first + width) {
                    let at = at * width + state.frame - first;
                    if let Some(token) = state.advance_frame(&output, at, rules, keyterms[row]) {
                        emitted_rows.push(row);
                        emitted_tokens.push(token.id);
                        tokens[row].push(token);
                        break;
                    }
                }
            }
            blank_rounds = if emitted_rows.is_empty() { blank_rounds + 1 } else { 0 };
            if !emitted_rows.is_empty() {
                transducer.step(&mut self.prediction, &emitted_rows, &emitted_tokens);
            }
        }
        self.rows.iter_mut().zip(lengths).for_each(|(row, length)| row.consumed += length);
        Ok(tokens)
    }
}

impl Utterance {
    /// Takes the joint output of this row's frame, number `at`: moves on, and returns the token unless it is blank.
    fn advance_frame(
        &mut self,
        output: &JointOutput,
        at: usize,
        rules: &TransducerRules,
        keyterms: Option<&Keyterms>,
    ) -> Option<Token> {
        let timed = !rules.durations.is_empty();
        let (best, duration) = match output {
            JointOutput::Scores(scores) => {
                let (labels, durations) = scores.row(at).split_at(rules.vocab_size);
                (argmax(labels), timed.then(|| argmax(durations)))
            }
            JointOutput::Best(labels, durations) => {
                let best = labels[at].tokens.first().map_or(0, |(label, _)| *label as usize);
                (best, timed.then(|| durations[at]))
            }
        };
        let duration = duration.map(|at| rules.durations[at]);
        let frame = self.frame;
        if best == rules.blank as usize {
            // A blank always moves on by at least one frame.
            self.advance(duration.unwrap_or(1).max(1));
            return None;
        }
        let (id, confidence) = match output {
            JointOutput::Scores(scores) => {
                let labels = &scores.row(at)[..rules.vocab_size];
                let id = keyterms.map(|keyterms| keyterms.choose(labels, rules.blank, &mut self.bias));
                (id.unwrap_or(best as u32), confidence(labels))
            }
            JointOutput::Best(labels, _) => (best as u32, confidence_of(&labels[at].stats, rules.vocab_size)),
        };
        self.symbols += 1;
        match duration {
            Some(duration) if duration > 0 => self.advance(duration),
            _ if self.symbols >= rules.max_symbols => self.advance(1),
            _ => {}
        }
        Some(Token { id, frame, span: duration.unwrap_or(1), confidence })
    }

    fn advance(&mut self, frames: usize) {
        self.frame += frames;
        self.symbols = 0;
    }
}
