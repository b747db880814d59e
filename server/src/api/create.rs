//! Validation of requests to create a transcript.

use auricle_engine::Catalog;
use auricle_engine::analysis;
use auricle_engine::analysis::summary::SummaryForm;
use auricle_engine::audio::Cover;
use hyper::StatusCode;
use url::Url;

use super::TranscriptsState;
use crate::billing::{Price, ProductKind};
use crate::clock;
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};
use crate::ids::{AccountId, TranscriptId, UploadId};
use crate::jobs::text_options;
use crate::outbound::Outbound;
use crate::store::{JobOptions, NewTranscript, Source, Store, UploadStatus};
use crate::visible;

/// The longest title.
pub const MAX_TITLE_CHARS: usize = 500;

/// The longest URL.
pub const MAX_URL_CHARS: usize = 4096;

/// No language code is longer.
const MAX_CODE_CHARS: usize = 35;

/// Validates a request: first its fields, then the resources that it names.
///
/// # Errors
/// 400, 404, 409 or 422, as the contract says.
pub async fn validate(state: &TranscriptsState, account: &AccountId, mut fields: Fields) -> Result<NewTranscript> {
    let audio_url = fields.string_of("audio_url", 0..=MAX_URL_CHARS)?;
    let upload_id = fields.string("upload_id")?;
    let model = fields.string("model")?.unwrap_or_else(|| "svc-best".into());
    let language_code = fields.string("language_code")?;
    let options = JobOptions {
        speaker_labels: fields.flag("speaker_labels")?,
        speakers_expected: fields.integer("speakers_expected", 1..=20)?.map(i64::unsigned_abs),
        identify_speakers: fields.flag("identify_speakers")?,
        multichannel: fields.flag("multichannel")?,
        auto_chapters: fields.flag("auto_chapters")?,
        summarization: fields.flag("summarization")?,
        summary_type: fields.string("summary_type")?,
        redact_audio: fields.string("redact_audio")?,
        entity_detection: fields.flag("entity_detection")?,
        sentiment_analysis: fields.flag("sentiment_analysis")?,
        content_moderation: fields.flag("content_moderation")?,
        medical_mode: fields.flag("medical_mode")?,
        translate: fields.flag("translate")?,
        format_numbers: fields.optional_flag("format_numbers")?,
        language_codes: fields.strings("language_codes", 100, MAX_CODE_CHARS)?,
        ..text_options(&mut fields)?
    };
    if let Some(name) = options.redact_audio.as_deref().filter(|name| Cover::named(name).is_none()) {
        return Err(ApiError::validation(format!("`redact_audio` must be beep or silence, not {name:?}.")));
    }
    if options.redact_audio.is_some() && !options.pii_redaction {
        return Err(ApiError::validation("`redact_audio` needs `pii_redaction`: it hides what that has found."));
    }
    if let Some(name) = options.summary_type.as_deref().filter(|name| name.parse::<SummaryForm>().is_err()) {
        let message = format!("`summary_type` must be bullets, gist, headline or paragraph, not {name:?}.");
        return Err(ApiError::validation(message));
    }
    let webhook_url = fields.string_of("webhook_url", 0..=MAX_URL_CHARS)?;
    let title = title(&mut fields)?;
    let estimated_duration_sec = fields.integer("estimated_duration_sec", 0..=i64::MAX)?;

    let price = Price::of(&model, ProductKind::Prerecorded).ok_or_else(|| {
        let message = format!("`model` must be svc-best or svc-fast, not {model:?}.");
        ApiError::new(StatusCode::BAD_REQUEST, "unknown_model", message)
    })?;
    if let Some(url) = &webhook_url {
        check_webhook_url(&state.outbound, url)?;
    }
    let source = named_source(&state.outbound, audio_url, upload_id)?;
    let JobOptions { speaker_labels, multichannel, .. } = options;
    if multichannel && options.speakers_expected.is_some() {
        return Err(ApiError::validation(
            "`speakers_expected` and `multichannel` exclude each other: each channel is a speaker.",
        ));
    }
    if speaker_labels && !multichannel && state.catalog.diarizer().is_none() {
        return Err(ApiError::unsupported_option(
            "`speaker_labels` cannot be served: the models folder has no diarizer.",
        ));
    }
    if options.identify_speakers && (!speaker_labels || multichannel) {
        return Err(ApiError::validation(
            "`identify_speakers` names the speakers of `speaker_labels`: send both, without `multichannel`.",
        ));
    }
    let codes = options.language_codes.as_deref().unwrap_or_default();
    check_languages(&state.catalog, &model, language_code.as_deref(), codes)?;
    if options.translate && !state.catalog.choose(&model).is_ok_and(|choice| choice.languages.len() > 1) {
        let message =
            format!("`translate` cannot be served: the checkpoint of {model} knows no other language than English.");
        return Err(ApiError::unsupported_option(message));
    }
    // A translation is English.
    if options.pii_redaction && !options.translate {
        check_redaction(language_code.as_deref(), codes)?;
    }
    let default_title = match &source {
        Source::Url(url) => title_of(url),
        Source::Upload(id) => upload_filename(&state.store, account, id).await?,
    };

    Ok(NewTranscript {
        id: TranscriptId::new(),
        warnings: fields.unknown(),
        account: account.clone(),
        source,
        model,
        title: Some(title.unwrap_or(default_title)),
        language_code,
        webhook_url,
        options,
        // Without an estimate it is what any work costs at least, until the duration is known.
        reserved_cents: price.cents(estimated_duration_sec.unwrap_or_default().saturating_mul(1000)),
        created_at: clock::now_ms(),
    })
}

