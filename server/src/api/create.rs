//! What a call to create a transcript may ask for, and whether it can be had here.

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use url::Url;

use crate::billing::{Kind, Price};
use crate::clock;
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};
use crate::ids::{AccountId, TranscriptId, UploadId};
use crate::state::AppState;
use crate::store::{NewTranscript, Source, UploadStatus};

/// Vocabulary hints at most.
const KEYTERMS: usize = 1000;

/// The flags of a create call, in the contract's order.
pub const FLAGS: [&str; 8] = [
    "speaker_labels",
    "pii_redaction",
    "profanity_filter",
    "summarization",
    "auto_chapters",
    "entity_detection",
    "sentiment_analysis",
    "content_moderation",
];

/// Languages that have a medical vocabulary.
const MEDICAL: [&str; 4] = ["en", "es", "de", "fr"];

/// A create call that was found valid, and what it will be charged for.
pub struct Checked {
    pub new: NewTranscript,
    pub price: &'static Price,
    pub estimated_duration_sec: Option<i64>,
}

/// Checks a create call: its form first, then what it names.
pub async fn check(app: &AppState, account: &AccountId, mut fields: Fields) -> Result<Checked> {
    let audio_url = fields.string("audio_url")?;
    let upload_id = fields.string("upload_id")?;
    let model = fields.string("model")?.unwrap_or_else(|| "svc-best".into());
    let language_code = fields.string("language_code")?;
    let language_codes = fields.strings("language_codes", 100)?;
    let medical_mode = fields.flag("medical_mode")?;
    let keyterms = fields.strings("keyterms_prompt", KEYTERMS)?;
    let mut flags = Vec::new();
    for name in FLAGS {
        flags.push((name, fields.flag(name)?));
    }
    let webhook_url = fields.string("webhook_url")?;
    let title = fields.string("title")?;
    let estimated_duration_sec = fields.integer("estimated_duration_sec", 0..=i64::MAX)?;

    let price = Price::of(&model, Kind::Prerecorded).ok_or_else(|| {
        let message = format!("`model` must be svc-best or svc-fast, not {model:?}.");
        ApiError::new(StatusCode::BAD_REQUEST, "unknown_model", message)
    })?;
    if let Some(url) = &webhook_url {
        app.outbound.check(url).map_err(|error| {
            let message = format!("`webhook_url` must be a public http or https URL: {error}.");
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_webhook_url", message)
        })?;
    }
    let source = match (audio_url, upload_id) {
        (Some(url), None) => {
            app.outbound.check(&url).map_err(|error| {
                ApiError::invalid(format!("`audio_url` must be a public http or https URL: {error}."))
            })?;
            Source::Url(url)
        }
        (None, Some(id)) => Source::Upload(id.into()),
        (None, None) => return Err(ApiError::invalid("Send either `audio_url` or `upload_id`.")),
        (Some(_), Some(_)) => return Err(ApiError::invalid("Send `audio_url` or `upload_id`, not both.")),
    };
    if let Some((name, _)) = flags.iter().find(|(_, on)| *on) {
        return Err(ApiError::unsupported_option(format!("`{name}` is not served here yet; leave it out.")));
    }
    languages(app, &model, language_code.as_deref(), language_codes.as_deref().unwrap_or_default())?;
    let medical = language_code.as_deref().is_none_or(|code| MEDICAL.contains(&base(code).as_str()));
    if medical_mode && medical {
        return Err(ApiError::unsupported_option("`medical_mode` is not served here yet; leave it out."));
    }
    let named = match &source {
        Source::Url(url) => title_of(url),
        Source::Upload(id) => uploaded(app, account, id).await?,
    };

    let mut options = Map::new();
    options.insert("speaker_labels".into(), false.into());
    options.insert("medical_mode".into(), medical_mode.into());
    options.insert("language_codes".into(), json!(language_codes));
    options.insert("keyterms_prompt".into(), json!(keyterms));
    let new = NewTranscript {
        id: TranscriptId::new(),
        account: account.clone(),
        source,
        model,
        title: Some(title.unwrap_or(named)),
        language_code,
        webhook_url,
        options: Value::Object(options),
        created_at: clock::now_ms(),
    };
    Ok(Checked { new, price, estimated_duration_sec })
}

/// `en` of `en_us`.
pub fn base(code: &str) -> String {
    code.split(['-', '_']).next().unwrap_or(code).to_lowercase()
}

/// Whether the checkpoint behind the model has what was asked for.
fn languages(app: &AppState, model: &str, code: Option<&str>, codes: &[String]) -> Result<()> {
    let lacks = |option: &str, error: &dyn std::fmt::Display| {
        ApiError::unsupported_option(format!("`{option}` cannot be served: {error}."))
    };
    let choice = app.catalog.choose(model).map_err(|error| lacks("model", &error))?;
    if let Some(code) = code {
        choice.check_language(code).map_err(|error| lacks("language_code", &error))?;
    }
    for code in codes {
        choice.check_language(code).map_err(|error| lacks("language_codes", &error))?;
    }
    Ok(())
}

/// The name of an upload that is complete.
async fn uploaded(app: &AppState, account: &AccountId, id: &UploadId) -> Result<String> {
    let upload = app.store.upload_of(account, id).await?;
    let upload = upload.ok_or_else(|| ApiError::not_found(format!("There is no upload {id}.")))?;
    if upload.status != UploadStatus::Ready {
        let message = "The upload is not complete: put its bytes, then call complete.";
        return Err(ApiError::new(StatusCode::CONFLICT, "upload_incomplete", message));
    }
    Ok(upload.filename)
}

/// The last part of a URL's path, else its host.
fn title_of(url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return url.to_owned() };
    let last = url.path().rsplit('/').find(|part| !part.is_empty());
    // What is decoded may hold what no text does: PostgreSQL refuses a null.
    let shown = |part| percent_encoding::percent_decode_str(part).decode_utf8_lossy().replace(char::is_control, "");
    last.map(shown).unwrap_or_else(|| url.host_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::title_of;

    #[test]
    fn a_url_gives_a_title() {
        assert_eq!(title_of("https://example.com/a/My%20talk.mp3?x=/y"), "My talk.mp3");
        assert_eq!(title_of("https://example.com/a%00b%0a.mp3"), "ab.mp3");
        assert_eq!(title_of("https://example.com/"), "example.com");
        assert_eq!(title_of("https://example.com/a/b/"), "b");
    }
}
