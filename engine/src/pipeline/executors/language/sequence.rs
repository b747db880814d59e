//! One text of a language model while it is written.

use std::sync::Arc;

use super::constraint::Constraint;
use super::request::{LanguageOutput, LanguageRequest};
use crate::chat::{ChatEnd, ChatUsage, FinishReason};
use crate::decoding::sampling::Sampler;
use crate::decoding::text_stream::TextStream;
use crate::error::{Error, Result};
use crate::models::decoder::{ChatModel, PageList};

/// A text: its prompt and what is written so far.
pub struct Sequence {
    pub model: Arc<ChatModel>,
    /// The executor's number of the model.
    pub number: usize,
    pub account: Arc<str>,
    pub live: bool,
    /// Prompt and text.
    pub tokens: Vec<u32>,
    prompt: usize,
    /// Tokens whose keys and values are in `pages`.
    pub computed: usize,
    pub pages: PageList,
    /// Tokens of the prompt that were known from earlier texts.
    cached: Option<usize>,
    /// Larger for later texts.
    pub age: u64,
    /// There was no memory for its next tokens.
    pub stalled: bool,
    pub ended: bool,
    max_tokens: usize,
    sampler: Sampler,
    constraint: Option<Constraint>,
    text: TextStream,
    thoughts: Thoughts,
}

/// A model's thoughts before its answer are written, and not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thoughts {
    /// The answer.
    None,
    /// They may begin with the first token.
    Expected,
    /// Until the closing mark.
    Inside,
    /// After them, before the answer's first letter.
    Over,
}

impl Sequence {
    pub fn new(request: LanguageRequest, number: usize, age: u64) -> Self {
        Self {
            number,
            account: request.account,
            live: request.live,
            prompt: request.tokens.len(),
            tokens: request.tokens,
            computed: 0,
            pages: PageList::default(),
            cached: None,
            age,
            stalled: false,
            ended: false,
            max_tokens: request.max_tokens,
            sampler: Sampler::new(request.sampling),
            constraint: request.constraint,
            text: TextStream::new(&request.stop),
            thoughts: if request.thinking { Thoughts::Expected } else { Thoughts::None },
            model: request.model,
        }
    }

    /// Tokens that are not computed yet.
    pub fn left(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Notes how many tokens were known when the text began.
    pub fn begin(&mut self, shared: usize) {
        self.computed = shared;
        self.cached.get_or_insert(shared);
    }

    /// True if the next token is the likeliest, whatever the scores of the others.
    pub fn takes_likeliest(&self) -> bool {
        self.sampler.takes_likeliest() && (self.constraint.is_none() || self.thoughts == Thoughts::Inside)
    }

    /// Chooses the next token from its scores and gives what can be shown.
    pub fn go_on(&mut self, scores: &mut [f32]) -> Option<LanguageOutput> {
        let token = self.choose(scores);
        self.go_on_with(token)
    }

    /// Goes on with the next token, or with none as no score is a number.
    pub fn go_on_with(&mut self, token: Result<Option<u32>>) -> Option<LanguageOutput> {
        match token.and_then(|token| self.write(token)) {
            Ok((text, None)) if text.is_empty() => None,
            Ok((text, end)) => {
                self.ended = end.is_some();
                Some(LanguageOutput { text, end: end.map(Ok) })
            }
            Err(error) => {
                self.ended = true;
                Some(LanguageOutput { text: String::new(), end: Some(Err(error)) })
            }
        }
    }

    fn choose(&mut self, scores: &mut [f32]) -> Result<Option<u32>> {
        if let Some(constraint) = &mut self.constraint
            && self.thoughts != Thoughts::Inside
        {
            let opens = self.model.thinking_marks().map(|[opens, _]| opens);
            constraint.restrict(scores, opens.filter(|_| self.thoughts == Thoughts::Expected))?;
        }
        let (prompt, text) = self.tokens.split_at(self.prompt);
        Ok(self.sampler.choose(scores, prompt, text))
    }

    fn write(&mut self, token: Option<u32>) -> Result<(String, Option<ChatEnd>)> {
        let Some(token) = token else {
            return Err(Error::Checkpoint {
                path: self.model.path().to_path_buf(),
                reason: "the network's scores are no numbers".into(),
            });
        };
        self.tokens.push(token);
        if self.model.is_end(token) {
            return Ok((self.finish(), Some(self.end(FinishReason::Stop))));
        }
        let mut text = self.show(token);
        // A token of the answer: thoughts and the marks around them are none.
        if let Some(constraint) = &mut self.constraint
            && self.thoughts == Thoughts::None
            && constraint.accept(token, self.model.tokenizer().bytes(token).unwrap_or_default())?
        {
            text.push_str(&self.finish());
            return Ok((text, Some(self.end(FinishReason::Stop))));
        }
        if self.text.is_stopped() {
            return Ok((text, Some(self.end(FinishReason::Stop))));
        }
        if self.tokens.len() - self.prompt >= self.max_tokens {
            text.push_str(&self.finish());
            return Ok((text, Some(self.end(FinishReason::Length))));
        }
        Ok((text, None))
    }

    /// The text that a token adds.
    fn show(&mut self, token: u32) -> String {
        let [opens, closes] = self.model.thinking_marks().map_or([None; 2], |marks| marks.map(Some));
        match self.thoughts {
            Thoughts::Expected if opens == Some(token) => self.thoughts = Thoughts::Inside,
            Thoughts::Expected => self.thoughts = Thoughts::None,
            Thoughts::Inside if closes == Some(token) => self.thoughts = Thoughts::Over,
            _ => {}
        }
        let is_mark = [opens, closes].contains(&Some(token));
        let bytes = self.model.tokenizer().bytes(token).unwrap_or_default();
        match self.thoughts {
            Thoughts::Inside => String::new(),
            Thoughts::Over if is_mark || bytes.iter().all(u8::is_ascii_whitespace) => String::new(),
            _ => {
                let over = std::mem::replace(&mut self.thoughts, Thoughts::None) == Thoughts::Over;
                let bytes = if over { bytes.trim_ascii_start() } else { bytes };
                self.text.push(bytes)
            }
        }
    }

    fn finish(&mut self) -> String {
        self.text.finish()
    }

    fn end(&self, finish_reason: FinishReason) -> ChatEnd {
        let usage = ChatUsage {
            prompt_tokens: self.prompt,
            cached_tokens: self.cached.unwrap_or(0),
            completion_tokens: self.tokens.len() - self.prompt,
        };
        ChatEnd::new(finish_reason, usage)
    }
}
