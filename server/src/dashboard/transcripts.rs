//! Transcripts: the upload, a transcript's page, downloads, deletion.

use std::io;
use std::sync::Arc;

use askama::Template;
use auricle_engine::Word;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::audio::{MediaKind, media_type};
use super::docx::{self, Parts};
use super::form::Form;
use super::found::Found;
use super::frame::{Frame, Section, page, private};
use super::insights::Insights;
use super::markdown;
use super::playground::UploadForm;
use super::shown::{Time, duration, language};
use super::speakers::{text_by_speaker, text_with_times};
use super::starters::StarterNotice;
use super::waveform::Bars;
use super::words::EN;
use super::{DashboardState, shown};
use crate::api::transcripts::{self as api, SubtitleFormat, unknown};
use crate::billing::dollars;
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{self, ApiError, Response, Result, see_other};
use crate::ids::{AccountId, TranscriptId};
use crate::store::{ListedTranscript, Source, Status, Transcript, percent};

/// Rows whose progress is read at a time.
const MAX_FOLLOWED: usize = 50;

/// A transcript in a list, and at the head of its page.
pub struct Row {
    pub id: String,
    pub title: String,
    pub status: &'static str,
    pub status_name: &'static str,
    pub model: String,
    pub language: String,
    pub length: String,
    pub cost: String,
    /// Why it failed.
    pub error: String,
    pub created: Time,
    /// Hundredths of the audio that are done.
    pub percent: Option<i64>,
    pub is_running: bool,
    /// With the addresses of their lists.
    pub tags: Vec<(String, String)>,
    pub found: Option<Found>,
}

pub fn status_name(status: Status) -> &'static str {
    match status {
        Status::Queued => EN.status_queued,
        Status::Processing => EN.status_processing,
        Status::Completed => EN.status_completed,
        Status::Error => EN.status_error,
    }
}

fn is_running(status: Status) -> bool {
    matches!(status, Status::Queued | Status::Processing)
}

fn with_address(tag: String) -> (String, String) {
    let address = format!("/transcripts?tag={}", utf8_percent_encode(&tag, NON_ALPHANUMERIC));
    (tag, address)
}

pub fn row(listed: ListedTranscript) -> Row {
    Row {
        percent: percent(listed.progress_ms, listed.duration_ms),
        title: listed.title.filter(|title| !title.is_empty()).unwrap_or_else(|| EN.untitled.to_owned()),
        status: listed.status.name(),
        status_name: status_name(listed.status),
        model: listed.model,
        language: listed.language_code.as_deref().map(language).unwrap_or_default(),
        length: listed.duration_ms.map(duration).unwrap_or_default(),
        cost: listed.cents.map(dollars).unwrap_or_default(),
        error: listed.error.unwrap_or_default(),
        created: Time::new(listed.created_at),
        is_running: is_running(listed.status),
        tags: listed.tags.into_iter().map(with_address).collect(),
        found: None,
        id: listed.id.to_string(),
    }
}

#[derive(Template)]
#[template(path = "transcript_new.html")]
struct NewPage {
    frame: Frame,
    form: UploadForm,
}

/// `GET /transcripts/new`
pub async fn new(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Transcripts, EN.transcript_new).await?;
    let form = UploadForm::new(&state, &request.account()?.id).await?;
    page(&NewPage { frame, form })
}

#[derive(Template)]
#[template(path = "transcript.html")]
struct TranscriptPage {
    frame: Frame,
    row: Row,
    starter: Option<StarterNotice>,
    error: String,
    confidence: Option<String>,
    duration_ms: i64,
    /// The address of the audio; empty if it is gone.
    audio: String,
    is_video: bool,
    has_text: bool,
    /// The names of speakers by label, as JSON.
    speaker_names: String,
    waveform: Option<Bars>,
    insights: Insights,
    has_speakers: bool,
    is_edited: bool,
    /// The end of the link that shows it, if there is one.
    shared_until: Option<Time>,
    again: Again,
    /// The end of addresses that shows the words as they were recognised, where the page does.
    edition: &'static str,
}

/// The form for another transcript of the same recording.
struct Again {
    form: UploadForm,
    /// Source, title and options of this one, as a request for a transcript has them; empty if the recording is gone.
    source: String,
    /// Options with their words, and if this transcript has them.
    flags: Vec<(&'static str, &'static str, bool)>,
}

