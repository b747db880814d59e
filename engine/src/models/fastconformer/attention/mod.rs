//! The decoder of Cohere Transcribe and Canary: encoder frames and a prompt to tokens, with times from cross-attention.
//!
//! Blocks, caches and attention are those of Whisper's decoder.

mod names;
mod prompt;

use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::sampling::{self, SamplingParams, SoftmaxStats, TokenMask};
use burn::tensor::Tensor;

pub use self::names::class_name;
pub use self::prompt::Prompts;
use super::config::{AttentionConfig, Class, Config};
use crate::decoding::keyterms::{Bias as TermBias, Keyterms};
use crate::decoding::{Search, Token, argmax, confidence_of, repeated_tail};
use crate::device;
use crate::error::{Error, Result};
use crate::layers::{Bias, Linear};
use crate::models::whisper::{BlockForm, Decoder, DecoderConfig, DecoderState, Scores, TokenTables, token_times};
use crate::text::tokens::Vocabulary;
use crate::weights::Weights;

/// Tokens that a text may have beyond one for each encoder frame, as in NeMo.
const MORE_TOKENS_THAN_FRAMES: usize = 50;
/// Width of the median filter over attention, frames of 80 ms.
const MEDIAN_FILTER: usize = 3;

/// The decoder of a checkpoint, with its prompts.
pub struct AttentionHead {
    /// Encoder frames to the decoder's width (Cohere).
    projector: Option<Linear>,
    decoder: Decoder,
    prompts: Prompts,
    mask: TokenMask,
    /// Attention heads that follow the audio.
    alignment_heads: usize,
    positions: usize,
    end: u32,
}

/// A row in decoding.
struct Row {
    /// Its place in the batch.
    number: usize,
    tokens: Vec<u32>,
    confidences: Vec<f32>,
    /// Attention of the alignment heads at the prediction of each token, and of the end: `[tokens + 1, heads, frames]`.
    weights: Vec<f32>,
    bias: TermBias,
}

