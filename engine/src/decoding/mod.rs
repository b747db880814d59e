//! Decoding: scores in, tokens out. No model family is known here; a transducer is a [`TransducerNetwork`].
//!
//! - [`fusion`]: shallow fusion with an n-gram language model.
//! - [`keyterms`]: biasing towards phrases.
//! - `transducer`: predictor and joint, as decoding sees them.
//! - `greedy`: greedy search of transducers.
//! - `rnnt_beam`: beam search of transducers.
//! - `ctc`, `ctc_prefix_beam`: greedy and prefix beam search of CTC.
//! - `confidence`: confidence of a token from its distribution.

mod confidence;
mod ctc;
mod ctc_prefix_beam;
pub mod fusion;
mod greedy;
pub mod keyterms;
mod rnnt_beam;
mod transducer;

pub use crate::text::tokens::Token;
pub(crate) use confidence::confidence_of;
pub use ctc::ctc;
pub use greedy::GreedyState;
use keyterms::Keyterms;
pub use rnnt_beam::{Beam, BeamState};
pub use transducer::{JointOutput, PredictorState, Scores, TransducerNetwork, TransducerRules};

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
    pub(crate) fn as_greedy(&self) -> Option<Option<&'a Keyterms>> {
        match self {
            Self::Greedy(keyterms) => Some(*keyterms),
            Self::Beam(_) => None,
        }
    }

    /// As a beam: greedy search is one of a single prefix.
    pub(crate) fn as_beam(&self) -> Beam<'a> {
        match self {
            Self::Greedy(_) => Beam { width: 1, fusion: None },
            Self::Beam(beam) => *beam,
        }
    }
}

/// The first of the largest values; the first value if none compares.
fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}