impl Again {
    fn new(form: UploadForm, transcript: &Transcript, has_audio: bool) -> Self {
        let mut request = transcript.options.fields();
        let flags = [
            ("speaker_labels", EN.option_speakers),
            ("summarization", EN.option_summary),
            ("auto_chapters", EN.option_chapters),
            ("entity_detection", EN.option_entities),
            ("sentiment_analysis", EN.option_sentiment),
            ("content_moderation", EN.option_moderation),
            ("pii_redaction", EN.option_redaction),
            ("profanity_filter", EN.option_profanity),
        ];
        let flags = flags.map(|(name, text)| (name, text, request.get(name) == Some(&Value::Bool(true))));
        match &transcript.source {
            Some(Source::Url(url)) => request.insert("audio_url".into(), url.as_str().into()),
            Some(Source::Upload(upload)) => request.insert("upload_id".into(), upload.as_str().into()),
            None => None,
        };
        request.insert("title".into(), transcript.title.clone().into());
        Self {
            form,
            source: if has_audio { Value::Object(request).to_string() } else { String::new() },
            flags: flags.to_vec(),
        }
    }
}

/// The transcript that the path names, as the list shows it.
async fn listed(state: &DashboardState, account: &AccountId, id: &TranscriptId) -> Result<ListedTranscript> {
    state.store.listed_transcript(account, id).await?.ok_or_else(unknown)
}

/// `GET /transcripts/{transcript_id}`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let id = TranscriptId::from(request.param("transcript_id"));
    let listed = listed(&state, &account, &id).await?;
    let title = listed.title.clone().filter(|title| !title.is_empty()).unwrap_or_else(|| EN.untitled.to_owned());
    let frame = Frame::new(&state, &request, Section::Transcripts, &title).await?;
    let transcript = state.store.transcript(&account, &id).await?.ok_or_else(unknown)?;
    let is_edited = transcript.version > 0;
    let shows_original = is_edited && request.query_flag("original")? == Some(true);
    let source = state.store.audio_of(&account, &id).await?.ok_or_else(unknown)?;
    let upload = match &source.upload {
        Some(upload) => state.store.upload_of(&account, upload).await?,
        None => None,
    };
    let media = upload.as_ref().map(|upload| media_type(&upload.content_type, &upload.filename));
    let audio = match (&upload, source.url) {
        (Some(_), _) => format!("/transcripts/{id}/audio"),
        (None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => url,
        (None, _) => String::new(),
    };
    let again = Again::new(UploadForm::new(&state, &account).await?, &transcript, !audio.is_empty());
    let duration_ms = transcript.duration_ms.unwrap_or(0);
    let speaker_names = state.store.speaker_names(&id).await?;
    let waveform = state.store.waveform(&id).await?.and_then(|waveform| Bars::new(&waveform, duration_ms));
    let analysis = transcript.analysis.as_deref().unwrap_or_default();
    page(&TranscriptPage {
        starter: StarterNotice::new(&state, &frame, std::iter::once(transcript.model.as_str())),
        frame,
        error: transcript.error.clone().unwrap_or_default(),
        confidence: transcript.confidence.map(|confidence| format!("{:.0} %", confidence * 100.0)),
        duration_ms,
        audio,
        is_video: media.is_some_and(|media| media.kind == MediaKind::Video),
        has_text: transcript.status == Status::Completed
            && transcript.text.as_deref().is_some_and(|text| !text.is_empty()),
        speaker_names: json!(speaker_names).to_string(),
        waveform,
        insights: Insights::new(analysis, duration_ms),
        has_speakers: transcript.utterances.is_some(),
        is_edited,
        shared_until: state.store.share_link_end(&id, clock::now_ms()).await?.map(Time::new),
        again,
        edition: if shows_original { "?original=true" } else { "" },
        row: row(listed),
    })
}

/// `GET /data/transcripts/{transcript_id}/progress`
pub async fn progress(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let id = TranscriptId::from(request.param("transcript_id"));
    let listed = listed(&state, &request.account()?.id, &id).await?;
    Ok(private(response::json(&progress_of(listed))))
}

/// `GET /data/transcripts/progress?ids=a,b`: of the rows of a list. Transcripts that are gone are left out.
pub async fn progress_of_rows(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = &request.account()?.id;
    let ids = request.query("ids").unwrap_or_default().replace('\0', "");
    let mut rows = Vec::new();
    for id in ids.split(',').take(MAX_FOLLOWED) {
        let listed = state.store.listed_transcript(account, &TranscriptId::from(id.to_owned())).await?;
        rows.extend(listed.map(progress_of));
    }
    Ok(private(response::json(&rows)))
}

