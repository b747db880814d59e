//! `/v2/realtime`: tokens, and the door to a session.

use std::collections::HashMap;
use std::sync::Arc;

use auricle_engine::{EndpointingRules, Error, ListenOptions};
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{CONNECTION, UPGRADE};
use serde_json::json;

use super::session::{self, Opened};
use super::socket::{Outgoing, Socket};
use crate::api::create::base;
use crate::api::transcripts::require_credit;
use crate::auth::session_token::SessionClaims;
use crate::billing::{Kind, Price};
use crate::clock;
use crate::config::below;
use crate::http::RequestContext;
use crate::http::body::{self, Fields, JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, json};
use crate::state::AppState;

/// Where sessions are opened.
pub const PATH: &str = "/v2/realtime/ws";

/// The languages of the contract.
const LANGUAGES: [&str; 9] = ["en", "en_au", "en_uk", "en_us", "es", "de", "fr", "pt", "it"];
/// Those with a medical vocabulary.
const MEDICAL: [&str; 4] = ["en", "es", "de", "fr"];
/// Sample rates, in hertz.
const RATES: std::ops::RangeInclusive<i64> = 8_000..=48_000;
const DEFAULT_RATE: u32 = 16_000;

const UNSUPPORTED: &str = "Unsupported realtime language.";
const UNAVAILABLE: &str = "Realtime transcription is unavailable.";
const NOT_STARTED: &str = "Could not start realtime transcription.";

/// `POST /v2/realtime/token`
pub async fn mint(call: RequestContext) -> Result<Response> {
    let account = call.account()?.id.clone();
    let app = call.app.clone();
    let headers = call.headers().clone();
    let body = body::read(call.into_request(), JSON_BYTES).await?;
    let mut fields = Fields::optional(&headers, &body)?;
    let model = fields.string("model")?;
    let sample_rate = fields.integer("sample_rate", RATES)?;
    let language_code = fields.string("language_code")?;
    let medical_mode = fields.flag("medical_mode")?;
    let expires_in = fields.integer("expires_in", 60..=3600)?.unwrap_or(900);
    let estimated_duration_sec = fields.integer("estimated_duration_sec", 0..=i64::MAX)?;

    let model = model.unwrap_or_else(|| Price::default_of(Kind::Realtime).model.into());
    let price = Price::of(&model, Kind::Realtime).ok_or_else(|| {
        let message = format!("`model` must be svc-realtime-pro or svc-realtime, not {model:?}.");
        ApiError::new(StatusCode::BAD_REQUEST, "unknown_model", message)
    })?;
    if let Some(code) = &language_code {
        language(&app, &model, code)
            .map_err(|reason| ApiError::validation(format!("{UNSUPPORTED} `language_code`: {reason}.")))?;
    }
    if medical_mode && language_code.as_deref().is_none_or(|code| MEDICAL.contains(&base(code).as_str())) {
        return Err(ApiError::unsupported_option("`medical_mode` is not served here yet; leave it out."));
    }
    let allowance = app.store.allowance(&account).await?;
    let estimate = estimated_duration_sec.map_or(0, |seconds| price.cents(seconds.saturating_mul(1000)));
    require_credit(allowance, estimate)?;

    let grant = SessionClaims {
        account,
        model,
        sample_rate: sample_rate.and_then(|rate| u32::try_from(rate).ok()).unwrap_or(DEFAULT_RATE),
        language_code,
        medical_mode,
        expires_at: clock::now_ms() + expires_in * 1000,
    };
    let mut url = below(&app.public_url, PATH);
    let _ = url.set_scheme(if url.scheme() == "https" { "wss" } else { "ws" });
    Ok(json(&json!({
        "token": grant.mint(&app.secret),
        "websocket_url": url.as_str(),
        "expires_at": clock::iso(grant.expires_at),
        "model": grant.model,
        "sample_rate": grant.sample_rate,
    })))
}

/// Whether a language can be had; the reason if not.
fn language(app: &AppState, model: &str, code: &str) -> std::result::Result<(), String> {
    if !LANGUAGES.contains(&code) {
        return Err(format!("it must be one of {}, not {code:?}", LANGUAGES.join(", ")));
    }
    let choice = app.catalog.choose(model).map_err(|error| error.to_string())?;
    choice.check_language(code).map_err(|error| error.to_string())
}

