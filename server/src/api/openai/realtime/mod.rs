//! `/v1/realtime`: sessions in OpenAI's protocol: `conversation` over the voice agent, and transcription over the live sessions of the engine.
//!
//! `session` runs a transcription session between the client, whose events are in `frames` and whose settings are in `settings`, and the engine, whose
//! session is `recognizer`. `turns` has its turns, which `speech_gate` finds; `item` is the transcript of one. `calls` runs both over WebRTC.

#[cfg(feature = "webrtc")]
pub mod calls;
mod conversation;
mod frames;
mod item;
mod recognizer;
mod session;
mod settings;
pub mod speech_gate;
mod turns;

use std::sync::Arc;

use auricle_engine::Engine;
use futures_util::FutureExt as _;
use hyper::HeaderMap;
use hyper::StatusCode;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use serde::Serialize;
use serde_json::Value;

use super::{live_model, model_not_found};
use crate::auth::require_credit;
use crate::auth::session_token::{Claims as _, Payer, SecretClaims};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, json};
use crate::ids;
use crate::live::metered::{self, Refusal};
use crate::live::socket::{CloseFrame, MessageLimits, Socket};
use crate::live::upgrade::upgrade;
use crate::live::{AgentState, LiveState};
use crate::sharing::Place;
use crate::store::Account;
use conversation::is_conversation_model;
use frames::{Fault, ServerEvent, SessionObject};
use session::{Opening, Session};
pub use settings::TurnDetection;
use settings::{Settings, Transcription};

/// The model of conversations.
const AGENT: &str = "svc-agent";

const NO_ROOM: &str = "There is no room for another session now. Try again later.";

/// The subprotocol that is chosen where the client offers it.
const SUBPROTOCOL: &str = "realtime";

/// Lifetimes of a client secret, s.
const SECRET_LIFETIMES_S: std::ops::RangeInclusive<i64> = 10..=7_200;
const SECRET_LIFETIME_S: i64 = 600;
/// The longest secret: pages send it within a header.
const MAX_SECRET_BYTES: usize = 12 << 10;

/// A secret with which a page opens sessions.
#[derive(Serialize)]
struct ClientSecret {
    value: String,
    /// s since 1970
    expires_at: i64,
}

/// The answer of `/v1/realtime/client_secrets`.
#[derive(Serialize)]
struct SecretWithSession<'a> {
    #[serde(flatten)]
    secret: &'a ClientSecret,
    session: &'a Value,
}

/// The answer of the older `/v1/realtime/transcription_sessions`.
#[derive(Serialize)]
struct FlatSession<'a> {
    id: String,
    object: &'static str,
    client_secret: &'a ClientSecret,
    input_audio_format: &'static str,
    input_audio_transcription: &'a Transcription,
    turn_detection: Option<&'a TurnDetection>,
}

/// `POST /v1/realtime/client_secrets`
pub async fn create_client_secret(state: Arc<LiveState>, request: RequestContext) -> Result<Response> {
    let (account, mut fields) = read(request).await?;
    let lifetime_s = lifetime_s(&mut fields, "expires_after")?;
    let asked = match fields.take("session") {
        Some(session) => Asked::of_session(session, &state)?,
        None => Asked::Transcription(Settings::default()),
    };
    let secret = secret(&state, &account, &asked, lifetime_s).await?;
    let session = asked.object(&ids::fresh("sess"), secret.expires_at)?;
    Ok(json(&SecretWithSession { secret: &secret, session: &session }))
}

/// `POST /v1/realtime/transcription_sessions`
pub async fn create_transcription_session(state: Arc<LiveState>, request: RequestContext) -> Result<Response> {
    let (account, mut fields) = read(request).await?;
    let settings = Settings::of_flat(&mut fields, &state).map_err(model_not_found)?;
    let lifetime_s = match fields.take("client_secret") {
        Some(secret) => lifetime_s(&mut Fields::of("client_secret", secret)?, "expires_at")?,
        None => SECRET_LIFETIME_S,
    };
    let asked = Asked::Transcription(settings.clone());
    let secret = secret(&state, &account, &asked, lifetime_s).await?;
    let input = &settings.audio.input;
    Ok(json(&FlatSession {
        id: ids::fresh("sess"),
        object: "realtime.transcription_session",
        client_secret: &secret,
        input_audio_format: input.format.flat_name(),
        input_audio_transcription: &input.transcription,
        turn_detection: input.turn_detection.as_ref(),
    }))
}

