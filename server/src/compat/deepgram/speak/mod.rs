//! `POST /v1/speak`: a text in, its speech out as it is made; `socket` does the same over a WebSocket.

pub mod socket;

use std::sync::Arc;

use auricle_engine::{Engine, SPEECH_RATE, SPEEDS, SpeakOptions};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};

use super::common::ENCODINGS;
use super::parameters::Parameters;
use super::{identify, request_id};
use crate::api::openai::speech::{SpeechState, pcm, refused, spoken};
use crate::api::openai::speech_encoder::{self, unavailable};
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, streamed};
use crate::http::response_body::ResponseBroken;
use crate::live::codec::{AudioFormat, Encoder};
use crate::sound_format::{Encoding, SoundFormat, wav_header_of};

/// Characters of a text at most.
const MAX_CHARS: usize = 100_000;

/// Rates of samples without an encoder, in hertz.
const RATES: [(&str, u32); 6] =
    [("8000", 8_000), ("16000", 16_000), ("22050", 22_050), ("24000", 24_000), ("32000", 32_000), ("48000", 48_000)];

/// The rate of mu-law and A-law where none is chosen, in hertz.
const COMPANDED_RATE: u32 = 8_000;

/// The form of the sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Made by `ffmpeg`.
    Encoded(SoundFormat),
    Samples {
        encoding: Encoding,
        rate: u32,
        has_header: bool,
    },
}

/// The query of a request.
struct Query {
    /// As the client names it.
    model: Option<String>,
    speed: f32,
    form: Form,
}

/// `POST /v1/speak`
pub async fn create(state: Arc<SpeechState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let query = Query::read(Parameters::of(request.uri())?, Form::read)?;
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    if fields.has("url") {
        return Err(ApiError::unsupported_option("`url` is not served here: send the text as `text`."));
    }
    let text = fields.required_string("text", 1..=MAX_CHARS)?;
    let options = query.options(&state)?;
    let id = request_id();
    let mut response = match query.form {
        Form::Encoded(format) => {
            let encoder = speech_encoder::find(format)?.ok_or_else(|| unavailable("There is no such encoder."))?;
            let sound = pcm(spoken(&state, &account, options, &text).await?);
            streamed(format.content_type(), encoder.encode(sound).await?)
        }
        Form::Samples { encoding, rate, has_header } => {
            let encoder = Encoder::new(AudioFormat { encoding, rate }).map_err(|error| ApiError::internal(&error))?;
            let header = has_header.then(|| Ok(Bytes::from(wav_header_of(encoding, 1, rate, None))));
            let sound = coded(spoken(&state, &account, options, &text).await?, encoder);
            let kind = match (has_header, encoding) {
                (true, _) => "audio/wav",
                (false, Encoding::Pcm) => "audio/l16",
                (false, Encoding::Mulaw) => "audio/mulaw",
                (false, Encoding::Alaw) => "audio/alaw",
            };
            streamed(kind, stream::iter(header).chain(sound))
        }
    };
    identify(&mut response, &id);
    Ok(response)
}

impl Query {
    fn read(mut parameters: Parameters, form: fn(&mut Parameters) -> Result<Form>) -> Result<Self> {
        let query = Self {
            model: parameters.text("model"),
            speed: parameters.number("speed", &SPEEDS)?.unwrap_or(1.0),
            form: form(&mut parameters)?,
        };
        // Neither changes the sound.
        parameters.texts("tag");
        parameters.flag("mip_opt_out")?;
        parameters.finish()?;
        Ok(query)
    }

    fn options(&self, state: &SpeechState) -> Result<SpeakOptions> {
        let engine = state.engine.as_ref().ok_or_else(|| unavailable("This process does not speak."))?;
        let mut options = SpeakOptions::default().speed(self.speed);
        if let Some(model) = &self.model {
            options.voice = Some(voice(engine, model)?);
        }
        Ok(options)
    }
}

