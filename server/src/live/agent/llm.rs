//! Asks a language model to go on with a conversation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auricle_engine::converse::{self, Event, Failure};
use futures_util::StreamExt as _;
use tokio::sync::mpsc::Sender;

use super::report::Report;
use crate::ids::{self, AccountId};
use crate::language::repetition::until_repeated;
use crate::language::{
    ChatOptions, ChatRequest, LanguageError, LanguageModel, Message, Piece, Pieces, Role, Tool, ToolCall, ToolChoice,
    grounding,
};

/// The longest reply, tokens.
pub const MAX_TOKENS: u32 = 1_024;

/// The longest wait of a reply for a place among the answers of the model, and the pause between two requests.
const PLACE_TIMEOUT: Duration = Duration::from_secs(10);
const PLACE_PAUSE: Duration = Duration::from_millis(50);

/// Characters that a voice speaks in a second.
const CHARS_PER_S: usize = 15;

/// The part of a model's context that the result of a tool may fill, as a divisor, and the bytes of a token in JSON.
const RESULT_PART: usize = 4;
const BYTES_PER_TOKEN: usize = 3;

/// Goes before the caller's prompt, which may ask for something else.
const SPOKEN: &str = "You are in a spoken conversation. Your words are read aloud: answer in one to three short sentences of plain text, \
                      without lists, headings, emoji or markup.";

const APOLOGY: &str = "I am sorry, something went wrong. Could you say that again?";
const MISSING_APOLOGY: &str = "I have no language model yet. Please run the command auricle models pull chat.";
const MISSING: &str = "No language model is here: fetch one with `auricle models pull chat`, which the running service then uses, or set \
                       `language_upstream` to a server that has one.";

/// The failure of a session without a language model.
pub fn missing() -> Failure {
    Failure { code: "model_unavailable", message: MISSING.into(), apology: MISSING_APOLOGY.into() }
}

fn failure(error: &LanguageError) -> Failure {
    let code = match error {
        LanguageError::Unavailable(_) => return missing(),
        LanguageError::ContextLength { .. } => "context_length_exceeded",
        LanguageError::UnsupportedSchema(_) => "unsupported_schema",
        LanguageError::Busy(_) => "unavailable",
        LanguageError::Upstream(_) => "upstream_error",
        LanguageError::Refused(_) | LanguageError::Local(_) => "model_error",
    };
    Failure { code, message: format!("The language model gave no answer: {error}."), apology: APOLOGY.into() }
}

/// How a reply is asked for.
pub struct Prompt {
    /// The system's message; empty for none.
    pub system: String,
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
    pub max_tokens: u32,
}

/// The system's message of a spoken reply: what speech needs, then the user's prompt.
pub fn spoken(prompt: &str) -> String {
    match prompt.trim() {
        "" => SPOKEN.to_owned(),
        prompt => format!("{SPOKEN}\n\n{prompt}"),
    }
}

/// The request for a reply to these messages.
pub fn request(model: &dyn LanguageModel, prompt: Prompt, history: Vec<Message>, account: AccountId) -> ChatRequest {
    let Prompt { system, tools, tool_choice, max_tokens } = prompt;
    let mut messages = vec![Message::new(Role::System, system)];
    messages.extend(history);
    let most = model.context_tokens() / RESULT_PART * BYTES_PER_TOKEN;
    for result in messages.iter_mut().filter(|message| message.role == Role::Tool && message.content.len() > most) {
        let whole = result.content.len();
        result.content.truncate(result.content.floor_char_boundary(most));
        result.content.push_str(&format!(" [cut off here: these are the first {most} of {whole} bytes]"));
    }
    if messages.len() == 1 || messages[1].role == Role::Assistant {
        // Chat templates want the person's words first; the agent may have greeted.
        messages.insert(1, Message::new(Role::User, "(The call begins.)"));
    }
    fit(model, &tools, &mut messages);
    if messages[0].content.is_empty() {
        messages.remove(0);
    }
    let options = ChatOptions { max_tokens: Some(max_tokens), tools, tool_choice, ..ChatOptions::default() };
    ChatRequest { messages, options, account, live: true }
}

