//! `/v2/speakers`: the people whom an account's transcripts may name.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_engine::{Engine, Error, VoiceProfile};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::create::{MAX_URL_CHARS, named_source, upload_filename};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, json, no_content};
use crate::ids::{AccountId, SpeakerId};
use crate::jobs::{FetchError, fetch};
use crate::notify::Notifiers;
use crate::outbound::Outbound;
use crate::sharing::Places;
use crate::speakers::{MAX_NAME_CHARS, MAX_SPEAKERS, Profiles, checked_name};
use crate::storage::{LocalFile, Storage};
use crate::store::{NameRefusal, Source, Speaker, Store, object_key};

/// Clips that are heard at a time.
pub const MAX_REQUESTS: usize = 8;

/// The largest file of a clip, and the longest time of fetching it.
const MAX_CLIP_BYTES: u64 = 200 << 20;
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of this resource.
pub struct SpeakersState {
    pub store: Store,
    pub storage: Storage,
    pub outbound: Outbound,
    /// None if this process does not compute.
    pub engine: Option<Engine>,
    pub profiles: Profiles,
    pub notifiers: Arc<Notifiers>,
    pub places: Places,
    /// Folder of temporary files.
    pub scratch: PathBuf,
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    object: &'static str,
    name: &'a str,
    /// False if another embedding or another key has made the profile: the person is named again after a new one.
    usable: bool,
    speech_sec: f64,
    created_at: String,
}

impl<'a> Body<'a> {
    fn new(state: &SpeakersState, account: &AccountId, speaker: &'a Speaker, model: Option<&str>) -> Self {
        Self {
            id: speaker.id.as_str(),
            object: "speaker",
            name: &speaker.name,
            usable: state.profiles.profile(account, speaker, model).is_some(),
            speech_sec: speaker.speech_ms as f64 / 1e3,
            created_at: clock::iso(speaker.created_at),
        }
    }
}

fn unknown() -> ApiError {
    ApiError::not_found("There is no such speaker.")
}

/// The code of errors about the clip itself.
const UNSUITABLE: &str = "unsuitable_audio";

fn unsuitable(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, UNSUITABLE, message)
}

fn unsupported(reason: &dyn std::fmt::Display) -> ApiError {
    ApiError::unsupported_option(format!("Speakers cannot be named here: {reason}."))
}

async fn model(state: &SpeakersState) -> Result<Option<String>> {
    state.profiles.model().await.map_err(|error| ApiError::internal(&error))
}

/// `POST /v2/speakers`
pub async fn create(state: Arc<SpeakersState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let name = fields.required_string("name", 1..=MAX_NAME_CHARS)?;
    let name = checked_name(&name).map_err(|reason| ApiError::validation(format!("`name` {reason}.")))?;
    let audio_url = fields.string_of("audio_url", 0..=MAX_URL_CHARS)?;
    let source = named_source(&state.outbound, audio_url, fields.string("upload_id")?)?;
    let upload = match &source {
        Source::Upload(id) => Some(id),
        Source::Url(_) => None,
    };
    if let Some(id) = upload {
        upload_filename(&state.store, &account, id).await?;
    }
    let engine = engine(&state)?;
    let model = model(&state).await?;
    if model.is_none() {
        return Err(unsupported(&"the models folder has no speaker embedding"));
    }
    let refusal = state.store.speaker_refusal(&account, name, MAX_SPEAKERS).await?;
    refusal.map_or(Ok(()), |refusal| Err(refused(refusal, name)))?;
    let _place = state.places.try_take(&account).ok_or_else(busy)?;
    let profile = match local_file(&state, &account, &source).await {
        Ok(file) => heard(engine, file, Clip::Profile).await,
        Err(error) => Err(error),
    };
    // A clip that cannot be used is of no more use here, and is a voice.
    if let (Err(ApiError { code: UNSUITABLE, .. }), Some(upload)) = (&profile, upload) {
        state.store.delete_refused_upload(upload).await?;
        state.notifiers.deletions.notify_one();
    }
    let profile = profile?;
    let speaker = state.profiles.speaker(&account, name, &profile).map_err(|error| ApiError::internal(&error))?;
    if !state.store.create_speaker(&account, &speaker, upload).await? {
        return Err(refused(NameRefusal::Taken, name));
    }
    state.notifiers.deletions.notify_one();
    Ok(json(&Body::new(&state, &account, &speaker, model.as_deref())))
}

/// The engine of this process.
///
/// # Errors
/// 503 if it has none.
pub fn engine(state: &SpeakersState) -> Result<&Engine> {
    state.engine.as_ref().ok_or_else(|| {
        let message = "This process reads no audio; ask one of role `all`.";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "model_unavailable", message)
    })
}

