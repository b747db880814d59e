//! `POST /v1/listen`: the transcript of a file or of a URL's audio, in one request.

use std::sync::Arc;

use auricle_engine::SAMPLE_RATES;
use hyper::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use super::common::{Common, ENCODINGS};
use super::parameters::Parameters;
use super::transcript::{Asked, Request, render};
use super::{identify, request_id};
use crate::api::TranscriptsState;
use crate::api::create::MAX_URL_CHARS;
use crate::api::form;
use crate::api::one_request::{rendered, transcribe_source};
use crate::api::uploads::new_upload;
use crate::billing::ProductKind;
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::query;
use crate::http::response::{ApiError, Response, Result, json as json_response};
use crate::ids::AccountId;
use crate::sound_format::{Encoding, wav_header_of};

/// Silence between two words that ends an utterance, s, where the client chooses none.
const UTTERANCE_PAUSE_S: f64 = 0.8;

/// The most channels of audio without a header.
const MAX_CHANNELS: u16 = 8;

/// Groups of labels that redaction may be asked for, by the protocol's names.
const REDACTED: [(&str, &[&str]); 2] = [
    ("pci", &["CREDIT_CARD_NUMBER", "CREDIT_CARD_EXPIRATION", "CREDIT_CARD_CVV"]),
    ("ssn", &["US_SOCIAL_SECURITY_NUMBER"]),
];

/// `POST /v1/listen`
pub async fn create(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let mut parameters = Parameters::of(request.uri())?;
    let common = Common::read(&mut parameters, ProductKind::Prerecorded)?;
    let (options, asked) = options(common, &mut parameters)?;
    let header = header(&mut parameters)?;
    parameters.finish()?;
    let created = clock::iso(clock::now_ms());
    let (transcript, sha256) = transcribed(&state, &account, request, options, header).await?;
    let id = request_id();
    let request = Request { id: id.clone(), created, sha256 };
    let mut response = rendered(&state, transcript, move |transcript, words| {
        Ok(json_response(&render(transcript, &serde_json::from_str::<Vec<_>>(words)?, &asked, &request)?))
    })
    .await?;
    identify(&mut response, &id);
    Ok(response)
}

/// The transcript of the request's audio, and the hash of the audio; an empty one for a URL, whose audio is fetched by the job.
async fn transcribed(
    state: &Arc<TranscriptsState>,
    account: &AccountId,
    request: RequestContext,
    mut options: Map<String, Value>,
    header: Option<Vec<u8>>,
) -> Result<(Arc<crate::store::Transcript>, String)> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    if kind.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        let headers = request.headers().clone();
        let body = body::read(request.into_request(), MAX_JSON_BYTES).await?;
        let url = Fields::parse(&headers, &body)?.required_string("url", 1..=MAX_URL_CHARS)?;
        if header.is_some() {
            return Err(ApiError::unsupported_option(
                "`encoding` is for audio in the body: that of a URL has a header.",
            ));
        }
        options.insert("audio_url".into(), url.into());
        return Ok((transcribe_source(state, account, options, || {}).await?, String::new()));
    }
    // The packages send every file as application/octet-stream.
    let is_media = kind.starts_with("audio/") || kind.starts_with("video/");
    let kind = match &header {
        Some(_) => "audio/wav".into(),
        None if is_media => kind,
        None => "audio/x-unknown".into(),
    };
    let body = request.into_body();
    let mut bytes = http_body_util::BodyExt::into_data_stream(body);
    let upload = new_upload(&state.uploads, account.clone(), "audio".into(), kind, None).await?;
    let file = form::store(&state.uploads, upload, header, &mut bytes).await?;
    options.insert("upload_id".into(), file.upload.id.as_str().into());
    let sha256 = file.sha256.clone();
    Ok((transcribe_source(state, account, options, || file.keep()).await?, sha256))
}

/// The header in front of audio that has none.
fn header(parameters: &mut Parameters) -> Result<Option<Vec<u8>>> {
    let rate = parameters.number("sample_rate", &SAMPLE_RATES)?;
    let channels = parameters.number("channels", &(1..=MAX_CHANNELS))?.unwrap_or(1);
    let containers = ["flac", "opus", "ogg-opus", "amr-nb", "amr-wb", "speex"].map(|name| (name, None));
    let raw = ENCODINGS.map(|(name, encoding)| (name, Some(encoding)));
    let all: Vec<(&str, Option<Encoding>)> = raw.into_iter().chain(containers).collect();
    // Others than raw ones have a container, which tells.
    let Some(encoding) = parameters.choice("encoding", &all)?.flatten() else { return Ok(None) };
    let rate = rate.ok_or_else(|| ApiError::invalid("`sample_rate` is missing, which this `encoding` needs."))?;
    Ok(Some(wav_header_of(encoding, channels, rate, None)))
}

