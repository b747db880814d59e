//! A session: passes audio of the client to the engine, and events of the engine to the client.

use std::fmt::Display;
use std::future::ready;
use std::sync::Arc;

use auricle_engine::Engine;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::frames::{ClientEvent, Fault, ServerEvent, SessionObject};
use super::item::Item;
use super::recognizer::{Cut, Recognizer, caught_up, next};
use super::settings::Settings;
use super::speech_gate::SpeechGate;
use crate::clock;
use crate::live::LiveState;
use crate::live::codec::Decoder;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// Audio that a client may be ahead of the engine. Above it the socket is not read.
const MAX_AHEAD_MS: u64 = 60_000;
/// The longest audio of an event, in bytes.
const MAX_APPEND_BYTES: usize = 15 << 20;
/// The shortest audio that can be committed, ms.
pub const MIN_COMMIT_MS: u64 = 100;

/// The end of a session.
pub enum End {
    /// The client is gone.
    Gone,
    /// The socket is to be closed.
    Close(CloseFrame),
}

pub type Step = Result<(), End>;

/// A session that may begin.
pub struct Opening {
    pub state: Arc<LiveState>,
    pub engine: Engine,
    pub settings: Settings,
}

pub struct Session {
    pub(super) state: Arc<LiveState>,
    pub(super) engine: Engine,
    /// As it is metered.
    id: String,
    pub(super) settings: Settings,
    began: Instant,
    /// s since 1970
    expires_at: i64,
    /// None before the first audio, and after a change of what it depends on.
    pub(super) recognizer: Option<Recognizer>,
    pub(super) gate: Option<SpeechGate>,
    decoder: Decoder,
    /// Samples that wait to be passed on, the first of them passed on already.
    pub(super) waiting: Vec<f32>,
    pub(super) passed: usize,
    /// Audio that was passed on in this session, µs: rates may change.
    pub(super) taken_us: u64,
    /// The beginning of the audio that is not committed, ms.
    pub(super) buffer_from_ms: u64,
    /// The turn that is not committed.
    pub(super) current: Item,
    pub(super) previous_item: Option<String>,
    last_audio: Instant,
    /// How to close the socket once all results are sent.
    pub(super) ending: Option<CloseFrame>,
}

pub async fn send(socket: &Socket, event: &ServerEvent<'_>) -> Step {
    let taken = socket.send(ServerMessage::Text(event.to_json())).await;
    if taken { Ok(()) } else { Err(End::Gone) }
}

/// Reports a fault.
pub async fn refuse(socket: &Socket, fault: Fault) -> Step {
    send(socket, &ServerEvent::Error { error: &fault }).await
}

/// Ends a session whose turns no detector can find.
pub async fn check_detector(socket: &Socket, detects_turns: bool, has_detector: bool) -> Step {
    if has_detector || !detects_turns {
        return Ok(());
    }
    let message = "The service has no speech detector: set `turn_detection` to null, and commit turns.";
    refuse(socket, Fault::service("no_speech_detector", message)).await?;
    Err(End::Close((1011, "There is no speech detector.")))
}

impl Session {
    pub fn new(opening: Opening, id: &str) -> Self {
        let Opening { state, engine, settings } = opening;
        let longest_ms = i64::try_from(state.settings.max_duration.as_millis()).unwrap_or(i64::MAX);
        let now = Instant::now();
        Self {
            gate: settings.audio.input.turn_detection.clone().map(SpeechGate::new),
            decoder: Decoder::new(settings.audio.input.format.audio()),
            expires_at: clock::now_ms().saturating_add(longest_ms) / 1000,
            state,
            engine,
            id: id.to_owned(),
            settings,
            began: now,
            recognizer: None,
            waiting: Vec::new(),
            passed: 0,
            taken_us: 0,
            buffer_from_ms: 0,
            current: Item::new(),
            previous_item: None,
            last_audio: now,
            ending: None,
        }
    }

