//! Transcripts as the protocol shows them.

use std::collections::{HashMap, VecDeque};

use auricle_engine::Word;
use auricle_engine::segments::Segment;
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use super::request::upload_url;
use crate::clock;
use crate::config::url_below;
use crate::store::{Source, Status, Transcript, TranscriptHead};

/// The path below which transcripts have their URLs.
const TRANSCRIPTS: &str = "/v2/transcript/";

/// A word.
#[derive(Serialize)]
struct Spoken<'a> {
    text: &'a str,
    start: u64,
    end: u64,
    confidence: f32,
    speaker: Option<&'a str>,
    channel: Option<String>,
}

impl<'a> From<&'a Word> for Spoken<'a> {
    fn from(word: &'a Word) -> Self {
        Self {
            text: &word.text,
            start: word.start,
            end: word.end,
            confidence: word.confidence,
            speaker: word.speaker.as_deref(),
            channel: word.channel.map(|channel| channel.to_string()),
        }
    }
}

fn spoken(words: &[Word]) -> Vec<Spoken<'_>> {
    words.iter().map(Spoken::from).collect()
}

/// A turn of a speaker, a sentence or a paragraph.
#[derive(Serialize)]
struct Part<'a> {
    text: &'a str,
    start: u64,
    end: u64,
    confidence: f64,
    speaker: Option<&'a str>,
    channel: Option<String>,
    words: Vec<Spoken<'a>>,
}

impl<'a> Part<'a> {
    fn of_segment(segment: &'a Segment<'a>) -> Self {
        let words = spoken(segment.words);
        Self {
            text: &segment.text,
            start: segment.start,
            end: segment.end,
            confidence: segment.confidence.into(),
            speaker: segment.speaker,
            channel: words.first().and_then(|word| word.channel.clone()),
            words,
        }
    }
}

/// The utterances with their words. Those of a speaker are in order, as the words are.
fn utterances<'a>(stored: &'a [Value], words: &'a [Word]) -> Vec<Part<'a>> {
    let mut left: HashMap<Option<&str>, VecDeque<&Word>> = HashMap::new();
    for word in words {
        left.entry(word.speaker.as_deref()).or_default().push_back(word);
    }
    let parts = stored.iter().map(|utterance| {
        let speaker = utterance["speaker"].as_str();
        let end = utterance["end"].as_u64().unwrap_or_default();
        let mut words = Vec::new();
        let of_speaker = left.entry(speaker).or_default();
        while let Some(word) = of_speaker.pop_front_if(|word| word.start < end || word.end <= end) {
            words.push(Spoken::from(word));
        }
        Part {
            text: utterance["text"].as_str().unwrap_or_default(),
            start: utterance["start"].as_u64().unwrap_or_default(),
            end,
            confidence: utterance["confidence"].as_f64().unwrap_or_default(),
            speaker,
            channel: words.first().and_then(|word| word.channel.clone()),
            words,
        }
    });
    parts.collect()
}

/// The URL of a transcript's audio: an upload has the one that its request gave it. It is empty where no audio was kept.
fn audio_url(public_url: &Url, source: Option<&Source>) -> String {
    match source {
        Some(Source::Url(url)) => url.clone(),
        Some(Source::Upload(id)) => upload_url(public_url, id.as_str()),
        None => String::new(),
    }
}

/// A transcript. The fields that the protocol's schema does not let be null are left out without a value.
#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    status: &'static str,
    audio_url: String,
    text: Option<&'a str>,
    words: Option<Vec<Spoken<'a>>>,
    utterances: Option<Vec<Part<'a>>>,
    confidence: Option<f64>,
    /// s
    audio_duration: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language_code: Option<&'a str>,
    language_codes: Option<&'a [String]>,
    language_confidence: (),
    language_confidence_threshold: (),
    speech_model: (),
    speech_model_used: &'a str,
    acoustic_model: &'a str,
    language_model: &'a str,
    punctuate: bool,
    format_text: bool,
    multichannel: bool,
    speaker_labels: bool,
    speakers_expected: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyterms_prompt: Option<&'a [String]>,
    filter_profanity: bool,
    redact_pii: bool,
    redact_pii_policies: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redact_pii_sub: Option<&'a str>,
    redact_pii_audio: bool,
    sentiment_analysis: bool,
    sentiment_analysis_results: Value,
    entity_detection: bool,
    entities: Value,
    auto_chapters: bool,
    chapters: Value,
    summarization: bool,
    summary_type: Option<&'a str>,
    summary: Value,
    content_safety: bool,
    content_safety_labels: Value,
    auto_highlights: bool,
    iab_categories: bool,
    disfluencies: bool,
    webhook_url: Option<&'a str>,
    webhook_auth: bool,
}

