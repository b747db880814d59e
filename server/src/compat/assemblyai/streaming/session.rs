//! A session: passes audio of the client to the engine, and events of the engine to the client.

use std::fmt::Display;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{Engine, Error, LiveEvent, LiveEvents, LiveInput, LiveOutput};
use tokio::time::{Instant, sleep_until};

use super::frames::{ClientFrame, ServerFrame, Stage, Turn, code};
use super::pauses::{CHUNK_MS, Change, Pauses};
use super::settings::Settings;
use crate::clock;
use crate::http::body::Fields;
use crate::live::LiveState;
use crate::live::codec::Decoder;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// Audio that a client may be ahead of the engine. Above it the socket is not read.
const MAX_AHEAD_MS: u64 = 60_000;

/// The end of a session.
enum End {
    /// The client is gone.
    Gone,
    /// The socket is to be closed.
    Close(CloseFrame),
}

type Step = Result<(), End>;

/// Why no more audio is taken. The results that are awaited are sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Terminated,
    /// The session has reached its longest time.
    Expired,
    /// The service stops.
    GoingAway,
}

/// A session with the engine.
struct Recognizer {
    input: LiveInput,
    events: LiveEvents,
    /// Audio of the session before it, ms.
    from_ms: u64,
    /// Ends of turns that are not settled.
    cuts: usize,
}

impl Recognizer {
    fn cut(&mut self) {
        self.cuts += 1;
        self.input.end_turn();
    }
}

pub struct Session {
    state: Arc<LiveState>,
    engine: Engine,
    settings: Settings,
    decoder: Decoder,
    began: Instant,
    longest: Duration,
    /// None before the first audio, and after a change of what it depends on.
    recognizer: Option<Recognizer>,
    pauses: Pauses,
    /// Audio that was passed on, samples.
    samples: u64,
    /// The start of the turn's speech, ms.
    turn_from_ms: u64,
    /// The confidence that the speaker has finished, where it was judged.
    confidence: Option<f32>,
    /// Turns that have ended.
    turns: u64,
    last_sign: Instant,
    ending: Option<Ending>,
}

async fn send(socket: &Socket, frame: &ServerFrame<'_>) -> Step {
    let taken = socket.send(ServerMessage::Text(frame.to_json())).await;
    if taken { Ok(()) } else { Err(End::Gone) }
}

/// Reports a fault, which ends the session.
async fn fault(socket: &Socket, error_code: u16, error: &str) -> Step {
    send(socket, &ServerFrame::Error { error_code, error }).await?;
    Err(End::Close((error_code, code::reason(error_code))))
}

async fn fail(socket: &Socket, error: &(dyn Display + Sync)) -> Step {
    tracing::error!(%error, "a live session failed");
    fault(socket, code::SERVER, "Transcription failed, and the session is ended.").await
}

/// The next output; none ever comes without a session.
async fn next(events: Option<&mut LiveEvents>) -> Option<auricle_engine::Result<LiveOutput>> {
    match events {
        Some(events) => events.next_output().await,
        None => pending().await,
    }
}

async fn caught_up(input: Option<&mut LiveInput>, ahead_ms: u64) {
    match input {
        Some(input) => input.caught_up(ahead_ms).await,
        None => pending().await,
    }
}

impl Session {
    pub fn new(state: Arc<LiveState>, engine: Engine, settings: Settings, longest: Duration) -> Self {
        let now = Instant::now();
        Self {
            decoder: Decoder::new(settings.format),
            state,
            engine,
            settings,
            began: now,
            longest,
            recognizer: None,
            pauses: Pauses::default(),
            samples: 0,
            turn_from_ms: 0,
            confidence: None,
            turns: 0,
            last_sign: now,
            ending: None,
        }
    }

    fn taken_ms(&self) -> u64 {
        self.samples * 1000 / u64::from(self.settings.format.rate)
    }

    /// Runs the session to its end. Returns how to close the socket; none if the client is gone.
    pub async fn run(mut self, socket: &mut Socket, id: &str) -> Option<CloseFrame> {
        let longest_s = i64::try_from(self.longest.as_secs()).unwrap_or(i64::MAX);
        let expires_at = (clock::now_ms() / 1000).saturating_add(longest_s);
        // Clients wait for this a second, and the first session may have to load the model.
        let mut step = send(socket, &ServerFrame::Begin { id, expires_at }).await;
        while step.is_ok() {
            step = self.step(socket).await;
        }
        match step {
            Err(End::Close(close)) => Some(close),
            _ => None,
        }
    }

