//! `/v2/llm/chat-completions`: chat, with a transcript as its source where one is named.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::chat_request::{self, ChatBody, Dialect, SERVICE};
use super::language::{COMMENT_INTERVAL, LanguageState, WAITING, event, failure, model_unavailable};
use super::transcripts::completed_transcript;
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{Response, Result, events, json as json_response};
use crate::http::response_body::ResponseBroken;
use crate::ids::{self, AccountId};
use crate::language::grounding::{Excerpt, Fence, check_length, ground};
use crate::language::source::Unit;
use crate::language::{ChatRequest, Completion, LanguageError, Piece, Pieces, Role, ToolCall, Usage, complete, schema};

/// `POST /v2/llm/chat-completions`
pub async fn create(state: Arc<LanguageState>, request: RequestContext) -> Result<Response> {
    respond(state, request, &SERVICE).await
}

/// Reads a request of a dialect and responds to it.
///
/// # Errors
/// As the contract says.
pub async fn respond(state: Arc<LanguageState>, request: RequestContext, dialect: &Dialect) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), chat_request::MAX_BYTES).await?;
    let body = chat_request::parse(Fields::parse(&headers, &bytes)?, account.clone(), dialect)?;
    drop(bytes);
    schema::check_options(&body.request.options).await?;
    let model = state.find(body.model.as_deref())?;
    // The transcript is looked for first: without a model a wrong one is reported, too.
    if let Some(id) = &body.transcript_id {
        completed_transcript(&state.store, &account, id.clone()).await?;
    }
    let model = model.ok_or_else(model_unavailable)?;
    model.prepare().await?;
    let ChatBody { transcript_id, mut request, stream, include_usage, .. } = body;
    let max_tokens = request.options.max_tokens;
    check_length(&*model, &request.messages, max_tokens)?;
    let mut excerpt = None;
    if let Some(id) = transcript_id {
        let grounded = with_transcript(&state, &account, id, &*model, &mut request).await?;
        excerpt = Some(grounded).filter(|excerpt| excerpt.paragraphs < excerpt.of);
    }
    let envelope =
        Envelope { id: ids::fresh("chat"), created_ms: clock::now_ms(), model: model.id().to_owned(), excerpt };
    if !stream {
        let answer = complete(model.chat(request).await?).await?;
        return Ok(json_response(&envelope.completion(&answer)));
    }
    // A failure before the first piece has a status of its own, unless the model takes long to read the prompt.
    let first = async move {
        let mut pieces = model.chat(request).await?;
        match pieces.next().await {
            Some(Ok(first)) => Ok((first, pieces)),
            Some(Err(error)) => Err(error),
            None => Err(LanguageError::Upstream("the answer is empty".into())),
        }
    };
    let mut first = Box::pin(first);
    let begun = tokio::time::timeout(COMMENT_INTERVAL, first.as_mut()).await;
    let state = match begun {
        Ok(begun) => {
            let (piece, pieces) = begun?;
            Progress::Writing { next: Some(Ok(piece)), pieces }
        }
        Err(_) => Progress::Reading(first),
    };
    Ok(events(sse(envelope, state, include_usage)))
}

async fn with_transcript(
    state: &LanguageState,
    account: &AccountId,
    id: String,
    model: &dyn crate::language::LanguageModel,
    request: &mut ChatRequest,
) -> Result<Excerpt> {
    let (transcript, paragraphs) = state.passages(account, id, Unit::Paragraph).await?;
    let fence = Fence::new(&state.secret, transcript.id.as_str());
    let messages = std::mem::take(&mut request.messages);
    let language = transcript.language_code.as_deref();
    let (messages, excerpt) = ground(model, &fence, &paragraphs, language, messages, request.options.max_tokens)?;
    request.messages = messages;
    Ok(excerpt)
}

/// What every part of one answer has.
struct Envelope {
    id: String,
    created_ms: i64,
    model: String,
    /// The part of a transcript that was read, if not all was.
    excerpt: Option<Excerpt>,
}

impl Envelope {
    fn object(&self, object: &str) -> Value {
        let mut written = json!({
            "id": self.id,
            "object": object,
            "created": self.created_ms / 1000,
            "created_at": clock::iso(self.created_ms),
            "model": self.model,
        });
        if let Some(Excerpt { paragraphs, of }) = self.excerpt {
            written["transcript_excerpt"] = json!({ "paragraphs": paragraphs, "of": of });
        }
        written
    }

