//! The agent's side: responses of the conversation, and those apart from it.

use auricle_engine::converse::{Action, Event, Failure, VOICE_RATE};
use tokio::time::Instant;

use super::super::frames::Fault;
use super::events::{ServerEvent, refuse};
use super::items::append;
use super::params::{Modality, Params};
use super::protocol::{Answer, Conversation};
use super::response::{Cancelled, Response};
use crate::language::{Message, Role, ToolCall, ToolChoice};
use crate::live::agent::driver::Driver;
use crate::live::agent::llm::{self, Prompt};
use crate::live::agent::report::Report;
use crate::live::agent::session::{End, Step};
use crate::live::socket::{Playback, Socket};

/// Responses at a time that are none of the conversation.
const MAX_APART: usize = 4;
/// The longest duration of a reply that is not spoken, s: its tokens limit it.
const UNSPOKEN_S: u32 = 3_600;

impl Conversation {
    /// Asks the language model for the response of the conversation.
    async fn think(&mut self, driver: &mut Driver, socket: &Socket, thought: u64) -> Step {
        self.quiet_since = None;
        let response = Response::new(thought, &self.settings, self.asked.take(), &self.id);
        let mut messages = self.items.messages();
        let prepared = driver.conversation.prepared_text();
        if let Some(text) = prepared {
            append(&mut messages, Role::User, text);
        }
        let is_prepared = prepared.is_some();
        self.ask(driver, &response, messages);
        let response = if is_prepared { response.held() } else { response };
        if !is_prepared {
            response.announce(socket).await?;
        }
        self.active = Some(response);
        Ok(())
    }

    /// Begins a response that is none of the conversation.
    pub(super) async fn respond_apart(&mut self, driver: &mut Driver, socket: &Socket, params: Params) -> Answer {
        if params.modality.unwrap_or(self.settings.modality()) == Modality::Audio {
            let message = "A response outside of the conversation is text: set its `output_modalities` to [\"text\"].";
            return Ok(Err(Fault::invalid("invalid_value", message).about("response")));
        }
        if self.apart.len() >= MAX_APART {
            let message = format!("{MAX_APART} responses outside of the conversation are in progress: wait for one.");
            return Ok(Err(Fault::invalid("too_many_responses", message).about("response")));
        }
        let thought = self.last_apart;
        self.last_apart -= 1;
        let response = Response::new(thought, &self.settings, Some(params), &self.id);
        self.ask(driver, &response, self.items.messages());
        response.announce(socket).await?;
        self.apart.push(response);
        Ok(Ok(()))
    }

    fn ask(&self, driver: &mut Driver, response: &Response, messages: Vec<Message>) {
        let asked = response.asked.clone().unwrap_or_default();
        let instructions = asked.instructions.as_deref().unwrap_or(&self.settings.instructions);
        let (system, longest_s) = match response.modality {
            Modality::Audio => (llm::spoken(instructions), driver.settings.max_reply_s),
            Modality::Text => (instructions.trim().to_owned(), UNSPOKEN_S),
        };
        let prompt = Prompt {
            system,
            tools: asked.tools.unwrap_or_else(|| driver.settings.tools.clone()),
            tool_choice: asked.tool_choice.unwrap_or_else(|| self.settings.tool_choice()),
            max_tokens: asked.limit.unwrap_or(self.settings.max_output_tokens).tokens(),
        };
        // A choice among no tools is none.
        let prompt = match prompt.tools.is_empty() {
            true => Prompt { tool_choice: ToolChoice::Auto, ..prompt },
            false => prompt,
        };
        let messages = asked.input.unwrap_or(messages);
        let account = driver.opening.claims.payer.account.clone();
        driver.think(response.thought, longest_s, |model| llm::request(model, prompt, messages, account));
    }

