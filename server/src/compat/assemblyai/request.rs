//! The parameters of a transcript, and those of `/v2/transcripts` that they stand for.

use serde_json::{Map, Value};
use url::Url;

use super::{refuse_others, unsupported};
use crate::api::create::MAX_URL_CHARS;
use crate::config::url_below;
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};

/// The path below which uploads have their URLs.
pub const UPLOADS: &str = "/v2/upload/";

/// The most terms and languages, and the length of each, before the validation of `/v2` has its say.
const MAX_ENTRIES: usize = 1000;
const MAX_ENTRY_CHARS: usize = 100;

/// Parameters of another name, and theirs.
const NAMES: [(&str, &str); 8] = [
    ("redact_pii", "pii_redaction"),
    ("redact_pii_policies", "pii_policies"),
    ("redact_pii_sub", "pii_substitution"),
    ("filter_profanity", "profanity_filter"),
    ("content_safety", "content_moderation"),
    ("speech_models", "model"),
    ("audio_url", "upload_id"),
    ("language_detection_options", "language_codes"),
];

/// Flags that are passed on.
const FLAGS: [&str; 8] = [
    "speaker_labels",
    "sentiment_analysis",
    "entity_detection",
    "auto_chapters",
    "summarization",
    "content_safety",
    "redact_pii",
    "filter_profanity",
];

fn ours(name: &str) -> &str {
    NAMES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours)
}

/// An error of the validation of `/v2`, with the names of this protocol.
pub fn in_their_names(mut error: ApiError) -> ApiError {
    for (theirs, ours) in NAMES {
        error.message = error.message.replace(&format!("`{ours}`"), &format!("`{theirs}`"));
    }
    error
}

/// The URL of an upload, which this service alone resolves, for the account that it belongs to.
pub fn upload_url(public_url: &Url, id: &str) -> String {
    url_below(public_url, &format!("{UPLOADS}{id}")).into()
}

/// The request to create a transcript.
///
/// # Errors
/// 400 for a parameter that would change the result and is not served, 422 for a wrong value.
pub fn options(public_url: &Url, fields: &mut Fields) -> Result<Map<String, Value>> {
    let mut options = Map::new();
    let audio_url = fields.required_string("audio_url", 1..=MAX_URL_CHARS)?;
    match audio_url.strip_prefix(&upload_url(public_url, "")) {
        Some(id) => options.insert("upload_id".into(), id.into()),
        None => options.insert("audio_url".into(), audio_url.into()),
    };
    for name in FLAGS {
        if fields.flag(name)? {
            options.insert(ours(name).into(), true.into());
        }
    }
    // Both are always done.
    for name in ["punctuate", "format_text"] {
        if fields.optional_flag(name)? == Some(false) {
            return Err(ApiError::unsupported_option(format!(
                "`{name}` cannot be false: the text is always written so."
            )));
        }
    }
    let (multichannel, dual_channel) = (fields.flag("multichannel")?, fields.flag("dual_channel")?);
    options.insert("multichannel".into(), (multichannel || dual_channel).into());
    if let Some(url) = fields.string("webhook_url")? {
        options.insert("webhook_url".into(), url.into());
    }
    options.insert("model".into(), model(fields)?.into());
    languages(fields, &mut options)?;
    speakers(fields, &mut options)?;
    redaction(fields, &mut options)?;
    if let Some(form) = fields.string("summary_type")? {
        options.insert("summary_type".into(), form.into());
    }
    only(fields, "summary_model", &["informative"])?;
    only(fields, "boost_param", &["default"])?;
    // The text has no tags.
    only(fields, "remove_audio_tags", &["all"])?;
    if only(fields, "domain", &["medical-v1"])? {
        options.insert("medical_mode".into(), true.into());
    }
    let mut terms = fields.strings("keyterms_prompt", MAX_ENTRIES, MAX_ENTRY_CHARS)?.unwrap_or_default();
    terms.extend(fields.strings("word_boost", MAX_ENTRIES, MAX_ENTRY_CHARS)?.unwrap_or_default());
    if !terms.is_empty() {
        options.insert("keyterms_prompt".into(), terms.into());
    }
    refuse_others(fields)?;
    Ok(options)
}

