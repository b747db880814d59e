//! Beam search for RNN-T and TDT: the likeliest prefixes, frame by frame, resumable from chunk to chunk.
//!
//! All prefixes at a frame are scored in one product, repeatedly, until no prefix that emitted a token there is among
//! the best (modified adaptive expansion search, Kim and others, 2020, without its bound on tokens a frame but the
//! model's own). Prefixes of one text are one: their probabilities add up, the likelier one's tokens stay.

use std::collections::BTreeMap;
use std::ops::Range;

use auricle_kernels::sampling::SoftmaxStats;

use super::confidence::confidence;
use super::fusion::{Fusion, FusionState};
use super::transducer::{PredictorState, TransducerNetwork, TransducerRules};
use super::{Token, argmax};
use crate::error::Result;

/// Pruning margin: a token that puts its prefix this far behind the best one is not expanded.
const MARGIN: f32 = 9.0;

/// Most frames between two tokens of a word, about a second. Without this limit an unfinished word could skip the
/// speech up to a later continuation, since only a finished word gets its full language model score.
const MAX_WORD_GAP: usize = 12;

/// Most open tokens, on which the prefixes disagree. Beyond it only the best prefix is kept, which bounds memory.
const MAX_OPEN: usize = 256;

/// Options of beam search.
#[derive(Clone, Copy)]
pub struct Beam<'a> {
    /// Beam width: number of prefixes, at least 1.
    pub width: usize,
    /// Scores that are added to the model's scores.
    pub fusion: Option<&'a Fusion>,
}

/// State of the beam search of one stream.
#[derive(Clone, Debug)]
pub struct BeamState<P> {
    /// Prefixes, the best first.
    prefixes: Vec<Prefix>,
    /// Predictor state after each prefix, by [`Prefix::row`].
    predictions: P,
    /// Internal language model scores after each prefix, by [`Prefix::row`]: log probabilities of the labels without
    /// the blank; empty if fusion does not need them.
    internal_lm: Vec<Vec<f32>>,
    /// Open tokens: prefixes share their common beginnings.
    trail: Trail,
    /// Frames of earlier calls.
    consumed: usize,
}

/// Open tokens of all prefixes, as linked lists: each with the place of the token before it.
#[derive(Clone, Debug, Default)]
struct Trail {
    links: Vec<(Token, Option<usize>)>,
}

#[derive(Clone, Debug)]
struct Prefix {
    /// ln P, with the scores of fusion.
    score: f32,
    /// Frame of the next score, from the utterance's first; a TDT duration may point past the available frames.
    frame: usize,
    /// Row of the predictions.
    row: usize,
    /// Hash of the token sequence.
    history: u64,
    /// The last token in the trail.
    last: Option<usize>,
    /// Frame of the last token, open or not.
    last_frame: usize,
    fusion_state: Option<FusionState>,
}

/// A prefix and a candidate for its next token.
struct Extension {
    score: f32,
    parent: usize,
    token: Token,
    fusion_state: Option<FusionState>,
}

/// Log probabilities at one frame, by history: prefixes with equal histories are scored once.
#[derive(Default)]
struct JointCache {
    rows: BTreeMap<u64, (Vec<f32>, Vec<f32>)>,
}

impl<P: PredictorState> BeamState<P> {
    /// The state before an utterance.
    pub fn start<T: TransducerNetwork<Prediction = P>>(transducer: &T, rules: &TransducerRules, beam: Beam) -> Self {
        let fusion_state = beam.fusion.map(Fusion::start);
        let first = Prefix { score: 0.0, frame: 0, row: 0, history: 0, last: None, last_frame: 0, fusion_state };
        let predictions = transducer.start(1, rules.blank);
        Self { prefixes: vec![first], predictions, internal_lm: Vec::new(), trail: Trail::default(), consumed: 0 }
    }

