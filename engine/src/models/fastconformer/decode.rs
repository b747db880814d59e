//! Decoding, and greedy search: CTC, RNN-T and TDT, over a batch of utterances, resumable from chunk to chunk.
//!
//! Transducers are decoded by label looping (Bataev and others, 2024): as long as a row meets blanks its predictor
//! does not change, so a block of frames is scored in one product, and only rows that emitted a token run the LSTM.

use burn::tensor::Tensor;

use super::beam::Beam;
use super::prefix;
use super::transducer::{Frames, Outlook, Prediction, Scores, Transducer};
use crate::error::Result;
use crate::models::{confidence, confidence_of};
use crate::tasks::keyterms::{Bias, Keyterms};

/// How tokens are chosen from a model's scores.
#[derive(Clone, Copy)]
pub enum Search<'a> {
    /// The best at every step. Keyterms lean it.
    Greedy(Option<&'a Keyterms>),
    /// The best sequence that a beam finds.
    Beam(Beam<'a>),
}

impl<'a> Search<'a> {
    /// Its keyterms, if it is greedy.
    pub(super) fn as_greedy(&self) -> Option<Option<&'a Keyterms>> {
        match self {
            Self::Greedy(keyterms) => Some(*keyterms),
            Self::Beam(_) => None,
        }
    }

    /// As a beam: greedy search is one of a single prefix.
    pub(super) fn as_beam(&self) -> Beam<'a> {
        match self {
            Self::Greedy(_) => Beam { width: 1, fusion: None },
            Self::Beam(beam) => *beam,
        }
    }
}

/// One emitted token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// Id in the checkpoint's vocabulary.
    pub id: u32,
    /// Encoder frame at which it was emitted, from the utterance's first.
    pub frame: usize,
    /// Frames that it spans: the predicted duration (TDT), the run of equal frames (CTC), else 1.
    pub span: usize,
    /// 1 - H(p) / ln(n): one minus the entropy of the token distribution over that of an even one, 0 to 1.
    pub confidence: f32,
}

/// Fixed facts of transducer decoding.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The blank token.
    pub blank: u32,
    /// Number of tokens, blank included; scores after them are durations.
    pub vocab_size: usize,
    /// Most tokens that one frame may emit.
    pub max_symbols: usize,
    /// TDT: frames a duration output stands for. Empty for RNN-T.
    pub durations: Vec<usize>,
}

/// Where the decoding of a batch of streams stands.
#[derive(Debug)]
pub struct TransducerState {
    prediction: Prediction,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    /// Frame of the next score, from the utterance's first; a TDT duration may point past what is there.
    frame: usize,
    /// Frames that earlier calls brought.
    consumed: usize,
    /// Tokens emitted at `frame`.
    symbols: usize,
    bias: Bias,
}

impl TransducerState {
    /// The state before `rows` utterances.
    pub fn start(transducer: &Transducer, rules: &Rules, rows: usize) -> Self {
        Self { prediction: transducer.start(rows, rules.blank), rows: vec![Row::default(); rows] }
    }

    /// The rows of several, as one batch.
    pub fn join(states: &[&Self]) -> Self {
        let predictions: Vec<&Prediction> = states.iter().map(|state| &state.prediction).collect();
        Self {
            prediction: Prediction::join(&predictions),
            rows: states.iter().flat_map(|state| state.rows.iter().cloned()).collect(),
        }
    }

    /// One row.
    pub fn row(&self, row: usize) -> Self {
        Self { prediction: self.prediction.select(&[row]), rows: vec![self.rows[row].clone()] }
    }

