//! A live session: audio from a socket into the engine, turns of text from the engine to the socket.

use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{LiveEvent, LiveEvents, LiveInput};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::frames::TranscriptFrame;
use super::socket::{Incoming, Outgoing, Socket};
use crate::auth::session_token::SessionClaims;
use crate::metering::Meter;
use crate::state::AppState;

/// Audio that a client may be ahead of the engine; past it, nothing more is read from the client.
const AHEAD_MS: u64 = 60_000;
/// How often to look whether the engine has caught up or has room again: where nobody speaks it has nothing to tell.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A session that the engine has room for.
pub struct Opened {
    pub grant: SessionClaims,
    pub input: LiveInput,
    pub events: LiveEvents,
}

/// How a session ends once everything was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Asked for, or at the longest time: `done`, then a normal closure.
    Done,
    /// The service stops.
    GoingAway,
}

/// An `error` frame.
pub fn error(message: &str) -> String {
    json!({"type": "error", "message": message}).to_string()
}

/// Runs a session from `ready` to the close, and bills it.
pub async fn run(app: Arc<AppState>, mut socket: Socket, opened: Opened) {
    let meter = match Meter::start(&app, &opened.grant).await {
        Ok(meter) => meter,
        Err(problem) => {
            tracing::error!(error = %problem, "a live session could not be written down");
            socket.send(Outgoing::Text(error("Could not start realtime transcription."))).await;
            return socket.close(1011, "").await;
        }
    };
    metrics::gauge!("auricle_live_sessions").increment(1);
    let close = talk(&app, &mut socket, opened).await;
    // The connection counts until it is closed; what the client takes to agree to that does not.
    meter.stop().await;
    metrics::gauge!("auricle_live_sessions").decrement(1);
    if let Some((code, reason)) = close {
        socket.close(code, reason).await;
    }
}

/// Passes audio and turns on until the session is over; how to close it, if anybody is left to tell.
async fn talk(app: &AppState, socket: &mut Socket, opened: Opened) -> Option<(u16, &'static str)> {
    let Opened { mut input, mut events, .. } = opened;
    let idle = Duration::from_secs(app.config.live_idle_seconds.into());
    let longest = Instant::now() + Duration::from_secs(app.config.live_session_seconds.into());
    let mut heard_from = Instant::now();
    let mut ending: Option<Ending> = None;
    if !socket.send(Outgoing::Text(json!({"type": "ready"}).to_string())).await {
        return None;
    }
    loop {
        let listening = ending.is_none();
        let held_back = listening && !input.send_on();
        let ahead = listening && input.waiting_ms() >= AHEAD_MS;
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    let began = Instant::now();
                    if !tell(socket, &event).await {
                        return None;
                    }
                    // Nothing can be heard from a client that is waited for.
                    heard_from += began.elapsed();
                }
                Some(Err(problem)) => {
                    return failed(socket, &problem).await;
                }
                None => {
                    if ending == Some(Ending::GoingAway) {
                        return Some((1001, "The service is stopping."));
                    }
                    socket.send(Outgoing::Text(json!({"type": "done"}).to_string())).await;
                    return Some((1000, ""));
                }
            },
            incoming = socket.next(), if !ahead => match incoming {
                Incoming::Binary(bytes) => {
                    if listening {
                        heard_from = Instant::now();
                        if let Err(problem) = input.push_pcm16(&bytes) {
                            return failed(socket, &problem).await;
                        }
                    }
                }
                Incoming::Text(text) => {
                    if listening && is_stop(&text) {
                        ending = Some(Ending::Done);
                        if let Err(problem) = input.finish() {
                            return failed(socket, &problem).await;
                        }
                    }
                }
                Incoming::Ping(payload) => {
                    let began = Instant::now();
                    socket.send(Outgoing::Pong(payload)).await;
                    heard_from += began.elapsed();
                }
                // A close is answered with its own code.
                Incoming::Close(code) => return Some((code.unwrap_or(1000), "")),
                Incoming::Gone => return None,
                Incoming::Broken(code) => return Some((code, "")),
            },
            () = sleep(LOOK_AGAIN), if ahead || held_back => {
                if ahead {
                    // What the client sends meanwhile is not looked at.
                    heard_from = Instant::now();
                }
            }
            () = sleep_until(heard_from + idle), if listening => {
                socket.send(Outgoing::Text(error("Session timed out."))).await;
                return Some((1000, "No audio came."));
            }
            () = sleep_until(longest), if listening => {
                let message = "The session has reached its longest time. Open another one.";
                ending = Some(Ending::Done);
                if let Err(problem) = turn_away(socket, &mut input, message).await {
                    return failed(socket, &problem).await;
                }
            }
            () = app.stopping.cancelled(), if listening => {
                ending = Some(Ending::GoingAway);
                let message = "The service is stopping. Connect again.";
                if let Err(problem) = turn_away(socket, &mut input, message).await {
                    return failed(socket, &problem).await;
                }
            }
        }
    }
}

/// Asks the client to connect again, and lets the engine end what it has.
async fn turn_away(socket: &Socket, input: &mut LiveInput, message: &str) -> auricle_engine::Result<()> {
    socket.send(Outgoing::Text(json!({"type": "reconnect", "message": message}).to_string())).await;
    input.finish()
}

/// The engine failed: the client is told, and how to close.
async fn failed(socket: &Socket, problem: &auricle_engine::Error) -> Option<(u16, &'static str)> {
    tracing::error!(error = %problem, "a live session failed");
    socket.send(Outgoing::Text(error("Realtime transcription is unavailable."))).await;
    Some((1011, "The session failed."))
}

/// A `transcript` frame; false if the client does not take it.
async fn tell(socket: &Socket, event: &LiveEvent) -> bool {
    let frame = Outgoing::Text(TranscriptFrame::from(event).message());
    match event {
        // The next one says more. But where a turn came to nothing, there is none.
        LiveEvent::Partial(caption) if !caption.text.is_empty() => {
            socket.offer(frame);
            true
        }
        _ => socket.send(frame).await,
    }
}

fn is_stop(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value["type"] == "stop")
}

#[cfg(test)]
mod tests {
    use super::is_stop;

    #[test]
    fn only_stop_is_stop() {
        assert!(is_stop(r#"{"type":"stop"}"#) && is_stop(r#" {"type": "stop", "x": 1} "#));
        for other in ["stop", "", "{", r#"{"type":"go"}"#, r#"["stop"]"#, r#"{"kind":"stop"}"#, "null", "1"] {
            assert!(!is_stop(other), "{other}");
        }
    }
}
