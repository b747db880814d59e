//! The turns of a session: from the client's audio to the items and transcripts of the conversation.

use auricle_engine::{Error, LiveEvent, LiveOutput};

use super::super::transcription::LogProb;
use super::frames::{Fault, ItemObject, ServerEvent, Usage};
use super::item::Item;
use super::recognizer::{Cut, Recognizer};
use super::session::{End, Session, Step, check_detector, refuse, send};
use super::speech_gate::{CHUNK_MS, Change, SpeechGate};
use crate::live::socket::{ServerMessage, Socket};

/// Audio that is passed on between two looks at the engine's results, ms.
const STRIDE_MS: usize = 960;

impl Session {
    /// Passes more of the client's audio on to the engine.
    pub(super) async fn pass_on(&mut self, socket: &Socket) -> Step {
        if self.recognizer.is_none() {
            self.open_recognizer(socket).await?;
        }
        let rate = self.settings.audio.input.format.audio().rate;
        // A turn ends with a push, so that a push is as long as a chunk of the detector.
        let chunk = rate as usize * CHUNK_MS as usize / 1000;
        for _ in 0..STRIDE_MS / CHUNK_MS as usize {
            let end = (self.passed + chunk).min(self.waiting.len());
            let samples = &self.waiting[self.passed..end];
            let Some(recognizer) = self.recognizer.as_mut().filter(|_| !samples.is_empty()) else { break };
            self.taken_us += samples.len() as u64 * 1_000_000 / u64::from(rate);
            self.passed = end;
            match recognizer.push(samples) {
                Ok(probabilities) => self.follow(socket, &probabilities).await?,
                Err(error) => return self.fail(socket, &error).await,
            }
        }
        if self.passed >= self.waiting.len() {
            (self.waiting, self.passed) = (Vec::new(), 0);
        }
        Ok(())
    }

    async fn open_recognizer(&mut self, socket: &Socket) -> Step {
        // The first session may have to load the model.
        match Recognizer::open(&self.engine, &self.state, &self.settings).await {
            Ok(recognizer) => {
                let can_ask = recognizer.input.has_turn_detector();
                self.gate.iter_mut().for_each(|gate| gate.can_ask = can_ask);
                check_detector(socket, self.gate.is_some(), recognizer.input.has_detector()).await?;
                self.recognizer = Some(recognizer);
                Ok(())
            }
            Err(Error::Busy(_)) => {
                let message = "There is no room for another session now. Try again later.";
                refuse(socket, Fault::service("unavailable", message)).await?;
                Err(End::Close((1013, "There is no room.")))
            }
            Err(error) => self.fail(socket, &error).await,
        }
    }

    /// Follows the speech of chunks of the detector.
    async fn follow(&mut self, socket: &Socket, probabilities: &[f32]) -> Step {
        let mut left = probabilities.len() as u64;
        for probability in probabilities {
            left -= 1;
            let Some(gate) = &mut self.gate else { return Ok(()) };
            let now = self.taken_us / 1000 - (left * u64::from(CHUNK_MS)).min(self.taken_us / 1000);
            match gate.push(*probability) {
                None => {}
                Some(Change::Started { ago_ms }) => {
                    let before = u64::from(ago_ms + gate.padding_ms());
                    self.start_speech(socket, now, before).await?;
                }
                Some(Change::Stopped) => self.stop_speech(socket).await?,
                Some(Change::Ask) => {
                    let turn_ms = now.saturating_sub(self.current.starts_ms.unwrap_or(now));
                    let asked = self.recognizer.as_mut().is_some_and(|found| found.input.judge_turn(turn_ms));
                    if !asked {
                        gate.can_ask = false;
                        gate.forget_questions();
                    }
                }
            }
        }
        Ok(())
    }

    /// `before` is the time between the beginning of the turn and now, ms.
    async fn start_speech(&mut self, socket: &Socket, now: u64, before: u64) -> Step {
        let starts_ms = now.saturating_sub(before).max(self.buffer_from_ms);
        self.current.starts_ms = Some(starts_ms);
        let pushed = self.recognizer.as_ref().map(Recognizer::pushed_ms).unwrap_or_default();
        self.current.words_from_ms = pushed.saturating_sub(self.taken_ms().saturating_sub(starts_ms));
        send(socket, &ServerEvent::SpeechStarted { audio_start_ms: starts_ms, item_id: &self.current.id }).await
    }

    async fn stop_speech(&mut self, socket: &Socket) -> Step {
        let event = ServerEvent::SpeechStopped { audio_end_ms: self.taken_ms(), item_id: &self.current.id };
        send(socket, &event).await?;
        self.commit(socket).await
    }