    /// Does what the conversation wants of a reply.
    pub(super) async fn act_on_reply(&mut self, driver: &mut Driver, socket: &Socket, action: Action) -> Step {
        let (active, items) = (&mut self.active, &mut self.items);
        match (action, active) {
            (Action::Think { thought, .. }, _) => self.think(driver, socket, thought).await,
            (Action::ReplyStarted { .. }, Some(active)) => {
                active.begin_message(items, socket).await?;
                active.playing(socket, |response_id| ServerEvent::PlayingStarted { response_id }).await
            }
            (Action::Audio { samples, text, .. }, Some(active)) => {
                active.write(items, socket, &text).await?;
                let ms = samples.len() as u64 * 1000 / u64::from(VOICE_RATE);
                let delta = match socket.has_track() {
                    true => String::new(),
                    false => driver.encode(&samples),
                };
                socket.play(Playback::Samples(samples));
                active.sound(socket, ms, &delta).await
            }
            (Action::AgentText { text, .. }, Some(active)) => {
                active.played = Some(text);
                Ok(())
            }
            (Action::ReplyDone { interrupted, .. }, Some(active)) => {
                active.played.get_or_insert_default();
                active.sound(socket, 0, &driver.finish_audio()).await?;
                if interrupted {
                    socket.play(Playback::Cleared);
                    active.playing(socket, |response_id| ServerEvent::PlayingCleared { response_id }).await
                } else {
                    active.playing(socket, |response_id| ServerEvent::PlayingStopped { response_id }).await
                }
            }
            (Action::Error(Failure { code, message, .. }), Some(active)) => {
                active.failure = Some((code, message));
                Ok(())
            }
            (Action::Error(Failure { code, message, .. }), None) => refuse(socket, Fault::service(code, message)).await,
            (Action::ReplyClosed { interrupted, .. }, _) => self.close(driver, socket, interrupted).await,
            _ => Ok(()),
        }
    }

    /// No response is under way any more.
    async fn close(&mut self, driver: &mut Driver, socket: &Socket, interrupted: bool) -> Step {
        let Some(mut active) = self.active.take() else { return Ok(()) };
        if active.is_held() {
            // Its turn goes on, and the next response is the one that was asked for.
            self.asked = self.asked.take().or(active.asked);
            return Ok(());
        }
        if driver.is_ending() {
            active.cancelled = Cancelled::ClientCancelled;
        }
        if !interrupted {
            self.quiet_since = Some((Instant::now(), driver.heard_ms));
        }
        active.finish(&mut self.items, socket, interrupted).await
    }

    /// Takes a report; returns the conversation's event of it.
    pub(super) async fn take_report(
        &mut self,
        driver: &mut Driver,
        socket: &Socket,
        report: Report,
    ) -> Result<Option<Event>, End> {
        let thought = match &report {
            Report::Event(Event::Text { thought, .. } | Event::Thought { thought, .. })
            | Report::Event(Event::LlmFailed { thought, .. })
            | Report::Finished { thought, .. } => Some(*thought),
            Report::Event(_) => None,
        };
        let at = self.apart.iter().position(|apart| Some(apart.thought) == thought);
        let response = match at {
            Some(at) => self.apart.get_mut(at),
            None => self.active.as_mut().filter(|active| Some(active.thought) == thought),
        };
        let event = match (report, response) {
            (Report::Event(Event::Text { text, .. }), Some(response)) if response.modality == Modality::Text => {
                response.write(&mut self.items, socket, &text).await?;
                return Ok(None);
            }
            (Report::Event(Event::Text { thought, text }), Some(response)) => {
                response.expect_words(&text);
                Event::Text { thought, text }
            }
            (Report::Event(Event::Thought { thought, calls }), Some(response)) => {
                driver.stop_thinking(thought);
                // Their outputs are items of the client's, after which it asks for the next response.
                let call = |call: auricle_engine::converse::ToolCall| ToolCall {
                    id: call.id,
                    name: call.name,
                    arguments: call.arguments,
                };
                let calls = calls.into_iter().map(call).collect();
                response.call_all(&mut self.items, socket, calls).await?;
                Event::Thought { thought, calls: Vec::new() }
            }
            (Report::Event(Event::LlmFailed { thought, failure }), Some(response)) => {
                driver.stop_thinking(thought);
                if at.is_some() {
                    response.failure = Some((failure.code, failure.message.clone()));
                }
                Event::LlmFailed { thought, failure: Failure { apology: String::new(), ..failure } }
            }
            (Report::Event(Event::VoiceFailed { speech, failure }), _) => {
                Event::VoiceFailed { speech, failure: Failure { apology: String::new(), ..failure } }
            }
            (Report::Event(event), _) => event,
            (Report::Finished { reason, usage, .. }, response) => {
                if let Some(response) = response {
                    response.finished = Some((reason, usage));
                }
                return Ok(None);
            }
        };
        match at {
            Some(at) => {
                let apart = self.apart.remove(at);
                apart.finish(&mut self.items, socket, false).await?;
                Ok(None)
            }
            None => Ok(Some(event)),
        }
    }
}