/// `GET /v2/realtime/ws`: the connection becomes a WebSocket whatever it asks for; what is wrong with it is told there.
pub async fn connect(call: RequestContext) -> Result<Response> {
    let app = call.app.clone();
    let mut request = call.into_request();
    if !fastwebsockets::upgrade::is_upgrade_request(&request) {
        let message = "This is a WebSocket: connect to it with a WebSocket client.";
        let mut reply = ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message).reply();
        reply.headers_mut().insert(UPGRADE, hyper::header::HeaderValue::from_static("websocket"));
        reply.headers_mut().insert(CONNECTION, hyper::header::HeaderValue::from_static("upgrade"));
        return Ok(reply);
    }
    let query =
        url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect();
    let (response, upgraded) = fastwebsockets::upgrade::upgrade(&mut request)
        .map_err(|error| ApiError::invalid(format!("The WebSocket handshake is wrong: {error}.")))?;
    let (parts, _) = response.into_parts();
    let span = tracing::Span::current();
    let tracker = app.live.clone();
    tracker.spawn(tracing::Instrument::instrument(
        async move {
            match upgraded.await {
                Ok(socket) => welcome(app, Socket::new(socket), query).await,
                Err(error) => tracing::debug!(%error, "a WebSocket ended before it began"),
            }
        },
        span,
    ));
    Ok(Response::from_parts(parts, Full::default()))
}

/// Lets a client in, or tells it why not.
async fn welcome(app: Arc<AppState>, socket: Socket, query: HashMap<String, String>) {
    let given = |name: &str| query.get(name).map(String::as_str);
    let language = given("language_code").filter(|code| !code.is_empty());
    let Some(grant) = given("token").and_then(|token| SessionClaims::redeem(token, &app.secret, clock::now_ms()))
    else {
        return socket.close(4401, "The token is missing, expired, or not one of realtime.").await;
    };
    if given("model").is_some_and(|model| Price::of(model, Kind::Realtime).is_none()) {
        return socket.close(4400, "The model is not one of realtime.").await;
    }
    // Told before what differs from the token, which cannot have been minted for it.
    if let Some(code) = language.filter(|code| !LANGUAGES.contains(code)) {
        tracing::debug!(code, "a language was refused");
        return refuse(socket, UNSUPPORTED, 1000).await;
    }
    let same = |name: &str, minted: &str| given(name).is_none_or(|value| value == minted);
    if !same("model", &grant.model)
        || !same("sample_rate", &grant.sample_rate.to_string())
        || !same("medical_mode", if grant.medical_mode { "true" } else { "false" })
        || language.is_some_and(|code| Some(code) != grant.language_code.as_deref())
    {
        return socket.close(4400, "The parameters are not those that the token was minted with.").await;
    }
    let Ok(permit) = app.live_permits.clone().try_acquire_owned() else {
        return refuse(socket, UNAVAILABLE, 1013).await;
    };
    if app.stopping.is_cancelled() {
        return refuse(socket, UNAVAILABLE, 1013).await;
    }
    let options = ListenOptions {
        model: grant.model.clone(),
        language: grant.language_code.clone(),
        sample_rate: grant.sample_rate,
        look_ahead_ms: None,
        turns: EndpointingRules { silence_ms: app.config.turn_silence_ms, ..EndpointingRules::default() },
        language_model: app.config.live_search(),
        ..ListenOptions::default()
    };
    let Some(engine) = app.engine.clone() else { return refuse(socket, UNAVAILABLE, 1013).await };
    // The first session may have to load the model.
    let opened = match tokio::task::spawn_blocking(move || engine.listen(&options)).await {
        Ok(opened) => opened,
        Err(_) => return refuse(socket, NOT_STARTED, 1011).await,
    };
    match opened {
        Ok((input, events)) => session::run(app, socket, Opened { grant, input, events }).await,
        Err(Error::Busy(_)) => refuse(socket, UNAVAILABLE, 1013).await,
        Err(Error::Language(reason)) => {
            tracing::info!(reason, "a language was refused");
            refuse(socket, UNSUPPORTED, 1000).await;
        }
        Err(error) => {
            tracing::error!(%error, "a live session could not be started");
            refuse(socket, NOT_STARTED, 1011).await;
        }
    }
    drop(permit);
}

/// Tells a client why there is no session.
async fn refuse(socket: Socket, message: &'static str, code: u16) {
    socket.send(Outgoing::Text(session::error(message))).await;
    socket.close(code, message).await;
}
