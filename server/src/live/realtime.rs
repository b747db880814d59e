//! `/v2/realtime`: creates session tokens and opens sessions.

use std::sync::Arc;

use auricle_engine::{Error, SAMPLE_RATES};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::LiveState;
use super::frames::ServerFrame;
use super::screen::{Screen, check_language as check_hiding};
use super::session::{self, OpenSession};
use super::socket::{MessageLimits, Socket};
use super::upgrade::{Query, upgrade};
use crate::auth::require_credit;
use crate::auth::session_token::{Claims as _, Payer, SessionClaims};
use crate::billing::{Price, ProductKind};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::query;
use crate::http::response::{ApiError, Response, Result, json};
use crate::jobs::text_options;
use crate::languages;
use crate::store::JobOptions;

/// The path of the WebSocket.
pub const PATH: &str = "/v2/realtime/ws";

const DEFAULT_SAMPLE_RATE: u32 = 16_000;

/// The longest token: it is part of an address.
const MAX_TOKEN_BYTES: usize = 12 << 10;

/// The options of a token that a query may set where the token leaves them open.
const OPTIONS: [&str; 5] = ["keyterms_prompt", "pii_redaction", "pii_policies", "pii_substitution", "profanity_filter"];

const UNSUPPORTED: &str = "Unsupported realtime language.";
const UNAVAILABLE: &str = "Realtime transcription is unavailable.";
const NOT_STARTED: &str = "Could not start realtime transcription.";

/// `POST /v2/realtime/token`
pub async fn create_token(state: Arc<LiveState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.clone();
    let headers = request.headers().clone();
    let body = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    let mut fields = Fields::optional(&headers, &body)?;
    let model = fields.string("model")?;
    let sample_rates = i64::from(*SAMPLE_RATES.start())..=i64::from(*SAMPLE_RATES.end());
    let sample_rate = fields.integer("sample_rate", sample_rates)?;
    let language_code = fields.string("language_code")?;
    let medical_mode = fields.flag("medical_mode")?;
    let format_numbers = fields.optional_flag("format_numbers")?;
    let options = text_options(&mut fields)?;
    let expires_in = fields.integer("expires_in", 60..=3600)?.unwrap_or(900);
    let estimated_duration_sec = fields.integer("estimated_duration_sec", 0..=i64::MAX)?;

    let model = model.unwrap_or_else(|| Price::default_of(ProductKind::Realtime).model.into());
    let price = Price::of(&model, ProductKind::Realtime).ok_or_else(|| {
        let message = format!("`model` must be svc-realtime-pro or svc-realtime, not {model:?}.");
        ApiError::new(StatusCode::BAD_REQUEST, "unknown_model", message)
    })?;
    check_options(&state, &model, language_code.as_deref(), &options)?;
    let allowance = state.store.allowance(&account.id).await?;
    let longest_ms = state.settings.max_duration.as_millis() as i64;
    let estimated_ms = estimated_duration_sec.unwrap_or_default().saturating_mul(1000);
    require_credit(allowance, price.cents(estimated_ms), state.billing_provider)?;

    let claims = SessionClaims {
        payer: Payer {
            account: account.id,
            key: account.key.ok_or_else(|| ApiError::unauthorized("This needs an API key."))?,
            estimated_cents: price.cents(estimated_ms.min(longest_ms)),
            model,
        },
        sample_rate: sample_rate.and_then(|rate| u32::try_from(rate).ok()).unwrap_or(DEFAULT_SAMPLE_RATE),
        language_code,
        medical_mode,
        format_numbers,
        options: options.fields(),
        expires_at: clock::now_ms() + expires_in * 1000,
    };
    let token = claims.sign(&state.signing_key);
    if token.len() > MAX_TOKEN_BYTES {
        return Err(ApiError::validation("`keyterms_prompt` is too long for a token, which is part of an address."));
    }
    Ok(json(&json!({
        "token": token,
        "websocket_url": state.websocket_url(PATH).as_str(),
        "expires_at": clock::iso(claims.expires_at),
        "model": claims.payer.model,
        "sample_rate": claims.sample_rate,
    })))
}

/// Checks that a session with a model can be had in a language, if one is named, and with these options.
///
/// # Errors
/// 422 with the reason.
pub fn check_options(state: &LiveState, model: &str, language: Option<&str>, options: &JobOptions) -> Result<()> {
    if let Some(code) = language {
        check_language(state, model, code)
            .map_err(|reason| ApiError::validation(format!("{UNSUPPORTED} `language_code`: {reason}.")))?;
    }
    check_hiding(options, language)
}

/// Checks that the API has a language, and the model's checkpoint or the second pass's.
pub fn check_language(state: &LiveState, model: &str, code: &str) -> std::result::Result<(), String> {
    if !languages::REALTIME.contains(&code) {
        return Err(format!("it must be one of {}, not {code:?}", languages::REALTIME.join(", ")));
    }
    let found = state.settings.second_pass.check_language(&state.catalog, model, code);
    found.map_err(|error| error.to_string())
}