/// Takes a parameter that may have these values alone; true if it is given.
fn only(fields: &mut Fields, name: &str, values: &[&str]) -> Result<bool> {
    match fields.string(name)?.filter(|value| !value.is_empty()) {
        None => Ok(false),
        Some(value) if values.contains(&value.as_str()) => Ok(true),
        Some(value) => Err(ApiError::unsupported_option(format!(
            "`{name}` may be {} here, not {value:?}: leave it out.",
            values.join(" or ")
        ))),
    }
}

/// The model that stands for the first name that is known: that of a small model for `nano`, the best for the others.
fn model(fields: &mut Fields) -> Result<&'static str> {
    let mut names: Vec<String> = fields.string("speech_model")?.into_iter().collect();
    names.extend(fields.strings("speech_models", MAX_ENTRIES, MAX_ENTRY_CHARS)?.unwrap_or_default());
    if names.is_empty() {
        return Ok("svc-best");
    }
    let known = names.iter().find_map(|name| match name.as_str() {
        "nano" | "svc-fast" => Some("svc-fast"),
        "best" | "slam-1" | "svc-best" => Some("svc-best"),
        name => name.starts_with("universal").then_some("svc-best"),
    });
    known.ok_or_else(|| {
        let message = format!(
            "`speech_model` and `speech_models` may have best, universal, universal-2, universal-3-pro, slam-1 and nano; they have {names:?}."
        );
        ApiError::unsupported_option(message)
    })
}

/// The language is English where the request leaves it open, as the protocol has it.
fn languages(fields: &mut Fields, options: &mut Map<String, Value>) -> Result<()> {
    let code = fields.string("language_code")?;
    let detects = fields.flag("language_detection")?;
    let mut codes = fields.strings("language_codes", MAX_ENTRIES, MAX_ENTRY_CHARS)?.unwrap_or_default();
    if let Some(detection) = fields.take("language_detection_options") {
        let mut detection = Fields::of("language_detection_options", detection)?;
        codes.extend(detection.strings("expected_languages", MAX_ENTRIES, MAX_ENTRY_CHARS)?.unwrap_or_default());
        only(&mut detection, "fallback_language", &["auto"])?;
        refuse_others(&detection)?;
    }
    match code {
        Some(_) if detects => {
            return Err(ApiError::invalid(
                "`language_code` and `language_detection` exclude each other: send one of them.",
            ));
        }
        Some(code) => drop(options.insert("language_code".into(), code.into())),
        None if !detects && codes.is_empty() => drop(options.insert("language_code".into(), "en_us".into())),
        None => {}
    }
    if !codes.is_empty() {
        options.insert("language_codes".into(), codes.into());
    }
    Ok(())
}

fn speakers(fields: &mut Fields, options: &mut Map<String, Value>) -> Result<()> {
    let mut expected = fields.integer("speakers_expected", 1..=i64::MAX)?;
    if let Some(more) = fields.take("speaker_options") {
        let mut more = Fields::of("speaker_options", more)?;
        let least = more.integer("min_speakers_expected", 1..=i64::MAX)?;
        let most = more.integer("max_speakers_expected", 1..=i64::MAX)?;
        refuse_others(&more)?;
        match (least, most) {
            (None, None) => {}
            (Some(least), Some(most)) if least == most => expected = Some(most),
            _ => {
                let message = "`speaker_options` may have `min_speakers_expected` and `max_speakers_expected` of one value, as \
                               `speakers_expected` has it.";
                return Err(ApiError::unsupported_option(message));
            }
        }
    }
    if let Some(expected) = expected {
        options.insert("speakers_expected".into(), expected.into());
    }
    Ok(())
}

fn redaction(fields: &mut Fields, options: &mut Map<String, Value>) -> Result<()> {
    let policies = fields.strings("redact_pii_policies", MAX_ENTRIES, MAX_ENTRY_CHARS)?;
    let substitution = fields.string("redact_pii_sub")?;
    if options.contains_key(ours("redact_pii")) {
        if let Some(policies) = policies {
            options.insert(ours("redact_pii_policies").into(), policies.into());
        }
        let substitution = substitution.unwrap_or_else(|| "hash".into());
        options.insert(ours("redact_pii_sub").into(), substitution.into());
    }
    if fields.flag("redact_pii_audio")? {
        return Err(unsupported("redact_pii_audio"));
    }
    // They are of the sound alone.
    for name in ["redact_pii_audio_quality", "redact_pii_audio_options"] {
        fields.take(name);
    }
    Ok(())
}
