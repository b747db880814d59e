//! Decodes windows to tokens in a batch, one token per step; a finished window's row is free for another at once.

use std::sync::Arc;

use auricle_kernels::sampling::SoftmaxStats;
use auricle_kernels::sampling::{self, SamplingParams, TopTokens};
use auricle_kernels::thread_pool;
use burn::tensor::Tensor;

use super::decoder::{DecoderOutput, DecoderState, Scores};
use super::model::Whisper;
use super::token_mask::TokenRules;
use crate::decoding::confidence_of;
use crate::error::Result;

/// The task of decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Transcribe in the spoken language.
    #[default]
    Transcribe,
    /// Translate to English.
    Translate,
}

/// Options for decoding a window.
#[derive(Clone, Debug, Default)]
pub struct DecodeOptions {
    /// The token of the spoken language; ignored by checkpoints for English only.
    pub language: u32,
    /// The task.
    pub task: Task,
    /// Tokens of earlier text, or expected words.
    pub previous: Vec<u32>,
    /// Sampling temperature. 0 selects the likeliest token at each step.
    pub temperature: f32,
    /// Seed of the sampling.
    pub seed: u64,
    /// Number of beams at temperature 0; 0 and 1 select the likeliest token at each step.
    pub beams: usize,
    /// Drops paths that are unlikely beside the best one, and those that say what a better one does in their last tokens. Else most
    /// paths differ in a comma that lies far back.
    pub pruning: bool,
    /// Hypotheses are ranked by their total log probability divided by this power of their length; 0 stands for 1.
    pub length_penalty: f32,
    /// Most tokens.
    pub max_tokens: usize,
    /// Encoder frames of real audio for the attention in the result; 0 to omit it.
    pub frames: usize,
}

/// The result of decoding a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodedWindow {
    /// The tokens with their timestamps, without the end token.
    pub tokens: Vec<u32>,
    /// Confidence of each token: one minus the normalised entropy of the allowed tokens' distribution.
    pub confidences: Vec<f32>,
    /// Mean log probability of the tokens and the end; NaN where the scores are not finite, which leaves nothing to decode.
    pub log_prob: f32,
    /// Probability that there is no speech.
    pub no_speech: f32,
    /// Attention of the alignment heads for each token and the end: `[tokens + 1, heads, frames]`.
    pub weights: Vec<f32>,
    /// True if the tokens reached their limit before the end.
    pub cut_off: bool,
}

/// Pruning: a path is dropped whose log probability is so much lower than the best one's.
const PRUNED_BELOW: f32 = 2.5;
/// Pruning: paths that agree in so many last tokens are one.
const AGREED_TOKENS: usize = 2;
/// Pruning: the tokens that one of them may have more than the other, as a comma.
const MOST_TOKENS_BEHIND: usize = 2;

/// A batch of windows in decoding.
pub struct DecodingBatch {
    timestamps: bool,
    /// One row for each path of each window, in order.
    steps: Option<DecoderState>,
    windows: Vec<WindowState>,
}

struct WindowState {
    number: u64,
    options: DecodeOptions,
    no_speech: f32,
    /// Tokens before the transcript.
    prompt: Vec<u32>,
    rng_state: u64,
    /// Hypotheses in progress.
    paths: Vec<Hypothesis>,
    /// Finished hypotheses, the best first, with their ranking score.
    ended: Vec<(f32, Hypothesis)>,
    finished: bool,
}

/// A hypothesis. Common beginnings of several hypotheses are stored once.
#[derive(Clone, Default)]
struct Hypothesis {
    tokens: Vec<u32>,
    last: Option<Arc<TokenLink>>,
    /// Sum of the log probabilities before suppression; beams are compared by it.
    total: f32,
    /// Sum of the log probabilities after suppression.
    log_prob: f32,
}

struct TokenLink {
    /// As that of the hypothesis that ended here.
    total: f32,
    confidence: f32,
    /// Attention of the alignment heads: `[heads, frames]`.
    weights: Arc<[f32]>,
    before: Option<Arc<TokenLink>>,
}

/// A possible next token of a path.
#[derive(Clone, Copy)]
struct Candidate {
    /// Index of the path in its window.
    path: usize,
    token: u32,
    total: f32,
    log_prob: f32,
    confidence: f32,
}

impl DecodingBatch {
    /// An empty batch, with or without timestamps in the text.
    pub fn new(timestamps: bool) -> Self {
        Self { timestamps, steps: None, windows: Vec::new() }
    }

    /// Number of unfinished windows.
    pub fn rows(&self) -> usize {
        self.numbers().count()
    }