/// The query as a request to create a transcript, and the form of its answer.
fn options(common: Common, parameters: &mut Parameters) -> Result<(Map<String, Value>, Asked)> {
    let mut options = Map::new();
    let mut set = |name: &str, value: Value| drop(options.insert(name.into(), value));
    set("model", common.model.into());
    set("format_numbers", common.numerals.into());
    if common.medical {
        set("medical_mode", true.into());
    }
    if !common.keyterms.is_empty() {
        set("keyterms_prompt", json!(common.keyterms));
    }
    let mut languages = common.languages;
    let mut detects_language = false;
    for value in parameters.texts("detect_language") {
        match query::truth(&value) {
            Some(detects) => detects_language = detects,
            None => {
                detects_language = true;
                languages.push(value);
            }
        }
    }
    if !languages.is_empty() {
        set("language_codes", json!(languages));
    }
    if let Some(language) = common.language.as_deref().filter(|_| !detects_language) {
        set("language_code", language.into());
    }
    let model_diarizes = parameters.choice("diarize_model", &["latest", "v1", "v2"].map(|name| (name, true)))?;
    let diarized = parameters.flag("diarize")? | model_diarizes.unwrap_or_default();
    for (asked, name) in [
        (diarized, "speaker_labels"),
        (parameters.flag("multichannel")?, "multichannel"),
        (parameters.flag("profanity_filter")?, "profanity_filter"),
        (parameters.flag("detect_entities")?, "entity_detection"),
        (parameters.flag("sentiment")?, "sentiment_analysis"),
    ] {
        if asked {
            set(name, true.into());
        }
    }
    let forms = [("v2", true), ("true", true), ("false", false)];
    if parameters.choice("summarize", &forms)? == Some(true) {
        set("summarization", true.into());
        set("summary_type", "paragraph".into());
    }
    let redacted = parameters.texts("redact");
    if redacted.iter().any(|name| query::truth(name) != Some(false)) {
        set("pii_redaction", true.into());
        if let Some(policies) = policies(&redacted)? {
            set("pii_policies", json!(policies));
        }
    }
    let paragraphs = parameters.flag("paragraphs")?;
    let pause_s = parameters.number("utt_split", &(0.0..=600.0))?.unwrap_or(UTTERANCE_PAUSE_S);
    let asked = Asked {
        punctuated: common.punctuated | paragraphs,
        diarized,
        paragraphs: paragraphs | common.smart_format,
        utterance_pause_ms: parameters.flag("utterances")?.then_some((pause_s * 1e3) as u64),
        detects_language,
        finds_languages: common.language.is_none(),
        tags: common.tags,
        extra: common.extra,
    };
    Ok((options, asked))
}

/// The labels that redaction hides; none for all that it hides by itself.
fn policies(names: &[String]) -> Result<Option<Vec<String>>> {
    let mut policies = Vec::new();
    for name in names {
        match (REDACTED.iter().find(|(known, _)| known == name), name.as_str()) {
            (_, "pii" | "true") => return Ok(None),
            (_, "numbers" | "aggressive_numbers") => {
                return Err(ApiError::unsupported_option(format!(
                    "`redact` hides personal data here, not all numbers: take pii, pci, ssn or a label of /v2 in place of {name}."
                )));
            }
            (Some((_, labels)), _) => policies.extend(labels.iter().map(|label| (*label).to_owned())),
            // The labels of /v2 have their own check.
            (None, label) => policies.push(label.to_owned()),
        }
    }
    Ok(Some(policies))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<(Value, Asked)> {
        let mut parameters = Parameters::of(&format!("/v1/listen?{query}").parse().unwrap())?;
        let common = Common::read(&mut parameters, ProductKind::Prerecorded)?;
        let (options, asked) = options(common, &mut parameters)?;
        parameters.finish().map(|()| (options.into(), asked))
    }

    #[test]
    fn a_query_becomes_a_request() {
        let expect = |query: &str, expected: Value| assert_eq!(read(query).unwrap().0, expected, "{query}");
        expect("", json!({ "model": "svc-best", "format_numbers": false, "language_code": "en" }));
        expect(
            "model=nova-3-medical&smart_format=true&language=en-US&diarize=true&keyterm=Acme&keywords=Zed:2",
            json!({
                "model": "svc-best", "medical_mode": true, "format_numbers": true, "language_code": "en_us",
                "speaker_labels": true, "keyterms_prompt": ["Acme", "Zed"],
            }),
        );
        expect(
            "model=base&detect_language=en&detect_language=de&summarize=v2&redact=pci&redact=person_name",
            json!({
                "model": "svc-fast", "format_numbers": false, "language_codes": ["en", "de"],
                "summarization": true, "summary_type": "paragraph", "pii_redaction": true,
                "pii_policies": ["CREDIT_CARD_NUMBER", "CREDIT_CARD_EXPIRATION", "CREDIT_CARD_CVV", "person_name"],
            }),
        );
        expect(
            "language=multi&redact=pii&redact=pci&multichannel=true&topics=false",
            json!({ "model": "svc-best", "format_numbers": false, "pii_redaction": true, "multichannel": true }),
        );
        let asked = read("utterances=true&utt_split=1.2&paragraphs=true&tag=a&tag=b&extra=k:v").unwrap().1;
        assert!(asked.punctuated && asked.paragraphs && asked.utterance_pause_ms == Some(1_200));
        assert_eq!((asked.tags, asked.extra["k"].as_str()), (vec!["a".to_owned(), "b".to_owned()], Some("v")));
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        for name in [
            "topics",
            "intents",
            "custom_topic",
            "custom_intent",
            "search",
            "replace",
            "callback",
            "dictation",
            "measurements",
            "filler_words",
            "alternatives",
        ] {
            let refused = read(&format!("{name}=true")).err().unwrap();
            assert!(refused.message.contains(&format!("`{name}`")), "{}", refused.message);
        }
        for query in ["redact=numbers", "summarize=v1", "version=2021", "model=flux", "keywords=a:-1", "diarize=x"] {
            assert!(read(query).is_err(), "{query}");
        }
    }

    #[test]
    fn raw_audio_gets_a_header() {
        let header = |query: &str| header(&mut Parameters::of(&format!("/?{query}").parse().unwrap()).unwrap());
        let made = header("encoding=mulaw&sample_rate=8000&channels=2").unwrap().unwrap();
        assert_eq!((&made[20..24], &made[24..28]), (&[7, 0, 2, 0][..], &8_000_u32.to_le_bytes()[..]));
        assert_eq!(header("encoding=flac").unwrap(), None);
        assert!(header("encoding=linear16").is_err() && header("encoding=g729").is_err());
        assert!(header("encoding=alaw&sample_rate=1").is_err());
    }
}
