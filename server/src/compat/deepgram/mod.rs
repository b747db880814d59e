//! `/v1/listen` and `/v1/speak`, as Deepgram's packages use them: `listen` has files and their answers of `transcript`, `live` sessions, and
//! `speak` speech. `parameters` reads queries.

mod common;
pub mod listen;
pub mod live;
mod parameters;
pub mod speak;
mod transcript;

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use serde::Serialize;

use crate::http::response::{ApiError, Response};
use crate::ids;

/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("dg-request-id");
/// The header with an error, for clients of WebSockets, which do not read the body.
const ERROR: HeaderName = HeaderName::from_static("dg-error");

/// The body of an error.
#[derive(Serialize)]
struct ErrorBody<'a> {
    err_code: &'a str,
    err_msg: &'a str,
    request_id: String,
}

/// The status and the code of an error in the protocol.
fn status_and_code(error: &ApiError) -> (StatusCode, &'static str) {
    let status = match error.status {
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::CONFLICT => StatusCode::BAD_REQUEST,
        status => status,
    };
    let code = match status {
        StatusCode::BAD_REQUEST if matches!(error.code, "validation_error" | "unsupported_option") => {
            "INVALID_QUERY_PARAMETER"
        }
        StatusCode::BAD_REQUEST => "Bad Request",
        StatusCode::UNAUTHORIZED => "INVALID_AUTH",
        StatusCode::PAYMENT_REQUIRED => "ASR_PAYMENT_REQUIRED",
        StatusCode::FORBIDDEN => "INSUFFICIENT_PERMISSIONS",
        StatusCode::TOO_MANY_REQUESTS => "TOO_MANY_REQUESTS",
        status => status.canonical_reason().unwrap_or("INTERNAL_SERVER_ERROR"),
    };
    (status, code)
}

/// An error in the protocol's form.
pub fn error_response(error: &ApiError) -> Response {
    let mut error = error.clone();
    let (status, err_code) = status_and_code(&error);
    error.status = status;
    let request_id = request_id();
    let err_msg = if error.status == StatusCode::UNAUTHORIZED { "Invalid credentials." } else { &error.message };
    let mut response = error.response_with(&ErrorBody { err_code, err_msg, request_id: request_id.clone() });
    identify(&mut response, &request_id);
    if let Ok(message) = HeaderValue::from_str(err_msg) {
        response.headers_mut().insert(ERROR, message);
    }
    response
}

/// Names the request in its response.
fn identify(response: &mut Response, request_id: &str) {
    if let Ok(id) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
}

/// A new id of a request: a UUID of random bits (RFC 9562).
fn request_id() -> String {
    uuid(u128::from_be_bytes(ids::random()), 4)
}

/// The UUID of these bits and this version.
fn uuid(bits: u128, version: u128) -> String {
    let bits = (bits & !(0xf << 76 | 0x3 << 62)) | version << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids() {
        assert_eq!(uuid(0, 4), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX, 8), "ffffffff-ffff-8fff-bfff-ffffffffffff");
        assert_ne!(request_id(), request_id());
    }

    #[test]
    fn errors_have_the_protocols_codes() {
        for (error, status, code) in [
            (ApiError::unauthorized("x"), 401, "INVALID_AUTH"),
            (ApiError::validation("x"), 400, "INVALID_QUERY_PARAMETER"),
            (ApiError::invalid("x"), 400, "Bad Request"),
            (ApiError::billing_required("x"), 402, "ASR_PAYMENT_REQUIRED"),
            (ApiError::rate_limited(1), 429, "TOO_MANY_REQUESTS"),
            (ApiError::busy("x"), 503, "Service Unavailable"),
        ] {
            assert_eq!(status_and_code(&error), (StatusCode::from_u16(status).unwrap(), code));
        }
    }
}
