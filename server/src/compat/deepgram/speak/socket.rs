//! `GET /v1/speak`: speech over a WebSocket. Text is spoken as it comes, and `Flush` ends a part of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{Engine, SpeakOptions, SpeechFrame, SpeechFrames, SpeechInput};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::super::common::{ENCODINGS, ModelInfo};
use super::super::parameters::Parameters;
use super::super::{identify, request_id};
use super::{Form, MAX_CHARS, Query};
use crate::api::openai::speech::SpeechState;
use crate::api::openai::speech_encoder::unavailable;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result};
use crate::live::LiveState;
use crate::live::codec::{AudioFormat, Encoder, Encoding};
use crate::live::socket::{ClientMessage, CloseFrame, MessageLimits, ServerMessage, Socket};
use crate::live::upgrade::upgrade;

/// A connection without a frame in either direction for this time is ended.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const IDLE: CloseFrame = (1011, "NET-0001: no text message came within the timeout window (https://dpgr.am/net0001)");
const FAILED: CloseFrame = (1011, "NET-0000: the session failed.");
/// Parts that may wait to be spoken.
const MAX_PARTS: usize = 1_000;

/// A frame to the client.
#[derive(Serialize)]
#[serde(tag = "type")]
enum ServerFrame<'a> {
    Metadata { request_id: &'a str, model_name: &'a str, model_version: &'a str, model_uuid: String },
    Flushed { sequence_id: u64 },
    Cleared { sequence_id: u64 },
    Warning { description: &'a str, code: &'a str },
    Error { description: &'a str, code: &'a str },
}

/// What waits to be spoken.
enum Part {
    Text(String),
    Flush,
}

/// Speech that is being made.
struct Speech {
    /// None once its end was asked for.
    input: Option<SpeechInput>,
    frames: SpeechFrames,
    encoder: Encoder,
}

struct Session {
    engine: Engine,
    options: SpeakOptions,
    format: AudioFormat,
    speech: Option<Speech>,
    waiting: VecDeque<Part>,
    /// Characters of the text that waits.
    waiting_chars: usize,
    flushes: u64,
    began: Instant,
    last_frame: Instant,
    closing: Option<CloseFrame>,
}

/// The end of a session: how to close the socket; none if the client is gone.
type End = Option<CloseFrame>;
type Step = std::result::Result<(), End>;

/// `GET /v1/speak`: upgrades the connection.
pub async fn connect(live: Arc<LiveState>, state: Arc<SpeechState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let query = Query::read(Parameters::of(request.uri())?, |parameters| {
        let encoding = parameters.choice("encoding", &ENCODINGS)?.unwrap_or(Encoding::Pcm);
        parameters.choice("container", &[("none", ())])?;
        Form::samples(parameters, encoding, false)
    })?;
    let options = query.options(&state)?.account(account.as_str());
    let Form::Samples { encoding, rate, .. } = query.form else {
        return Err(ApiError::invalid("`encoding` must be linear16, mulaw or alaw."));
    };
    let busy = || ApiError::new(hyper::StatusCode::TOO_MANY_REQUESTS, "unavailable", "There is no room now.");
    let place = state.places.try_take(&account).ok_or_else(busy)?;
    let engine = state.engine.clone().ok_or_else(|| unavailable("This process does not speak."))?;
    let session = Session {
        engine,
        options,
        format: AudioFormat { encoding, rate },
        speech: None,
        waiting: VecDeque::new(),
        waiting_chars: 0,
        flushes: 0,
        began: Instant::now(),
        last_frame: Instant::now(),
        closing: None,
    };
    let id = request_id();
    let named = id.clone();
    let model = query.model.unwrap_or_else(|| session.options.voice.clone().unwrap_or_else(|| "default".into()));
    let connections = live.connections.clone();
    let mut response =
        upgrade(request.into_request(), &connections, MessageLimits::SHORT, |mut socket, _| async move {
            let end = session.run(&live, &mut socket, &id, &model).await;
            if let Some((code, reason)) = end {
                socket.close(code, reason).await;
            }
            drop(place);
        })?;
    identify(&mut response, &named);
    Ok(response)
}

