//! A response: its events, and the items that it adds.

use serde_json::{Value, json};

use super::super::settings::Format;
use super::events::{CallPlace, Place, ServerEvent, send};
use super::item::{Content, Item, Source, Status};
use super::items::Items;
use super::params::{Modality, Params};
use super::settings::Settings;
use crate::ids;
use crate::language::{FinishReason, ToolCall, Usage};
use crate::live::agent::session::Step;
use crate::live::socket::Socket;

/// The reason for which a response ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The caller speaks.
    TurnDetected,
    ClientCancelled,
}

/// The end of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Completed,
    /// The limit of tokens is reached.
    Incomplete,
    Cancelled(Cancelled),
    Failed {
        code: &'static str,
        message: String,
    },
}

impl Outcome {
    /// The status of the response, and its details.
    fn describe(&self) -> (&'static str, Value) {
        match self {
            Self::Completed => ("completed", Value::Null),
            Self::Incomplete => ("incomplete", json!({ "type": "incomplete", "reason": "max_output_tokens" })),
            Self::Cancelled(reason) => {
                let reason = match reason {
                    Cancelled::TurnDetected => "turn_detected",
                    Cancelled::ClientCancelled => "client_cancelled",
                };
                ("cancelled", json!({ "type": "cancelled", "reason": reason }))
            }
            Self::Failed { code, message } => {
                let error = json!({ "type": "server_error", "code": code, "message": message });
                ("failed", json!({ "type": "failed", "error": error }))
            }
        }
    }
}

/// The message of a response, as it is written.
struct Writing {
    item: Item,
    before: Option<String>,
    output_index: usize,
    text: String,
}

pub struct Response {
    pub id: String,
    /// The agent's thought that writes it.
    pub thought: u64,
    /// What the client asked for; none if a turn of the caller's began it.
    pub asked: Option<Params>,
    /// The text so far of one that may not leave, because the turn that it answers is not over.
    held: Option<String>,
    /// None for one that is none of the conversation.
    conversation: Option<String>,
    pub modality: Modality,
    /// Fields of the response object that do not change.
    object: Value,
    writing: Option<Writing>,
    /// The text that was played, once the reply is over.
    pub played: Option<String>,
    /// Calls that may not leave yet.
    calls: Vec<ToolCall>,
    /// True if the message will have words.
    has_words: bool,
    /// The items that are complete, each with its place.
    output: Vec<(usize, Value)>,
    /// Items that have begun.
    items: usize,
    pub finished: Option<(FinishReason, Option<Usage>)>,
    pub failure: Option<(&'static str, String)>,
    /// The reason of a cancellation, should one come.
    pub cancelled: Cancelled,
}

impl Response {
    pub fn new(thought: u64, settings: &Settings, asked: Option<Params>, conversation: &str) -> Self {
        let params = asked.as_ref();
        let is_apart = params.is_some_and(|params| params.is_apart);
        let modality = params.and_then(|params| params.modality).unwrap_or(settings.modality());
        let limit = params.and_then(|params| params.limit).unwrap_or(settings.max_output_tokens);
        let id = ids::fresh("resp");
        let conversation = (!is_apart).then(|| conversation.to_owned());
        let output = &settings.audio.output;
        let format: Format = output.format;
        let object = json!({
            "id": id, "object": "realtime.response", "conversation_id": conversation,
            "output_modalities": [modality], "max_output_tokens": limit,
            "audio": { "output": { "format": format, "voice": output.voice } },
            "metadata": params.and_then(|params| params.metadata.clone()),
        });
        Self {
            id,
            thought,
            asked,
            held: None,
            conversation,
            modality,
            object,
            writing: None,
            played: None,
            calls: Vec::new(),
            has_words: false,
            output: Vec::new(),
            items: 0,
            finished: None,
            failure: None,
            cancelled: Cancelled::TurnDetected,
        }
    }

    /// The same, held back until [`Response::release`].
    pub fn held(self) -> Self {
        Self { held: Some(String::new()), ..self }
    }

    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    fn json(&self, status: &str, details: &Value, usage: &Value) -> Value {
        let mut object = self.object.clone();
        object["status"] = status.into();
        object["status_details"] = details.clone();
        let mut output: Vec<_> = self.output.iter().collect();
        output.sort_by_key(|(index, _)| *index);
        object["output"] = output.into_iter().map(|(_, item)| item.clone()).collect();
        object["usage"] = usage.clone();
        object
    }

