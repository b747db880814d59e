//! `/v2/telephony`: telephone calls, whose providers stream them over WebSockets.
//!
//! A request makes a signed address, with a `plan` of its call. `session` takes the call: an agent talks (`call`), or it is transcribed alone
//! (`transcription`). Frames are those of the `provider`, each of which has a module; `frame` is what they share. At the end the `record`
//! becomes a transcript, with its webhook.

mod call;
mod frame;
mod plan;
mod plivo;
mod provider;
mod record;
mod session;
mod telnyx;
mod transcription;
mod twilio;

use std::sync::Arc;

use futures_util::FutureExt as _;
use hyper::StatusCode;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::plan::Plan;
use self::provider::Provider;
use self::record::{Record, SharedRecord};
use self::session::Session;
use crate::api::TranscriptsState;
use crate::auth::session_token::{CallClaims, Claims as _};
use crate::billing::{Price, ProductKind};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, json as json_response};
use crate::ids::{AccountId, TranscriptId};
use crate::live::AgentState;
use crate::live::agent::mint;
use crate::live::metered;
use crate::live::socket::MessageLimits;
use crate::live::upgrade::upgrade;
use crate::store::CallTranscript;
use crate::visible;

/// The longest part of a provider's name of a call that stands in a title, in characters.
const MAX_CALL_CHARS: usize = 100;

/// `POST /v2/telephony/token`
pub async fn create_token(
    agent: Arc<AgentState>,
    transcripts: Arc<TranscriptsState>,
    request: RequestContext,
) -> Result<Response> {
    let live = &agent.live;
    let account = request.account()?.clone();
    let headers = request.headers().clone();
    let body = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &body)?;
    let provider = fields.required_string("provider", 1..=MAX_CALL_CHARS)?;
    if Provider::named(&provider).is_none() {
        let message = format!("`provider` must be one of {}, not {provider:?}.", Provider::names());
        return Err(ApiError::validation(message));
    }
    let model = fields.string("model")?.unwrap_or_else(|| Price::default_of(ProductKind::Agent).model.into());
    let price = [ProductKind::Agent, ProductKind::Realtime].into_iter().find_map(|kind| Price::of(&model, kind));
    let price = price.ok_or_else(|| {
        let message = format!("`model` must be svc-agent, svc-realtime-pro or svc-realtime, not {model:?}.");
        ApiError::new(StatusCode::BAD_REQUEST, "unknown_model", message)
    })?;
    let plan = Plan::read(&mut fields, price, live, &transcripts.outbound).await?;
    let session = mint(live, account, price, &mut fields).await?;
    fields.check_all_known()?;
    let claims = CallClaims { session, transcript: TranscriptId::new() };
    let stored = serde_json::to_string(&plan).map_err(|error| ApiError::internal(&error))?;
    live.store.expect_call(&claims.transcript, &claims.session.payer.account, &stored, claims.expires_at()).await?;
    let token = claims.sign(&live.signing_key);
    Ok(json_response(&json!({
        "websocket_url": live.websocket_url(&format!("/v2/telephony/{provider}/{token}")).as_str(),
        "token": token,
        "transcript_id": claims.transcript.as_str(),
        "expires_at": clock::iso(claims.expires_at()),
        "model": price.model,
        "max_session_duration_sec": claims.session.max_session_duration_sec,
    })))
}

/// `GET /v2/telephony/{provider}/{call_token}`: upgrades the connection. Refusals come before it: providers show their status.
pub async fn connect(
    agent: Arc<AgentState>,
    transcripts: Arc<TranscriptsState>,
    mut request: RequestContext,
) -> Result<Response> {
    let provider = Provider::named(&request.param("provider")).ok_or_else(ApiError::no_such_path)?;
    let claims = request.call_claims().ok_or_else(|| {
        let message = "The token in this address is wrong or has expired: POST /v2/telephony/token makes another one.";
        ApiError::unauthorized(message)
    })?;
    let live = agent.live.clone();
    let no_room = || ApiError::busy("There is no room for another call now. Try again later.");
    let place = live.places.try_take(&claims.session.payer.account).ok_or_else(no_room)?;
    let engine = live.engine.clone().filter(|_| !live.stopping.is_cancelled()).ok_or_else(no_room)?;
    let (planned, plan) = oneshot::channel();
    let (id, account, model) =
        (claims.transcript, claims.session.payer.account.clone(), claims.session.payer.model.clone());
    let (state, session) = (agent.clone(), claims.session);
    let call = id.clone();
    let upgraded =
        upgrade(request.into_request(), &live.connections, MessageLimits::SHORT, move |socket, _| async move {
            let Ok(plan) = plan.await else { return };
            let plan: Arc<Plan> = plan;
            let (record, payer) = (SharedRecord::default(), session.payer.clone());
            let running = Session {
                provider,
                state: state.clone(),
                engine,
                claims: session,
                plan: plan.clone(),
                record: record.clone(),
                runtime: Handle::current(),
            };
            // Providers know no frames of errors: the close has the reason.
            metered::run(&state.live, socket, &payer, |_| String::new(), move |socket, _| running.run(socket).boxed())
                .await;
            if let Some(record) = record.take() {
                save(&transcripts, call, (account, model), &plan, record).await;
            }
            drop(place);
        })?;
    // Only a request for a WebSocket uses the address up.
    if upgraded.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(upgraded);
    }
    let stored = live
        .store
        .take_call(&id)
        .await?
        .ok_or_else(|| ApiError::unauthorized("This address was used before: each call needs one of its own."))?;
    let plan = serde_json::from_str(&stored).map_err(|error| ApiError::internal(&error))?;
    let _ = planned.send(Arc::new(plan));
    Ok(upgraded)
}

/// Writes the transcript of a call that is over.
async fn save(
    state: &TranscriptsState,
    id: TranscriptId,
    (account, model): (AccountId, String),
    plan: &Plan,
    mut record: Record,
) {
    let duration = record.end();
    let name: String = visible::only(&record.call).chars().take(MAX_CALL_CHARS).collect();
    let (began_at, warnings) = (record.began_at, std::mem::take(&mut record.warnings));
    let written = match record.write() {
        Ok(written) => written,
        Err(error) => return tracing::error!(call = %id, %error, "the transcript of a call could not be written"),
    };
    let transcript = CallTranscript {
        id,
        account,
        model,
        title: plan.title.clone().unwrap_or_else(|| format!("Call {name}")),
        language_code: plan.language_code.clone(),
        webhook_url: plan.webhook_url.clone(),
        options: plan.options.clone(),
        text: written.text,
        words: written.words,
        utterances: written.utterances,
        confidence: written.confidence,
        duration_ms: i64::try_from(duration.as_millis()).unwrap_or_default(),
        warnings,
        began_at,
    };
    match state.store.save_call(&transcript).await {
        Ok(()) => state.notifiers.webhooks.notify_one(),
        Err(error) => tracing::error!(call = %transcript.id, %error, "the transcript of a call could not be stored"),
    }
}