    /// Numbers of the unfinished windows. Empty after a failed step, which loses their state.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let known = self.windows.iter().filter(|window| self.steps.is_some() && !window.finished);
        known.map(|window| window.number)
    }

    /// Adds windows: the encoder's frames, `[windows, frames, size]` for those of each length, and the number and options of each
    /// window in the same order. Returns windows that are finished already because their text is empty.
    ///
    /// # Errors
    /// As [`DecodingBatch::add_started`].
    pub fn add(
        &mut self,
        model: &Whisper,
        frames: &[Tensor<3>],
        requests: Vec<(u64, DecodeOptions)>,
    ) -> Result<Vec<(u64, DecodedWindow)>> {
        let started = frames.iter().map(|frames| model.decoder().start(frames)).collect::<Result<_>>()?;
        self.add_started(model, started, requests)
    }

    /// As [`DecodingBatch::add`], with the states of the windows before their first tokens.
    ///
    /// # Errors
    /// `Error::Device` when the device failed, and all windows may be lost; `Error::InvalidOption` for more
    /// previous tokens than positions.
    pub fn add_started(
        &mut self,
        model: &Whisper,
        started: Vec<DecoderState>,
        requests: Vec<(u64, DecodeOptions)>,
    ) -> Result<Vec<(u64, DecodedWindow)>> {
        let config = model.config();
        let special = &config.special;
        let room = config.positions / 2 - 1;
        self.compact();
        let Some(mut steps) = started.into_iter().reduce(DecoderState::join) else { return Ok(Vec::new()) };
        let mut begins: Vec<Vec<u32>> = Vec::new();
        let mut follows: Vec<Vec<u32>> = Vec::new();
        for (_, options) in &requests {
            let mut begin = Vec::new();
            if let Some(previous) = special.previous.filter(|_| !options.previous.is_empty()) {
                begin.push(previous);
                begin.extend(&options.previous[options.previous.len().saturating_sub(room)..]);
            }
            begin.push(special.start);
            begins.push(begin);
            let task = match options.task {
                Task::Transcribe => special.transcribe,
                Task::Translate => special.translate,
            };
            let language = config.is_multilingual().then_some(options.language);
            let plain = (!self.timestamps).then_some(special.no_timestamps);
            follows.push([language, task.filter(|_| config.is_multilingual()), plain].into_iter().flatten().collect());
        }
        // The probability of no speech is that of its token at the start of the transcript.
        let output = model.decoder().forward(&mut steps, &begins)?;
        let scores = output.scores.read()?;
        let no_speech = probabilities_of(&scores, requests.len(), special.no_speech as usize);
        let output = match follows.first().is_some_and(|follow| !follow.is_empty()) {
            true => model.decoder().forward(&mut steps, &follows)?,
            false => DecoderOutput { scores: Scores::Cpu(scores), weights: output.weights },
        };
        let prompts = begins.into_iter().zip(follows).map(|(begin, follow)| [begin, follow].concat());
        let windows =
            requests.into_iter().zip(prompts.zip(no_speech)).map(|((number, options), (prompt, no_speech))| {
                WindowState {
                    number,
                    no_speech,
                    prompt,
                    rng_state: options.seed,
                    options,
                    paths: vec![Hypothesis::default()],
                    ended: Vec::new(),
                    finished: false,
                }
            });
        if self.steps.is_none() {
            self.windows.clear();
        }
        let from = self.windows.len();
        self.windows.extend(windows);
        let before = self.steps.take();
        let (steps, done) = self.choose(model, steps, output, from)?;
        self.steps = Some(match before {
            Some(before) => before.join(steps),
            None => steps,
        });
        Ok(done)
    }

    /// Decodes one more token of each window. Returns the finished windows.
    ///
    /// # Errors
    /// `Error::Device` when the device failed, and all windows are lost.
    pub fn step(&mut self, model: &Whisper) -> Result<Vec<(u64, DecodedWindow)>> {
        self.compact();
        let Some(mut steps) = self.steps.take() else { return Ok(Vec::new()) };
        let end = model.config().special.end;
        let last = |path: &Hypothesis| vec![path.tokens.last().copied().unwrap_or(end)];
        let tokens: Vec<Vec<u32>> = self.windows.iter().flat_map(|window| window.paths.iter().map(last)).collect();
        let output = model.decoder().forward(&mut steps, &tokens)?;
        let (steps, done) = self.choose(model, steps, output, 0)?;
        self.steps = Some(steps);
        Ok(done)
    }

    /// Removes a window.
    pub fn forget(&mut self, number: u64) {
        self.windows.iter_mut().filter(|window| window.number == number).for_each(|window| window.finished = true);
    }

    /// Removes finished rows, because a row's caches are large: on a GPU, where that copies those of the others, once they are half of all.
    fn compact(&mut self) {
        let paths = |windows: &[WindowState]| windows.iter().map(|window| window.paths.len()).sum::<usize>();
        let alive = self.windows.iter().flat_map(|window| window.paths.iter().map(|_| !window.finished));
        let alive: Vec<usize> = alive.enumerate().filter_map(|(row, alive)| alive.then_some(row)).collect();
        let least = if matches!(self.steps, Some(DecoderState::Cpu(_))) { 1 } else { alive.len() };
        if alive.is_empty() {
            (self.steps, self.windows) = (None, Vec::new());
        } else if alive.len() + least <= paths(&self.windows) {
            self.steps = self.steps.take().map(|steps| steps.keep(&alive));
            self.windows.retain(|window| !window.finished);
        }
    }

    /// Selects the next tokens of the paths in the windows from `from` on; `steps` holds only their rows, one per path.
    /// Returns the remaining rows and the finished windows.
    fn choose(
        &mut self,
        model: &Whisper,
        steps: DecoderState,
        output: DecoderOutput,
        from: usize,
    ) -> Result<(DecoderState, Vec<(u64, DecodedWindow)>)> {
        let config = model.config();
        let heads = config.alignment_heads.len();
        let windows = &mut self.windows[from..];
        let weights = output.weights;
        let candidates = candidates(output.scores, windows, model.rules(), self.timestamps)?;
        let (mut first, mut done, mut rows) = (0, Vec::new(), Vec::new());
        let mut candidates = candidates.into_iter();
        for window in windows {
            let count = window.paths.len();
            let found: Vec<Candidate> = candidates.by_ref().take(count).flatten().collect();
            if window.finished {
                rows.extend(first..first + count);
            } else if found.iter().any(|candidate| !candidate.log_prob.is_finite()) {
                // Its scores are not finite, which is no fault of the windows beside it.
                window.finished = true;
                rows.extend(first..first + count);
                done.push((window.number, DecodedWindow { log_prob: f32::NAN, ..DecodedWindow::default() }));
            } else {
                let seen = window.options.frames.min(config.frames);
                let attention_of = |path: usize| -> Arc<[f32]> {
                    let of_row = weights.get(first + path).filter(|_| heads > 0).map_or(&[][..], Vec::as_slice);
                    let of_heads = of_row.chunks_exact((of_row.len() / heads.max(1)).max(1));
                    of_heads.flat_map(|of_head| &of_head[..seen]).copied().collect()
                };
                let limit = window.options.max_tokens.min(config.positions.saturating_sub(window.prompt.len()));
                let taken = window.extend(found, config.special.end, limit, attention_of);
                rows.extend(taken.into_iter().map(|path| first + path));
                if window.finished {
                    let mut result = window.result(config.special.end);
                    if seen > 0 && result.weights.is_empty() {
                        let tokens = [window.prompt.as_slice(), &result.tokens].concat();
                        let from = window.prompt.len();
                        result.weights = model.decoder().look_back(&steps, first, &tokens, from, seen)?;
                    }
                    done.push((window.number, result));
                }
            }
            first += count;
        }
        let steps = if rows.iter().copied().eq(0..first) { steps } else { steps.keep(&rows) };
        Ok((steps, done))
    }
}