    fn object(&self) -> SessionObject<'_> {
        SessionObject::new(&self.id, self.expires_at, &self.settings)
    }

    pub(super) fn taken_ms(&self) -> u64 {
        self.taken_us / 1000
    }

    /// Runs the session to its end. Returns how to close the socket; none if the client is gone.
    pub async fn run(mut self, socket: &mut Socket) -> Option<CloseFrame> {
        let mut step = send(socket, &ServerEvent::Created { session: self.object() }).await;
        while step.is_ok() {
            step = self.step(socket).await;
        }
        match step {
            Err(End::Close(close)) => Some(close),
            _ => None,
        }
    }

    async fn step(&mut self, socket: &mut Socket) -> Step {
        let settings = &self.state.settings;
        let (deadline, idle) = (self.began + settings.max_duration, settings.idle_timeout);
        let stopping = self.state.stopping.clone();
        let listening = self.ending.is_none();
        let recognizer = self.recognizer.as_mut().filter(|_| listening);
        let ahead = recognizer.as_ref().is_some_and(|found| found.input.waiting_ms() >= MAX_AHEAD_MS);
        let refused = recognizer.is_some_and(|found| found.input.is_refused());
        // Short of the limit only the queue has to have room.
        let ahead_ms = if ahead { MAX_AHEAD_MS - 1 } else { u64::MAX };
        let has_waiting = listening && self.passed < self.waiting.len();
        let (input, events) = match &mut self.recognizer {
            Some(Recognizer { input, events, .. }) => (Some(input), Some(events)),
            None => (None, None),
        };
        tokio::select! {
            output = next(events) => {
                let began = Instant::now();
                let step = self.recognised(socket, output).await;
                // While the service waits for the client, it does not read audio.
                self.last_audio += began.elapsed();
                step
            }
            message = socket.next(), if !ahead && !has_waiting => self.received(socket, message).await,
            () = ready(()), if has_waiting && !ahead => self.pass_on(socket).await,
            () = caught_up(input, ahead_ms), if ahead || refused => {
                self.last_audio = Instant::now();
                Ok(())
            }
            () = sleep_until(self.last_audio + idle), if listening && !ahead && !has_waiting => {
                let fault = Fault::invalid("session_idle", "No audio came for too long.");
                refuse(socket, fault).await?;
                Err(End::Close((1000, "No audio came.")))
            }
            () = sleep_until(deadline), if listening => {
                let fault = Fault::invalid("session_expired", "The session has reached its longest time. Open another one.");
                self.end(socket, fault, (1000, "The session has reached its longest time.")).await
            }
            () = stopping.cancelled(), if listening => {
                let fault = Fault::service("service_stopping", "The service is stopping. Connect again.");
                self.end(socket, fault, (1001, "The service is stopping.")).await
            }
        }
    }

    /// Reports why the session ends, and ends the audio. The results that are awaited are sent first.
    async fn end(&mut self, socket: &Socket, fault: Fault, close: CloseFrame) -> Step {
        refuse(socket, fault).await?;
        self.ending = Some(close);
        let is_speaking = self.gate.as_ref().is_none_or(SpeechGate::is_speaking);
        if is_speaking && self.taken_ms() >= self.buffer_from_ms + MIN_COMMIT_MS {
            self.commit(socket).await?;
        }
        match &mut self.recognizer {
            Some(recognizer) => match recognizer.input.finish() {
                Ok(()) => Ok(()),
                Err(error) => self.fail(socket, &error).await,
            },
            None => Err(End::Close(close)),
        }
    }

    /// Reports a failure of the engine, which ends the session.
    pub(super) async fn fail(&mut self, socket: &Socket, error: &(dyn Display + Sync)) -> Step {
        tracing::error!(%error, "a realtime session failed");
        let fault = Fault::service("transcription_failed", "Transcription failed, and the session is ended.");
        for cut in self.recognizer.take().into_iter().flat_map(|recognizer| recognizer.cuts) {
            if let Cut::Item(item) = cut {
                send(socket, &ServerEvent::Failed { item_id: &item.id, content_index: 0, error: &fault }).await?;
            }
        }
        refuse(socket, fault).await?;
        Err(End::Close((1011, "The session failed.")))
    }

    async fn received(&mut self, socket: &Socket, message: ClientMessage) -> Step {
        match message {
            ClientMessage::Text(_) | ClientMessage::Binary(_) | ClientMessage::Audio(_) if self.ending.is_some() => {
                Ok(())
            }
            ClientMessage::Text(text) => {
                let (event_id, event) = ClientEvent::parse(&text);
                // The text of minutes of audio need not stay.
                drop(text);
                let done = match event {
                    Ok(event) => self.take(socket, event).await?,
                    Err(fault) => Err(fault),
                };
                match done {
                    Ok(()) => Ok(()),
                    Err(fault) => refuse(socket, fault.of_event(event_id)).await,
                }
            }
            ClientMessage::Binary(_) => refuse(socket, Fault::binary()).await,
            ClientMessage::Audio(samples) => {
                self.hear(samples);
                Ok(())
            }
            ClientMessage::Ping(payload) => {
                let began = Instant::now();
                socket.send(ServerMessage::Pong(payload)).await;
                self.last_audio += began.elapsed();
                Ok(())
            }
            // A close is answered with the client's code.
            ClientMessage::Close(code) => Err(End::Close((code.unwrap_or(1000), ""))),
            ClientMessage::Disconnected => Err(End::Gone),
            ClientMessage::ProtocolError(code) => Err(End::Close((code, ""))),
        }
    }

    /// Takes an event of the client; returns its fault, if it has one.
    async fn take(&mut self, socket: &Socket, event: ClientEvent) -> Result<Result<(), Fault>, End> {
        match event {
            ClientEvent::Update(session) => return self.update(socket, session).await,
            ClientEvent::Append(audio) => return Ok(self.append(&audio)),
            ClientEvent::Commit => {
                let buffered = self.taken_ms().saturating_sub(self.buffer_from_ms);
                if buffered < MIN_COMMIT_MS {
                    return Ok(Err(Fault::short_buffer(buffered, MIN_COMMIT_MS)));
                }
                if let Some(Err(error)) = self.recognizer.as_mut().map(Recognizer::complete_chunk) {
                    self.fail(socket, &error).await?;
                }
                self.commit(socket).await?;
            }
            ClientEvent::Clear => {
                if let Some(recognizer) = &mut self.recognizer {
                    recognizer.cut(Cut::Cleared);
                }
                self.begin_turn();
                send(socket, &ServerEvent::Cleared).await?;
            }
        }
        Ok(Ok(()))
    }

    fn append(&mut self, audio: &str) -> Result<(), Fault> {
        if audio.len() / 4 * 3 > MAX_APPEND_BYTES {
            let message = "`audio` has more than 15 MiB: send it in several events.";
            return Err(Fault::invalid("string_above_max_length", message).about("audio"));
        }
        let samples = self.decoder.decode(audio).ok_or_else(|| {
            Fault::invalid("invalid_value", "`audio` is not base64 of audio in the session's format.").about("audio")
        })?;
        self.hear(samples);
        Ok(())
    }

    fn hear(&mut self, samples: Vec<f32>) {
        self.last_audio = Instant::now();
        (self.waiting, self.passed) = (samples, 0);
    }

    async fn update(&mut self, socket: &Socket, session: Value) -> Result<Result<(), Fault>, End> {
        let settings = match self.settings.updated(session, &self.state) {
            Ok(settings) => settings,
            Err(error) => return Ok(Err(Fault::of_session(error))),
        };
        if socket.has_track() && !settings.audio.input.format.is_of_tracks() {
            return Ok(Err(Fault::format_of_call()));
        }
        let model = settings.audio.input.transcription.live_model();
        if model != self.settings.audio.input.transcription.live_model() {
            if self.taken_us > 0 {
                let message = "The model cannot change once audio was sent, because it sets the price of the session.";
                return Ok(Err(Fault::invalid("model_change_not_allowed", message).about("session")));
            }
            if let Err(error) = self.state.metering.change_model(&self.id.clone().into(), model).await {
                tracing::error!(%error, "the model of a realtime session could not be recorded");
                return Ok(Err(Fault::service("unavailable", "The model could not be changed now. Try again.")));
            }
        }
        if !settings.has_same_recognition(&self.settings) {
            self.leave_recognizer(socket).await?;
        }
        let (new, old) = (&settings.audio.input, &self.settings.audio.input);
        if new.format != old.format {
            self.decoder = Decoder::new(new.format.audio());
        }
        match (&mut self.gate, new.turn_detection.clone()) {
            (Some(gate), Some(rules)) => gate.set_rules(rules),
            (gate, rules) => *gate = rules.map(SpeechGate::new),
        }
        self.settings = settings;
        let found = self.recognizer.as_ref().map(|found| (found.input.has_detector(), found.input.has_turn_detector()));
        if let Some((has_detector, has_turn_detector)) = found {
            check_detector(socket, self.gate.is_some(), has_detector).await?;
            self.gate.iter_mut().for_each(|gate| gate.can_ask = has_turn_detector);
        }
        send(socket, &ServerEvent::Updated { session: self.object() }).await?;
        Ok(Ok(()))
    }

    /// Ends the session with the engine once it has sent the text of all audio so far. Another one begins with the next audio.
    async fn leave_recognizer(&mut self, socket: &Socket) -> Step {
        if let Some(recognizer) = &mut self.recognizer {
            recognizer.cut(Cut::Part);
        }
        while let Some(recognizer) = self.recognizer.as_mut().filter(|recognizer| !recognizer.cuts.is_empty()) {
            let is_refused = recognizer.input.is_refused();
            let Recognizer { input, events, .. } = recognizer;
            tokio::select! {
                output = events.next_output() => self.recognised(socket, output).await?,
                () = input.caught_up(u64::MAX), if is_refused => {}
            }
        }
        self.recognizer = None;
        self.current.words_from_ms = 0;
        self.gate.iter_mut().for_each(SpeechGate::forget_questions);
        Ok(())
    }
}