    /// Decodes the given range of `frames`; returns the new tokens that all prefixes agree on.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn decode<T: TransducerNetwork<Prediction = P>>(
        &mut self,
        transducer: &T,
        rules: &TransducerRules,
        (frames, range): (&T::Frames, Range<usize>),
        beam: Beam,
    ) -> Result<Vec<Token>> {
        let end = self.consumed + range.len();
        while let Some(frame) = self.prefixes.iter().map(|prefix| prefix.frame).min().filter(|frame| *frame < end) {
            let at = range.start + frame - self.consumed;
            self.score_internal_lm(transducer, rules, beam)?;
            self.expand(transducer, rules, (frames, at), frame, beam)?;
            self.drop_unused_predictions();
        }
        self.consumed = end;
        Ok(self.take_common_tokens())
    }

    /// The open tokens of the best prefix, which may still change.
    pub fn open(&self) -> Vec<Token> {
        self.prefixes.first().map(|best| self.trail.tokens(best.last)).unwrap_or_default()
    }

    /// Ends the search: each prefix gets the score that the end of its text adds.
    pub fn close(&mut self, beam: Beam) {
        let Some(fusion) = beam.fusion else { return };
        for prefix in &mut self.prefixes {
            prefix.score += prefix.fusion_state.as_ref().map_or(0.0, |fusion_state| fusion.end(fusion_state));
        }
        self.prefixes.sort_by(|a, b| b.score.total_cmp(&a.score));
    }

    /// Moves all prefixes at `frame` past it.
    fn expand<T: TransducerNetwork<Prediction = P>>(
        &mut self,
        transducer: &T,
        rules: &TransducerRules,
        input: (&T::Frames, usize),
        frame: usize,
        beam: Beam,
    ) -> Result<()> {
        let mut predicted: BTreeMap<u64, usize> = self.prefixes.iter().map(|p| (p.history, p.row)).collect();
        let (mut active, mut passed): (Vec<Prefix>, Vec<Prefix>) =
            std::mem::take(&mut self.prefixes).into_iter().partition(|prefix| prefix.frame == frame);
        let mut joint = JointCache::default();
        for symbols in 1..=rules.max_symbols.max(1) {
            joint.add(&active, transducer, rules, &self.predictions, input)?;
            for prefix in &active {
                let (labels, durations) = joint.of(prefix);
                for (duration, log_prob) in self::durations(rules, durations, beam.width) {
                    let score = prefix.score + labels[rules.blank as usize] + log_prob;
                    // A blank always moves on by at least one frame.
                    let moved = Prefix { score, frame: frame + duration.unwrap_or(1).max(1), ..prefix.clone() };
                    merge(&mut passed, moved);
                }
            }
            let extensions = extensions(&active, &passed, &joint, &self.internal_lm, rules, beam, frame);
            let kept = best_of(&mut passed, extensions, beam.width);
            if kept.is_empty() {
                break;
            }
            let (mut rows, mut tokens) = (Vec::new(), Vec::new());
            let mut emitted = Vec::new();
            for extension in kept {
                let parent = &active[extension.parent];
                let history = extend_history(parent.history, extension.token.id);
                let row = *predicted.entry(history).or_insert_with(|| {
                    rows.push(parent.row);
                    tokens.push(extension.token.id);
                    self.predictions.rows() + rows.len() - 1
                });
                let (labels, durations) = joint.of(parent);
                let token = Token { confidence: confidence(labels), ..extension.token };
                let stays = durations.is_empty() || token.span == 0;
                let moved = if stays { usize::from(symbols == rules.max_symbols) } else { token.span };
                let span = if durations.is_empty() { 1 } else { token.span };
                let prefix = Prefix {
                    score: extension.score,
                    frame: frame + moved,
                    row,
                    history,
                    last: Some(self.trail.push(Token { span, ..token }, parent.last)),
                    last_frame: frame,
                    fusion_state: extension.fusion_state,
                };
                if moved > 0 { merge(&mut passed, prefix) } else { emitted.push(prefix) }
            }
            if !rows.is_empty() {
                transducer.follow(&mut self.predictions, &rows, &tokens);
                self.score_internal_lm(transducer, rules, beam)?;
            }
            active = emitted;
            if active.is_empty() {
                break;
            }
        }
        passed.sort_by(|a, b| b.score.total_cmp(&a.score));
        passed.truncate(beam.width);
        // Only differences count: over hours the sums would lose precision. Normalised at every frame, so that the size
        // of chunks does not matter.
        let best = passed.first().map_or(0.0, |best| best.score);
        passed.iter_mut().for_each(|prefix| prefix.score -= best);
        self.prefixes = passed;
        Ok(())
    }

    /// Computes the internal language model scores of new predictions: the joint without a frame (Meng and others,
    /// 2021).
    fn score_internal_lm<T: TransducerNetwork<Prediction = P>>(
        &mut self,
        transducer: &T,
        rules: &TransducerRules,
        beam: Beam,
    ) -> Result<()> {
        let new: Vec<usize> = (self.internal_lm.len()..self.predictions.rows()).collect();
        if new.is_empty() || beam.fusion.is_none_or(|fusion| fusion.weights().internal == 0.0) {
            return Ok(());
        }
        let scores = transducer.internal_lm(&self.predictions, &new)?;
        self.internal_lm.extend((0..new.len()).map(|at| {
            let mut labels = scores.row(at)[..rules.vocab_size].to_vec();
            labels[rules.blank as usize] = f32::NEG_INFINITY;
            log_softmax(&labels)
        }));
        Ok(())
    }

    /// Drops predictions that no prefix uses.
    fn drop_unused_predictions(&mut self) {
        let mut rows: Vec<usize> = self.prefixes.iter().map(|prefix| prefix.row).collect();
        rows.sort_unstable();
        rows.dedup();
        // Selecting costs nearly the same for any number of rows, so it is not done after every frame.
        if self.predictions.rows() > 4 * rows.len().max(4) {
            self.predictions = self.predictions.select(&rows);
            self.internal_lm =
                rows.iter().filter_map(|row| self.internal_lm.get_mut(*row).map(std::mem::take)).collect();
            for prefix in &mut self.prefixes {
                prefix.row = rows.partition_point(|row| *row < prefix.row);
            }
        }
    }

    /// Removes and returns the common beginning of all prefixes, with the times of the best one.
    fn take_common_tokens(&mut self) -> Vec<Token> {
        // Sorted: the best comes first.
        if self.prefixes.is_empty() {
            return Vec::new();
        }
        let mut open: Vec<Vec<Token>> = self.prefixes.iter().map(|prefix| self.trail.tokens(prefix.last)).collect();
        if open[0].len() > MAX_OPEN {
            open.truncate(1);
            self.prefixes.truncate(1);
        }
        let (first, others) = open.split_at(1);
        let shared = others.iter().fold(first[0].len(), |shared, other| {
            let pairs = first[0].iter().zip(other).take(shared);
            pairs.take_while(|(a, b)| a.id == b.id).count()
        });
        let common = first[0][..shared].to_vec();
        self.trail = Trail::default();
        for (prefix, open) in self.prefixes.iter_mut().zip(&open) {
            prefix.last = open[shared..].iter().fold(None, |before, token| Some(self.trail.push(*token, before)));
        }
        common
    }
}