    /// Ends the turn here: its item is in the conversation, and its transcript follows.
    pub(super) async fn commit(&mut self, socket: &Socket) -> Step {
        let from_ms = self.current.starts_ms.unwrap_or(self.buffer_from_ms);
        let audio_ms = self.taken_ms().saturating_sub(from_ms);
        let mut item = self.begin_turn();
        item.audio_ms = audio_ms;
        announce(socket, &item.id, self.previous_item.as_deref()).await?;
        self.previous_item = Some(item.id.clone());
        match &mut self.recognizer {
            Some(recognizer) => {
                recognizer.cut(Cut::Item(item));
                Ok(())
            }
            // A change of settings has waited for the text of all its audio.
            None => complete(socket, &item, self.settings.has_logprobs()).await,
        }
    }

    /// Begins a turn here; returns the one before.
    pub(super) fn begin_turn(&mut self) -> Item {
        self.buffer_from_ms = self.taken_ms();
        self.gate.iter_mut().for_each(SpeechGate::reset);
        std::mem::replace(&mut self.current, Item::new())
    }

    /// Takes what the engine has recognised.
    pub(super) async fn recognised(
        &mut self,
        socket: &Socket,
        output: Option<auricle_engine::Result<LiveOutput>>,
    ) -> Step {
        match output {
            Some(Ok(LiveOutput::Event(event))) => self.take_text(socket, event).await,
            Some(Ok(LiveOutput::Settled)) => {
                match self.recognizer.as_mut().and_then(|recognizer| recognizer.cuts.pop_front()) {
                    Some(Cut::Item(item)) => complete(socket, &item, self.settings.has_logprobs()).await,
                    _ => Ok(()),
                }
            }
            Some(Ok(LiveOutput::Judged(probability))) => {
                let is_over = self.gate.as_mut().is_some_and(|gate| gate.judged(probability));
                if is_over && self.ending.is_none() { self.stop_speech(socket).await } else { Ok(()) }
            }
            Some(Err(error)) => self.fail(socket, &error).await,
            None => match self.ending {
                Some(close) => {
                    for cut in self.recognizer.take().into_iter().flat_map(|recognizer| recognizer.cuts) {
                        if let Cut::Item(item) = cut {
                            complete(socket, &item, self.settings.has_logprobs()).await?;
                        }
                    }
                    Err(End::Close(close))
                }
                None => self.fail(socket, &"the session with the engine ended").await,
            },
        }
    }

    async fn take_text(&mut self, socket: &Socket, event: LiveEvent) -> Step {
        // Text that a detector's threshold has left out of all turns is dropped.
        let is_open = self.gate.as_ref().is_none_or(SpeechGate::is_speaking);
        let item = match self.recognizer.as_mut().and_then(|recognizer| recognizer.cuts.front_mut()) {
            Some(Cut::Item(item)) => item,
            None | Some(Cut::Part) if is_open => &mut self.current,
            _ => return Ok(()),
        };
        match event {
            LiveEvent::Partial(caption) if item.has(&caption) => {
                if let Some(delta) = item.partial(&caption.text) {
                    let event =
                        ServerEvent::Delta { item_id: &item.id, content_index: 0, delta: &delta.text, logprobs: None };
                    // A client that reads slowly gets these words with later ones.
                    if socket.try_send(ServerMessage::Text(event.to_json())) {
                        item.sent(delta);
                    }
                }
                Ok(())
            }
            LiveEvent::Formatted(caption) if item.has(&caption) => match item.formatted(caption) {
                Some(delta) => {
                    let event =
                        ServerEvent::Delta { item_id: &item.id, content_index: 0, delta: &delta, logprobs: None };
                    send(socket, &event).await
                }
                None => Ok(()),
            },
            // The formatted text replaces the final one within moments.
            _ => Ok(()),
        }
    }
}

/// Reports that a turn is an item of the conversation.
async fn announce(socket: &Socket, item_id: &str, previous_item_id: Option<&str>) -> Step {
    let item = ItemObject::new(item_id);
    send(socket, &ServerEvent::Committed { previous_item_id, item_id }).await?;
    send(socket, &ServerEvent::ItemAdded { previous_item_id, item }).await?;
    send(socket, &ServerEvent::ItemDone { previous_item_id, item }).await
}

/// Sends the transcript of a turn.
async fn complete(socket: &Socket, item: &Item, has_logprobs: bool) -> Step {
    let event = ServerEvent::Completed {
        item_id: &item.id,
        content_index: 0,
        transcript: &item.transcript,
        logprobs: has_logprobs.then(|| item.words.iter().map(LogProb::from).collect()),
        usage: Usage::of_ms(item.audio_ms),
    };
    send(socket, &event).await
}
