//! AssemblyAI's protocol: files below `/v2/upload` and `/v2/transcript`, live sessions at `/v3/ws`.
//!
//! `files` has the handlers; `request` turns their parameters into those of `/v2/transcripts`, `answer` a transcript into theirs. `streaming` has the
//! live sessions.

mod answer;
pub mod files;
mod request;
pub mod streaming;

use hyper::StatusCode;
use serde_json::json;

use crate::http::body::Fields;
use crate::http::response::{ApiError, Response, Result};

/// True for a path of this protocol, whose errors have its form.
pub fn owns(path: &str) -> bool {
    matches!(path, "/v2/upload" | "/v2/transcript" | "/v3/token" | "/v3/ws") || path.starts_with("/v2/transcript/")
}

/// An error in the form of the protocol: `{"error": "..."}`, and 400 for all that is wrong with a request.
pub fn refused(error: &ApiError) -> Response {
    let mut error = error.clone();
    if matches!(error.status.as_u16(), 409 | 415 | 422) {
        error.status = StatusCode::BAD_REQUEST;
    }
    error.response_with(&json!({ "error": error.message }))
}

fn unsupported(name: &str) -> ApiError {
    ApiError::unsupported_option(format!("`{name}` is not supported by this service: leave it out."))
}

/// Refuses a parameter that no other line knows and that asks for something.
fn refuse_others(fields: &Fields) -> Result<()> {
    fields.first_left().map_or(Ok(()), |name| Err(unsupported(name)))
}