/// `GET /v2/realtime/ws`: upgrades the connection. Errors of the session are reported on the WebSocket.
pub async fn connect(state: Arc<LiveState>, mut request: RequestContext) -> Result<Response> {
    let claims = request.session_claims();
    let connections = state.connections.clone();
    upgrade(request.into_request(), &connections, MessageLimits::SHORT, |socket, query| async move {
        open(&state, socket, claims, &query).await;
    })
}

/// Opens a session and runs it, or tells the client the reason for the refusal. `claims` are those of a valid token.
async fn open(state: &Arc<LiveState>, socket: Socket, claims: Option<SessionClaims>, query: &Query) {
    let given = |name: &str| query.get(name).map(String::as_str);
    let language = given("language_code").filter(|code| !code.is_empty());
    let Some(claims) = claims else {
        return socket.close(4401, "The token is missing, expired, or not one of realtime.").await;
    };
    if given("model").is_some_and(|model| Price::of(model, ProductKind::Realtime).is_none()) {
        return socket.close(4400, "The model is not one of realtime.").await;
    }
    // This check comes before the comparison with the token, which cannot have such a language.
    if let Some(code) = language.filter(|code| !languages::REALTIME.contains(code)) {
        tracing::debug!(code, "refused a language");
        return refuse(socket, UNSUPPORTED, 1000).await;
    }
    let options = options(&claims, query);
    let same = |name: &str, claimed: &str| given(name).is_none_or(|value| value == claimed);
    // None for a value that is neither true nor false.
    let format_numbers = given("format_numbers").map_or(Some(claims.format_numbers.unwrap_or(true)), query::truth);
    if !same("model", &claims.payer.model)
        || !same("sample_rate", &claims.sample_rate.to_string())
        || given("medical_mode").is_some_and(|value| query::truth(value) != Some(claims.medical_mode))
        || format_numbers.is_none()
        || claims.format_numbers.is_some_and(|minted| Some(minted) != format_numbers)
        || language.is_some_and(|code| Some(code) != claims.language_code.as_deref())
        || options.is_none()
    {
        return socket.close(4400, "The parameters are not those that the token was minted with.").await;
    }
    let Some(place) = state.places.try_take(&claims.payer.account) else {
        return refuse(socket, UNAVAILABLE, 1013).await;
    };
    if state.stopping.is_cancelled() {
        return refuse(socket, UNAVAILABLE, 1013).await;
    }
    let asked = JobOptions { medical_mode: claims.medical_mode, format_numbers, ..options.unwrap_or_default() };
    let options =
        state.settings.asked_options(&claims.payer.model, claims.sample_rate, claims.language_code.as_deref(), &asked);
    let Some(engine) = state.engine.clone() else { return refuse(socket, UNAVAILABLE, 1013).await };
    let screen = match Screen::open(&engine, &asked, claims.language_code.as_deref()).await {
        Ok(screen) => screen,
        Err(error) => {
            tracing::error!(%error, "a live session's words cannot be hidden");
            return refuse(socket, NOT_STARTED, 1011).await;
        }
    };
    // The first session may have to load the model.
    match engine.listen(&options).await {
        Ok((input, events)) => session::run(state, socket, OpenSession { claims, input, events, screen }).await,
        Err(Error::Busy(_)) => refuse(socket, UNAVAILABLE, 1013).await,
        Err(Error::Language(reason)) => {
            tracing::info!(reason, "refused a language");
            refuse(socket, UNSUPPORTED, 1000).await;
        }
        Err(error) => {
            tracing::error!(%error, "starting a live session failed");
            refuse(socket, NOT_STARTED, 1011).await;
        }
    }
    drop(place);
}

/// The options of a session: those of its token, and those of the query that the token leaves open. None if these differ or are wrong.
fn options(claims: &SessionClaims, given: &Query) -> Option<JobOptions> {
    let mut all = claims.options.clone();
    for name in OPTIONS {
        let Some(text) = given.get(name) else { continue };
        let value: Value = match name {
            "pii_redaction" | "profanity_filter" => query::truth(text)?.into(),
            "pii_substitution" => text.as_str().into(),
            _ => serde_json::from_str(text).ok()?,
        };
        if all.get(name).is_some_and(|minted| *minted != value) {
            return None;
        }
        all.insert(name.to_owned(), value);
    }
    let options = text_options(&mut Fields::of("query", all.into()).ok()?).ok()?;
    check_hiding(&options, claims.language_code.as_deref()).ok()?;
    Some(options)
}

/// Sends the reason for a refusal and closes the connection.
async fn refuse(socket: Socket, message: &'static str, code: u16) {
    session::send(&socket, ServerFrame::Error { message }).await;
    socket.close(code, message).await;
}