    async fn step(&mut self, socket: &mut Socket) -> Step {
        let deadline = self.began + self.longest;
        let idle = self.settings.idle.unwrap_or(Duration::MAX).min(self.state.settings.idle_timeout);
        let stopping = self.state.stopping.clone();
        let listening = self.ending.is_none();
        let recognizer = self.recognizer.as_mut().filter(|_| listening);
        let ahead = recognizer.as_ref().is_some_and(|found| found.input.waiting_ms() >= MAX_AHEAD_MS);
        let refused = recognizer.is_some_and(|found| found.input.is_refused());
        // Short of the limit only the queue has to have room.
        let ahead_ms = if ahead { MAX_AHEAD_MS - 1 } else { u64::MAX };
        let (input, events) = match &mut self.recognizer {
            Some(Recognizer { input, events, .. }) => (Some(input), Some(events)),
            None => (None, None),
        };
        tokio::select! {
            output = next(events) => {
                let began = Instant::now();
                let step = self.recognised(socket, output).await;
                // While the service waits for the client, it does not read audio.
                self.last_sign += began.elapsed();
                step
            }
            message = socket.next(), if !ahead => self.received(socket, message).await,
            () = caught_up(input, ahead_ms), if ahead || refused => {
                self.last_sign = Instant::now();
                Ok(())
            }
            () = sleep_until(self.last_sign + idle), if listening && !ahead => {
                fault(socket, code::IDLE, "No audio came for too long.").await
            }
            () = sleep_until(deadline), if listening => self.end(socket, Ending::Expired).await,
            () = stopping.cancelled(), if listening => self.end(socket, Ending::GoingAway).await,
        }
    }

    /// Ends the audio.
    async fn end(&mut self, socket: &Socket, ending: Ending) -> Step {
        self.ending = Some(ending);
        match &mut self.recognizer {
            Some(recognizer) => match recognizer.input.finish() {
                Ok(()) => Ok(()),
                Err(error) => fail(socket, &error).await,
            },
            None => self.ended(socket, ending).await,
        }
    }

    /// Reports the end, after all results.
    async fn ended(&mut self, socket: &Socket, ending: Ending) -> Step {
        match ending {
            Ending::Terminated => {
                let frame = ServerFrame::Termination {
                    audio_duration_seconds: self.taken_ms() / 1000,
                    session_duration_seconds: self.began.elapsed().as_secs(),
                };
                send(socket, &frame).await?;
                Err(End::Close((1000, "")))
            }
            Ending::Expired => {
                fault(socket, code::EXPIRED, "The session has reached its longest time. Open another one.").await
            }
            Ending::GoingAway => {
                let error = "The service is stopping. Connect again.";
                send(socket, &ServerFrame::Error { error_code: code::UNAVAILABLE, error }).await?;
                Err(End::Close((1001, "The service is stopping.")))
            }
        }
    }

    async fn received(&mut self, socket: &Socket, message: ClientMessage) -> Step {
        match message {
            ClientMessage::Text(_) | ClientMessage::Binary(_) if self.ending.is_some() => Ok(()),
            ClientMessage::Audio(_) => Ok(()),
            ClientMessage::Binary(bytes) => {
                self.last_sign = Instant::now();
                let samples = self.decoder.samples(&bytes);
                self.pass_on(socket, &samples).await
            }
            ClientMessage::Text(text) => match ClientFrame::parse(&text) {
                Ok(frame) => self.take(socket, frame).await,
                Err(error) => fault(socket, code::INPUT, &error).await,
            },
            ClientMessage::Ping(payload) => {
                let began = Instant::now();
                socket.send(ServerMessage::Pong(payload)).await;
                self.last_sign += began.elapsed();
                Ok(())
            }
            // A close is answered with the client's code.
            ClientMessage::Close(code) => Err(End::Close((code.unwrap_or(1000), ""))),
            ClientMessage::Disconnected => Err(End::Gone),
            ClientMessage::ProtocolError(code) => Err(End::Close((code, ""))),
        }
    }

    async fn take(&mut self, socket: &Socket, frame: ClientFrame) -> Step {
        match frame {
            ClientFrame::Terminate => return self.end(socket, Ending::Terminated).await,
            ClientFrame::KeepAlive => self.last_sign = Instant::now(),
            ClientFrame::ForceEndpoint => self.cut(),
            ClientFrame::UpdateConfiguration(fields) => {
                let mut settings = self.settings.clone();
                let updated =
                    Fields::of("UpdateConfiguration", fields).and_then(|mut fields| settings.update(&mut fields));
                if let Err(error) = updated {
                    return fault(socket, code::INPUT, &error.message).await;
                }
                let has_detector = self.recognizer.as_ref().is_some_and(|found| found.input.has_detector());
                if !settings.has_same_recognition(&self.settings, has_detector) {
                    self.leave_recognizer(socket).await?;
                }
                self.settings = settings;
            }
        }
        Ok(())
    }

    /// Ends the turn here.
    fn cut(&mut self) {
        self.pauses.end_turn();
        if let Some(recognizer) = &mut self.recognizer {
            recognizer.cut();
        }
    }

