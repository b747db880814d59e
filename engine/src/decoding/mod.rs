//! Decoding: scores in, tokens out. Independent of model families: a transducer is a [`TransducerNetwork`].
//!
//! - [`fusion`]: shallow fusion with an n-gram language model.
//! - [`keyterms`]: biasing towards phrases.
//! - `transducer`: interface of predictor and joint.
//! - `greedy`: greedy search of transducers.
//! - `rnnt_beam`: beam search of transducers.
//! - `ctc`, `ctc_prefix_beam`: greedy and prefix beam search of CTC.
//! - `confidence`: confidence of a token from its distribution.
//! - [`sampling`], [`text_stream`]: a text's next token, and the text as it grows.
//! - [`grammar`]: the tokens that keep a text to JSON of a schema.

mod confidence;
mod ctc;
mod ctc_prefix_beam;
pub mod fusion;
pub mod grammar;
mod greedy;
pub mod keyterms;
mod rnnt_beam;
pub mod sampling;
pub mod text_stream;
mod transducer;

pub use crate::text::tokens::Token;
pub(crate) use confidence::confidence_of;
pub use ctc::ctc;
pub use greedy::GreedyState;
use keyterms::Keyterms;
pub use rnnt_beam::{Beam, BeamState};
pub use transducer::{JointOutput, PredictorState, Scores, TransducerNetwork, TransducerRules};

/// Search for tokens in a model's scores.
#[derive(Clone, Copy)]
pub enum Search<'a> {
    /// Greedy search: the best token at every step, biased by keyterms.
    Greedy(Option<&'a Keyterms>),
    /// Beam search.
    Beam(Beam<'a>),
}

impl<'a> Search<'a> {
    /// Its keyterms, if it is greedy.
    pub(crate) fn as_greedy(&self) -> Option<Option<&'a Keyterms>> {
        match self {
            Self::Greedy(keyterms) => Some(*keyterms),
            Self::Beam(_) => None,
        }
    }

    /// The search as a beam: greedy search has a beam of one.
    pub(crate) fn as_beam(&self) -> Beam<'a> {
        match self {
            Self::Greedy(_) => Beam { width: 1, fusion: None },
            Self::Beam(beam) => *beam,
        }
    }
}

/// Number of tokens at the end that only repeat, three times or more, what stands before them.
pub(crate) fn repeated_tail(tokens: &[u32]) -> usize {
    let longest = tokens.len() / 3;
    let repeats = |period: &usize| {
        let last = &tokens[tokens.len() - period..];
        tokens.rchunks_exact(*period).take_while(|chunk| *chunk == last).count()
    };
    let looped = (1..=longest).map(|period| (period, repeats(&period))).find(|(_, times)| *times >= 3);
    looped.map_or(0, |(period, times)| period * (times - 1))
}

/// The first of the largest values; the first value if none compares.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}