/// The candidates of each path, the likeliest first: one for a window with one beam, twice the number of beams for
/// others, none for finished windows.
fn candidates(
    scores: Scores,
    windows: &mut [WindowState],
    rules: &TokenRules,
    timestamps: bool,
) -> Result<Vec<Vec<Candidate>>> {
    let mut rows: Vec<SamplingParams> = Vec::new();
    for window in windows.iter_mut() {
        let temperature = window.options.temperature;
        let seed = if temperature > 0.0 { window.draw_seed() } else { 0 };
        rows.extend(window.paths.iter().map(|path| SamplingParams {
            temperature,
            seed,
            ..rules.after(&path.tokens, timestamps)
        }));
    }
    let count = |window: &WindowState| match (window.finished, window.beams()) {
        (true, _) => 0,
        (false, 1) => 1,
        (false, beams) => 2 * beams,
    };
    let counts: Vec<usize> = windows.iter().flat_map(|window| window.paths.iter().map(|_| count(window))).collect();
    let size = rules.token_mask().vocab_size();
    let choices = match scores {
        Scores::Gpu(scores) => {
            let most = counts.iter().copied().max().unwrap_or(1).max(1);
            sampling::unpack(&crate::device::read(rules.token_mask().top_tokens_batch(*scores, &rows, most))?, most)
        }
        Scores::Cpu(mut scores) => {
            let none = || TopTokens { tokens: Vec::new(), unmasked_log_sum: 0.0, stats: SoftmaxStats::default() };
            let rows = scores.chunks_exact_mut(size).zip(rows.iter().zip(&counts));
            let mut work: Vec<_> = rows.map(|(scores, (row, count))| (scores, row, *count, none())).collect();
            thread_pool::run(|pool| {
                pool.for_each_item(&mut work, |_, (scores, row, count, found)| {
                    if *count > 0 {
                        *found = rules.token_mask().top_tokens(scores, row, *count);
                    }
                });
            });
            work.into_iter().map(|(.., found)| found).collect()
        }
    };
    let paths = windows.iter().flat_map(|window| window.paths.iter().enumerate());
    let found = paths.zip(counts).zip(choices).map(|(((number, path), count), choice)| {
        let (log_sum, confidence) = (choice.stats.log_sum(), confidence_of(&choice.stats, size));
        let before = if count > 1 { choice.unmasked_log_sum } else { 0.0 };
        let candidate = |(token, score): (u32, f32)| Candidate {
            path: number,
            token,
            total: path.total + score - before,
            log_prob: score - log_sum,
            confidence,
        };
        let mut found: Vec<Candidate> = choice.tokens.into_iter().take(count).map(candidate).collect();
        if count > 0 && found.is_empty() {
            // No token was found: the scores are NaN.
            found.push(candidate((0, f32::NAN)));
        }
        found
    });
    Ok(found.collect())
}