async fn read(request: RequestContext) -> Result<(Account, Fields)> {
    let account = request.account()?.clone();
    let headers = request.headers().clone();
    let body = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    Ok((account, Fields::optional(&headers, &body)?))
}

/// The lifetime of a secret, s, as `{"anchor": "created_at", "seconds": 600}` gives it.
fn lifetime_s(fields: &mut Fields, name: &str) -> Result<i64> {
    let Some(lifetime) = fields.take(name) else { return Ok(SECRET_LIFETIME_S) };
    let mut lifetime = Fields::of(name, lifetime)?;
    if let Some(anchor) = lifetime.string("anchor")?.filter(|anchor| anchor != "created_at") {
        return Err(ApiError::validation(format!("`{name}.anchor` must be created_at, not {anchor:?}.")));
    }
    Ok(lifetime.integer("seconds", SECRET_LIFETIMES_S)?.unwrap_or(SECRET_LIFETIME_S))
}

async fn secret(state: &LiveState, account: &Account, asked: &Asked, lifetime_s: i64) -> Result<ClientSecret> {
    require_credit(state.store.allowance(&account.id).await?, 0, state.billing_provider)?;
    let expires_at = clock::now_ms() / 1000 + lifetime_s;
    let claims = SecretClaims {
        payer: payer(account, asked.price_model())?,
        session: asked.claims()?,
        expires_at: expires_at * 1000,
    };
    let value = claims.sign(&state.signing_key);
    if value.len() > MAX_SECRET_BYTES {
        let message = "The texts of the session are too long for a client secret: send them in session.update.";
        return Err(ApiError::validation(message));
    }
    Ok(ClientSecret { value, expires_at })
}

/// What a session is asked to be.
enum Asked {
    Transcription(Settings),
    Conversation(conversation::Settings),
}

impl Asked {
    /// The kind of session that a `session` object asks for, by its type.
    fn of_session(session: Value, state: &LiveState) -> Result<Self> {
        let asked = match session["type"].as_str() {
            Some("realtime") => Self::Conversation(conversation::Settings::new(AGENT)),
            _ => Self::Transcription(Settings::default()),
        };
        asked.updated(session, state)
    }

    fn updated(self, session: Value, state: &LiveState) -> Result<Self> {
        let updated = match self {
            Self::Transcription(settings) => settings.updated(session, state).map(Self::Transcription),
            Self::Conversation(settings) => settings.updated(session).map(Self::Conversation),
        };
        updated.map_err(model_not_found)
    }

    /// The settings of a secret's claims.
    fn of_claims(claims: &SecretClaims) -> Result<Self> {
        let session = claims.session.clone();
        let read = match session["type"].as_str() {
            Some("realtime") => serde_json::from_value(session).map(Self::Conversation),
            _ => serde_json::from_value(session).map(Self::Transcription),
        };
        read.map_err(|error| ApiError::internal(&error))
    }

    fn claims(&self) -> Result<Value> {
        let value = match self {
            Self::Transcription(settings) => serde_json::to_value(settings),
            Self::Conversation(settings) => serde_json::to_value(settings),
        };
        value.map_err(|error| ApiError::internal(&error))
    }

    /// The `session` object.
    fn object(&self, id: &str, expires_at: i64) -> Result<Value> {
        let value = match self {
            Self::Transcription(settings) => serde_json::to_value(SessionObject::new(id, expires_at, settings)),
            Self::Conversation(settings) => {
                serde_json::to_value(conversation::SessionObject::new(id, expires_at, settings))
            }
        };
        value.map_err(|error| ApiError::internal(&error))
    }

    /// True if the audio has the form of calls.
    #[cfg(feature = "webrtc")]
    fn is_for_call(&self) -> bool {
        match self {
            Self::Transcription(settings) => settings.audio.input.format.is_of_tracks(),
            Self::Conversation(settings) => settings.is_for_call(),
        }
    }

    /// The model that is billed.
    fn price_model(&self) -> &'static str {
        match self {
            Self::Transcription(settings) => settings.audio.input.transcription.live_model(),
            Self::Conversation(_) => AGENT,
        }
    }
}

fn payer(account: &Account, model: &str) -> Result<Payer> {
    Ok(Payer {
        account: account.id.clone(),
        key: account.key.clone().ok_or_else(|| ApiError::unauthorized("This needs an API key."))?,
        estimated_cents: 0,
        model: model.into(),
    })
}

/// The account that pays for a request's session with this model.
fn payer_of(request: &RequestContext, model: &str) -> Result<Payer> {
    match request.secret_claims() {
        Some(claims) => Ok(Payer { model: model.into(), ..claims.payer.clone() }),
        None => payer(request.account()?, model),
    }
}

