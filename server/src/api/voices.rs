//! `/v2/voices`: the voices of `/v1/audio/speech` and of agents, and those that an account makes of recordings.

use std::sync::Arc;

use auricle_engine::{ClonedVoice, Error, SpeakOptions, VoiceInfo};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::form::{self, FilePart};
use super::openai::speech::SpeechState;
use super::openai::speech_encoder::unavailable;
use super::speakers::{SpeakersState, busy, local_file, not_heard, opened};
use super::uploads::UploadsState;
use crate::clock;
use crate::cloned_voices::{MAX_VOICES, checked_consent};
use crate::context::RequestContext;
use crate::http::body::{Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, json, no_content};
use crate::ids::{AccountId, VoiceId};
use crate::speakers::{MAX_NAME_CHARS, checked_name};
use crate::store::{NameRefusal, Source, StoredVoice};

/// The state of this resource.
pub struct VoicesState {
    pub speech: Arc<SpeechState>,
    /// Clips are read as those of speakers, and as many at a time.
    pub speakers: Arc<SpeakersState>,
    pub uploads: Arc<UploadsState>,
}

#[derive(Serialize)]
struct Voice {
    id: String,
    object: &'static str,
    language: String,
    model: String,
    default: bool,
    #[serde(flatten)]
    own: Option<OwnVoice>,
}

/// The fields that a voice of a recording has beside those of others.
#[derive(Serialize)]
struct OwnVoice {
    name: String,
    created_at: String,
}

/// One voice of a recording.
#[derive(Serialize)]
struct WholeVoice {
    #[serde(flatten)]
    voice: Voice,
    /// None if another key has encrypted it: it cannot speak.
    consent: Option<String>,
    audio_sec: Option<f64>,
}

impl Voice {
    fn listed((at, voice): (usize, VoiceInfo)) -> Self {
        let VoiceInfo { id, language, model, .. } = voice;
        Self { id, object: "voice", language, model, default: at == 0, own: None }
    }

    fn own(stored: StoredVoice) -> Self {
        let StoredVoice { id, name, model, language, created_at } = stored;
        let own = OwnVoice { name, created_at: clock::iso(created_at) };
        Self { id: id.to_string(), object: "voice", language, model, default: false, own: Some(own) }
    }
}

impl WholeVoice {
    fn new(stored: StoredVoice, voice: Option<&ClonedVoice>) -> Self {
        let audio_sec = voice.map(ClonedVoice::seconds);
        Self { voice: Voice::own(stored), consent: voice.map(|voice| voice.consent.clone()), audio_sec }
    }
}

/// `GET /v2/voices`
pub async fn list(state: Arc<VoicesState>, request: RequestContext) -> Result<Response> {
    let voices = match &state.speech.engine {
        None => Vec::new(),
        Some(engine) => match engine.voices(&SpeakOptions::default()) {
            Err(Error::NotPulled(_)) => Vec::new(),
            voices => voices.map_err(|error| ApiError::internal(&error))?,
        },
    };
    let mut data: Vec<Voice> = voices.into_iter().enumerate().map(Voice::listed).collect();
    let own = state.speakers.store.cloned_voices(&request.account()?.id).await?;
    data.extend(own.into_iter().map(Voice::own));
    Ok(json(&json!({ "object": "list", "data": data })))
}

/// `POST /v2/voices`
pub async fn create(state: Arc<VoicesState>, request: RequestContext) -> Result<Response> {
    let clones = &state.speech.clones;
    if !clones.is_on() {
        let message =
            "This service makes no voices of recordings; its operator turns that on by `voice_cloning = true`.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "voice_cloning_off", message));
    }
    let account = request.account()?.id.clone();
    let engine = state.speech.engine()?;
    let headers = request.headers().clone();
    let clip = FilePart { name: "clip", ..FilePart::default() };
    let form = form::read(&state.uploads, &account, &headers, request.into_body(), clip).await?;
    let mut fields = Fields::of_form(form.fields.iter().cloned());
    let name = fields.required_string("name", 1..=MAX_NAME_CHARS)?;
    let name = checked_name(&name).map_err(|reason| ApiError::validation(format!("`name` {reason}.")))?;
    let consent = fields.required_string("consent", 1..=MAX_JSON_BYTES)?;
    let consent = checked_consent(&consent).map_err(|reason| ApiError::validation(format!("`consent` {reason}.")))?;
    let language = fields.string_of("language", 2..=35)?;
    let missing = || ApiError::invalid("`clip` is missing: a recording of 5 to 20 s of one person.");
    let file = form.file.as_ref().ok_or_else(missing)?;
    let refusal = state.speakers.store.voice_refusal(&account, name, MAX_VOICES).await?;
    refusal.map_or(Ok(()), |refusal| Err(refused(refusal, name)))?;
    let _place = state.speakers.places.try_take(&account).ok_or_else(busy)?;
    // The form's file is deleted with the form, whatever comes.
    let (_file, audio) =
        opened(local_file(&state.speakers, &account, &Source::Upload(file.upload.id.clone())).await?).await?;
    let voice = engine.clone_voice(audio, consent, language.as_deref()).await.map_err(not_made)?;
    let (stored, sealed) = clones.stored(&account, name, &voice).map_err(|error| ApiError::internal(&error))?;
    if !state.speakers.store.create_cloned_voice(&account, &stored, &sealed).await? {
        return Err(refused(NameRefusal::Taken, name));
    }
    Ok(json(&WholeVoice::new(stored, Some(&voice))))
}

fn refused(refusal: NameRefusal, name: &str) -> ApiError {
    match refusal {
        NameRefusal::Taken => {
            let message = format!("There is a voice {name:?} already; delete it first, or take another name.");
            ApiError::new(StatusCode::CONFLICT, "voice_exists", message)
        }
        NameRefusal::Full => {
            let message = format!("An account may have {MAX_VOICES} voices; delete one first.");
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", message)
        }
    }
}

fn not_made(error: Error) -> ApiError {
    match error {
        Error::Language(reason) => ApiError::validation(format!("`language`: {reason}.")),
        Error::NotPulled(_) | Error::Checkpoint { .. } | Error::InvalidOption(_) => {
            tracing::warn!(%error, "a voice could not be made of a recording");
            unavailable("The models of this service make no voices of recordings.")
        }
        error => not_heard(error),
    }
}

fn unknown() -> ApiError {
    ApiError::not_found("There is no such voice of this account.")
}

/// `GET /v2/voices/{voice_id}`
pub async fn get(state: Arc<VoicesState>, request: RequestContext) -> Result<Response> {
    let account: &AccountId = &request.account()?.id;
    let id = VoiceId::from(request.param("voice_id"));
    let (stored, sealed) = state.speakers.store.cloned_voice(account, &id).await?.ok_or_else(unknown)?;
    let voice = state.speech.clones.opened(account, &id, &sealed);
    Ok(json(&WholeVoice::new(stored, voice.as_ref())))
}

/// `DELETE /v2/voices/{voice_id}`
pub async fn delete(state: Arc<VoicesState>, request: RequestContext) -> Result<Response> {
    let id = VoiceId::from(request.param("voice_id"));
    if !state.speakers.store.delete_cloned_voice(&request.account()?.id, &id).await? {
        return Err(unknown());
    }
    state.speakers.notifiers.deletions.notify_one();
    Ok(no_content())
}