    /// Reports the response.
    pub async fn announce(&self, socket: &Socket) -> Step {
        let response = self.json("in_progress", &Value::Null, &Value::Null);
        send(socket, &ServerEvent::ResponseCreated { response: &response }).await
    }

    /// Lets a response out: its turn is over.
    pub async fn release(&mut self, items: &mut Items, socket: &Socket) -> Step {
        let Some(text) = self.held.take() else { return Ok(()) };
        self.announce(socket).await?;
        self.write(items, socket, &text).await?;
        self.send_calls(items, socket).await
    }

    /// Notes text that will be spoken.
    pub fn expect_words(&mut self, text: &str) {
        self.has_words |= !text.trim().is_empty();
    }

    /// Takes the calls of functions. They leave at once, though the words before them may still be spoken.
    pub async fn call_all(&mut self, items: &mut Items, socket: &Socket, calls: Vec<ToolCall>) -> Step {
        self.calls = calls;
        if self.is_held() { Ok(()) } else { self.send_calls(items, socket).await }
    }

    async fn send_calls(&mut self, items: &mut Items, socket: &Socket) -> Step {
        let calls = std::mem::take(&mut self.calls);
        if self.has_words && !calls.is_empty() {
            self.begin_message(items, socket).await?;
        }
        for call in calls {
            self.call(items, socket, call).await?;
        }
        Ok(())
    }

    /// The place of the next item.
    fn next_index(&mut self) -> usize {
        self.items += 1;
        self.items - 1
    }

    fn add(&self, items: &mut Items, item: &Item) -> Option<String> {
        self.conversation.as_ref().and_then(|_| items.push(item.clone()))
    }

    async fn item_added(&self, socket: &Socket, before: Option<&str>, output_index: usize, item: &Value) -> Step {
        send(socket, &ServerEvent::OutputAdded { response_id: &self.id, output_index, item }).await?;
        if self.conversation.is_none() {
            return Ok(());
        }
        send(socket, &ServerEvent::ItemAdded { previous_item_id: before, item }).await
    }

    async fn item_done(&mut self, socket: &Socket, before: Option<&str>, output_index: usize, item: Value) -> Step {
        if self.conversation.is_some() {
            send(socket, &ServerEvent::ItemDone { previous_item_id: before, item: &item }).await?;
        }
        send(socket, &ServerEvent::OutputDone { response_id: &self.id, output_index, item: &item }).await?;
        self.output.push((output_index, item));
        Ok(())
    }

    /// Begins the message, unless it has begun.
    pub async fn begin_message(&mut self, items: &mut Items, socket: &Socket) -> Step {
        if self.writing.is_some() {
            return Ok(());
        }
        let (source, part) = match self.modality {
            Modality::Audio => (Source::AgentAudio, json!({ "type": "audio", "transcript": "" })),
            Modality::Text => (Source::AgentText, json!({ "type": "text", "text": "" })),
        };
        let item = Item::new(Status::InProgress, Content::Message(source, Vec::new()));
        let before = self.add(items, &item);
        let output_index = self.next_index();
        self.item_added(socket, before.as_deref(), output_index, &item.json()).await?;
        let writing = Writing { item, before, output_index, text: String::new() };
        send(socket, &ServerEvent::PartAdded { place: place(&self.id, &writing), part: &part }).await?;
        self.writing = Some(writing);
        Ok(())
    }

