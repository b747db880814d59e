//! Bodies with transcripts, produced as the client reads: one transcript after another, and the words of a long one in
//! parts. A client that does not read holds one part in memory.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _, stream};
use serde::Serialize;

use crate::clock;
use crate::http::response::{ApiError, Response, Result, json_stream, json_text};
use crate::http::response_body::ResponseBroken;
use crate::ids::{AccountId, TranscriptId};
use crate::store::{self, LargeWords, Status, Store, StoredWords, Transcript, TranscriptQuery, percent};

/// The body of a transcript without its words.
#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    status: &'static str,
    model: &'a str,
    title: Option<&'a str>,
    language_code: Option<&'a str>,
    speaker_labels: bool,
    text: Option<&'a str>,
    confidence: Option<f32>,
    audio_duration_sec: Option<f64>,
    /// In percent.
    progress: Option<i64>,
    webhook_url: Option<&'a str>,
    error: Option<&'a str>,
    created_at: String,
    completed_at: Option<String>,
    version: i64,
}

/// The analysis of a transcript of which none was asked, and of one that is not completed.
const NO_ANALYSIS: &str =
    r#"{"summary":null,"chapters":null,"entities":null,"sentiment_results":null,"content_safety":null}"#;

/// The length of the audio of a completed transcript.
pub fn duration_sec(transcript: &Transcript) -> Option<f64> {
    transcript.duration_ms.filter(|_| transcript.status == Status::Completed).map(|ms| ms as f64 / 1e3)
}

/// The confidence with the precision of the engine.
pub fn confidence(transcript: &Transcript) -> Option<f32> {
    transcript.confidence.map(|confidence| confidence as f32)
}

/// The transcript as JSON, up to its words if there are many. Every field is always present.
fn render(transcript: &Transcript, status: Status) -> serde_json::Result<String> {
    let body = Body {
        id: transcript.id.as_str(),
        status: status.name(),
        model: &transcript.model,
        title: transcript.title.as_deref(),
        language_code: transcript.language_code.as_deref(),
        speaker_labels: transcript.options.speaker_labels,
        text: transcript.text.as_deref(),
        confidence: confidence(transcript),
        audio_duration_sec: duration_sec(transcript),
        progress: (status == Status::Processing)
            .then(|| percent(transcript.progress_ms, transcript.duration_ms).unwrap_or(0)),
        webhook_url: transcript.webhook_url.as_deref(),
        error: transcript.error.as_deref(),
        created_at: clock::iso(transcript.created_at),
        completed_at: transcript.completed_at.map(clock::iso),
        version: transcript.version,
    };
    let mut text = serde_json::to_string(&body)?;
    text.pop();
    // The analysis is stored as JSON and is not parsed.
    let analysis = transcript.analysis.as_deref().unwrap_or(NO_ANALYSIS);
    text.push(',');
    text.push_str(&analysis[1..analysis.len() - 1]);
    text.push_str(",\"warnings\":");
    text.push_str(transcript.warnings.as_deref().unwrap_or("[]"));
    // Utterances and words are stored as JSON and are not parsed.
    text.push_str(",\"utterances\":");
    text.push_str(transcript.utterances.as_deref().unwrap_or("null"));
    text.push_str(",\"words\":");
    match &transcript.words {
        StoredWords::None => text.push_str("null}"),
        StoredWords::Read(words) => {
            text.push_str(words);
            text.push('}');
        }
        StoredWords::Large => {}
    }
    Ok(text)
}

/// A response with one transcript. `status` is what it says of the status.
///
/// # Errors
/// If the transcript cannot be written as JSON.
pub fn one(store: &Store, transcript: &Arc<Transcript>, status: Status) -> Result<Response> {
    let text = render(transcript, status).map_err(|error| ApiError::internal(&error))?;
    if !matches!(transcript.words, StoredWords::Large) {
        return Ok(json_text(text));
    }
    let parts = Parts {
        store: store.clone(),
        account: None,
        status: None,
        ids: Vec::new().into_iter(),
        has_begun: true,
        ready: Some(text),
        words: Some(WordsLeft { of: LargeWords::of(transcript), part: 0 }),
        end: None,
    };
    Ok(json_stream(parts.stream()))
}

/// A response with a page of a list: the transcripts that are still there when their turn comes.
pub fn list(store: &Store, account: AccountId, query: TranscriptQuery, ids: Vec<TranscriptId>, total: i64) -> Response {
    let TranscriptQuery { status, limit, offset } = query;
    let parts = Parts {
        store: store.clone(),
        account: Some(account),
        status,
        ids: ids.into_iter(),
        has_begun: false,
        ready: Some("{\"object\":\"list\",\"data\":[".into()),
        words: None,
        end: Some(format!("],\"total\":{total},\"limit\":{limit},\"offset\":{offset}}}")),
    };
    json_stream(parts.stream())
}

/// The part that is still to be sent.
struct Parts {
    store: Store,
    /// The account of the transcripts that follow.
    account: Option<AccountId>,
    status: Option<Status>,
    ids: std::vec::IntoIter<TranscriptId>,
    /// A transcript was sent, so the next one stands behind a comma.
    has_begun: bool,
    ready: Option<String>,
    words: Option<WordsLeft>,
    end: Option<String>,
}

/// The words of a long transcript, from a part on.
struct WordsLeft {
    of: LargeWords,
    part: i64,
}

impl Parts {
    fn stream(self) -> impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send {
        let parts = stream::try_unfold(self, |mut parts| async move {
            Ok::<_, store::Error>(parts.next().await?.map(|text| (Bytes::from(text), parts)))
        });
        parts.map_err(|error| {
            tracing::error!(%error, "a response broke off");
            ResponseBroken
        })
    }

    async fn next(&mut self) -> store::Result<Option<String>> {
        if let Some(ready) = self.ready.take() {
            return Ok(Some(ready));
        }
        if let Some(words) = &mut self.words {
            let (mut text, is_last) = self.store.words_part(&words.of, words.part).await?;
            words.part += 1;
            if is_last {
                text.push('}');
                self.words = None;
            }
            return Ok(Some(text));
        }
        if let Some(account) = &self.account {
            for id in self.ids.by_ref() {
                // The transcript may have been deleted or gone on since the page was found.
                let Some(transcript) = self.store.transcript(account, &id).await? else { continue };
                if self.status.is_some_and(|status| status != transcript.status) {
                    continue;
                }
                let mut text = String::from(if self.has_begun { "," } else { "" });
                self.has_begun = true;
                text += &render(&transcript, transcript.status).map_err(|error| store::Error::Encode(error.into()))?;
                if matches!(transcript.words, StoredWords::Large) {
                    self.words = Some(WordsLeft { of: LargeWords::of(&transcript), part: 0 });
                }
                return Ok(Some(text));
            }
        }
        Ok(self.end.take())
    }
}
