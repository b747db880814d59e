//! `/v1/audio/speech`: a text in, its speech out as it is made.

use std::sync::Arc;

use auricle_engine::{Engine, Error, SPEECH_RATE, SPEEDS, SpeakOptions, SpeechFrame, VoiceInfo};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use hyper::StatusCode;

use super::speech_encoder::{self, unavailable};
use crate::cloned_voices::ClonedVoices;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, streamed};
use crate::http::response_body::ResponseBroken;
use crate::ids::AccountId;
use crate::languages::primary_subtag;
use crate::sharing::{Place, Places};
use crate::sound_format::{SoundFormat, wav_header};

/// Characters of a text at most.
pub const MAX_CHARS: usize = 100_000;

/// The models of OpenAI's clients, for which the default voice stands in.
pub const MODELS: [&str; 3] = ["tts-1", "tts-1-hd", "gpt-4o-mini-tts"];
/// The voices of OpenAI's clients, for which the default voice stands in.
pub const VOICES: [&str; 13] =
    ["alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse"];

/// Requests for speech at a time.
pub const MAX_REQUESTS: usize = 32;

/// The state of this resource.
pub struct SpeechState {
    /// None if this process does not compute.
    pub engine: Option<Engine>,
    pub places: Places,
    /// Voices of the accounts.
    pub clones: ClonedVoices,
}

impl SpeechState {
    /// # Errors
    /// 503 if this process does not compute.
    pub fn engine(&self) -> Result<&Engine> {
        self.engine.as_ref().ok_or_else(|| unavailable("This process does not speak."))
    }

    /// A place of an account.
    ///
    /// # Errors
    /// 429 if there is none for it.
    pub fn place(&self, account: &AccountId) -> Result<Place> {
        self.places.try_take(account).ok_or_else(busy)
    }
}

/// A validated request.
#[derive(Debug, PartialEq)]
struct SpeechRequest {
    text: String,
    model: String,
    voice: Option<String>,
    language: Option<String>,
    format: SoundFormat,
    speed: f32,
}

/// `POST /v1/audio/speech`
pub async fn create(state: Arc<SpeechState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    speak(&state, &account, Fields::parse(&headers, &bytes)?).await
}

/// The speech that these fields of a request ask for.
///
/// # Errors
/// 400, 404 and 422 for a field, 429 and 503.
pub async fn speak(state: &SpeechState, account: &AccountId, fields: Fields) -> Result<Response> {
    let SpeechRequest { text, model, voice, language, format, speed } = parse(fields)?;
    let engine = state.engine()?;
    let encoder = speech_encoder::find(format)?;
    let mut options = select(engine, &model, voice, language.as_deref())?.speed(speed);
    options.language = language;
    let sound = pcm(spoken(state, account, options, &text).await?);
    Ok(match encoder {
        Some(encoder) => streamed(format.content_type(), encoder.encode(sound).await?),
        None if format == SoundFormat::Wav => streamed(
            format.content_type(),
            stream::once(async { Ok(Bytes::from(wav_header(SPEECH_RATE, None))) }).chain(sound),
        ),
        None => streamed(format.content_type(), sound),
    })
}

/// The speech of a text as it is made: samples, -1 to 1, at [`SPEECH_RATE`].
///
/// # Errors
/// Those before the first sound: 422 for a text or a voice that is not served, 429 without a place, 503 without a voice.
pub async fn spoken(
    state: &SpeechState,
    account: &AccountId,
    options: SpeakOptions,
    text: &str,
) -> Result<impl Stream<Item = std::result::Result<Vec<f32>, ResponseBroken>> + Send + Unpin + 'static> {
    let engine = state.engine()?;
    let place = state.place(account)?;
    let options = state.clones.chosen(account, options).await?;
    let (mut input, mut frames) = engine.speak(&options.account(account.as_str())).await.map_err(refused)?;
    input.push(text).map_err(refused)?;
    input.finish();
    let first = match frames.next().await {
        Some(frame) => frame.map_err(refused)?,
        None => return Err(ApiError::validation("The text has no word that the voice can read.")),
    };
    let frames = stream::iter([Ok(first)]).chain(frames);
    Ok(Box::pin(frames.map(move |frame| {
        // The place is free again when the client has all, or leaves.
        let _ = &place;
        frame.map(|frame: SpeechFrame| frame.samples).map_err(|error| {
            tracing::error!(%error, "speech ended early");
            ResponseBroken
        })
    })))
}

