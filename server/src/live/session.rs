//! A live session: passes audio from a socket to the engine, and results from the engine to the socket.

use std::sync::Arc;

use auricle_engine::{LiveEvent, LiveEvents, LiveInput};
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::frames::{ClientFrame, ServerFrame, TranscriptFrame};
use super::metered::{self, Refusal};
use super::screen::Screen;
use super::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};
use super::{LiveState, SessionSettings};
use crate::auth::session_token::SessionClaims;

/// Audio that a client may be ahead of the engine. Above it the socket is not read.
const MAX_AHEAD_MS: u64 = 60_000;

/// The message of a session whose key is revoked.
const REVOKED: &str = "The API key of this session was revoked.";

/// A session that the engine has accepted.
pub struct OpenSession {
    pub claims: SessionClaims,
    pub input: LiveInput,
    pub events: LiveEvents,
    /// None if no words are hidden.
    pub screen: Option<Screen>,
}

/// The end of a session once all results have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The client asked for it, or the session reached its longest duration: `done`, then a normal closure.
    Done,
    /// The service stops.
    GoingAway,
}

/// Sends a frame. False if the client does not take it.
pub async fn send(socket: &Socket, frame: ServerFrame<'_>) -> bool {
    socket.send(ServerMessage::Text(frame.to_json())).await
}

/// Runs a session from `ready` to the close, and bills it.
pub async fn run(state: &Arc<LiveState>, socket: Socket, session: OpenSession) {
    let payer = session.claims.payer.clone();
    let (settings, stopping) = (state.settings.clone(), state.stopping.clone());
    metered::run(state, socket, &payer, refusal, move |socket, _| {
        async move { relay_until_end(socket, session, &settings, &stopping).await }.boxed()
    })
    .await;
}

/// The frame of a session that does not start or is ended by the service.
fn refusal(refusal: &Refusal) -> String {
    let message = match refusal {
        Refusal::Revoked => REVOKED,
        Refusal::NoCredit(message) => message,
        Refusal::NotRecorded => "Could not start realtime transcription.",
    };
    ServerFrame::Error { message }.to_json()
}

async fn relay_until_end(
    socket: &mut Socket,
    session: OpenSession,
    settings: &SessionSettings,
    stopping: &CancellationToken,
) -> Option<CloseFrame> {
    let OpenSession { mut input, mut events, screen, .. } = session;
    let deadline = Instant::now() + settings.max_duration;
    let mut last_audio = Instant::now();
    let mut ending: Option<Ending> = None;
    if !send(socket, ServerFrame::Ready).await {
        return None;
    }
    loop {
        let listening = ending.is_none();
        let ahead = listening && input.waiting_ms() >= MAX_AHEAD_MS;
        let refused = listening && input.is_refused();
        // Short of the limit only the queue has to have room.
        let ahead_ms = if ahead { MAX_AHEAD_MS - 1 } else { u64::MAX };
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    let began = Instant::now();
                    let shown = match &screen {
                        None => vec![event],
                        Some(screen) => match screen.show(event) {
                            Ok(shown) => shown,
                            Err(error) => return fail(socket, &error).await,
                        },
                    };
                    for event in &shown {
                        if !send_transcript(socket, event).await {
                            return None;
                        }
                    }
                    // While the service waits for the client, it does not read audio.
                    last_audio += began.elapsed();
                }
                Some(Err(error)) => return fail(socket, &error).await,
                None => {
                    if ending == Some(Ending::GoingAway) {
                        return Some((1001, "The service is stopping."));
                    }
                    send(socket, ServerFrame::Done).await;
                    return Some((1000, ""));
                }
            },
            message = socket.next(), if !ahead => match message {
                ClientMessage::Binary(bytes) => {
                    if listening {
                        last_audio = Instant::now();
                        if let Err(error) = input.push_pcm16(&bytes) {
                            return fail(socket, &error).await;
                        }
                    }
                }
                ClientMessage::Audio(_) => {}
                ClientMessage::Text(text) => {
                    if listening && ClientFrame::parse(&text) == Some(ClientFrame::Stop) {
                        ending = Some(Ending::Done);
                        if let Err(error) = input.finish() {
                            return fail(socket, &error).await;
                        }
                    }
                }
                ClientMessage::Ping(payload) => {
                    let began = Instant::now();
                    socket.send(ServerMessage::Pong(payload)).await;
                    last_audio += began.elapsed();
                }
                // A close is answered with the client's code.
                ClientMessage::Close(code) => return Some((code.unwrap_or(1000), "")),
                ClientMessage::Disconnected => return None,
                ClientMessage::ProtocolError(code) => return Some((code, "")),
            },
            () = input.caught_up(ahead_ms), if ahead || refused => {
                // The socket was not read meanwhile, so the client may well have sent audio.
                last_audio = Instant::now();
            }
            () = sleep_until(last_audio + settings.idle_timeout), if listening && !ahead => {
                send(socket, ServerFrame::Error { message: "Session timed out." }).await;
                return Some((1000, "No audio came."));
            }
            () = sleep_until(deadline), if listening => {
                let message = "The session has reached its longest time. Open another one.";
                ending = Some(Ending::Done);
                if let Err(error) = reconnect(socket, &mut input, message).await {
                    return fail(socket, &error).await;
                }
            }
            () = stopping.cancelled(), if listening => {
                ending = Some(Ending::GoingAway);
                let message = "The service is stopping. Connect again.";
                if let Err(error) = reconnect(socket, &mut input, message).await {
                    return fail(socket, &error).await;
                }
            }
        }
    }
}

/// Asks the client to reconnect, and ends the engine's input, which completes the current turn.
async fn reconnect(socket: &Socket, input: &mut LiveInput, message: &str) -> auricle_engine::Result<()> {
    send(socket, ServerFrame::Reconnect { message }).await;
    input.finish()
}

/// Reports a failure of the engine to the client. Returns how to close the socket.
async fn fail(socket: &Socket, error: &auricle_engine::Error) -> Option<CloseFrame> {
    tracing::error!(%error, "a live session failed");
    send(socket, ServerFrame::Error { message: "Realtime transcription is unavailable." }).await;
    Some((1011, "The session failed."))
}

/// Sends a result. False if the client does not take it.
async fn send_transcript(socket: &Socket, event: &LiveEvent) -> bool {
    let message = ServerMessage::Text(ServerFrame::Transcript(TranscriptFrame::from(event)).to_json());
    match event {
        // The next partial replaces this one. An empty partial ends a turn without text and has no successor.
        LiveEvent::Partial(caption) if !caption.text.is_empty() => {
            let _ = socket.try_send(message);
            true
        }
        _ => socket.send(message).await,
    }
}