/// `GET /v1/realtime`: upgrades the connection. Errors of the session are reported on the WebSocket.
pub async fn connect(state: Arc<AgentState>, request: RequestContext) -> Result<Response> {
    let asked = asked(&request)?;
    let takes_subprotocol = offers_subprotocol(request.headers());
    let connections = state.live.connections.clone();
    let mut response = upgrade(request.into_request(), &connections, MessageLimits::LONG, |socket, _| async move {
        match asked {
            Ok((payer, asked)) => match Room::take(&state.live, &payer) {
                Some(room) => serve(&state, socket, payer, asked, room).await,
                None => refuse(socket, Fault::service("unavailable", NO_ROOM), (1013, "There is no room.")).await,
            },
            Err(fault) => refuse(socket, fault, (4400, "There is no such session.")).await,
        }
    })?;
    if takes_subprotocol && response.status() == StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    Ok(response)
}

fn offers_subprotocol(headers: &HeaderMap) -> bool {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).any(|name| name.trim() == SUBPROTOCOL)
}

/// The session that the credential and the query ask for, and the account that pays; a fault if it is not served.
fn asked(request: &RequestContext) -> Result<std::result::Result<(Payer, Asked), Fault>> {
    let model = request.query("model");
    let of_secret = request.secret_claims().map(Asked::of_claims).transpose()?;
    let transcribes = request.query("intent").as_deref() == Some("transcription");
    let asked = match (of_secret, model) {
        (Some(asked), None) => asked,
        (Some(Asked::Conversation(mut settings)), Some(model)) if is_conversation_model(&model) => {
            settings.model = model;
            Asked::Conversation(settings)
        }
        (secret @ (None | Some(Asked::Transcription(_))), Some(model)) if live_model(&model).is_some() => {
            let mut settings = match secret {
                Some(Asked::Transcription(settings)) => settings,
                _ => Settings::default(),
            };
            settings.set_model(&model);
            Asked::Transcription(settings)
        }
        (None, None) if transcribes => Asked::Transcription(Settings::default()),
        (None, Some(model)) if is_conversation_model(&model) && !transcribes => {
            Asked::Conversation(conversation::Settings::new(&model))
        }
        (None, None) => {
            let message = "Connect with ?model=svc-agent for a conversation, or with ?intent=transcription.";
            return Ok(Err(Fault::invalid("invalid_value", message).about("intent")));
        }
        (Some(Asked::Conversation(_)), Some(model)) => {
            let message = conversation::no_such_model(&model).message;
            return Ok(Err(Fault::invalid("model_not_found", message).about("model")));
        }
        (_, Some(model)) => {
            return Ok(Err(Fault::invalid("model_not_found", super::no_such_model(&model).message).about("model")));
        }
    };
    Ok(Ok((payer_of(request, asked.price_model())?, asked)))
}

/// The parts that open a session.
struct Room {
    engine: Engine,
    _place: Place,
}

impl Room {
    /// None if the service has no place for the account, does not transcribe, or stops.
    fn take(live: &LiveState, payer: &Payer) -> Option<Self> {
        let place = live.places.try_take(&payer.account)?;
        let engine = live.engine.clone()?;
        (!live.stopping.is_cancelled()).then_some(Self { engine, _place: place })
    }
}

/// Runs a session to its end.
async fn serve(state: &Arc<AgentState>, socket: Socket, payer: Payer, asked: Asked, room: Room) {
    let engine = room.engine.clone();
    match asked {
        Asked::Transcription(settings) => {
            let opening = Opening { state: state.live.clone(), engine, settings };
            metered::run(&state.live, socket, &payer, refusal, move |socket, id| {
                Session::new(opening, id).run(socket).boxed()
            })
            .await;
        }
        Asked::Conversation(settings) => conversation::serve(state, engine, socket, payer, settings).await,
    }
    drop(room);
}

async fn refuse(socket: Socket, fault: Fault, (code, reason): CloseFrame) {
    let _ = session::refuse(&socket, fault).await;
    socket.close(code, reason).await;
}

/// The event of a session that does not start or is ended by the service.
fn refusal(refusal: &Refusal) -> String {
    let fault = match refusal {
        Refusal::Revoked => Fault::invalid("invalid_api_key", "The API key of this session was revoked."),
        Refusal::NoCredit(message) => Fault::no_credit(message),
        Refusal::NotRecorded => Fault::service("unavailable", "The session could not be started. Try again."),
    };
    ServerEvent::Error { error: &fault }.to_json()
}