/// The title that a request gives.
///
/// # Errors
/// 422 for one that is too long or has hidden characters.
pub fn title(fields: &mut Fields) -> Result<Option<String>> {
    let title = fields.string_of("title", 0..=MAX_TITLE_CHARS)?;
    if let Some(title) = &title {
        visible::check(title).map_err(|reason| ApiError::validation(format!("`title` {reason}.")))?;
    }
    Ok(title)
}

/// # Errors
/// 400 for the URL of a webhook that is not public.
pub fn check_webhook_url(outbound: &Outbound, url: &str) -> Result<()> {
    outbound.check(url).map(drop).map_err(|error| {
        let message = format!("`webhook_url` must be a public http or https URL: {error}.");
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_webhook_url", message)
    })
}

/// The source that a request names.
///
/// # Errors
/// 400 for none, for two, and for a URL that is not public.
pub fn named_source(outbound: &Outbound, audio_url: Option<String>, upload_id: Option<String>) -> Result<Source> {
    match (audio_url, upload_id) {
        (Some(url), None) => {
            outbound.check(&url).map_err(|error| {
                ApiError::invalid(format!("`audio_url` must be a public http or https URL: {error}."))
            })?;
            Ok(Source::Url(url))
        }
        (None, Some(id)) => Ok(Source::Upload(id.into())),
        (None, None) => Err(ApiError::invalid("Send either `audio_url` or `upload_id`.")),
        (Some(_), Some(_)) => Err(ApiError::invalid("Send `audio_url` or `upload_id`, not both.")),
    }
}

/// Checks that the model's checkpoint has the languages.
fn check_languages(catalog: &Catalog, model: &str, code: Option<&str>, codes: &[String]) -> Result<()> {
    let unsupported = |option: &str, error: &dyn std::fmt::Display| {
        ApiError::unsupported_option(format!("`{option}` cannot be served: {error}."))
    };
    let choice = catalog.choose(model).map_err(|error| unsupported("model", &error))?;
    if let Some(code) = code {
        choice.check_language(code).map_err(|error| unsupported("language_code", &error))?;
    }
    for code in codes {
        choice.check_language(code).map_err(|error| unsupported("language_codes", &error))?;
    }
    Ok(())
}

/// Checks that redaction can be done in the languages that a request names. Of a language that is found later the job tells.
fn check_redaction(code: Option<&str>, codes: &[String]) -> Result<()> {
    for code in code.into_iter().chain(codes.iter().map(String::as_str)) {
        analysis::check_redaction(Some(code))
            .map_err(|error| ApiError::unsupported_option(format!("`pii_redaction` cannot be served: {error}.")))?;
    }
    Ok(())
}

/// The filename of a complete upload.
///
/// # Errors
/// 404 if the account has no such upload, 409 if it is not complete.
pub async fn upload_filename(store: &Store, account: &AccountId, id: &UploadId) -> Result<String> {
    let upload = store.upload_of(account, id).await?;
    let upload = upload.ok_or_else(|| ApiError::not_found(format!("There is no upload {id}.")))?;
    if upload.status != UploadStatus::Ready {
        let message = "The upload is not complete: put its bytes, then call complete.";
        return Err(ApiError::new(StatusCode::CONFLICT, "upload_incomplete", message));
    }
    Ok(upload.filename)
}

/// The last segment of a URL's path, else its host.
fn title_of(url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return url.to_owned() };
    let last = url.path().rsplit('/').find(|part| !part.is_empty());
    // PostgreSQL refuses a null, which decoding may produce.
    let shown = |part| visible::only(&percent_encoding::percent_decode_str(part).decode_utf8_lossy());
    let title = last.map(shown).unwrap_or_else(|| url.host_str().unwrap_or_default().to_owned());
    title.chars().take(MAX_TITLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::title_of;

    #[test]
    fn a_url_gives_a_title() {
        assert_eq!(title_of("https://example.com/a/My%20talk.mp3?x=/y"), "My talk.mp3");
        assert_eq!(title_of("https://example.com/a%00b%0a%E2%80%AE.mp3"), "ab.mp3");
        assert_eq!(title_of("https://example.com/"), "example.com");
        assert_eq!(title_of("https://example.com/a/b/"), "b");
    }
}