    fn completion(&self, answer: &Completion) -> Value {
        let mut written = self.object("chat.completion");
        let mut message = json!({ "role": Role::Assistant.name(), "content": answer.text });
        if !answer.tool_calls.is_empty() {
            message["tool_calls"] = answer.tool_calls.iter().map(ToolCall::json).collect();
            if answer.text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        written["choices"] = json!([{ "index": 0, "message": message, "finish_reason": answer.reason.name() }]);
        written["usage"] = usage(answer.usage);
        written
    }

    fn chunk(&self, delta: Value, reason: Option<&str>) -> String {
        let mut written = self.object("chat.completion.chunk");
        written["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": reason }]);
        event(&written)
    }
}

fn usage(usage: Option<Usage>) -> Value {
    usage.map_or(Value::Null, |usage| {
        json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        })
    })
}

type First = std::pin::Pin<Box<dyn Future<Output = std::result::Result<(Piece, Pieces), LanguageError>> + Send>>;

/// How far an answer is.
enum Progress {
    /// The model reads the prompt.
    Reading(First),
    Writing {
        next: Option<std::result::Result<Piece, LanguageError>>,
        pieces: Pieces,
    },
    Ended,
}

/// The answer as server-sent events. The first delta has the role; `[DONE]` comes last, unless the answer fails: then an event with
/// the error does.
fn sse(
    envelope: Envelope,
    progress: Progress,
    include_usage: bool,
) -> impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send {
    let begin = envelope.chunk(json!({ "role": "assistant", "content": "" }), None);
    let state = (envelope, progress, Some(begin));
    stream::unfold(state, move |(envelope, mut progress, mut begin)| async move {
        if let Some(begin) = begin.take() {
            return Some((Ok(Bytes::from(begin)), (envelope, progress, None)));
        }
        let text = next_event(&envelope, &mut progress, include_usage).await?;
        Some((Ok(Bytes::from(text)), (envelope, progress, None)))
    })
}

/// The next event, or a comment while the model is silent. None after the end.
async fn next_event(envelope: &Envelope, progress: &mut Progress, include_usage: bool) -> Option<String> {
    let deadline = Instant::now() + COMMENT_INTERVAL;
    let comment = || Some(WAITING.to_owned());
    if let Progress::Reading(first) = progress {
        match tokio::time::timeout_at(deadline, first.as_mut()).await {
            Err(_) => return comment(),
            Ok(Ok((piece, pieces))) => *progress = Progress::Writing { next: Some(Ok(piece)), pieces },
            Ok(Err(error)) => {
                *progress = Progress::Ended;
                return Some(failure(error.into()));
            }
        }
    }
    let Progress::Writing { next, pieces } = progress else { return None };
    let piece = match next.take() {
        Some(piece) => Some(piece),
        None => match tokio::time::timeout_at(deadline, pieces.next()).await {
            Err(_) => return comment(),
            Ok(piece) => piece,
        },
    };
    match piece {
        Some(Ok(Piece::Text(text))) => Some(envelope.chunk(json!({ "content": text }), None)),
        Some(Ok(Piece::ToolCalls(calls))) => {
            let calls: Vec<Value> = calls
                .iter()
                .enumerate()
                .map(|(index, call)| {
                    let mut written = call.json();
                    written["index"] = json!(index);
                    written
                })
                .collect();
            Some(envelope.chunk(json!({ "tool_calls": calls }), None))
        }
        Some(Ok(Piece::End { reason, usage: tokens })) => {
            *progress = Progress::Ended;
            let mut text = envelope.chunk(json!({}), Some(reason.name()));
            if include_usage {
                let mut last = envelope.object("chat.completion.chunk");
                last["choices"] = json!([]);
                last["usage"] = usage(tokens);
                text.push_str(&event(&last));
            }
            text.push_str("data: [DONE]\n\n");
            Some(text)
        }
        Some(Err(error)) => {
            *progress = Progress::Ended;
            Some(failure(error.into()))
        }
        None => {
            *progress = Progress::Ended;
            Some(failure(LanguageError::Upstream("the answer ended midway".into()).into()))
        }
    }
}