/// A transcript; `words` are none before it is completed, and once it is deleted.
pub fn transcript(transcript: &Transcript, words: Option<&[Word]>, public_url: &Url) -> serde_json::Result<String> {
    let options = &transcript.options;
    let is_completed = words.is_some();
    let stored: Option<Vec<Value>> = match (is_completed, &transcript.utterances) {
        (true, Some(stored)) => Some(serde_json::from_str(stored)?),
        _ => None,
    };
    let mut analysis: Value = match (is_completed, &transcript.analysis) {
        (true, Some(analysis)) => serde_json::from_str(analysis)?,
        _ => Value::Null,
    };
    // A list that was asked for and is empty is stored as null.
    let mut found = |name: &str, is_asked: bool| match analysis.get_mut(name).map(Value::take) {
        Some(Value::Null) | None if is_asked && is_completed => json!([]),
        found => found.unwrap_or_default(),
    };
    let mut entities = found("entities", options.entity_detection);
    for entity in entities.as_array_mut().into_iter().flatten() {
        let label = entity["entity_type"].as_str().unwrap_or_default().to_lowercase();
        entity["entity_type"] = label.into();
        entity.as_object_mut().and_then(|entity| entity.remove("label"));
    }
    let safety = match found("content_safety", options.content_moderation) {
        Value::Array(_) => json!({ "status": "success", "results": [], "summary": {}, "severity_score_summary": {} }),
        report => report,
    };
    let policies = options.pii_policies.as_ref();
    let body = Body {
        id: transcript.id.as_str(),
        status: transcript.status.name(),
        audio_url: audio_url(public_url, transcript.source.as_ref()),
        text: transcript.text.as_deref().filter(|_| is_completed),
        words: words.map(spoken),
        utterances: stored.as_deref().zip(words).map(|(stored, words)| utterances(stored, words)),
        confidence: transcript.confidence.filter(|_| is_completed),
        audio_duration: transcript.duration_ms.filter(|_| is_completed).map(|ms| (ms + 500) / 1000),
        error: transcript.error.as_deref(),
        language_code: transcript.language_code.as_deref(),
        language_codes: options.language_codes.as_deref(),
        language_confidence: (),
        language_confidence_threshold: (),
        speech_model: (),
        speech_model_used: &transcript.model,
        acoustic_model: &transcript.model,
        language_model: &transcript.model,
        punctuate: true,
        format_text: true,
        multichannel: options.multichannel,
        speaker_labels: options.speaker_labels,
        speakers_expected: options.speakers_expected,
        keyterms_prompt: options.keyterms_prompt.as_deref(),
        filter_profanity: options.profanity_filter,
        redact_pii: options.pii_redaction,
        redact_pii_policies: policies.map(|labels| labels.iter().map(|label| label.to_lowercase()).collect()),
        redact_pii_sub: options.pii_substitution.as_deref(),
        redact_pii_audio: false,
        sentiment_analysis: options.sentiment_analysis,
        sentiment_analysis_results: found("sentiment_results", options.sentiment_analysis),
        entity_detection: options.entity_detection,
        entities,
        auto_chapters: options.auto_chapters,
        chapters: found("chapters", options.auto_chapters),
        summarization: options.summarization,
        summary_type: options.summary_type.as_deref(),
        summary: found("summary", false),
        content_safety: options.content_moderation,
        content_safety_labels: safety,
        auto_highlights: false,
        iab_categories: false,
        disfluencies: false,
        webhook_url: transcript.webhook_url.as_deref(),
        webhook_auth: false,
    };
    serde_json::to_string(&body)
}

/// The sentences or the paragraphs of a transcript, as `name` calls them.
pub fn segmented(name: &str, transcript: &Transcript, segments: &[Segment<'_>]) -> serde_json::Result<String> {
    let mut parts = serde_json::to_value(segments.iter().map(Part::of_segment).collect::<Vec<_>>())?;
    if name == "paragraphs" {
        for part in parts.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            part.retain(|field, _| !matches!(field.as_str(), "speaker" | "channel"));
        }
    }
    let mut body = json!({
        "id": transcript.id.as_str(),
        "confidence": transcript.confidence,
        "audio_duration": transcript.duration_ms.unwrap_or_default() as f64 / 1e3,
    });
    body[name] = parts;
    serde_json::to_string(&body)
}

/// A time without its zone, which is UTC.
fn time(ms: i64) -> String {
    clock::iso(ms).trim_end_matches('Z').to_owned()
}

/// A page of the list. `path` is that of its request, with the query; `ask` the query without the borders of the page.
pub fn page(heads: &[TranscriptHead], has_older: bool, limit: i64, path: &str, ask: &str, public_url: &Url) -> Value {
    let item = |head: &TranscriptHead| {
        json!({
            "id": head.id.as_str(),
            "resource_url": url_below(public_url, &format!("{TRANSCRIPTS}{}", head.id)).as_str(),
            "status": head.status.name(),
            "created": time(head.created_at),
            "completed": head.completed_at.filter(|_| head.status == Status::Completed).map(time),
            "audio_url": audio_url(public_url, head.source.as_ref()),
            "error": head.error,
        })
    };
    let list = url_below(public_url, TRANSCRIPTS.trim_end_matches('/'));
    let beside = |border: &str, head: Option<&TranscriptHead>| {
        head.map(|head| format!("{list}?limit={limit}{ask}&{border}={}", head.id))
    };
    json!({
        "page_details": {
            "limit": limit,
            "result_count": heads.len(),
            "current_url": format!("{}{path}", public_url.as_str().trim_end_matches('/')),
            "prev_url": beside("before_id", heads.last().filter(|_| has_older)),
            "next_url": beside("after_id", heads.first()),
        },
        "transcripts": heads.iter().map(item).collect::<Vec<_>>(),
    })
}