impl AttentionHead {
    /// Reads the decoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(
        weights: &Weights,
        config: &AttentionConfig,
        whole: &Config,
        vocabulary: &Vocabulary,
        dir: &Path,
        precision: Precision,
    ) -> Result<Self> {
        let AttentionConfig { size, layers, heads, positions, .. } = *config;
        let (vocab_size, frame_size) = (whole.vocab_size, whole.encoder.hidden_size);
        let (scope, head) = (weights.scope("decoder"), weights.scope("proj_out"));
        let prompts = Prompts::new(config, vocab_size, vocabulary, dir)?;
        let path = dir.join("config.json");
        if config.class == Class::Canary && frame_size != size {
            let reason = format!("the encoder's hidden_size {frame_size} is not the decoder's {size}");
            return Err(Error::Checkpoint { path, reason });
        }
        // Parts of training that the published file has.
        weights.ignore_all("preprocessor.");
        let output = match config.tied && !head.has("weight") {
            true => None,
            false => Some(head.values("weight", &[vocab_size, size])?),
        };
        let tables = TokenTables {
            positions: match config.class {
                Class::Canary => sinusoids(positions, size),
                _ => scope.scope("pos_emb").values("weight", &[positions, size])?,
            },
            output,
            output_bias: Some(head.values("bias", &[vocab_size])?),
        };
        let alignment: Vec<(usize, usize)> =
            (layers / 2..layers).flat_map(|layer| (0..heads).map(move |head| (layer, head))).collect();
        let alignment_heads = alignment.len();
        let form = DecoderConfig {
            form: &BlockForm::CONFORMER,
            size,
            layers,
            heads,
            inner: config.inner,
            vocab_size,
            alignment_heads: alignment,
        };
        let projector = match config.class {
            Class::Canary => None,
            _ => Some(Linear::load(&scope.scope("proj"), frame_size, size, Bias::With)?.with_wide_precision(precision)),
        };
        Ok(Self {
            projector,
            decoder: Decoder::load_as(&scope, &form, tables, precision)?,
            prompts,
            mask: TokenMask::new(vocab_size, vocab_size, Vec::new(), weights.scope("decoder").device()),
            alignment_heads,
            positions,
            end: config.end,
        })
    }

    /// The prompts, one for each language.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// The decoder, for the numeric tests.
    #[doc(hidden)]
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Encoder frames as the decoder reads them: `[rows, frames, size]`.
    pub fn project(&self, frames: Tensor<3>) -> Tensor<3> {
        match &self.projector {
            Some(projector) => projector.forward(frames),
            None => frames,
        }
    }

    /// Greedy search over projected `frames` `[rows, frames, size]`, of which `lengths` are real, all in the language of one prompt
    /// slot: the tokens of each row without the end.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a beam, [`Error::Device`] when the device failed.
    pub fn search(
        &self,
        frames: &Tensor<3>,
        lengths: &[usize],
        slot: usize,
        searches: &[Search],
    ) -> Result<Vec<Vec<Token>>> {
        let keyterms: Option<Vec<_>> = searches.iter().map(Search::as_greedy).collect();
        let keyterms = keyterms.ok_or_else(|| Error::InvalidOption("the checkpoint has greedy search only".into()))?;
        let mut found = vec![Vec::new(); lengths.len()];
        let mut rows: Vec<Row> = (0..lengths.len()).filter(|number| lengths[*number] > 0).map(Row::new).collect();
        let started: Vec<DecoderState> = rows
            .iter()
            .map(|Row { number, .. }| {
                self.decoder.start(&frames.clone().narrow(0, *number, 1).narrow(1, 0, lengths[*number]))
            })
            .collect::<Result<_>>()?;
        let Some(mut steps) = started.into_iter().reduce(DecoderState::join) else { return Ok(found) };
        let prompt = self.prompts.tokens(slot);
        let mut next = vec![prompt.clone(); rows.len()];
        while !rows.is_empty() {
            let output = self.decoder.forward(&mut steps, &next)?;
            let chosen = self.choose(output.scores, &mut rows, &keyterms)?;
            for (row, weights) in rows.iter_mut().zip(output.weights) {
                row.weights.extend(weights);
            }
            let mut kept = Vec::with_capacity(rows.len());
            for (at, (row, (token, confidence))) in rows.iter_mut().zip(chosen).enumerate() {
                let length = lengths[row.number];
                let most = (length + MORE_TOKENS_THAN_FRAMES).min(self.positions - prompt.len());
                if token != self.end && row.tokens.len() < most {
                    row.tokens.push(token);
                    row.confidences.push(confidence);
                    kept.push(at);
                    continue;
                }
                if row.weights.is_empty() {
                    let tokens = [prompt.as_slice(), &row.tokens].concat();
                    row.weights = self.decoder.look_back(&steps, at, &tokens, prompt.len(), length)?;
                }
                if token != self.end {
                    row.cut_repetition(self.alignment_heads * length);
                }
                found[row.number] = row.timed(self.alignment_heads, length);
            }
            if kept.len() < rows.len() {
                let mut places = kept.iter().copied().peekable();
                let mut at = 0..;
                rows.retain(|_| places.next_if_eq(&at.next().unwrap_or_default()).is_some());
                if !kept.is_empty() {
                    steps = steps.keep(&kept);
                }
            }
            next = rows.iter().map(|row| row.tokens[row.tokens.len() - 1..].to_vec()).collect();
        }
        Ok(found)
    }

    /// The next token of each row, and its confidence.
    fn choose(&self, scores: Scores, rows: &mut [Row], keyterms: &[Option<&Keyterms>]) -> Result<Vec<(u32, f32)>> {
        let size = self.mask.vocab_size();
        let not_finite =
            || Error::Device { device: "in use".into(), reason: "the decoder's scores are not finite".into() };
        let is_biased = rows.iter().any(|row| keyterms[row.number].is_some());
        let scores = match scores {
            Scores::Gpu(scores) if !is_biased => {
                let params = vec![SamplingParams::greedy(); rows.len()];
                let best = device::read(self.mask.top_tokens_batch(*scores, &params, 1))?;
                let of_row = |best: sampling::TopTokens| {
                    let (token, _) = best.tokens.first().copied().ok_or_else(not_finite)?;
                    Ok((token, confidence_of(&best.stats, size)))
                };
                return sampling::unpack(&best, 1).into_iter().map(of_row).collect();
            }
            scores => scores.read()?,
        };
        let of_row = |(row, scores): (&mut Row, &[f32])| {
            let stats = SoftmaxStats::of(scores);
            if !stats.log_sum().is_finite() {
                return Err(not_finite());
            }
            let best = argmax(scores) as u32;
            // Keyterms never lengthen a text: its end is decided without them.
            let token = match keyterms[row.number] {
                Some(keyterms) if best != self.end => keyterms.choose(scores, self.end, &mut row.bias),
                _ => best,
            };
            Ok((token, confidence_of(&stats, size)))
        };
        rows.iter_mut().zip(scores.chunks_exact(size)).map(of_row).collect()
    }
}

impl Row {
    fn new(number: usize) -> Self {
        let (tokens, confidences, weights) = (Vec::new(), Vec::new(), Vec::new());
        Self { number, tokens, confidences, weights, bias: TermBias::default() }
    }

    /// Cuts repetitions at the end down to one; a token has so many weights.
    fn cut_repetition(&mut self, width: usize) {
        self.tokens.truncate(self.tokens.len() - repeated_tail(&self.tokens));
        self.weights.truncate((self.tokens.len() + 1) * width);
    }

    /// The tokens with the frames at which attention turns to them.
    fn timed(&self, heads: usize, frames: usize) -> Vec<Token> {
        let times = token_times(&self.weights, self.tokens.len() + 1, heads, frames, MEDIAN_FILTER);
        let token = |(at, (id, confidence)): (usize, (&u32, &f32))| Token {
            id: *id,
            frame: times[at],
            span: times[at + 1].saturating_sub(times[at]).max(1),
            confidence: *confidence,
        };
        self.tokens.iter().zip(&self.confidences).enumerate().map(token).collect()
    }
}

/// Canary's positions, `[positions, size]`: sines, then cosines, divided by the square root of the width.
fn sinusoids(positions: usize, size: usize) -> Vec<f32> {
    let half = size / 2;
    // The longest wave is 10,000^((size - 2) / size), the `half - 1` steps to it are even.
    let longest = 10_000f64.powf((size as f64 - 2.0) / size as f64);
    let step = longest.ln() / (half as f64 - 1.0);
    let waves: Vec<f32> = (0..half).map(|at| (-(step as f32) * at as f32).exp()).collect();
    let scale = (size as f32).sqrt();
    (0..positions)
        .flat_map(|position| {
            let angles = waves.iter().map(move |wave| position as f32 * wave);
            angles.clone().map(f32::sin).chain(angles.map(f32::cos)).map(move |value| value / scale)
        })
        .collect()
}