impl Trail {
    /// Adds a token and returns its place.
    fn push(&mut self, token: Token, before: Option<usize>) -> usize {
        self.links.push((token, before));
        self.links.len() - 1
    }

    /// The tokens up to this one, in order.
    fn tokens(&self, last: Option<usize>) -> Vec<Token> {
        let link = |at: usize| self.links[at];
        let mut tokens: Vec<Token> =
            std::iter::successors(last.map(link), |(_, before)| before.map(link)).map(|(token, _)| token).collect();
        tokens.reverse();
        tokens
    }
}

impl JointCache {
    /// Scores the prefixes with new histories at this frame.
    fn add<T: TransducerNetwork>(
        &mut self,
        active: &[Prefix],
        transducer: &T,
        rules: &TransducerRules,
        predictions: &T::Prediction,
        (frames, at): (&T::Frames, usize),
    ) -> Result<()> {
        let mut new: Vec<&Prefix> = active.iter().filter(|p| !self.rows.contains_key(&p.history)).collect();
        new.sort_by_key(|prefix| prefix.history);
        new.dedup_by_key(|prefix| prefix.history);
        if new.is_empty() {
            return Ok(());
        }
        let rows: Vec<usize> = new.iter().map(|prefix| prefix.row).collect();
        let scores = transducer.joint(frames, &vec![at; rows.len()], predictions, &rows)?;
        for (at, prefix) in new.iter().enumerate() {
            let (labels, durations) = scores.row(at).split_at(rules.vocab_size);
            self.rows.insert(prefix.history, (log_softmax(labels), log_softmax(durations)));
        }
        Ok(())
    }

    /// Log probabilities of labels and of durations.
    fn of(&self, prefix: &Prefix) -> (&[f32], &[f32]) {
        self.rows.get(&prefix.history).map_or((&[], &[]), |(labels, durations)| (labels, durations))
    }
}