impl WindowState {
    fn beams(&self) -> usize {
        if self.options.temperature > 0.0 { 1 } else { self.options.beams.max(1) }
    }

    /// Draws the seed of this step's sampling.
    fn draw_seed(&mut self) -> u32 {
        self.rng_state = next(self.rng_state);
        (self.rng_state >> 32) as u32
    }

    /// Extends the best candidates, up to `limit` tokens. Returns the source path of each path that continues.
    fn extend(
        &mut self,
        mut found: Vec<Candidate>,
        end: u32,
        limit: usize,
        attention_of: impl Fn(usize) -> Arc<[f32]>,
    ) -> Vec<usize> {
        let beams = self.beams();
        let penalty = if self.options.length_penalty == 0.0 { 1.0 } else { self.options.length_penalty };
        // The sort is stable: equal candidates keep their order.
        found.sort_by(|a, b| b.total.total_cmp(&a.total));
        found.truncate(if beams > 1 { 2 * beams } else { 1 });
        let lowest = found.first().filter(|_| self.options.pruning).map(|best| best.total - PRUNED_BELOW);
        found.retain(|candidate| lowest.is_none_or(|lowest| candidate.total >= lowest));
        let links: Vec<Arc<[f32]>> = (0..self.paths.len()).map(&attention_of).collect();
        let mut unfinished: Vec<(usize, Hypothesis)> = Vec::with_capacity(beams);
        for (rank, candidate) in found.into_iter().enumerate() {
            let from = &self.paths[candidate.path];
            let length = from.tokens.len() + 1;
            let ends = candidate.token == end || length >= limit;
            // A finished candidate counts only among the best; the ones after those replace it as unfinished paths.
            if (ends && rank >= beams) || (!ends && unfinished.len() == beams) {
                continue;
            }
            let path = from.with(candidate, links[candidate.path].clone());
            if ends {
                let score = candidate.total / (length as f32).powf(penalty);
                let place = self.ended.iter().take_while(|(other, _)| *other >= score).count();
                self.ended.insert(place, (score, path));
                self.ended.truncate(beams);
            } else if !self.options.pruning || !unfinished.iter().any(|(_, better)| path.is_covered_by(better)) {
                unfinished.push((candidate.path, path));
            }
        }
        // The best unfinished path cannot overtake the worst finished one.
        let settled = self.ended.len() == beams
            && unfinished.first().is_none_or(|(_, path)| {
                let score = path.total / (path.tokens.len() as f32).powf(penalty);
                self.ended.last().is_some_and(|(worst, _)| score <= *worst)
            });
        self.finished = settled || unfinished.is_empty();
        if self.finished {
            return (0..self.paths.len()).collect();
        }
        let (from, paths) = unfinished.into_iter().unzip();
        self.paths = paths;
        from
    }

