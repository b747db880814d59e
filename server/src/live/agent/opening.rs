//! The beginning of a session: the first `session.update`, then the conversation.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::driver::{Driver, Opening};
use super::frames::{ClientFrame, Fault, ServerFrame};
use super::session;
use super::settings::Settings;
use super::v2::{V2, ended, refuse, send};
use super::voice;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// The first `session.update` must come within this time.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a session until it ends. Returns how to close the socket; none if the client is gone.
pub async fn run(opening: Opening, socket: &mut Socket, id: &str) -> Option<CloseFrame> {
    let mut voices = voice::ids(&opening.engine);
    voices.extend(opening.state.clones.ids(&opening.claims.payer.account).await);
    let settings = match first_settings(&opening, socket, &voices).await {
        Ok(settings) => settings,
        Err(close) => return close,
    };
    let driver = match Driver::open(opening, settings).await {
        Ok(driver) => driver,
        Err((code, message, close)) => {
            let _ = send(socket, &ServerFrame::Error { code, message: &message }).await;
            return Some((close, "The session could not be started."));
        }
    };
    send(socket, &ServerFrame::Ready { session_id: id }).await.ok()?;
    session::run(driver, V2 { voices }, socket).await
}

/// Waits for the first valid `session.update`.
async fn first_settings(
    opening: &Opening,
    socket: &mut Socket,
    voices: &[String],
) -> Result<Settings, Option<CloseFrame>> {
    let began = Instant::now();
    let defaults = Settings { rules: opening.rules(), ..Settings::default() };
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            () = sleep_until(began + UPDATE_TIMEOUT) => {
                let message = "No `session.update` came within 10 s.";
                let _ = send(socket, &ServerFrame::Error { code: "session_not_started", message }).await;
                return Err(Some((4400, "No session.update came.")));
            }
            () = opening.state.live.stopping.cancelled() => {
                let _ = send(socket, &ended(began, 0.0)).await;
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
                    let _ = send(socket, &ended(began, 0.0)).await;
                    return Err(Some((1000, "")));
                }
                Ok(_) => Fault::new("session_not_started", "The first frame must be `session.update`."),
                Err(fault) => fault,
            },
            ClientMessage::Binary(_) | ClientMessage::Audio(_) => continue,
            ClientMessage::Ping(payload) => {
                socket.send(ServerMessage::Pong(payload)).await;
                continue;
            }
            ClientMessage::Close(code) => return Err(Some((code.unwrap_or(1000), ""))),
            ClientMessage::Disconnected => return Err(None),
            ClientMessage::ProtocolError(code) => return Err(Some((code, ""))),
        };
        refuse(socket, &fault).await.map_err(|_| None)?;
    }
}
