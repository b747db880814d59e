//! Answers about a transcript by a language model, however long the transcript is.

use auricle_engine::extractive::{NOT_SAID, Passage, asks_for_summary, rank};

use super::grounding::{Fence, batches, lines, notes_rules, room, understanding_rules};
use super::{ChatOptions, ChatRequest, Format, LanguageError, LanguageModel, Message, Role, complete};

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
    pub account: &'a str,
}

/// Asks a model. What fits is read whole. Of a longer transcript a question reads the paragraphs that bear on it first, and the
/// others until one holds the answer; a summary and an object are made of notes on every part.
///
/// # Errors
/// As the model's.
pub async fn answer(
    model: &dyn LanguageModel,
    fence: &Fence,
    question: &Question<'_>,
) -> Result<String, LanguageError> {
    let all: Vec<usize> = (0..question.paragraphs.len()).collect();
    let room = room_for(model, fence, question)?;
    let whole = batches(model, question.paragraphs, &all, room);
    if whole.len() <= 1 {
        return ask(model, fence, question, &lines(question.paragraphs)).await;
    }
    if question.wants_json || asks_for_summary(question.prompt) {
        let text = notes(model, fence, question, whole).await?;
        return ask(model, fence, question, &text).await;
    }
    let order = rank(question.paragraphs, question.language, question.prompt);
    for batch in batches(model, question.paragraphs, &order, room) {
        let answer = ask(model, fence, question, &lines(&select(question.paragraphs, &batch))).await?;
        // Models add marks around the sentence that they were given.
        if !answer.contains(NOT_SAID.trim_end_matches('.')) {
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
) -> Result<String, LanguageError> {
    let format = if question.wants_json { Format::Json } else { Format::Text };
    let messages = vec![
        Message::new(Role::System, understanding_rules(fence, text, question.wants_json)),
        Message::new(Role::User, question.prompt),
    ];
    let options = ChatOptions { format, temperature: Some(0.0), ..ChatOptions::default() };
    let answer =
        complete(model.chat(ChatRequest { messages, options, account: Some(question.account.to_owned()) }).await?)
            .await?;
    if question.wants_json && answer.reason == super::FinishReason::Length {
        return Err(LanguageError::Upstream("the JSON was cut short by the length of the answer".into()));
    }
    Ok(answer.text.trim().to_owned())
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
            let answer = complete(
                model.chat(ChatRequest { messages, options, account: Some(question.account.to_owned()) }).await?,
            )
            .await?;
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