    /// The best hypothesis.
    fn result(&mut self, end: u32) -> DecodedWindow {
        let Some((_, path)) = self.ended.drain(..).next() else { return DecodedWindow::default() };
        let (mut confidences, mut weights) = (Vec::new(), Vec::new());
        let mut link = path.last.as_deref();
        while let Some(this) = link {
            confidences.push(this.confidence);
            weights.push(&*this.weights);
            link = this.before.as_deref();
        }
        confidences.reverse();
        weights.reverse();
        let log_prob = path.log_prob / path.tokens.len().max(1) as f32;
        let mut tokens = path.tokens;
        let cut_off = tokens.last() != Some(&end);
        if !cut_off {
            tokens.pop();
            confidences.pop();
        } else if let Some(last) = weights.last().copied() {
            // Cut off: the attention at the end token is unknown.
            weights.push(last);
        }
        DecodedWindow { tokens, confidences, log_prob, no_speech: self.no_speech, weights: weights.concat(), cut_off }
    }
}

impl Hypothesis {
    /// True if `better`, whose score is higher, says the same in its last tokens, or did with fewer tokens and was better there too.
    fn is_covered_by(&self, better: &Self) -> bool {
        let agrees = |one: &[u32], behind: usize, other: &[u32]| {
            let to = one.len().saturating_sub(behind);
            to >= AGREED_TOKENS && other.ends_with(&one[to - AGREED_TOKENS..to])
        };
        let earlier = std::iter::successors(self.last.as_deref(), |link| link.before.as_deref()).map(|link| link.total);
        (0..=MOST_TOKENS_BEHIND).any(|behind| agrees(&better.tokens, behind, &self.tokens))
            || (1..=MOST_TOKENS_BEHIND)
                .zip(earlier.skip(1))
                .any(|(ahead, total)| total <= better.total && agrees(&self.tokens, ahead, &better.tokens))
    }

    fn with(&self, candidate: Candidate, weights: Arc<[f32]>) -> Self {
        let mut tokens = self.tokens.clone();
        tokens.push(candidate.token);
        let link =
            TokenLink { total: candidate.total, confidence: candidate.confidence, weights, before: self.last.clone() };
        Self {
            tokens,
            last: Some(Arc::new(link)),
            total: candidate.total,
            log_prob: self.log_prob + candidate.log_prob,
        }
    }
}

/// One step of the splitmix64 generator.
fn next(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The probability of one token in each of `rows` rows of scores.
fn probabilities_of(scores: &[f32], rows: usize, token: usize) -> Vec<f32> {
    let probability = |scores: &[f32]| (scores[token] - SoftmaxStats::of(scores).log_sum()).exp();
    scores.chunks_exact(scores.len() / rows.max(1)).map(probability).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path with these tokens, and the score that it had after each.
    fn path(tokens: &[(u32, f32)]) -> Hypothesis {
        let extend = |path: Hypothesis, (token, total): &(u32, f32)| {
            let candidate = Candidate { path: 0, token: *token, total: *total, log_prob: 0.0, confidence: 1.0 };
            path.with(candidate, Arc::default())
        };
        tokens.iter().fold(Hypothesis::default(), extend)
    }

    /// Words are 10 and above, a comma is 1.
    #[test]
    fn a_path_is_covered_by_a_better_one_with_the_same_last_words() {
        let plain = path(&[(10, -0.1), (20, -1.0), (30, -1.1), (40, -1.2)]);
        let comma = path(&[(10, -0.1), (1, -1.3), (20, -1.4), (30, -1.5)]);
        assert!(comma.is_covered_by(&plain), "it is a token behind");
        // The comma was likelier, and the path without it is a word ahead.
        let likelier = path(&[(10, -0.1), (1, -0.5), (20, -0.6), (30, -0.7)]);
        assert!(plain.is_covered_by(&likelier), "it is a token ahead, and was worse with as many words");
        let unlikely_later = path(&[(10, -0.1), (20, -0.2), (30, -0.3), (40, -1.2)]);
        assert!(!unlikely_later.is_covered_by(&likelier), "it was better with as many words");
        let other = path(&[(10, -0.1), (20, -1.0), (31, -1.5), (40, -1.6)]);
        assert!(!other.is_covered_by(&plain), "another word");
        assert!(!path(&[(40, -2.0)]).is_covered_by(&plain), "too few tokens to compare");
        assert!(!plain.is_covered_by(&path(&[(40, -0.1)])), "too few tokens to compare");
    }
}