impl Form {
    fn read(parameters: &mut Parameters) -> Result<Self> {
        let encoded = [
            ("mp3", SoundFormat::Mp3),
            ("opus", SoundFormat::Opus),
            ("aac", SoundFormat::Aac),
            ("flac", SoundFormat::Flac),
        ];
        let encoded = encoded.map(|(name, format)| (name, Ok(format)));
        let all: Vec<_> = encoded.into_iter().chain(ENCODINGS.map(|(name, encoding)| (name, Err(encoding)))).collect();
        match parameters.choice("encoding", &all)?.unwrap_or(Ok(SoundFormat::Mp3)) {
            Ok(format) => {
                let container = if format == SoundFormat::Opus { "ogg" } else { "none" };
                parameters.choice("container", &[(container, ())])?;
                Ok(Self::Encoded(format))
            }
            Err(encoding) => {
                let has_header = parameters.choice("container", &[("wav", true), ("none", false)])?.unwrap_or(true);
                Self::samples(parameters, encoding, has_header)
            }
        }
    }

    fn samples(parameters: &mut Parameters, encoding: Encoding, has_header: bool) -> Result<Self> {
        let rate = if encoding == Encoding::Pcm { SPEECH_RATE } else { COMPANDED_RATE };
        let rate = parameters.choice("sample_rate", &RATES)?.unwrap_or(rate);
        Ok(Self::Samples { encoding, rate, has_header })
    }
}

/// The voice for the protocol's name of one, or for one of this service: `aura-2-thalia-en` is the first that speaks English.
fn voice(engine: &Engine, model: &str) -> Result<String> {
    let voices = engine.voices(&SpeakOptions::default()).map_err(refused)?;
    if let Some(voice) = voices.iter().find(|voice| voice.id == model || voice.model == model) {
        return Ok(voice.id.clone());
    }
    let language = model.strip_prefix("aura-").and_then(|rest| Some(rest.rsplit_once('-')?.1));
    let speaks = |language: &str| voices.iter().any(|voice| voice.language == language);
    language
        .filter(|language| speaks(language))
        .map(str::to_owned)
        .ok_or_else(|| ApiError::invalid(format!("There is no voice {model:?}; GET /v2/voices lists them.")))
}

/// Speech in a coding of samples.
fn coded(
    sound: impl Stream<Item = std::result::Result<Vec<f32>, ResponseBroken>> + Send + Unpin + 'static,
    encoder: Encoder,
) -> impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send + 'static {
    let parts = stream::unfold((sound, Some(encoder)), |(mut sound, encoder)| async move {
        let mut encoder = encoder?;
        Some(match sound.next().await {
            Some(Ok(samples)) => (encoder.encode(&samples).map_err(|_| ResponseBroken), (sound, Some(encoder))),
            Some(Err(error)) => (Err(error), (sound, None)),
            None => (encoder.finish().map_err(|_| ResponseBroken), (sound, None)),
        })
    });
    parts.map(|part| part.map(Bytes::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(query: &str) -> Result<Form> {
        Query::read(Parameters::of(&format!("/v1/speak?{query}").parse().unwrap())?, Form::read).map(|query| query.form)
    }

    #[test]
    fn queries_are_validated() {
        let samples = |encoding, rate, has_header| Form::Samples { encoding, rate, has_header };
        assert_eq!(form("model=aura-2-thalia-en&tag=a").unwrap(), Form::Encoded(SoundFormat::Mp3));
        assert_eq!(form("encoding=opus&container=ogg").unwrap(), Form::Encoded(SoundFormat::Opus));
        assert_eq!(form("encoding=linear16").unwrap(), samples(Encoding::Pcm, 24_000, true));
        assert_eq!(form("encoding=mulaw&container=none").unwrap(), samples(Encoding::Mulaw, 8_000, false));
        assert_eq!(form("encoding=alaw&sample_rate=16000").unwrap(), samples(Encoding::Alaw, 16_000, true));
        for refused in [
            "encoding=wav",
            "encoding=mp3&container=wav",
            "encoding=mp3&sample_rate=22050",
            "encoding=linear16&sample_rate=11025",
            "bit_rate=48000",
            "callback=http://x",
            "speed=3",
        ] {
            assert!(form(refused).is_err_and(|error| error.status.is_client_error()), "{refused}");
        }
    }
}
