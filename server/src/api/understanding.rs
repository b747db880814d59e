//! `/v2/speech-understanding`: prompts over a transcript.

use std::sync::Arc;

use auricle_engine::extractive;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::language::{COMMENT_INTERVAL, EXTRACTIVE, LanguageState, WAITING, event, failure, unknown_model};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{ApiError, Response, Result, events, json as json_response};
use crate::http::response_body::ResponseBroken;
use crate::ids::{self, AccountId};
use crate::language::grounding::Fence;
use crate::language::source::Unit;
use crate::language::understanding::{Question, answer};

/// The longest prompt, in characters.
pub const MAX_PROMPT_CHARS: usize = 8000;

/// The longest id that is looked up.
const MAX_ID_CHARS: usize = 256;

/// `POST /v2/speech-understanding`
pub async fn create(state: Arc<LanguageState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let transcript_id = fields.required_string("transcript_id", 0..=MAX_ID_CHARS)?;
    let prompt = fields.required_string("prompt", 1..=MAX_PROMPT_CHARS)?;
    let model = fields.string("model")?;
    let is_stream = fields.flag("stream")?;
    let wants_json = match fields.string("response_format")?.as_deref() {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            let message = format!("`response_format` must be text or json; it is {other:?}.");
            return Err(ApiError::validation(message));
        }
    };
    let prompt = Prompt { transcript_id, text: prompt, model, wants_json };
    let Asked { result, answer, drafts } = ask(state, account, prompt).await?;
    if !is_stream {
        drop(drafts);
        return Ok(json_response(&whole(result, answer.await?)));
    }
    let mut writing = Writing { result, answer: Some(answer), drafts };
    // A failure before the first piece has a status of its own, unless the model takes long to read the prompt.
    let first = match tokio::time::timeout(COMMENT_INTERVAL, writing.next()).await {
        Ok(first) => first?,
        Err(_) => WAITING.to_owned(),
    };
    Ok(events(sse(first, writing)))
}

/// A prompt over a transcript.
pub struct Prompt {
    pub transcript_id: String,
    pub text: String,
    pub model: Option<String>,
    pub wants_json: bool,
}

/// A prompt that is being answered.
pub struct Asked {
    /// All of the result but the answer.
    pub result: Value,
    pub answer: BoxFuture<'static, Result<String>>,
    /// The pieces of a model's answer, as they come.
    pub drafts: UnboundedReceiver<String>,
}

/// Asks a model, or finds the sentences that answer where there is none.
///
/// # Errors
/// 400 and 503 for the model, 404 and 409 for the transcript.
pub async fn ask(state: Arc<LanguageState>, account: AccountId, prompt: Prompt) -> Result<Asked> {
    let Prompt { transcript_id, text: prompt, model, wants_json } = prompt;
    let model = match model.as_deref() {
        Some(EXTRACTIVE) => None,
        Some(id) if state.models.find(id).is_none() => {
            return Err(unknown_model(id, state.models.ids().chain([EXTRACTIVE]).collect()));
        }
        other => state.find(other)?,
    };
    let unit = if model.is_some() { Unit::Paragraph } else { Unit::Sentence };
    let (transcript, passages) = state.passages(&account, transcript_id, unit).await?;
    let language = transcript.language_code.clone();
    let result = json!({
        "id": ids::fresh("su"),
        "transcript_id": transcript.id.as_str(),
        "model": model.as_ref().map_or(EXTRACTIVE, |model| model.id()),
        "created_at": clock::iso(clock::now_ms()),
    });
    let (draft, drafts) = unbounded_channel();
    let answer: BoxFuture<'static, Result<String>> = match model {
        Some(model) => {
            model.prepare().await?;
            let fence = Fence::new(&state.secret, transcript.id.as_str());
            async move {
                let language = language.as_deref();
                let question =
                    Question { paragraphs: &passages, language, prompt: &prompt, wants_json, account: &account };
                // Nobody reads the draft of an answer that is not streamed.
                let mut draft = |piece: &str| drop(draft.send(piece.to_owned()));
                Ok(answer(&*model, &fence, &question, &mut draft).await?)
            }
            .boxed()
        }
        None => async move {
            let permit = state.renderer.permit().await?;
            let work = move || match wants_json {
                true => serde_json::to_string(&extractive::answer_json(&passages, language.as_deref(), &prompt)),
                false => Ok(extractive::answer(&passages, language.as_deref(), &prompt)),
            };
            state.renderer.run(permit, work).await
        }
        .boxed(),
    };
    Ok(Asked { result, answer, drafts })
}

/// The result with its answer.
fn whole(mut result: Value, answer: String) -> Value {
    result["response"] = answer.into();
    result
}

/// An answer that is being written.
struct Writing {
    /// All of the result but the answer.
    result: Value,
    /// None after its end.
    answer: Option<BoxFuture<'static, Result<String>>>,
    drafts: UnboundedReceiver<String>,
}

impl Writing {
    /// The next events: a piece of the answer, or at last the rest of it with the whole result.
    async fn next(&mut self) -> Result<String> {
        let Some(answer) = &mut self.answer else { return Ok(String::new()) };
        let delta = |piece: String| event(&json!({ "delta": piece }));
        // The pieces come from the answer itself, so none is missed between the two.
        let answer = tokio::select! {
            biased;
            Some(piece) = self.drafts.recv() => return Ok(delta(piece)),
            answer = answer => answer,
        };
        self.answer = None;
        let mut text = String::new();
        while let Ok(piece) = self.drafts.try_recv() {
            text.push_str(&delta(piece));
        }
        match answer {
            Ok(answer) => {
                text.push_str(&event(&whole(self.result.take(), answer)));
                text.push_str("data: [DONE]\n\n");
            }
            Err(error) if text.is_empty() => return Err(error),
            Err(error) => text.push_str(&failure(error)),
        }
        Ok(text)
    }
}

/// The answer as server-sent events: its pieces, then the whole result and `[DONE]`, or an event with the error.
fn sse(first: String, writing: Writing) -> impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send {
    stream::unfold((Some(first), writing), |(first, mut writing)| async move {
        let text = match first {
            Some(first) => first,
            None if writing.answer.is_none() => return None,
            None => match tokio::time::timeout(COMMENT_INTERVAL, writing.next()).await {
                Ok(Ok(text)) => text,
                Ok(Err(error)) => failure(error),
                Err(_) => WAITING.to_owned(),
            },
        };
        Some((Ok(Bytes::from(text)), (None, writing)))
    })
}
