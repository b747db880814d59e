//! A call from its first frame to its end.

use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{Engine, Error};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::call::{Call, WRONG_FRAME};
use super::frame::{CallFrame, RATE, Start};
use super::plan::Plan;
use super::provider::Provider;
use super::record::{Record, SharedRecord};
use super::transcription::Transcription;
use crate::auth::session_token::AgentClaims;
use crate::live::AgentState;
use crate::live::agent::driver::{Driver, Opening};
use crate::live::agent::settings::Settings;
use crate::live::agent::{session, voice};
use crate::live::codec::{AudioFormat, Decoder, Encoding};
use crate::live::screen::Screen;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// The frame `start` must come within this time.
const START_TIMEOUT: Duration = Duration::from_secs(10);

const NOT_STARTED: CloseFrame = (1011, "The session could not be started.");

/// Goes behind the prompt of the user.
const KEYS: &str = "Keys that the caller presses on the telephone come as results of the tool dtmf.";

/// A call that has a place.
pub struct Session {
    pub provider: Provider,
    pub state: Arc<AgentState>,
    pub engine: Engine,
    pub claims: AgentClaims,
    pub plan: Arc<Plan>,
    pub record: SharedRecord,
    /// The runtime with sockets, for the language model.
    pub runtime: Handle,
}

impl Session {
    /// Returns how to close the socket; none if the provider is gone.
    pub async fn run(self, socket: &mut Socket) -> Option<CloseFrame> {
        let start = match self.start(socket).await {
            Ok(start) => start,
            Err(close) => return close,
        };
        let record = self.record.clone();
        record.begin(Record::new(&start.call, self.plan.session.is_some(), self.plan.options.pii_redaction));
        let close = match self.plan.session.clone() {
            Some(settings) => self.talk(start, settings, socket).await,
            None => self.transcribe(&start, socket).await,
        };
        record.write(|record| {
            record.end();
        });
        close
    }

    /// Waits for the stream's `start`.
    async fn start(&self, socket: &mut Socket) -> Result<Start, Option<CloseFrame>> {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            let message = tokio::select! {
                message = socket.next() => message,
                () = sleep_until(until) => return Err(Some((WRONG_FRAME, "No start came within 10 s."))),
                () = self.state.live.stopping.cancelled() => return Err(Some((1001, "The service is stopping."))),
            };
            match message {
                ClientMessage::Text(text) => match self.provider.parse(&text) {
                    Ok(CallFrame::Start(start)) => return Ok(start),
                    Ok(CallFrame::Stop) => return Err(Some((1000, ""))),
                    Ok(_) => {}
                    Err(fault) => return Err(Some((WRONG_FRAME, fault))),
                },
                ClientMessage::Binary(_) | ClientMessage::Audio(_) => {}
                ClientMessage::Ping(payload) => {
                    socket.send(ServerMessage::Pong(payload)).await;
                }
                ClientMessage::Close(code) => return Err(Some((code.unwrap_or(1000), ""))),
                ClientMessage::Disconnected => return Err(None),
                ClientMessage::ProtocolError(code) => return Err(Some((code, ""))),
            }
        }
    }

    async fn talk(self, start: Start, settings: Value, socket: &mut Socket) -> Option<CloseFrame> {
        let Self { provider, state, engine, claims, record, runtime, .. } = self;
        let opening = Opening { state, engine, claims, runtime };
        let defaults = Settings { rules: opening.rules(), ..Settings::default() };
        let settings = defaults.updated(settings, &voice::ids(&opening.engine)).await;
        let settings = match settings {
            Ok(settings) => telephone(settings, &start),
            Err(fault) => {
                record.write(|record| record.warn(fault.message));
                return Some(NOT_STARTED);
            }
        };
        match Driver::open(opening, settings).await {
            Ok(driver) => session::run(driver, Call::new(provider, start, record), socket).await,
            Err((_, message, close)) => {
                record.write(|record| record.warn(message));
                Some((close, NOT_STARTED.1))
            }
        }
    }

    async fn transcribe(self, start: &Start, socket: &mut Socket) -> Option<CloseFrame> {
        let Self { provider, state, engine, claims, plan, record, .. } = self;
        let (live, language) = (&state.live, plan.language_code.as_deref());
        let screen = match Screen::open(&engine, &plan.options, language).await {
            Ok(screen) => screen,
            Err(error) => {
                tracing::error!(%error, "the words of a call cannot be hidden");
                return Some(NOT_STARTED);
            }
        };
        let options = live.settings.asked_options(&claims.payer.model, RATE, language, &plan.options);
        let (input, events) = match engine.listen(&options).await {
            Ok(opened) => opened,
            Err(error) => {
                tracing::error!(%error, "starting the transcription of a call failed");
                record.write(|record| record.warn("The transcription could not be started.".into()));
                let code = if matches!(error, Error::Busy(_)) { 1013 } else { NOT_STARTED.0 };
                return Some((code, NOT_STARTED.1));
            }
        };
        let decoder = Decoder::new(format(start.encoding));
        let longest = Duration::from_secs(claims.max_session_duration_sec.into());
        let transcription = Transcription { provider, decoder, input, events, screen, record, longest };
        transcription.run(live, socket).await
    }
}

fn format(encoding: Encoding) -> AudioFormat {
    AudioFormat { encoding, rate: RATE }
}

/// The settings of an agent for a call: its audio, and what the language model should know of it.
fn telephone(mut settings: Settings, start: &Start) -> Settings {
    (settings.input, settings.output) = (format(start.encoding), format(Encoding::Mulaw));
    let prompt = &mut settings.system_prompt;
    if !prompt.is_empty() {
        prompt.push_str("\n\n");
    }
    prompt.push_str(KEYS);
    if !start.parameters.is_empty() {
        prompt.push_str("\n\nParameters of this call:");
    }
    for (name, value) in &start.parameters {
        prompt.push_str(&format!("\n{name}: {value}"));
    }
    settings
}