/// A message of a conversation, as the language model takes it.
pub fn message(message: &converse::Message) -> Message {
    let role = match message.role {
        converse::Role::User => Role::User,
        converse::Role::Assistant => Role::Assistant,
        converse::Role::Tool => Role::Tool,
    };
    let call = |call: &converse::ToolCall| ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    Message {
        tool_calls: message.calls.iter().map(call).collect(),
        tool_call_id: message.call_id.clone(),
        ..Message::new(role, &message.content)
    }
}

/// Drops the oldest turns of a conversation that is longer than the model's context. The prompt, the tools and the last turn stay.
fn fit(model: &dyn LanguageModel, tools: &[Tool], messages: &mut Vec<Message>) {
    let tools: usize = tools
        .iter()
        .map(|tool| model.count_tokens(&format!("{}{:?}{}", tool.name, tool.description, tool.parameters)))
        .sum();
    // Each message is counted once: the conversation waits meanwhile.
    let count = |message: &Message| grounding::tokens(model, std::slice::from_ref(message), None);
    let mut counts: Vec<usize> = messages.iter().map(count).collect();
    let answer = grounding::tokens(model, &[], Some(MAX_TOKENS));
    while counts.iter().sum::<usize>() + answer + tools > model.context_tokens() {
        let next_turn = messages.iter().skip(2).position(|message| message.role == Role::User);
        let Some(next_turn) = next_turn.map(|at| at + 2) else { return };
        messages.drain(1..next_turn);
        counts.drain(1..next_turn);
    }
}

/// Asks for an answer. A model all of whose places are taken is asked again: who waits for an agent's reply gets it late rather than not.
async fn ask(model: &dyn LanguageModel, request: ChatRequest) -> Result<Pieces, LanguageError> {
    let until = Instant::now() + PLACE_TIMEOUT;
    loop {
        match model.chat(request.clone()).await {
            Err(LanguageError::Busy(_)) if Instant::now() < until => tokio::time::sleep(PLACE_PAUSE).await,
            asked => return asked,
        }
    }
}

/// The text of a reply up to the sentence that reaches its longest duration, or half as long again if no sentence ends there.
struct ReplyLength {
    /// Characters left before the reply may end.
    chars: usize,
    /// Characters left before it must end.
    most: usize,
}

impl ReplyLength {
    fn new(seconds: u32) -> Self {
        let chars = seconds as usize * CHARS_PER_S;
        Self { chars, most: chars + chars / 2 }
    }

    /// The part of a piece that belongs to the reply, and true if the reply goes on after it.
    fn take<'a>(&mut self, piece: &'a str) -> (&'a str, bool) {
        let mut after_end = false;
        for (at, char) in piece.char_indices() {
            if (after_end && char.is_whitespace()) || self.most == 0 {
                return (&piece[..at], false);
            }
            self.chars = self.chars.saturating_sub(1);
            self.most -= 1;
            after_end =
                self.chars == 0 && matches!(char, '.' | '!' | '?' | '\u{3002}' | '\u{ff01}' | '\u{ff1f}' | '\n');
        }
        (piece, !after_end)
    }
}

