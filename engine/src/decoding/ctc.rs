//! CTC decoding of whole utterances: greedy, or by prefix beam search.

use burn::tensor::Tensor;

use super::confidence::confidence;
use super::keyterms::{Bias, Keyterms};
use super::rnnt_beam::Beam;
use super::transducer::Scores;
use super::{Search, Token, argmax, ctc_prefix_beam};
use crate::error::Result;

/// CTC over `scores` `[rows, frames, vocabulary]` of which `lengths` frames are real, with a search for each row: equal
/// neighbours merge, blanks are dropped. A beam of one without fusion is greedy search.
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
            Search::Beam(beam) => ctc_prefix_beam::search(labels, blank, *beam),
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