/// Candidates for the next tokens of the active prefixes.
fn extensions(
    active: &[Prefix],
    passed: &[Prefix],
    joint: &JointCache,
    internal_lm: &[Vec<f32>],
    rules: &TransducerRules,
    beam: Beam,
    frame: usize,
) -> Vec<Extension> {
    let best = passed.iter().map(|prefix| prefix.score).fold(f32::NEG_INFINITY, f32::max);
    let mut found = Vec::new();
    for (parent, prefix) in active.iter().enumerate() {
        let (labels, spans) = joint.of(prefix);
        let internal_lm = internal_lm.get(prefix.row);
        let durations = durations(rules, spans, beam.width);
        for (id, log_prob) in labels.iter().enumerate() {
            if id == rules.blank as usize || prefix.score + log_prob < best - MARGIN {
                continue;
            }
            let id = id as u32;
            let within =
                beam.fusion.zip(prefix.fusion_state.as_ref()).is_some_and(|(fusion, r)| fusion.continues_word(r, id));
            if within && frame > prefix.last_frame + MAX_WORD_GAP {
                continue;
            }
            let fused = beam
                .fusion
                .zip(prefix.fusion_state.as_ref())
                .map(|(fusion, fusion_state)| fusion.score(fusion_state, id));
            let (added, fusion_state) = fused.map_or((0.0, None), |(added, fusion_state)| (added, Some(fusion_state)));
            let internal = beam.fusion.map_or(0.0, |fusion| fusion.internal(id));
            let added = added - internal * internal_lm.map_or(0.0, |internal_lm| internal_lm[id as usize]);
            for &(duration, log_duration) in &durations {
                let token = Token { id, frame, span: duration.unwrap_or(0), confidence: 0.0 };
                let score = prefix.score + log_prob + log_duration + added;
                found.push(Extension { score, parent, token, fusion_state: fusion_state.clone() });
            }
        }
    }
    found
}

/// Durations to expand, with their log probabilities: for a beam of one, only the likeliest.
fn durations(rules: &TransducerRules, log_probs: &[f32], width: usize) -> Vec<(Option<usize>, f32)> {
    if log_probs.is_empty() {
        return vec![(None, 0.0)];
    }
    let first = argmax(log_probs);
    if width == 1 {
        return vec![(Some(rules.durations[first]), 0.0)];
    }
    let worth = |at: &usize| *at == first || log_probs[*at] > log_probs[first] - 2.0;
    (0..log_probs.len()).filter(worth).map(|at| (Some(rules.durations[at]), log_probs[at])).collect()
}

/// Keeps the best `width` of prefixes and extensions together; returns the extensions among them.
fn best_of(passed: &mut Vec<Prefix>, mut extensions: Vec<Extension>, width: usize) -> Vec<Extension> {
    let mut scores: Vec<f32> = passed.iter().map(|p| p.score).chain(extensions.iter().map(|e| e.score)).collect();
    if scores.len() > width {
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        let worst = scores[width - 1];
        passed.retain(|prefix| prefix.score >= worst);
        extensions.retain(|extension| extension.score >= worst);
    }
    extensions
}

/// Adds a prefix, or merges it with the one that has the same text at the same frame.
fn merge(prefixes: &mut Vec<Prefix>, new: Prefix) {
    let same = |prefix: &&mut Prefix| {
        prefix.frame == new.frame
            && match (&prefix.fusion_state, &new.fusion_state) {
                (Some(a), Some(b)) => a.text() == b.text(),
                _ => prefix.history == new.history,
            }
    };
    match prefixes.iter_mut().find(same) {
        Some(old) => {
            let sum = log_add(old.score, new.score);
            if new.score > old.score {
                *old = new;
            }
            old.score = sum;
        }
        None => prefixes.push(new),
    }
}

/// The history after one more token.
pub(super) fn extend_history(history: u64, token: u32) -> u64 {
    let mixed = (history ^ u64::from(token).wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// ln(e^a + e^b)
pub(super) fn log_add(a: f32, b: f32) -> f32 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f32::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// Log probabilities of scores.
pub(super) fn log_softmax(scores: &[f32]) -> Vec<f32> {
    let sum = SoftmaxStats::of(scores).log_sum();
    scores.iter().map(|score| score - sum).collect()
}
