//! The resources of a session, and its client.

use std::sync::Arc;

use auricle_engine::Engine;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::frames::{Fault, ServerFrame};
use crate::auth::session_token::AgentClaims;
use crate::clock;
use crate::live::AgentState;
use crate::live::socket::{ServerMessage, Socket};

/// The resources of a session.
pub struct Resources {
    pub state: Arc<AgentState>,
    pub engine: Engine,
    pub claims: AgentClaims,
    /// The runtime with sockets, for the mind.
    pub runtime: Handle,
}

/// Sends a frame. False if the client does not take it.
pub async fn send(socket: &Socket, frame: &ServerFrame<'_>) -> bool {
    socket.send(ServerMessage::Text(frame.to_json())).await
}

/// Tells a fault of a frame.
pub async fn tell(socket: &Socket, fault: &Fault) -> bool {
    send(socket, &ServerFrame::Error { code: fault.code, message: &fault.message }).await
}

/// The last frame of a session.
pub fn ended(began: Instant, audio_s: f64) -> ServerFrame<'static> {
    ServerFrame::Ended {
        session_duration_seconds: began.elapsed().as_secs_f64(),
        audio_duration_seconds: audio_s,
        timestamp: clock::now_ms() as f64 / 1e3,
    }
}
