//! The caller's side: turns that the agent finds, and those that the client ends.

use auricle_engine::converse::{Event, State};

use super::super::frames::{self, Fault, Usage};
use super::super::item::Item as Transcript;
use super::super::session::MIN_COMMIT_MS;
use super::events::{ServerEvent, send, send_shared};
use super::item::{Content, Item, Source, Status};
use super::protocol::{Answer, Conversation, announce_turn};
use crate::live::agent::driver::Driver;
use crate::live::agent::session::{End, Step, happens};
use crate::live::socket::{ServerMessage, Socket};

impl Conversation {
    pub(super) async fn speech_started(&mut self, driver: &mut Driver, socket: &Socket) -> Step {
        self.quiet_since = None;
        self.turn = Transcript::new();
        let padding_ms = self.settings.audio.input.turn_detection.as_ref().map_or(0, |turns| turns.padding_ms());
        let before_ms = driver.conversation.turn_ms() + padding_ms;
        let starts_ms = driver.heard_ms.saturating_sub(before_ms).max(self.buffer_from_ms);
        self.turn.starts_ms = Some(starts_ms);
        let event = frames::ServerEvent::SpeechStarted { audio_start_ms: starts_ms, item_id: &self.turn.id };
        send_shared(socket, &event).await
    }

    pub(super) async fn speech_stopped(&mut self, driver: &mut Driver, socket: &Socket) -> Step {
        let audio_end_ms = driver.heard_ms;
        self.turn.audio_ms = audio_end_ms.saturating_sub(self.turn.starts_ms.unwrap_or(audio_end_ms));
        self.buffer_from_ms = audio_end_ms;
        send_shared(socket, &frames::ServerEvent::SpeechStopped { audio_end_ms, item_id: &self.turn.id }).await
    }

    /// Sends words of the turn that do not change any more.
    pub(super) fn show_words(&mut self, socket: &Socket, text: &str) {
        if self.settings.audio.input.transcription.is_none() {
            return;
        }
        if let Some(delta) = self.turn.partial(text) {
            let event = frames::ServerEvent::Delta {
                item_id: &self.turn.id,
                content_index: 0,
                delta: &delta.text,
                logprobs: None,
            };
            // A client that reads slowly gets these words with later ones.
            if socket.try_send(ServerMessage::Text(event.to_json())) {
                self.turn.sent(delta);
            }
        }
    }

    /// A turn has its words: it is an item, and a response that was prepared for it may leave.
    pub(super) async fn end_turn(&mut self, socket: &Socket, text: String) -> Step {
        let turn = std::mem::replace(&mut self.turn, Transcript::new());
        let mut item = Item::message(Status::Completed, Source::UserAudio, text.as_str());
        item.id.clone_from(&turn.id);
        let json = item.json();
        let before = self.items.push(item);
        announce_turn(socket, before.as_deref(), &turn.id, &json).await?;
        self.send_transcript(socket, &turn.id, &text, turn.audio_ms).await?;
        match &mut self.active {
            Some(active) => active.release(&mut self.items, socket).await,
            None => Ok(()),
        }
    }

    async fn send_transcript(&self, socket: &Socket, item_id: &str, transcript: &str, audio_ms: u64) -> Step {
        if self.settings.audio.input.transcription.is_none() {
            return Ok(());
        }
        let usage = Usage::of_ms(audio_ms);
        let event = frames::ServerEvent::Completed { item_id, content_index: 0, transcript, logprobs: None, usage };
        send_shared(socket, &event).await
    }

    /// Ends the turn here: as the agent would, or as the client alone does.
    pub(super) async fn commit(&mut self, driver: &mut Driver, socket: &Socket) -> Answer {
        if driver.detects_turns {
            if !matches!(driver.conversation.state(), State::Hearing | State::Pausing) {
                let message =
                    "The buffer has no speech: a detected turn is committed while the caller speaks or pauses.";
                return Ok(Err(Fault::invalid("input_audio_buffer_commit_empty", message)));
            }
            happens(driver, self, socket, Event::EndTurn).await?;
            return Ok(Ok(()));
        }
        let heard_ms = (driver.heard_s * 1e3) as u64;
        let buffered = heard_ms.saturating_sub(self.buffer_from_ms);
        if buffered < MIN_COMMIT_MS {
            return Ok(Err(Fault::short_buffer(buffered, MIN_COMMIT_MS)));
        }
        self.buffer_from_ms = heard_ms;
        let mut item = Item::message(Status::Completed, Source::UserAudio, "");
        item.timeline.audio_ms = buffered;
        let (id, json) = (item.id.clone(), item.json());
        let before = self.items.push(item);
        announce_turn(socket, before.as_deref(), &id, &json).await?;
        if let Err(error) = driver.cut_item(id) {
            tracing::error!(%error, "an agent's audio could not be processed");
            return Err(End::Close((1011, "The session failed.")));
        }
        Ok(Ok(()))
    }

    /// Drops the audio since the last turn.
    pub(super) async fn clear(&mut self, driver: &mut Driver, socket: &Socket) -> Step {
        driver.clear();
        if driver.detects_turns {
            happens(driver, self, socket, Event::ClearTurn).await?;
        }
        self.buffer_from_ms = (driver.heard_s * 1e3) as u64;
        self.turn = Transcript::new();
        send_shared(socket, &frames::ServerEvent::Cleared).await
    }

    /// The words of a turn that the client has ended.
    pub(super) async fn complete_item(&mut self, socket: &Socket, id: &str, text: String) -> Step {
        let mut audio_ms = 0;
        if let Some(item) = self.items.get_mut(id) {
            audio_ms = item.timeline.audio_ms;
            item.content = Content::Message(Source::UserAudio, vec![text.clone()]);
        }
        self.send_transcript(socket, id, &text, audio_ms).await
    }

    /// The caller has said nothing since the last response: an empty turn.
    pub(super) async fn time_out(&mut self, driver: &mut Driver, socket: &Socket, audio_start_ms: u64) -> Step {
        let item = Item::message(Status::Completed, Source::UserAudio, "");
        let event = ServerEvent::TimeoutTriggered { audio_start_ms, audio_end_ms: driver.heard_ms, item_id: &item.id };
        send(socket, &event).await?;
        let (id, json) = (item.id.clone(), item.json());
        let before = self.items.push(item);
        announce_turn(socket, before.as_deref(), &id, &json).await?;
        self.buffer_from_ms = driver.heard_ms;
        self.send_transcript(socket, &id, "", 0).await
    }
}