    /// True if this message is being written.
    pub fn is_writing(&self, item: &str) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.item.id == item)
    }

    /// Adds text: of the message itself, or of the transcript of its audio.
    pub async fn write(&mut self, items: &mut Items, socket: &Socket, delta: &str) -> Step {
        if delta.is_empty() {
            return Ok(());
        }
        if let Some(held) = &mut self.held {
            held.push_str(delta);
            return Ok(());
        }
        self.begin_message(items, socket).await?;
        let Some(writing) = &mut self.writing else { return Ok(()) };
        writing.text.push_str(delta);
        let place = place(&self.id, writing);
        let event = match self.modality {
            Modality::Audio => ServerEvent::TranscriptDelta { place, delta },
            Modality::Text => ServerEvent::TextDelta { place, delta },
        };
        send(socket, &event).await
    }

    /// Adds audio of this length, in base64.
    pub async fn sound(&mut self, socket: &Socket, ms: u64, delta: &str) -> Step {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        writing.item.timeline.push(ms, writing.text.len());
        if delta.is_empty() {
            return Ok(());
        }
        send(socket, &ServerEvent::AudioDelta { place: place(&self.id, writing), delta }).await
    }

    /// Reports that a call plays this response, or has ended to.
    pub async fn playing<'a>(&'a self, socket: &Socket, event: impl FnOnce(&'a str) -> ServerEvent<'a>) -> Step {
        if socket.has_track() { send(socket, &event(&self.id)).await } else { Ok(()) }
    }

    /// Ends the response.
    pub async fn finish(mut self, items: &mut Items, socket: &Socket, is_cancelled: bool) -> Step {
        let outcome = match (self.failure.take(), is_cancelled, &self.finished) {
            (Some((code, message)), ..) => Outcome::Failed { code, message },
            (None, true, _) => Outcome::Cancelled(self.cancelled),
            (None, false, Some((FinishReason::Length, _))) => Outcome::Incomplete,
            (None, false, _) => Outcome::Completed,
        };
        let status = if outcome == Outcome::Completed { Status::Completed } else { Status::Incomplete };
        self.finish_message(items, socket, status).await?;
        let (status, details) = outcome.describe();
        let usage = self.finished.and_then(|(_, usage)| usage).map_or(Value::Null, usage_json);
        let response = self.json(status, &details, &usage);
        send(socket, &ServerEvent::ResponseDone { response: &response }).await
    }

    async fn finish_message(&mut self, items: &mut Items, socket: &Socket, status: Status) -> Step {
        if let Some(played) = self.played.clone()
            && let Some(rest) = self.writing.as_ref().and_then(|writing| played.strip_prefix(writing.text.as_str()))
        {
            self.write(items, socket, rest).await?;
        }
        let Some(Writing { mut item, before, output_index, text }) = self.writing.take() else { return Ok(()) };
        let place = Place { response_id: &self.id, item_id: &item.id, output_index, content_index: 0 };
        // What was not played was not said.
        let text = self.played.take().filter(|_| self.modality == Modality::Audio).unwrap_or(text);
        let part = match self.modality {
            Modality::Audio => {
                send(socket, &ServerEvent::AudioDone { place }).await?;
                send(socket, &ServerEvent::TranscriptDone { place, transcript: &text }).await?;
                json!({ "type": "audio", "transcript": text })
            }
            Modality::Text => {
                send(socket, &ServerEvent::TextDone { place, text: &text }).await?;
                json!({ "type": "text", "text": text })
            }
        };
        send(socket, &ServerEvent::PartDone { place, part: &part }).await?;
        let source = match self.modality {
            Modality::Audio => Source::AgentAudio,
            Modality::Text => Source::AgentText,
        };
        (item.status, item.content) = (status, Content::Message(source, vec![text]));
        let json = item.json();
        if let Some(known) = items.get_mut(&item.id) {
            *known = item;
        }
        self.item_done(socket, before.as_deref(), output_index, json).await
    }

    async fn call(&mut self, items: &mut Items, socket: &Socket, call: ToolCall) -> Step {
        let bare = ToolCall { arguments: String::new(), ..call.clone() };
        let mut item = Item::new(Status::InProgress, Content::Call(bare));
        let before = self.add(items, &item);
        let output_index = self.next_index();
        self.item_added(socket, before.as_deref(), output_index, &item.json()).await?;
        let ToolCall { id: call_id, name, arguments } = &call;
        let place = CallPlace { response_id: &self.id, item_id: &item.id, output_index, call_id };
        send(socket, &ServerEvent::ArgumentsDelta { place, delta: arguments }).await?;
        send(socket, &ServerEvent::ArgumentsDone { place, name, arguments }).await?;
        (item.status, item.content) = (Status::Completed, Content::Call(call));
        let json = item.json();
        if let Some(known) = items.get_mut(&item.id) {
            *known = item;
        }
        self.item_done(socket, before.as_deref(), output_index, json).await
    }
}

fn place<'a>(response_id: &'a str, writing: &'a Writing) -> Place<'a> {
    Place { response_id, item_id: &writing.item.id, output_index: writing.output_index, content_index: 0 }
}

/// Tokens are those of the language model, whose input and output are text. Sessions are billed by their time.
fn usage_json(usage: Usage) -> Value {
    let Usage { prompt_tokens, completion_tokens } = usage;
    json!({
        "total_tokens": prompt_tokens + completion_tokens,
        "input_tokens": prompt_tokens,
        "output_tokens": completion_tokens,
        "input_token_details": { "text_tokens": prompt_tokens, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 0 },
        "output_token_details": { "text_tokens": completion_tokens, "audio_tokens": 0 },
    })
}