/// What the script of a page shows of a transcript in work.
fn progress_of(listed: ListedTranscript) -> Value {
    json!({
        "id": listed.id.as_str(),
        "status": listed.status.name(),
        "status_name": status_name(listed.status),
        "progress_ms": listed.progress_ms,
        "duration_ms": listed.duration_ms,
        "percent": percent(listed.progress_ms, listed.duration_ms),
        "error": listed.error,
        "length": listed.duration_ms.map(shown::duration),
        "language": listed.language_code.as_deref().map(language),
        "cost": listed.cents.map(dollars),
    })
}

/// The name of a downloaded file: the title without the end of its name, as far as it can stand in a header.
fn file_name(title: &str, extension: &str) -> String {
    let stem = title.rsplit_once('.').filter(|(_, end)| end.len() <= 5).map_or(title, |(stem, _)| stem);
    let stem: String = stem.chars().filter(|character| !character.is_control()).take(100).collect();
    let ascii: String = stem
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() || "-_. ".contains(character) { character } else { '_' })
        .collect();
    let encoded = utf8_percent_encode(&stem, NON_ALPHANUMERIC);
    format!("attachment; filename=\"{}.{extension}\"; filename*=UTF-8''{encoded}.{extension}", ascii.trim())
}

/// `GET /transcripts/{transcript_id}/download/{format}`
pub async fn download(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let (id, format) = (request.param("transcript_id"), request.param("format"));
    let transcript = api::completed_transcript(&state.store, &account, id).await?;
    let transcript = api::edition(&state.store, &request, transcript).await?;
    let name = file_name(transcript.title.as_deref().unwrap_or_default(), &format);
    let names = state.store.speaker_names(&transcript.id).await?;
    let has_speakers = request.query_flag("speakers")?.unwrap_or(true);
    let times = request.query_flag("times")?;
    let parts = Parts { times: times.unwrap_or(true) };
    let only_wanted = move |mut words: Vec<Word>| {
        if !has_speakers {
            api::leave_speakers_out(&mut words);
        }
        words
    };
    let mut response = match format.as_str() {
        "txt" if times == Some(true) => {
            let work = move |_: &Transcript, words| io::Result::Ok(text_with_times(&only_wanted(words), &names));
            api::document(&state.transcripts, &request, transcript, "text/plain; charset=utf-8", work).await?
        }
        "txt" => {
            let permit = state.transcripts.renderer.permit().await?;
            let work = move || {
                let text = transcript.text.as_deref().unwrap_or_default();
                let utterances = transcript.utterances.as_deref().filter(|_| has_speakers);
                Ok(text_by_speaker(text, utterances, &names)?)
            };
            state
                .transcripts
                .renderer
                .respond(permit, "text/plain; charset=utf-8", request.accepts_gzip(), work)
                .await?
        }
        "srt" | "vtt" => {
            let options = api::subtitle_options(&request)?;
            let format = if format == "srt" { SubtitleFormat::Srt } else { SubtitleFormat::Vtt };
            let names = has_speakers.then_some(names);
            api::subtitles(&state.transcripts, &request, transcript, format, options, names).await?
        }
        "md" => {
            let work = move |transcript: &Transcript, words| {
                let mut words = only_wanted(words);
                api::name_speakers(&mut words, &names);
                io::Result::Ok(markdown::document(transcript, &words, parts))
            };
            api::document(&state.transcripts, &request, transcript, "text/markdown; charset=utf-8", work).await?
        }
        "docx" => {
            let work =
                move |transcript: &Transcript, words| docx::document(transcript, &only_wanted(words), &names, parts);
            api::document(&state.transcripts, &request, transcript, docx::CONTENT_TYPE, work).await?
        }
        "json" => api::get(state.transcripts.clone(), request).await?,
        _ => return Err(ApiError::not_found("There is no such format.")),
    };
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    Ok(private(response))
}

/// `POST /transcripts/{transcript_id}/delete`
pub async fn delete(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let id = TranscriptId::from(request.param("transcript_id"));
    Form::read(request).await?;
    if !state.store.delete_transcript(&account, &id).await? {
        return Err(unknown());
    }
    state.notifiers.deletions.notify_one();
    Ok(private(see_other("/transcripts")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_a_file_name() {
        assert_eq!(
            file_name("My talk.mp3", "srt"),
            "attachment; filename=\"My talk.srt\"; filename*=UTF-8''My%20talk.srt"
        );
        let odd = file_name("a\"; evil=\r\n/ü", "txt");
        assert!(
            odd.starts_with("attachment; filename=\"a__ evil___.txt\"") && !odd.contains(['\r', '\n', 'ü']),
            "{odd}"
        );
    }
}