    /// Decodes the next `lengths[row]` of `total` frames of every row, which each have their keyterms; gives the new tokens of
    /// each.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn decode(
        &mut self,
        transducer: &Transducer,
        rules: &Rules,
        frames: &Frames,
        total: usize,
        lengths: &[usize],
        keyterms: &[Option<&Keyterms>],
    ) -> Result<Vec<Vec<Token>>> {
        let mut tokens = vec![Vec::new(); lengths.len()];
        loop {
            let active: Vec<usize> =
                (0..lengths.len()).filter(|&r| self.rows[r].frame < self.rows[r].consumed + lengths[r]).collect();
            if active.is_empty() {
                break;
            }
            let next = |row: usize| self.rows[row].frame - self.rows[row].consumed;
            let left = active.iter().map(|&row| lengths[row] - next(row)).max().unwrap_or(1);
            let width = transducer.ahead().min(left);
            let ahead = |&row: &usize| (0..width).map(move |ahead| row * total + (next(row) + ahead).min(total - 1));
            let at: Vec<usize> = active.iter().flat_map(ahead).collect();
            // Keyterms lean any score.
            let whole = active.iter().any(|row| keyterms[*row].is_some());
            let outlook = transducer.outlook(frames, &at, &self.prediction, &active, whole)?;
            let (mut emitted_rows, mut emitted_tokens) = (Vec::new(), Vec::new());
            for (at, &row) in active.iter().enumerate() {
                let state = &mut self.rows[row];
                let end = state.consumed + lengths[row];
                let first = state.frame;
                while state.frame < end.min(first + width) {
                    let at = at * width + state.frame - first;
                    if let Some(token) = state.look(&outlook, at, rules, keyterms[row]) {
                        emitted_rows.push(row);
                        emitted_tokens.push(token.id);
                        tokens[row].push(token);
                        break;
                    }
                }
            }
            if !emitted_rows.is_empty() {
                transducer.step(&mut self.prediction, &emitted_rows, &emitted_tokens);
            }
        }
        self.rows.iter_mut().zip(lengths).for_each(|(row, length)| row.consumed += length);
        Ok(tokens)
    }
}

impl Row {
    /// Looks at this row's frame, which is number `at`: moves on, and gives the token if it is not blank.
    fn look(&mut self, outlook: &Outlook, at: usize, rules: &Rules, keyterms: Option<&Keyterms>) -> Option<Token> {
        let timed = !rules.durations.is_empty();
        let (best, duration) = match outlook {
            Outlook::Scores(scores) => {
                let (labels, durations) = scores.row(at).split_at(rules.vocab_size);
                (argmax(labels), timed.then(|| argmax(durations)))
            }
            Outlook::Best(labels, durations) => {
                let best = labels[at].best.first().map_or(0, |(label, _)| *label as usize);
                (best, timed.then(|| durations[at]))
            }
        };
        let duration = duration.map(|at| rules.durations[at]);
        let frame = self.frame;
        if best == rules.blank as usize {
            // A blank always moves on, whatever duration it came with.
            self.advance(duration.unwrap_or(1).max(1));
            return None;
        }
        let (id, confidence) = match outlook {
            Outlook::Scores(scores) => {
                let labels = &scores.row(at)[..rules.vocab_size];
                let id = keyterms.map(|keyterms| keyterms.choose(labels, rules.blank, &mut self.bias));
                (id.unwrap_or(best as u32), confidence(labels))
            }
            Outlook::Best(labels, _) => (best as u32, confidence_of(&labels[at].spread, rules.vocab_size)),
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

/// CTC over `scores` `[rows, frames, vocabulary]` of which `lengths` frames are real, each row searched in its way: equal
/// neighbours merge, blanks go. A beam of one that nothing is added to is greedy search.
///
/// # Errors
/// [`crate::Error::Device`] when the device failed.
pub fn ctc(scores: Tensor<3>, lengths: &[usize], blank: u32, searches: &[Search]) -> Result<Vec<Vec<Token>>> {
    let frames = scores.dims()[1];
    let scores = Scores::read(scores)?;
    let decode = |(row, (length, search)): (usize, (&usize, &Search))| {
        let labels = (0..*length).map(|frame| scores.row(row * frames + frame));
        match search {
            Search::Greedy(keyterms) => greedy_ctc(labels, blank, *keyterms),
            Search::Beam(Beam { width: 1, fusion: None }) => greedy_ctc(labels, blank, None),
            Search::Beam(beam) => prefix::search(labels, blank, *beam),
        }
    };
    Ok(lengths.iter().zip(searches).enumerate().map(decode).collect())
}

/// The best label of each frame of one utterance.
fn greedy_ctc<'a>(frames: impl Iterator<Item = &'a [f32]>, blank: u32, keyterms: Option<&Keyterms>) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut bias = Bias::default();
    // The label before biasing and the token it became: a run of one label is one token.
    let mut run: Option<usize> = None;
    for (frame, labels) in frames.enumerate() {
        let best = argmax(labels);
        if best == blank as usize {
            run = None;
        } else if run == Some(best) {
            if let Some(token) = tokens.last_mut() {
                token.span += 1;
                token.confidence = token.confidence.max(confidence(labels));
            }
        } else {
            run = Some(best);
            let id = match keyterms {
                Some(keyterms) => keyterms.choose(labels, blank, &mut bias),
                None => best as u32,
            };
            tokens.push(Token { id, frame, span: 1, confidence: confidence(labels) });
        }
    }
    tokens
}

/// The first of the largest values; the first value if none compares.
pub(super) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}