async fn send(socket: &Socket, frame: &ServerFrame<'_>) -> Step {
    // Serialising strings and numbers does not fail.
    let text = serde_json::to_string(frame).unwrap_or_default();
    if socket.send(ServerMessage::Text(text)).await { Ok(()) } else { Err(None) }
}

async fn warn(socket: &Socket, code: &str, description: &str) -> Step {
    send(socket, &ServerFrame::Warning { description, code }).await
}

/// Reports a failure of the engine, which ends the session.
async fn fail(socket: &Socket, error: auricle_engine::Error) -> End {
    tracing::error!(%error, "speech over a socket failed");
    let frame = ServerFrame::Error { description: "The speech could not be made.", code: "NET-0000" };
    send(socket, &frame).await.err().unwrap_or(Some(FAILED))
}

/// The next frame; none ever comes without speech.
async fn next(speech: Option<&mut Speech>) -> Option<auricle_engine::Result<SpeechFrame>> {
    match speech {
        Some(speech) => speech.frames.next().await,
        None => std::future::pending().await,
    }
}

impl Session {
    async fn run(mut self, live: &LiveState, socket: &mut Socket, id: &str, model: &str) -> End {
        let info = ModelInfo::new(model);
        let model_uuid = info.uuid();
        let greeting =
            ServerFrame::Metadata { request_id: id, model_name: model, model_version: info.version, model_uuid };
        let mut step = send(socket, &greeting).await;
        while step.is_ok() {
            step = self.step(live, socket).await;
        }
        step.err().flatten()
    }

    async fn step(&mut self, live: &LiveState, socket: &mut Socket) -> Step {
        if let (None, true, Some(close)) = (&self.speech, self.waiting.is_empty(), self.closing) {
            return Err(Some(close));
        }
        let (idle, deadline) = (self.last_frame + IDLE_TIMEOUT, self.began + live.settings.max_duration);
        let listening = self.closing.is_none();
        tokio::select! {
            frame = next(self.speech.as_mut()) => self.take_frame(socket, frame).await,
            message = socket.next() => self.received(socket, message).await,
            () = sleep_until(idle), if listening => Err(Some(IDLE)),
            () = sleep_until(deadline), if listening => self.close(socket, (1000, "The session has reached its longest time.")).await,
            () = live.stopping.cancelled(), if listening => self.close(socket, (1001, "The service is stopping.")).await,
        }
    }

    async fn received(&mut self, socket: &Socket, message: ClientMessage) -> Step {
        match message {
            ClientMessage::Text(_) | ClientMessage::Binary(_) if self.closing.is_some() => Ok(()),
            ClientMessage::Audio(_) => Ok(()),
            ClientMessage::Text(text) => {
                self.last_frame = Instant::now();
                self.take(socket, &text).await
            }
            ClientMessage::Binary(_) => warn(socket, "DATA-0001", "The frames of a client are text.").await,
            ClientMessage::Ping(payload) => {
                socket.send(ServerMessage::Pong(payload)).await;
                Ok(())
            }
            // A close is answered with the client's code.
            ClientMessage::Close(code) => Err(Some((code.unwrap_or(1000), ""))),
            ClientMessage::Disconnected => Err(None),
            ClientMessage::ProtocolError(code) => Err(Some((code, ""))),
        }
    }

