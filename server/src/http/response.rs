//! Responses: JSON, text, empty, and errors in the contract's form.

use bytes::Bytes;
use futures_util::Stream;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use serde::Serialize;

use super::response_body::{ResponseBody, ResponseBroken};

/// A response.
pub type Response = hyper::Response<ResponseBody>;

/// 200 with a JSON body.
pub fn json(body: &impl Serialize) -> Response {
    json_with(StatusCode::OK, body)
}

fn json_with(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(body) => with_type(status, "application/json", body.into()),
        Err(error) => {
            tracing::error!(%error, "serialising a response failed");
            with_type(StatusCode::INTERNAL_SERVER_ERROR, "application/json", Bytes::from_static(b"{}"))
        }
    }
}

/// 200 with a JSON body that is serialised already.
pub fn json_text(body: String) -> Response {
    with_type(StatusCode::OK, "application/json", body.into())
}

/// 200 with a text body of this content type.
pub fn text(content_type: &'static str, body: String) -> Response {
    with_type(StatusCode::OK, content_type, body.into())
}

/// 200 with a body of this content type that is produced as the client reads.
pub fn streamed(
    content_type: &'static str,
    parts: impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send + 'static,
) -> Response {
    let mut response = Response::new(ResponseBody::stream(parts));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// 200 with JSON that is produced as the client reads.
pub fn json_stream(parts: impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send + 'static) -> Response {
    streamed("application/json", parts)
}

/// 200 with server-sent events that are produced as they come.
pub fn events(parts: impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send + 'static) -> Response {
    let mut response = streamed("text/event-stream", parts);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Reverse proxies would collect the events.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// 204.
pub fn no_content() -> Response {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// 303: the browser gets another page.
pub fn see_other(location: &str) -> Response {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::SEE_OTHER;
    // A location of other characters is not sent anywhere.
    let location = HeaderValue::from_str(location).unwrap_or_else(|_| HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}

/// A response with bytes of this content type.
pub fn bytes(content_type: &'static str, body: Bytes) -> Response {
    with_type(StatusCode::OK, content_type, body)
}

fn with_type(status: StatusCode, content_type: &'static str, body: Bytes) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The longest part of a message that is quoted or has no space, in characters. Such parts are values of the request.
const MAX_PART_CHARS: usize = 100;

/// The longest message, in characters.
const MAX_MESSAGE_CHARS: usize = 2000;

/// A message about a request, with the long values that it quotes cut short.
pub fn shortened(message: String) -> String {
    if message.len() <= MAX_PART_CHARS {
        return message;
    }
    let (mut short, mut rest) = (String::new(), message.as_str());
    while let Some(first) = rest.chars().next() {
        let quoted = if first == '"' { end_of_quoted(rest) } else { None };
        let end = quoted.unwrap_or_else(|| end_of_word(rest).max(first.len_utf8()));
        let (part, after) = rest.split_at(end);
        let quotes = if quoted.is_some() { 2 } else { 0 };
        match part.char_indices().nth(MAX_PART_CHARS + quotes) {
            None => short.push_str(part),
            Some(_) => {
                short.extend(part.chars().take(MAX_PART_CHARS + quotes / 2));
                short.push_str(if quoted.is_some() { "…\"" } else { "…" });
            }
        }
        rest = after;
    }
    if let Some((end, _)) = short.char_indices().nth(MAX_MESSAGE_CHARS) {
        short.truncate(end);
        short.push('…');
    }
    short
}

/// The end of a text in quotes that stands at the beginning.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, character)| {
        let is_end = *character == '"' && !is_escaped;
        is_escaped = *character == '\\' && !is_escaped;
        is_end
    });
    end.map(|(at, _)| at + 1)
}

fn end_of_word(text: &str) -> usize {
    text.find(|character: char| character == '"' || character.is_whitespace()).unwrap_or(text.len())
}

/// The body of an error.
#[derive(Serialize)]
struct ErrorBody<T> {
    error: T,
}

/// A refused request: status, error code, and a message that names the fault and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    header: Option<(HeaderName, String)>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: shortened(message.into()), header: None }
    }

    fn with(mut self, name: HeaderName, value: impl ToString) -> Self {
        self.header = Some((name, value.to_string()));
        self
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub fn validation(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message)
    }

    pub fn unsupported_option(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unsupported_option", message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message).with(WWW_AUTHENTICATE, "Bearer")
    }

    pub fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    /// 403 for a form that did not come from a page of the service, or from one that is too old.
    pub fn forged() -> Self {
        Self::forbidden("form_expired", "This form has expired. Load the page again and send it once more.")
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 404 for a path that does not exist.
    pub fn no_such_path() -> Self {
        Self::not_found("There is nothing at this path.")
    }

    pub fn method_not_allowed(allow: &str) -> Self {
        let message = format!("This path takes {allow}.");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).with(ALLOW, allow)
    }

    /// 415 for a body in a coding, which is not decoded here.
    pub fn unsupported_coding() -> Self {
        let message = "The body has a `Content-Encoding`; send it without.";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
            .with(ACCEPT_ENCODING, "identity")
    }

    pub fn rate_limited(retry_after_s: u64) -> Self {
        let message = format!("Too many requests; try again in {retry_after_s} s.");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).with(RETRY_AFTER, retry_after_s)
    }

    pub fn queue_full(most: i64) -> Self {
        let message = format!("{most} transcripts of the account wait already; create more when some have ended.");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", message).with(RETRY_AFTER, 60)
    }

    pub fn billing_required(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYMENT_REQUIRED, "v2_billing_required", message)
    }

    /// 503 while there is no room for more.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).with(RETRY_AFTER, 1)
    }

    /// 503 for a failure of the service. The cause goes to the log alone.
    pub fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        let message = "The service could not do this now; it is not your request's fault. Try again.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).with(RETRY_AFTER, 1)
    }

    /// The error as a response.
    pub fn response(&self) -> Response {
        #[derive(Serialize)]
        struct Inner<'a> {
            code: &'a str,
            message: &'a str,
        }
        self.response_with(&ErrorBody { error: Inner { code: self.code, message: &self.message } })
    }

    /// The error as a response of the paths that OpenAI's clients use.
    pub fn openai_response(&self) -> Response {
        #[derive(Serialize)]
        struct Inner<'a> {
            message: &'a str,
            r#type: &'static str,
            param: Option<()>,
            code: &'a str,
        }
        let r#type = match self.status.as_u16() {
            401 => "authentication_error",
            402 => "insufficient_quota",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        self.response_with(&ErrorBody { error: Inner { message: &self.message, r#type, param: None, code: self.code } })
    }

    /// The error with the body of another protocol.
    pub fn response_with(&self, body: &impl Serialize) -> Response {
        let mut response = json_with(self.status, body);
        self.write_header(response.headers_mut());
        response
    }

    /// The error as a page.
    pub fn page(&self, html: String) -> Response {
        let mut response = with_type(self.status, "text/html; charset=utf-8", html.into());
        self.write_header(response.headers_mut());
        response
    }

    fn write_header(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = &self.header
            && let Ok(value) = HeaderValue::from_str(value)
        {
            headers.insert(name, value);
        }
    }
}

impl From<crate::store::Error> for ApiError {
    fn from(error: crate::store::Error) -> Self {
        Self::internal(&error)
    }
}

pub type Result<T> = std::result::Result<T, ApiError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_in_a_message_are_cut_short() {
        let quoted = |count: usize| format!("`model` must be a or b, not {:?}. Take one.", "x".repeat(count));
        assert_eq!(shortened(quoted(100)), quoted(100));
        let cut = format!("`model` must be a or b, not \"{}…\". Take one.", "x".repeat(100));
        assert_eq!(shortened(quoted(1 << 20)), cut);
        // Spaces and quotes within a value do not end it.
        let hostile = format!("not {:?}, but \"a\".", "\" a \\".repeat(100_000));
        let short = shortened(hostile);
        assert!(short.chars().count() < 150 && short.ends_with("…\", but \"a\"."), "{short}");
        let word = format!("There is no upload {}; sign one.", "ä".repeat(5000));
        assert_eq!(shortened(word), format!("There is no upload {}…", "ä".repeat(100)) + " sign one.");
        let prose = "many short words ".repeat(10_000);
        assert_eq!(shortened(prose.clone()).chars().count(), MAX_MESSAGE_CHARS + 1);
        assert_eq!(shortened(prose[..1000].to_owned()), prose[..1000]);
        let open = format!("one quote \" {}", "and more ".repeat(30));
        assert_eq!(shortened(open.clone()), open);
    }
}