/// Asks for a reply of at most so many seconds of speech, and sends what comes of it. Dropping the future cancels it.
pub async fn think(
    model: Arc<dyn LanguageModel>,
    request: ChatRequest,
    max_reply_s: u32,
    thought: u64,
    reports: Sender<Report>,
) {
    let mut length = ReplyLength::new(max_reply_s);
    let send = async |event: Event| reports.send(Report::Event(event)).await.is_ok();
    let mut pieces = match ask(model.as_ref(), request).await {
        Ok(pieces) => until_repeated(pieces),
        Err(error) => {
            tracing::warn!(%error, "the language model failed");
            send(Event::LlmFailed { thought, failure: failure(&error) }).await;
            return;
        }
    };
    let mut calls = Vec::new();
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(Piece::Text(text)) => {
                let (spoken, goes_on) = length.take(&text);
                if !send(Event::Text { thought, text: spoken.to_owned() }).await {
                    return;
                }
                if !goes_on {
                    send(Event::Thought { thought, calls }).await;
                    return;
                }
            }
            Ok(Piece::ToolCalls(more)) => {
                // Ids of models are often those of other turns again.
                calls.extend(more.into_iter().map(|call| converse::ToolCall {
                    id: ids::fresh("call"),
                    name: call.name,
                    arguments: call.arguments,
                }));
            }
            Ok(Piece::End { reason, usage }) => {
                let _ = reports.send(Report::Finished { thought, reason, usage }).await;
                send(Event::Thought { thought, calls }).await;
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "the language model failed");
                send(Event::LlmFailed { thought, failure: failure(&error) }).await;
                return;
            }
        }
    }
    let error = LanguageError::Upstream("the answer ended midway".into());
    send(Event::LlmFailed { thought, failure: failure(&error) }).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;

    use super::*;

    /// A model of 4,000 tokens, ten to a message, which is busy a few times.
    #[derive(Default)]
    struct Model {
        counted: AtomicUsize,
        busy: AtomicUsize,
    }

    impl LanguageModel for Model {
        fn id(&self) -> &str {
            "model"
        }

        fn context_tokens(&self) -> usize {
            4_000
        }

        fn count_tokens(&self, _: &str) -> usize {
            self.counted.fetch_add(1, Ordering::Relaxed);
            10
        }

        fn chat(&self, _: ChatRequest) -> BoxFuture<'_, Result<Pieces, LanguageError>> {
            let left = self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            let pieces: Pieces = futures_util::stream::empty().boxed();
            std::future::ready(if left.is_ok() { Err(LanguageError::Busy("full".into())) } else { Ok(pieces) }).boxed()
        }
    }

    #[test]
    fn a_long_conversation_is_counted_once_and_loses_its_oldest_turns() {
        let model = Model::default();
        let turns = (0..1_000).flat_map(|_| [Role::User, Role::Assistant]).map(|role| Message::new(role, "words"));
        let mut messages: Vec<Message> = std::iter::once(Message::new(Role::System, "prompt")).chain(turns).collect();
        fit(&model, &[], &mut messages);
        assert!((100..400).contains(&messages.len()), "{}", messages.len());
        assert_eq!((messages[0].role, messages[1].role), (Role::System, Role::User));
        assert!(model.counted.into_inner() <= 2_001);
    }

    #[test]
    fn a_reply_ends_at_a_sentence_once_it_is_long() {
        let spoken = |text: &str, piece: usize| {
            let mut length = ReplyLength::new(2);
            let mut spoken = String::new();
            let chars: Vec<char> = text.chars().collect();
            for piece in chars.chunks(piece) {
                let piece = String::from_iter(piece);
                let (part, goes_on) = length.take(&piece);
                spoken.push_str(part);
                if !goes_on {
                    break;
                }
            }
            spoken
        };
        let sentences = "One short sentence. Another passes it. A third.";
        for piece in [1, 3, 100] {
            assert_eq!(spoken("It is 3.50 euros now. And so on.", piece), "It is 3.50 euros now. And so on.");
            assert_eq!(spoken(sentences, piece), "One short sentence. Another passes it.");
            assert_eq!(spoken(&"word ".repeat(20), piece).len(), 45, "no sentence ends");
        }
    }

    #[test]
    fn a_result_of_a_tool_leaves_room_for_the_conversation() {
        let result = Message::new(Role::Tool, "\u{e4}".repeat(100_000));
        let prompt =
            Prompt { system: spoken(""), tools: Vec::new(), tool_choice: ToolChoice::Auto, max_tokens: MAX_TOKENS };
        let request = request(&Model::default(), prompt, vec![result], AccountId::new());
        let content = &request.messages.last().unwrap().content;
        assert!(content.len() < 3_100 && content.ends_with("the first 3000 of 200000 bytes]"), "{}", content.len());
    }

    #[tokio::test]
    async fn a_reply_waits_for_a_place() {
        let request = ChatRequest {
            messages: Vec::new(),
            options: ChatOptions::default(),
            account: AccountId::new(),
            live: true,
        };
        let model = Model { busy: AtomicUsize::new(3), ..Model::default() };
        assert!(ask(&model, request).await.is_ok());
        assert_eq!(model.busy.into_inner(), 0);
    }
}
