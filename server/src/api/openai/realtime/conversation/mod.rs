//! Conversations: the voice agent (`live::agent`) in OpenAI's protocol.
//!
//! `protocol` translates: the client's events, which `requests` reads, to those of the agent, and its actions to the events of `events`.
//! `turns` has the caller's side of it, `reply` the agent's. `settings` is the `session` object, `items` the conversation that the language
//! model gets (`item` is one), `params` what a response is asked for with, and `response` writes one.

mod events;
mod item;
mod items;
mod params;
mod protocol;
mod reply;
mod requests;
mod response;
mod settings;
mod turns;

use std::sync::Arc;

use auricle_engine::Engine;
use futures_util::FutureExt as _;
use tokio::runtime::Handle;

pub use events::SessionObject;
pub use settings::{Settings, is_conversation_model, no_such_model};

use super::frames::Fault;
use crate::auth::session_token::{AgentClaims, Payer};
use crate::live::AgentState;
use crate::live::agent::CEILING_S;
use crate::live::agent::driver::{Driver, Opening};
use crate::live::agent::session;
use crate::live::metered;
use crate::live::socket::{CloseFrame, Socket};
use protocol::Conversation;

/// Runs a conversation to its end.
pub async fn serve(state: &Arc<AgentState>, engine: Engine, socket: Socket, payer: Payer, settings: Settings) {
    let live = &state.live;
    let ceiling_s = u64::try_from(CEILING_S).unwrap_or_default().min(live.settings.max_duration.as_secs());
    let claims = AgentClaims {
        payer: payer.clone(),
        max_session_duration_sec: u32::try_from(ceiling_s).unwrap_or_default(),
        expires_at: 0,
    };
    let opening = Opening { state: state.clone(), engine, claims, runtime: Handle::current() };
    metered::run(live, socket, &payer, super::refusal, move |socket, id| run(opening, settings, socket, id).boxed())
        .await;
}

async fn run(opening: Opening, settings: Settings, socket: &mut Socket, id: &str) -> Option<CloseFrame> {
    let rules = opening.rules();
    let agent = match settings.agent(&opening.engine, &opening.state.live, &rules) {
        Ok(agent) => agent,
        Err(error) => return refuse(socket, Fault::of_session(error), 4400).await,
    };
    match Driver::open(opening, agent).await {
        Ok(driver) => session::run(driver, Conversation::new(id, settings, rules), socket).await,
        Err((code, message, close)) => refuse(socket, Fault::service(code, message), close).await,
    }
}

async fn refuse(socket: &Socket, fault: Fault, close: u16) -> Option<CloseFrame> {
    events::refuse(socket, fault).await.ok()?;
    Some((close, "The session could not be started."))
}