    /// Takes a frame of the client.
    async fn take(&mut self, socket: &Socket, text: &str) -> Step {
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        match (frame["type"].as_str(), frame["text"].as_str()) {
            (Some("Speak"), Some(text)) => self.add(socket, Part::Text(text.to_owned())).await,
            (Some("Flush"), _) => self.add(socket, Part::Flush).await,
            (Some("Clear"), _) => {
                self.speech = None;
                self.waiting.clear();
                self.waiting_chars = 0;
                send(socket, &ServerFrame::Cleared { sequence_id: self.flushes }).await
            }
            (Some("Close"), _) => self.close(socket, (1000, "")).await,
            _ => {
                let description = "The frame is none of Speak with a text, Flush, Clear and Close.";
                warn(socket, "DATA-0002", description).await
            }
        }
    }

    /// Says what waits, then closes.
    async fn close(&mut self, socket: &Socket, close: CloseFrame) -> Step {
        self.closing = Some(close);
        match self.speech.is_some() || !self.waiting.is_empty() {
            true => self.add(socket, Part::Flush).await,
            false => Ok(()),
        }
    }

    /// Adds a part behind those that wait, and begins with the first if nothing is spoken.
    async fn add(&mut self, socket: &Socket, part: Part) -> Step {
        let chars = if let Part::Text(text) = &part { text.len() } else { 0 };
        if self.waiting_chars + chars > MAX_CHARS || self.waiting.len() >= MAX_PARTS {
            return warn(socket, "TEXT_LENGTH_LIMIT_EXCEEDED", "Too much text waits: send it when more is spoken.")
                .await;
        }
        self.waiting_chars += chars;
        self.waiting.push_back(part);
        self.proceed(socket).await
    }

    /// Passes on what waits, up to the end of the part that is spoken.
    async fn proceed(&mut self, socket: &Socket) -> Step {
        while self.speech.as_ref().is_none_or(|speech| speech.input.is_some()) {
            match (self.waiting.pop_front(), &mut self.speech) {
                (None, _) => return Ok(()),
                (Some(Part::Text(text)), speech) => {
                    self.waiting_chars -= text.len();
                    let began = match speech.take() {
                        Some(speech) => Ok(speech),
                        None => begin(&self.engine, &self.options, self.format).await,
                    };
                    let pushed = began.and_then(|mut speech| {
                        speech.input.as_mut().map_or(Ok(()), |input| input.push(&text)).map(|()| speech)
                    });
                    match pushed {
                        Ok(speech) => self.speech = Some(speech),
                        Err(error) => return Err(fail(socket, error).await),
                    }
                }
                (Some(Part::Flush), Some(speech)) => speech.input.take().into_iter().for_each(SpeechInput::finish),
                (Some(Part::Flush), None) => self.flushed(socket).await?,
            }
        }
        Ok(())
    }

    async fn flushed(&mut self, socket: &Socket) -> Step {
        let sequence_id = self.flushes;
        self.flushes += 1;
        send(socket, &ServerFrame::Flushed { sequence_id }).await
    }

    /// Passes a frame of speech on, or the end of a part.
    async fn take_frame(&mut self, socket: &Socket, frame: Option<auricle_engine::Result<SpeechFrame>>) -> Step {
        let Some(speech) = &mut self.speech else { return Ok(()) };
        let (coded, is_last) = match frame {
            Some(Ok(frame)) => (speech.encoder.encode(&frame.samples), false),
            Some(Err(error)) => (Err(error), false),
            None => (self.speech.take().map_or(Ok(Vec::new()), |speech| speech.encoder.finish()), true),
        };
        match coded {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) => {
                if !socket.send(ServerMessage::Binary(Bytes::from(bytes))).await {
                    return Err(None);
                }
            }
            Err(error) => return Err(fail(socket, error).await),
        }
        self.last_frame = Instant::now();
        if is_last {
            self.flushed(socket).await?;
            self.proceed(socket).await?;
        }
        Ok(())
    }
}

async fn begin(engine: &Engine, options: &SpeakOptions, format: AudioFormat) -> auricle_engine::Result<Speech> {
    let (input, frames) = engine.speak(options).await?;
    Ok(Speech { input: Some(input), frames, encoder: Encoder::new(format)? })
}