    /// Passes audio on, in pieces as long as a chunk of the detector: a turn ends with a push.
    async fn pass_on(&mut self, socket: &Socket, samples: &[f32]) -> Step {
        if self.recognizer.is_none() {
            self.open_recognizer(socket).await?;
        }
        let chunk = (self.settings.format.rate * CHUNK_MS / 1000).max(1) as usize;
        for samples in samples.chunks(chunk) {
            let Some(recognizer) = &mut self.recognizer else { break };
            self.samples += samples.len() as u64;
            match recognizer.input.push_and_detect(samples) {
                Ok(probabilities) => self.follow(socket, &probabilities).await?,
                Err(error) => return fail(socket, &error).await,
            }
        }
        Ok(())
    }

    async fn open_recognizer(&mut self, socket: &Socket) -> Step {
        match self.engine.listen(&self.settings.options(&self.state)).await {
            Ok((input, events)) => {
                self.recognizer = Some(Recognizer { input, events, from_ms: self.taken_ms(), cuts: 0 });
                Ok(())
            }
            Err(Error::Busy(_)) => {
                fault(socket, code::UNAVAILABLE, "There is no room for another session now. Try again later.").await
            }
            Err(Error::Language(reason)) => fault(socket, code::INPUT, &reason).await,
            Err(error) => fail(socket, &error).await,
        }
    }

    /// Follows the speech of chunks of the detector.
    async fn follow(&mut self, socket: &Socket, probabilities: &[f32]) -> Step {
        for probability in probabilities {
            match self.pauses.push(*probability, &self.settings.rules) {
                None => {}
                Some(Change::Started { ago_ms, probability }) => {
                    self.turn_from_ms = self.taken_ms().saturating_sub(ago_ms.into());
                    let frame = ServerFrame::SpeechStarted { timestamp: self.turn_from_ms, confidence: probability };
                    send(socket, &frame).await?;
                }
                Some(Change::Ask) => {
                    let turn_ms = self.taken_ms().saturating_sub(self.turn_from_ms);
                    if self.recognizer.as_mut().is_some_and(|found| found.input.judge_turn(turn_ms)) {
                        self.pauses.asked();
                    }
                }
                Some(Change::Stopped) => self.cut(),
            }
        }
        Ok(())
    }

    /// Takes what the engine has recognised.
    async fn recognised(&mut self, socket: &Socket, output: Option<auricle_engine::Result<LiveOutput>>) -> Step {
        match output {
            Some(Ok(LiveOutput::Event(event))) => self.take_text(socket, event).await,
            Some(Ok(LiveOutput::Settled)) => {
                self.recognizer.iter_mut().for_each(|found| found.cuts = found.cuts.saturating_sub(1));
                Ok(())
            }
            Some(Ok(LiveOutput::Judged(confidence))) => {
                self.confidence = Some(confidence);
                if self.pauses.judged(confidence, &self.settings.rules) && self.ending.is_none() {
                    self.cut();
                }
                Ok(())
            }
            Some(Err(error)) => fail(socket, &error).await,
            None => match self.ending {
                Some(ending) => self.ended(socket, ending).await,
                None => fail(socket, &"the session with the engine ended").await,
            },
        }
    }

    async fn take_text(&mut self, socket: &Socket, event: LiveEvent) -> Step {
        let from_ms = self.recognizer.as_ref().map_or(0, |found| found.from_ms);
        match event {
            LiveEvent::Partial(caption) => {
                let turn = Turn::new(&caption, Stage::Partial, self.turns, 0.0, from_ms);
                let frame = ServerFrame::Turn(turn);
                // The next partial replaces this one; an empty one has no successor.
                if caption.text.is_empty() {
                    return send(socket, &frame).await;
                }
                let _ = socket.try_send(ServerMessage::Text(frame.to_json()));
                Ok(())
            }
            LiveEvent::Final(caption) => {
                // Silence has ended a turn that was not judged.
                let confidence = self.confidence.unwrap_or(1.0);
                let turn = Turn::new(&caption, Stage::Final, self.turns, confidence, from_ms);
                self.turns += 1;
                send(socket, &ServerFrame::Turn(turn)).await
            }
            LiveEvent::Formatted(caption) => {
                let confidence = self.confidence.take().unwrap_or(1.0);
                if !self.settings.formats_turns {
                    return Ok(());
                }
                let order = self.turns.saturating_sub(1);
                send(socket, &ServerFrame::Turn(Turn::new(&caption, Stage::Formatted, order, confidence, from_ms)))
                    .await
            }
        }
    }

    /// Ends the session with the engine once it has sent the text of all audio so far. Another one begins with the next audio.
    async fn leave_recognizer(&mut self, socket: &Socket) -> Step {
        self.cut();
        while let Some(recognizer) = self.recognizer.as_mut().filter(|found| found.cuts > 0) {
            let is_refused = recognizer.input.is_refused();
            let Recognizer { input, events, .. } = recognizer;
            tokio::select! {
                output = events.next_output() => self.recognised(socket, output).await?,
                () = input.caught_up(u64::MAX), if is_refused => {}
            }
        }
        self.recognizer = None;
        self.pauses.forget_questions();
        Ok(())
    }
}
