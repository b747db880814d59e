//! `stream=true`: the words of a file as they are settled, then its end, as server-sent events.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;

use super::transcription::{AnswerOptions, Finished};
use crate::api::TranscriptsState;
use crate::api::form::Form;
use crate::api::language::{COMMENT_INTERVAL, WAITING, event, failure};
use crate::api::one_request::{completed, with_transcript_id};
use crate::api::transcripts::start;
use crate::http::response::{Response, Result, events};
use crate::ids::{AccountId, TranscriptId};
use crate::store::{NewTranscript, Transcript};

type End = Pin<Box<dyn Future<Output = Result<Arc<Transcript>>> + Send>>;

/// A job whose words are sent to the client that waits for it.
struct StreamedJob {
    state: Arc<TranscriptsState>,
    account: AccountId,
    id: TranscriptId,
    draft: watch::Receiver<String>,
    answer: AnswerOptions,
    /// The text of all deltas.
    sent: String,
    /// While the job is under way.
    end: Option<End>,
}

/// A client that leaves has no use for the transcript: its deletion ends the job, on every node.
impl Drop for StreamedJob {
    fn drop(&mut self) {
        self.state.notifiers.drafts.forget(&self.id);
        let (Some(_), Ok(runtime)) = (&self.end, Handle::try_current()) else { return };
        let (state, account, id) = (self.state.clone(), self.account.clone(), self.id.clone());
        runtime.spawn(async move {
            match state.store.delete_transcript(&account, &id).await {
                Ok(_) => state.notifiers.deletions.notify_one(),
                Err(error) => tracing::warn!(transcript = %id, %error, "deleting an abandoned transcript failed"),
            }
        });
    }
}

impl StreamedJob {
    /// The next events, or a comment while there are none; none after the last.
    ///
    /// # Errors
    /// That of the job.
    async fn next(&mut self) -> Result<Option<String>> {
        let Some(end) = &mut self.end else { return Ok(None) };
        let silence = sleep(COMMENT_INTERVAL);
        tokio::pin!(silence);
        let ended = loop {
            tokio::select! {
                biased;
                Ok(()) = self.draft.changed() => {
                    let draft = self.draft.borrow_and_update();
                    // An attempt that begins again has the same words.
                    let new = draft.strip_prefix(self.sent.as_str()).unwrap_or_default();
                    if !new.is_empty() {
                        let delta = event(&json!({ "type": "transcript.text.delta", "delta": new }));
                        self.sent.push_str(new);
                        return Ok(Some(delta));
                    }
                }
                ended = end.as_mut() => break ended,
                () = &mut silence => return Ok(Some(WAITING.to_owned())),
            }
        };
        self.end = None;
        let transcript = ended?;
        let permit = self.state.renderer.permit().await?;
        let words = self.state.store.words(&transcript).await?.unwrap_or_else(|| "[]".into());
        let (answer, sent) = (self.answer.clone(), std::mem::take(&mut self.sent));
        let last = move || Finished::new(&transcript, &words).map(|finished| finished.events(&answer, &sent));
        self.state.renderer.run(permit, last).await.map(Some)
    }
}

/// Creates a transcript and streams its words.
///
/// # Errors
/// Those of creating it, and of a job that fails at once.
pub async fn respond(
    state: Arc<TranscriptsState>,
    account: AccountId,
    new: NewTranscript,
    form: Form,
    answer: AnswerOptions,
) -> Result<Response> {
    let draft = state.notifiers.drafts.follow(&new.id);
    let id = new.id.clone();
    let mut job = StreamedJob { state, account, id: id.clone(), draft, answer, sent: String::new(), end: None };
    start(&job.state, &new).await?;
    form.keep();
    let (state, account) = (job.state.clone(), job.account.clone());
    job.end = Some(Box::pin(async move { completed(&state, &account, &new.id).await }));
    let first = job.next().await?;
    let parts = stream::unfold((job, first), |(mut job, first)| async move {
        let part = match first {
            Some(first) => first,
            None => job.next().await.unwrap_or_else(|error| Some(failure(error)))?,
        };
        Some((Ok(Bytes::from(part)), (job, None)))
    });
    Ok(with_transcript_id(events(parts), &id))
}
