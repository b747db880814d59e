//! Windows of several recordings as one batch, token by token: a new one begins beside those that are under way.

use std::ops::ControlFlow;
use std::sync::Arc;

use auricle_kernels::sampling::SoftmaxStats;

use super::model::Qwen3Asr;
use super::prompt::Prompt;
use crate::decoding::{argmax, confidence_of, repeated_tail};
use crate::error::{Error, Result};
use crate::models::decoder::{ChatTokenizer, Embedded, PageArena, PageList, Piece};
use crate::models::whisper::{WordTokens, words_of};

/// Most tokens of a text: these for each frame of audio, of which there are 13 in a second, and so many more.
const TOKENS_A_FRAME: usize = 2;
const MORE_TOKENS: usize = 32;

/// The text of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Without the language, and without the end.
    pub tokens: Vec<u32>,
    /// Of each token.
    pub confidences: Vec<f32>,
    /// The language that was named or found.
    pub language: Option<&'static str>,
}

impl Written {
    /// The words of the text.
    pub fn words(&self, tokenizer: &ChatTokenizer) -> Vec<WordTokens> {
        words_of(self.tokens.iter().map(|token| tokenizer.bytes(*token)))
    }
}

/// A window that has ended, and its text or the reason that there is none.
pub type Outcome = ((usize, usize), Result<Written>);

/// The windows that are under way, each known by two numbers: the recording's and its own.
pub struct DecodingBatch {
    arena: PageArena,
    rows: Vec<Row>,
}

struct Row {
    id: (usize, usize),
    prompt: Arc<Prompt>,
    audio: Embedded,
    pages: PageList,
    /// Tokens whose keys and values are in the pages.
    computed: usize,
    /// Tokens to compute next.
    next: Vec<u32>,
    tokens: Vec<u32>,
    confidences: Vec<f32>,
    language: Option<&'static str>,
    /// Tokens of the language's name so far, while it is chosen among several.
    named: Option<Vec<u32>>,
    most: usize,
}

impl DecodingBatch {
    /// A batch of a model, with memory for keys and values of at most so many bytes.
    pub fn new(model: &Qwen3Asr, kv_bytes: usize) -> Self {
        Self { arena: model.decoder().arena(kv_bytes), rows: Vec::new() }
    }

    /// Number of windows under way.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if no window is under way.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a window by its frames, [`Qwen3Asr::encode`].
    pub fn add(&mut self, model: &Qwen3Asr, id: (usize, usize), prompt: Arc<Prompt>, frames: Vec<f32>) {
        let count = frames.len() / model.decoder().config().size;
        let audio = Embedded { first: prompt.before.len(), vectors: frames };
        let mut next = prompt.before.clone();
        next.extend(std::iter::repeat_n(model.config().audio_token, count));
        next.extend(&prompt.after);
        let room = model.decoder().config().context.saturating_sub(next.len());
        self.rows.push(Row {
            id,
            audio,
            pages: PageList::default(),
            computed: 0,
            next,
            tokens: Vec::new(),
            confidences: Vec::new(),
            language: prompt.language,
            named: (!prompt.choices.is_empty()).then(Vec::new),
            most: (TOKENS_A_FRAME * count + MORE_TOKENS).min(room),
            prompt,
        });
    }

    /// Forgets the windows of a recording.
    pub fn forget(&mut self, recording: usize) {
        for row in self.rows.extract_if(.., |row| row.id.0 == recording) {
            let mut pages = row.pages;
            self.arena.release(&mut pages);
        }
    }

    /// Computes the next token of each window of these recordings. Gives the texts that have ended, and the reason where a text has none.
    ///
    /// # Errors
    /// Those of the device; the windows are where they were.
    pub fn step(&mut self, model: &Qwen3Asr, recordings: &[usize]) -> Result<Vec<Outcome>> {
        let mut of_step: Vec<&mut Row> = self.rows.iter_mut().filter(|row| recordings.contains(&row.id.0)).collect();
        for row in &mut of_step {
            if !self.arena.extend(&mut row.pages, row.computed + row.next.len()) {
                return Err(Error::internal("windows are longer than the memory for keys and values"));
            }
        }
        let pieces: Vec<Piece> = of_step
            .iter()
            .map(|row| Piece {
                tokens: &row.next,
                position: row.computed,
                pages: &row.pages,
                embedded: (row.computed == 0).then_some(&row.audio),
                scores: true,
            })
            .collect();
        let scores = model.decoder().forward(&mut self.arena, &pieces)?;
        drop(pieces);
        let mut ended = Vec::new();
        for (row, scores) in of_step.into_iter().zip(scores.chunks_exact(model.decoder().config().outputs)) {
            row.computed += row.next.len();
            match row.go_on(model, scores) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(written)) => ended.push((row.id, Ok(written))),
                Err(error) => ended.push((row.id, Err(error))),
            }
        }
        for row in self.rows.extract_if(.., |row| ended.iter().any(|(id, _)| *id == row.id)) {
            let mut pages = row.pages;
            self.arena.release(&mut pages);
        }
        Ok(ended)
    }
}

impl Row {
    /// Goes on with the scores of the next token.
    fn go_on(&mut self, model: &Qwen3Asr, scores: &[f32]) -> Result<ControlFlow<Written>> {
        let stats = SoftmaxStats::of(scores);
        if !stats.log_sum().is_finite() {
            return Err(Error::Device {
                device: "in use".into(),
                reason: "the decoder's scores are not finite".into(),
            });
        }
        if let Some(named) = self.named.take() {
            self.choose_language(named, scores);
            return Ok(ControlFlow::Continue(()));
        }
        let token = argmax(scores) as u32;
        let is_end = model.decoder().is_end(token);
        if !is_end && self.tokens.len() < self.most {
            self.tokens.push(token);
            self.confidences.push(confidence_of(&stats, scores.len()));
            self.next = vec![token];
            return Ok(ControlFlow::Continue(()));
        }
        let mut tokens = std::mem::take(&mut self.tokens);
        if !is_end {
            tokens.truncate(tokens.len() - repeated_tail(&tokens));
        }
        let mut confidences = std::mem::take(&mut self.confidences);
        let (found, begin) = match self.language {
            Some(language) => (Some(language), 0),
            None => model.prompts().beginning(model.decoder().tokenizer(), &tokens),
        };
        confidences.truncate(tokens.len());
        let text =
            Written { tokens: tokens.split_off(begin), confidences: confidences.split_off(begin), language: found };
        Ok(ControlFlow::Break(text))
    }

    /// Goes on with the likeliest name among the choices, of which the tokens `named` are known.
    fn choose_language(&mut self, mut named: Vec<u32>, scores: &[f32]) {
        let at = named.len();
        let fitting = |named: &[u32]| {
            let choices = self.prompt.choices.iter().filter(|(_, tokens)| tokens.starts_with(named));
            choices.collect::<Vec<_>>()
        };
        let next = |tokens: &[u32]| scores.get(tokens[at] as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let best = fitting(&named).into_iter().max_by(|(_, a), (_, b)| next(a).total_cmp(&next(b)));
        named.extend(best.map(|(_, tokens)| tokens[at]));
        match fitting(&named).as_slice() {
            [(code, tokens)] => (self.language, self.next) = (Some(*code), tokens[at..].to_vec()),
            _ => (self.next, self.named) = (named[at..].to_vec(), Some(named)),
        }
    }
}