fn parse(mut fields: Fields) -> Result<SpeechRequest> {
    let text = fields.required_string("input", 1..=MAX_CHARS)?;
    let model = fields.required_string("model", 1..=100)?;
    let voice = match fields.take("voice") {
        // The newest clients name custom voices by an object.
        Some(serde_json::Value::Object(voice)) => {
            Fields::of("voice", serde_json::Value::Object(voice))?.string_of("id", 1..=100)?
        }
        Some(serde_json::Value::String(voice)) => Some(voice),
        Some(other) => return Err(body::wrong_type("voice", "a string", &other)),
        None => None,
    };
    let language = fields.string_of("language", 2..=35)?;
    let format = match fields.string("response_format")? {
        None => SoundFormat::Mp3,
        Some(name) => {
            let format = SoundFormat::ALL.iter().find(|(known, _)| *known == name);
            let names = SoundFormat::ALL.map(|(name, _)| name).join(", ");
            let wrong = || ApiError::validation(format!("`response_format` must be one of {names}; it is {name:?}."));
            format.ok_or_else(wrong)?.1
        }
    };
    let speed = fields.number("speed", f64::from(*SPEEDS.start())..=f64::from(*SPEEDS.end()))?.unwrap_or(1.0) as f32;
    if let Some(other) = fields.string("stream_format")?.filter(|format| format != "audio") {
        return Err(ApiError::validation(format!("`stream_format` must be audio; it is {other:?}.")));
    }
    Ok(SpeechRequest { text, model, voice, language, format, speed })
}

/// The options for a model and a voice.
fn select(engine: &Engine, model: &str, voice: Option<String>, language: Option<&str>) -> Result<SpeakOptions> {
    let voices = engine.voices(&SpeakOptions::default()).map_err(refused)?;
    let voice =
        voice.filter(|voice| voices.iter().any(|known| known.id == *voice) || !VOICES.contains(&voice.as_str()));
    let speaks = |voice: &&VoiceInfo| language.is_none_or(|language| primary_subtag(language) == voice.language);
    let mut all_of_model = voices.iter().filter(|voice| voice.model == model);
    let first = all_of_model.clone().next();
    let of_model = all_of_model.find(speaks).or(first);
    if of_model.is_none() && !MODELS.contains(&model) {
        let message = format!("There is no model {model:?} that speaks; GET /v2/voices lists them.");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message));
    }
    let voice = voice.or_else(|| of_model.map(|voice| voice.id.clone()));
    let mut options = SpeakOptions::default();
    options.voice = voice;
    Ok(options)
}

fn busy() -> ApiError {
    ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "quota_exceeded",
        "As many requests for speech as there may be are at work; try again when one has ended.",
    )
}

/// The response for an error of the engine.
pub fn refused(error: Error) -> ApiError {
    match error {
        Error::UnknownVoice(_) | Error::Language(_) | Error::InvalidOption(_) => {
            ApiError::validation(format!("`voice`: {error}."))
        }
        Error::NotPulled(_) => unavailable("This service has no voice."),
        Error::Busy(_) => busy(),
        error => ApiError::internal(&error),
    }
}

/// Samples as 16 bits each.
pub fn pcm16(samples: &[f32]) -> Bytes {
    let sample = |sample: &f32| ((sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16).to_le_bytes();
    samples.iter().flat_map(sample).collect::<Vec<u8>>().into()
}

/// The samples of speech, as bytes.
pub fn pcm(
    sound: impl Stream<Item = std::result::Result<Vec<f32>, ResponseBroken>> + Send + Unpin + 'static,
) -> impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send + Unpin + 'static {
    sound.map(|samples| samples.map(|samples| pcm16(&samples)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(body: Value) -> Result<SpeechRequest> {
        parse(Fields::of("body", body)?)
    }

    #[test]
    fn requests_are_validated() {
        let read = parsed(
            json!({ "model": "tts-1", "input": "Hi", "voice": "alloy", "response_format": "wav", "speed": 1.5, "instructions": "x" }),
        );
        let expected = SpeechRequest {
            text: "Hi".into(),
            model: "tts-1".into(),
            voice: Some("alloy".into()),
            language: None,
            format: SoundFormat::Wav,
            speed: 1.5,
        };
        assert_eq!(read.unwrap(), expected);
        let read = parsed(json!({ "model": "tts-1", "input": "Hi", "voice": { "id": "zed" } })).unwrap();
        assert_eq!((read.voice.as_deref(), read.format, read.speed), (Some("zed"), SoundFormat::Mp3, 1.0));
        for (body, status) in [
            (json!({ "model": "tts-1" }), 400),
            (json!({ "input": "Hi" }), 400),
            (json!({ "model": "tts-1", "input": "" }), 422),
            (json!({ "model": "tts-1", "input": "x".repeat(MAX_CHARS + 1) }), 422),
            (json!({ "model": "tts-1", "input": 3 }), 422),
            (json!({ "model": "tts-1", "input": "Hi", "voice": 3 }), 422),
            (json!({ "model": "tts-1", "input": "Hi", "response_format": "ogg" }), 422),
            (json!({ "model": "tts-1", "input": "Hi", "speed": 4 }), 422),
            (json!({ "model": "tts-1", "input": "Hi", "language": 3 }), 422),
            (json!({ "model": "tts-1", "input": "Hi", "stream_format": "sse" }), 422),
        ] {
            assert_eq!(parsed(body.clone()).unwrap_err().status, status, "{body}");
        }
    }
}
