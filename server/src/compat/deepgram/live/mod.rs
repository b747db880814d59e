//! `GET /v1/listen`: live sessions in the protocol's frames over those of the engine. `settings` reads the query, `session` runs a session,
//! and `frames` has what it sends and takes.

mod frames;
mod session;
mod settings;

use std::sync::Arc;

use auricle_engine::{EndpointingRules, Error, Keyterm};
use futures_util::FutureExt as _;
use hyper::StatusCode;

use super::{identify, request_id};
use crate::auth::require_credit;
use crate::auth::session_token::Payer;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result};
use crate::live::LiveState;
use crate::live::metered::{self, Refusal};
use crate::live::realtime::check_language;
use crate::live::socket::{CloseFrame, MessageLimits, ServerMessage, Socket};
use crate::live::upgrade::upgrade;
use frames::ServerFrame;
use session::{Opening, Session};
use settings::Settings;

/// Silence after which the engine ends a turn by itself, ms: the rules of the session end theirs before.
const ENGINE_SILENCE_MS: u32 = 4_000;
/// Speech without a pause that the rules know is cut at its next short one after this time, ms, so that its text becomes final.
const LONGEST_SEGMENT_MS: u32 = 15_000;

const BUSY: &str = "There is no room for another session now. Try again later.";

/// `GET /v1/listen`: upgrades the connection. What the query asks for and is not served is refused before.
pub async fn connect(state: Arc<LiveState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.clone();
    let settings = Settings::read(request.uri(), state.settings.turn_silence_ms)?;
    if let Some(code) = &settings.language {
        check_language(&state, settings.model, code)
            .map_err(|reason| ApiError::invalid(format!("The language {code:?} is not served live: {reason}.")))?;
    }
    require_credit(state.store.allowance(&account.id).await?, 0, state.billing_provider)?;
    let busy = || ApiError::new(StatusCode::TOO_MANY_REQUESTS, "unavailable", BUSY);
    let place = state.places.try_take(&account.id).ok_or_else(busy)?;
    if state.stopping.is_cancelled() || state.engine.is_none() {
        return Err(ApiError::busy("There are no live sessions here now."));
    }
    let payer = Payer {
        account: account.id,
        key: account.key.ok_or_else(|| ApiError::unauthorized("This needs an API key."))?,
        estimated_cents: 0,
        model: settings.model.into(),
    };
    let id = request_id();
    let named = id.clone();
    let connections = state.connections.clone();
    let mut response = upgrade(request.into_request(), &connections, MessageLimits::SHORT, |socket, _| async move {
        open(&state, socket, payer, settings, id).await;
        drop(place);
    })?;
    identify(&mut response, &named);
    Ok(response)
}

/// Opens a session with the engine and runs it.
async fn open(state: &Arc<LiveState>, socket: Socket, payer: Payer, settings: Settings, id: String) {
    let Some(engine) = state.engine.clone() else { return };
    let turns = EndpointingRules::default().silence_ms(ENGINE_SILENCE_MS).longest_ms(LONGEST_SEGMENT_MS);
    let mut options = state
        .settings
        .listen_options(settings.model, settings.rate)
        .medical_mode(settings.medical)
        .format_numbers(settings.numerals)
        .keyterms(settings.keyterms.iter().map(|term| Keyterm::from(term.as_str())))
        .turns(turns);
    options.language.clone_from(&settings.language);
    if !settings.languages.is_empty() {
        options.languages.clone_from(&settings.languages);
    }
    // The first session may have to load the model.
    let (input, events) = match engine.listen(&options).await {
        Ok(opened) => opened,
        Err(Error::Busy(_)) => return refuse(socket, BUSY, (1013, "There is no room.")).await,
        Err(error) => {
            tracing::error!(%error, "starting a live session failed");
            return refuse(socket, "The session could not be started.", (1011, "The session failed.")).await;
        }
    };
    if !input.has_detector() {
        return refuse(socket, "The service has no speech detector.", (1011, "There is no speech detector.")).await;
    }
    let opening = Opening { input, events, settings, id, state: state.clone() };
    metered::run(state, socket, &payer, refusal, move |socket, _| Session::new(opening).run(socket).boxed()).await;
}

async fn refuse(socket: Socket, description: &str, (code, reason): CloseFrame) {
    socket.send(ServerMessage::Text(ServerFrame::error("Refused", description).to_json())).await;
    socket.close(code, reason).await;
}

/// The frame of a session that does not start or is ended by the service.
fn refusal(refusal: &Refusal) -> String {
    let (variant, description) = match refusal {
        Refusal::Revoked => ("INVALID_AUTH", "The API key of this session was revoked."),
        Refusal::NoCredit(message) => ("ASR_PAYMENT_REQUIRED", message.as_str()),
        Refusal::NotRecorded => ("Refused", "The session could not be started. Try again."),
    };
    ServerFrame::error(variant, description).to_json()
}