fn refused(refusal: NameRefusal, name: &str) -> ApiError {
    match refusal {
        NameRefusal::Taken => {
            let message = format!("There is a speaker {name:?} already; delete it first, or take another name.");
            ApiError::new(StatusCode::CONFLICT, "speaker_exists", message)
        }
        NameRefusal::Full => {
            let message = format!("An account may have {MAX_SPEAKERS} speakers; delete one first.");
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", message)
        }
    }
}

/// 429 while there is no room for another clip.
pub fn busy() -> ApiError {
    let message = "As many clips as there may be are being heard; try again when one is done.";
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", message)
}

/// The clip on this machine.
pub(super) async fn local_file(state: &SpeakersState, account: &AccountId, source: &Source) -> Result<LocalFile> {
    match source {
        Source::Url(url) => {
            let fetching = fetch(&state.outbound, url, &state.scratch, MAX_CLIP_BYTES);
            let not_fetched = |reason: &str| unsuitable(format!("The audio could not be fetched: {reason}."));
            match tokio::time::timeout(FETCH_TIMEOUT, fetching).await {
                Ok(fetched) => fetched.map_err(|error| match error {
                    FetchError::Source(reason) => not_fetched(&reason),
                    FetchError::Disk(error) => ApiError::internal(&error),
                }),
                Err(_) => Err(not_fetched(&format!("it took longer than {} s", FETCH_TIMEOUT.as_secs()))),
            }
        }
        Source::Upload(id) => {
            let (key, gone) = (object_key(account, id), || ApiError::not_found(format!("There is no upload {id}.")));
            let size = state.storage.size(&key).await.map_err(|error| ApiError::internal(&error))?.ok_or_else(gone)?;
            if size > MAX_CLIP_BYTES {
                return Err(unsuitable(format!("A clip may have {MAX_CLIP_BYTES} bytes; this one has {size}.")));
            }
            let file = state.storage.local_file(&key, &state.scratch).await;
            file.map_err(|error| ApiError::internal(&error))?.ok_or_else(gone)
        }
    }
}

/// The use of a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clip {
    /// A profile that is kept.
    Profile,
    /// A reference of one request.
    Reference,
}

/// The profile of the person who speaks in a clip.
///
/// # Errors
/// 422 for a clip that cannot be used, 429 while there is no room.
pub async fn heard(engine: &Engine, file: LocalFile, clip: Clip) -> Result<VoiceProfile> {
    // The file is read while its stream is.
    let (_file, audio) = opened(file).await?;
    let profile = match clip {
        Clip::Profile => engine.enroll(audio).await,
        Clip::Reference => engine.enroll_reference(audio).await,
    };
    profile.map_err(not_heard)
}

/// The audio of a clip, and its file, which is to be kept while it is read.
pub(super) async fn opened(file: LocalFile) -> Result<(LocalFile, AudioStream)> {
    let opening = tokio::task::spawn_blocking(move || {
        let audio = AudioStream::open_with(file.path(), &OpenOptions::default().name("the clip"))?;
        Ok::<_, Error>((file, audio))
    });
    opening.await.map_err(|panic| ApiError::internal(&panic))?.map_err(not_heard)
}

pub(super) fn not_heard(error: Error) -> ApiError {
    match error {
        Error::UnsuitableClip(_)
        | Error::UnsupportedMedia(_)
        | Error::NoAudioTrack(_)
        | Error::FfmpegMissing(_)
        | Error::Ffmpeg(_) => unsuitable(format!("This clip cannot be used: {error}.")),
        Error::InvalidOption(_) => unsupported(&error),
        Error::Busy(_) => busy(),
        error => ApiError::internal(&error),
    }
}

/// `GET /v2/speakers`
pub async fn list(state: Arc<SpeakersState>, request: RequestContext) -> Result<Response> {
    let account = &request.account()?.id;
    let (limit, offset) = request.page()?;
    let (speakers, total) = state.store.speakers(account, limit, offset).await?;
    let model = model(&state).await?;
    let data: Vec<Body> = speakers.iter().map(|one| Body::new(&state, account, one, model.as_deref())).collect();
    Ok(json(&json!({ "object": "list", "data": data, "total": total, "limit": limit, "offset": offset })))
}

/// `GET /v2/speakers/{speaker_id}`
pub async fn get(state: Arc<SpeakersState>, request: RequestContext) -> Result<Response> {
    let account = &request.account()?.id;
    let id = SpeakerId::from(request.param("speaker_id"));
    let speaker = state.store.speaker(account, &id).await?.ok_or_else(unknown)?;
    Ok(json(&Body::new(&state, account, &speaker, model(&state).await?.as_deref())))
}

/// `DELETE /v2/speakers/{speaker_id}`
pub async fn delete(state: Arc<SpeakersState>, request: RequestContext) -> Result<Response> {
    let id = SpeakerId::from(request.param("speaker_id"));
    if !state.store.delete_speaker(&request.account()?.id, &id).await? {
        return Err(unknown());
    }
    state.notifiers.deletions.notify_one();
    Ok(no_content())
}
