//! The beginning of a session: the first `session.update`, then the conversation.

use std::time::Duration;

use auricle_engine::converse::Rules;
use tokio::time::{Instant, sleep_until};

use super::ears::{Ears, recognizer};
use super::frames::{ClientFrame, Fault, ServerFrame};
use super::session::{Opening, Session, ended, send, tell};
use super::settings::Settings;
use super::voice;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// The first `session.update` must come within this time.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(10);

impl Opening {
    /// Runs the session until it ends. Returns how to close the socket; none if the client is gone.
    pub async fn run(self, socket: &mut Socket, id: &str) -> Option<CloseFrame> {
        let voices = voice::ids(&self.engine);
        let settings = match self.settings(socket, &voices).await {
            Ok(settings) => settings,
            Err(close) => return close,
        };
        let ears = match Ears::open(&self.engine, &self.state.live, &settings).await {
            Ok(ears) => ears,
            Err((code, message, close)) => {
                send(socket, &ServerFrame::Error { code, message: &message }).await;
                return Some((close, "The session could not be started."));
            }
        };
        if !send(socket, &ServerFrame::Ready { session_id: id }).await {
            return None;
        }
        Session::new(self, settings, voices, ears).relay(socket).await
    }

    /// Waits for the first valid `session.update`.
    async fn settings(&self, socket: &mut Socket, voices: &[String]) -> Result<Settings, Option<CloseFrame>> {
        let began = Instant::now();
        let defaults = Settings { rules: self.rules(), ..Settings::default() };
        loop {
            let message = tokio::select! {
                message = socket.next() => message,
                () = sleep_until(began + UPDATE_TIMEOUT) => {
                    let message = "No `session.update` came within 10 s.";
                    send(socket, &ServerFrame::Error { code: "session_not_started", message }).await;
                    return Err(Some((4400, "No session.update came.")));
                }
                () = self.state.live.stopping.cancelled() => {
                    send(socket, &ended(began, 0.0)).await;
                    return Err(Some((1001, "The service is stopping.")));
                }
            };
            let fault = match message {
                ClientMessage::Text(text) => match ClientFrame::parse(&text) {
                    Ok(ClientFrame::Update(session)) => match defaults.updated(session, voices).await {
                        Ok(settings) => return Ok(settings),
                        Err(fault) => fault,
                    },
                    Ok(ClientFrame::End) => {
                        send(socket, &ended(began, 0.0)).await;
                        return Err(Some((1000, "")));
                    }
                    Ok(_) => Fault::new("session_not_started", "The first frame must be `session.update`."),
                    Err(fault) => fault,
                },
                ClientMessage::Binary(_) => continue,
                ClientMessage::Ping(payload) => {
                    socket.send(ServerMessage::Pong(payload)).await;
                    continue;
                }
                ClientMessage::Close(code) => return Err(Some((code.unwrap_or(1000), ""))),
                ClientMessage::Disconnected => return Err(None),
                ClientMessage::ProtocolError(code) => return Err(Some((code, ""))),
            };
            if !tell(socket, &fault).await {
                return Err(None);
            }
        }
    }

    /// Rules with the caller's language, where the recogniser has one alone.
    fn rules(&self) -> Rules {
        let choice = self.state.live.catalog.choose(recognizer()).ok();
        let language = choice.and_then(|choice| match choice.languages {
            [only] => Some(only.clone()),
            _ => None,
        });
        Rules { language, ..Rules::default() }
    }
}
