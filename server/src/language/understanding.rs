//! Answers about a transcript by a language model, however long the transcript is.

use auricle_engine::extractive::{NOT_SAID, Passage, asks_for_summary, rank};

use super::grounding::{Fence, batches, lines, notes_rules, room, understanding_rules};
use super::repetition::{end_of_repeated, until_repeated};
use super::{ChatOptions, ChatRequest, Format, LanguageError, LanguageModel, Message, Role, complete, complete_with};
use crate::ids::AccountId;

/// Tokens of the notes on a part, at most a quarter of the context.
const NOTES_TOKENS: usize = 512;

/// The most times that notes are taken on notes.
const MAX_LEVELS: usize = 6;

/// A question about a transcript.
pub struct Question<'a> {
    pub paragraphs: &'a [Passage],
    pub language: Option<&'a str>,
    pub prompt: &'a str,
    pub wants_json: bool,
    /// Whose question it is.
    pub account: &'a AccountId,
}

/// The most characters that models put around [`NOT_SAID`].
const MARKS: usize = 20;

/// Passes on what a model writes, but for the sentence that says that a part of the transcript holds no answer.
struct Draft<'a> {
    out: &'a mut (dyn FnMut(&str) + Send),
    /// The text that may still become that sentence. None once it was passed on.
    held: Option<String>,
}

impl Draft<'_> {
    fn write(&mut self, piece: &str) {
        let Some(held) = &mut self.held else { return (self.out)(piece) };
        held.push_str(piece);
        if held.chars().count() > NOT_SAID.len() + MARKS && !is_not_said(held) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(held) = self.held.take() {
            (self.out)(&held);
        }
    }
}

/// Models add marks around the sentence that they were given.
fn is_not_said(answer: &str) -> bool {
    answer.contains(NOT_SAID.trim_end_matches('.'))
}

/// Asks a model. What fits is read whole. Of a longer transcript a question reads the paragraphs that bear on it first, and the
/// others until one holds the answer; a summary and an object are made of notes on every part. `draft` gets the text as it is written;
/// the answer that is returned is the one that counts.
///
/// # Errors
/// As the model's.
pub async fn answer(
    model: &dyn LanguageModel,
    fence: &Fence,
    question: &Question<'_>,
    draft: &mut (dyn FnMut(&str) + Send),
) -> Result<String, LanguageError> {
    let all: Vec<usize> = (0..question.paragraphs.len()).collect();
    let room = room_for(model, fence, question)?;
    let whole = batches(model, question.paragraphs, &all, room);
    if whole.len() <= 1 {
        return ask(model, fence, question, &lines(question.paragraphs), draft).await;
    }
    if question.wants_json || asks_for_summary(question.prompt) {
        let text = notes(model, fence, question, whole).await?;
        return ask(model, fence, question, &text, draft).await;
    }
    let order = rank(question.paragraphs, question.language, question.prompt);
    for batch in batches(model, question.paragraphs, &order, room) {
        let mut held = Draft { out: &mut *draft, held: Some(String::new()) };
        let text = lines(&select(question.paragraphs, &batch));
        let answer = ask(model, fence, question, &text, &mut |piece| held.write(piece)).await?;
        if !is_not_said(&answer) {
            held.flush();
            return Ok(answer);
        }
    }
    Ok(NOT_SAID.into())
}

fn room_for(model: &dyn LanguageModel, fence: &Fence, question: &Question<'_>) -> Result<usize, LanguageError> {
    let messages = [
        Message::new(Role::System, understanding_rules(fence, "", question.wants_json)),
        Message::new(Role::User, question.prompt),
    ];
    room(model, &messages, None)
}

fn select(paragraphs: &[Passage], batch: &[usize]) -> Vec<Passage> {
    batch.iter().map(|&at| paragraphs[at].clone()).collect()
}

async fn ask(
    model: &dyn LanguageModel,
    fence: &Fence,
    question: &Question<'_>,
    text: &str,
    draft: &mut (dyn FnMut(&str) + Send),
) -> Result<String, LanguageError> {
    let format = if question.wants_json { Format::Json } else { Format::Text };
    let messages = vec![
        Message::new(Role::System, understanding_rules(fence, text, question.wants_json)),
        Message::new(Role::User, question.prompt),
    ];
    let options = ChatOptions { format, temperature: Some(0.0), ..ChatOptions::default() };
    let request = ChatRequest { messages, options, account: question.account.clone(), live: false };
    let pieces = model.chat(request).await?;
    if question.wants_json {
        let answer = complete_with(pieces, draft).await?;
        if answer.reason == super::FinishReason::Length {
            return Err(LanguageError::Upstream("the JSON was cut short by the length of the answer".into()));
        }
        return Ok(answer.text.trim().to_owned());
    }
    let mut text = complete_with(until_repeated(pieces), draft).await?.text;
    if let Some(end) = end_of_repeated(&text) {
        text.truncate(end);
    }
    Ok(text.trim().to_owned())
}

/// Notes on every part, and notes on those until they fit.
async fn notes(
    model: &dyn LanguageModel,
    fence: &Fence,
    question: &Question<'_>,
    mut parts: Vec<Vec<usize>>,
) -> Result<String, LanguageError> {
    let room = room_for(model, fence, question)?;
    let mut passages: Vec<Passage> = question.paragraphs.to_vec();
    for _ in 0..MAX_LEVELS {
        let mut taken = Vec::new();
        for part in &parts {
            let part = select(&passages, part);
            let start_ms = part.first().map_or(0, |passage| passage.start_ms);
            let messages = vec![
                Message::new(Role::System, notes_rules(fence, &lines(&part))),
                Message::new(Role::User, question.prompt),
            ];
            let max_tokens = NOTES_TOKENS.min(model.context_tokens() / 4) as u32;
            let options =
                ChatOptions { max_tokens: Some(max_tokens), temperature: Some(0.0), ..ChatOptions::default() };
            let request = ChatRequest { messages, options, account: question.account.clone(), live: false };
            let answer = complete(until_repeated(model.chat(request).await?)).await?;
            taken.push(Passage { speaker: None, start_ms, text: answer.text.trim().replace('\n', " ") });
        }
        passages = taken;
        let all: Vec<usize> = (0..passages.len()).collect();
        parts = batches(model, &passages, &all, room);
        if parts.len() <= 1 {
            return Ok(lines(&passages));
        }
    }
    let context = model.context_tokens();
    Err(LanguageError::ContextLength { tokens: context.saturating_add(1), context })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_holds_back_the_sentence_that_says_nothing() {
        for (pieces, passed) in [
            (vec!["The transcript ", "does not say."], ""),
            (vec!["**The transcript does not say.**", " ", "It is about other things and goes on."], ""),
            (vec!["Yes."], ""),
            (
                vec!["Yes, they said that they would ", "go to the harbour at ", "nine."],
                "Yes, they said that they would go to the harbour at nine.",
            ),
        ] {
            let mut out = String::new();
            let mut push = |piece: &str| out.push_str(piece);
            let mut draft = Draft { out: &mut push, held: Some(String::new()) };
            pieces.iter().for_each(|piece| draft.write(piece));
            assert_eq!(out, passed, "{pieces:?}");
        }
        let mut out = String::new();
        let mut push = |piece: &str| out.push_str(piece);
        let mut draft = Draft { out: &mut push, held: Some(String::new()) };
        draft.write("Yes.");
        draft.flush();
        draft.write(" No.");
        assert_eq!(out, "Yes. No.");
    }
}
