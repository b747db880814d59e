//! Uploads: sign, PUT, complete.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE, CONTENT_LENGTH, HeaderName,
    HeaderValue,
};
use serde_json::json;

use super::upload_quota::UploadQuota;
use crate::auth::UploadUrl;
use crate::clock;
use crate::context::RequestContext;
use crate::http::body;
use crate::http::response::{ApiError, Response, Result, json, no_content};
use crate::ids::{AccountId, UploadId};
use crate::notify::Notifiers;
use crate::storage::{Storage, StorageError, UploadSignature};
use crate::store::{Store, Upload, UploadStatus};
use crate::visible;

/// The state of this resource.
pub struct UploadsState {
    pub store: Store,
    pub storage: Storage,
    pub notifiers: Arc<Notifiers>,
    pub max_bytes: u64,
    pub quota: UploadQuota,
    /// Lifetime of a signed URL.
    pub url_seconds: u32,
}

/// No PUT takes longer. Housekeeping deletes older unfinished files.
const LONGEST_PUT: Duration = Duration::from_secs(24 * 3600);

/// Extensions of audio and video files, accepted with any content type.
const EXTENSIONS: [&str; 46] = [
    "3g2", "3ga", "3gp", "8svx", "aac", "ac3", "adts", "aif", "aifc", "aiff", "alac", "amr", "ape", "au", "avi", "bwf",
    "caf", "dss", "flac", "flv", "m2t", "m2ts", "m4a", "m4b", "m4v", "mka", "mkv", "mov", "mp2", "mp3", "mp4", "mpeg",
    "mpg", "mpga", "mts", "oga", "ogg", "ogv", "opus", "ts", "w64", "wav", "weba", "webm", "wma", "wmv",
];

/// True for audio and video, by content type or by extension.
pub fn is_media(filename: &str, content_type: &str) -> bool {
    let content_type = content_type.to_ascii_lowercase();
    let extension = filename.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    content_type.starts_with("audio/")
        || content_type.starts_with("video/")
        || extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
}

fn unknown() -> ApiError {
    ApiError::not_found("There is no such upload.")
}

/// 413 for a file beyond the limit.
pub fn too_large(most: u64) -> ApiError {
    let message = format!("An upload may have {most} bytes.");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "upload_too_large", message)
}

/// `POST /v2/uploads/sign`
pub async fn sign(state: Arc<UploadsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let mut fields = body::Fields::parse(&headers, &body::read(request.into_request(), body::MAX_JSON_BYTES).await?)?;
    // Names that programs give to files may have hidden characters.
    let filename = visible::only(&fields.required_string("filename", 1..=1024)?);
    // Whitespace around a header's value is not part of it.
    let mut content_type = fields.required_string("content_type", 0..=255)?.trim().to_owned();
    let declared_bytes = fields.integer("size_bytes", 0..=i64::MAX)?;
    let is_header_value = content_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    // Browsers know no type for some files.
    if content_type.is_empty() {
        content_type = "application/octet-stream".into();
    }
    if !is_header_value {
        return Err(ApiError::validation("`content_type` must be a media type, such as audio/mpeg."));
    }
    let upload = new_upload(&state, account, filename, content_type, declared_bytes).await?;
    let url = state.storage.sign(&upload).await.map_err(|error| ApiError::internal(&error))?;
    state.store.create_upload(&upload).await?;
    Ok(json(&json!({
        "upload_id": upload.id.as_str(),
        "url": url.as_str(),
        "method": "PUT",
        "headers": { "Content-Type": upload.content_type },
        "expires_at": clock::iso(upload.expires_at),
        "max_size_bytes": state.max_bytes,
    })))
}

/// A new upload of an account, which is not in the store yet.
///
/// # Errors
/// 400 for what is neither audio nor video, 413 and 429 for too many bytes.
pub async fn new_upload(
    state: &UploadsState,
    account: AccountId,
    filename: String,
    content_type: String,
    declared_bytes: Option<i64>,
) -> Result<Upload> {
    if !is_media(&filename, &content_type) {
        let message = format!("{filename:?} ({content_type}) is neither audio nor video.");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "unsupported_media_type", message));
    }
    if declared_bytes.is_some_and(|bytes| bytes as u64 > state.max_bytes) {
        return Err(too_large(state.max_bytes));
    }
    let upload = Upload {
        id: UploadId::new(),
        account,
        filename,
        content_type,
        declared_bytes,
        status: UploadStatus::Pending,
        expires_at: clock::now_ms() + i64::from(state.url_seconds) * 1000,
    };
    state.quota.check_signing(&upload).await?;
    Ok(upload)
}

/// Writes the bytes of an upload as they arrive, and returns their number. Without a length, as many may come as the quota leaves.
///
/// # Errors
/// 413 and 429 for too many bytes, 400 for a body that breaks off, 404 if the upload was deleted meanwhile.
pub async fn receive<B>(state: &UploadsState, upload: &Upload, length: Option<u64>, body: B) -> Result<u64>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let most = state.max_bytes;
    let reserved = state.quota.reserve(upload, length, most).await?;
    let object_key = upload.object_key();
    let put = state.storage.put(&object_key, body, reserved.bytes);
    let put = match tokio::time::timeout(LONGEST_PUT, put).await {
        Ok(put) => put,
        Err(_) => Err(StorageError::Interrupted("it took a day".into())),
    };
    match put {
        Ok(bytes) if !state.store.confirm_upload(upload, bytes as i64).await? => {
            state.notifiers.deletions.notify_one();
            Err(ApiError::not_found("The upload was deleted meanwhile."))
        }
        Ok(bytes) => {
            tracing::info!(upload = %upload.id, bytes, "received");
            Ok(bytes)
        }
        Err(StorageError::TooLarge(limit)) if limit < most => Err(state.quota.exceeded()),
        Err(StorageError::TooLarge(most)) => Err(too_large(most)),
        Err(StorageError::Interrupted(reason)) => Err(ApiError::invalid(format!("The upload broke off: {reason}."))),
        Err(error) => Err(ApiError::internal(&error)),
    }
}

fn header(request: &RequestContext, name: HeaderName) -> String {
    request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// `PUT /uploads/{upload_id}?expires=&signature=` on the storage listener.
pub async fn put(state: Arc<UploadsState>, mut request: RequestContext) -> Result<Response> {
    let forbidden = |code, message: &str| ApiError::new(StatusCode::FORBIDDEN, code, message);
    let mismatch = || forbidden("signature_mismatch", "The URL and headers are not those that were signed.");
    let most = state.max_bytes;
    let refusal = match request.upload_url()? {
        // A missing upload is answered as a wrong signature, which reveals nothing.
        None | Some(UploadUrl { signature: UploadSignature::Mismatch, .. }) => Err(mismatch()),
        Some(UploadUrl { signature: UploadSignature::Expired, .. }) => {
            Err(forbidden("upload_expired", "This URL has expired; sign the upload again."))
        }
        Some(_) if header(&request, CONTENT_LENGTH).parse::<u64>().is_ok_and(|length| length > most) => {
            Err(too_large(most))
        }
        Some(UploadUrl { upload, signature: UploadSignature::Valid }) => Ok(upload),
    };
    let upload = refusal?;
    let length = header(&request, CONTENT_LENGTH).parse::<u64>().ok();
    let bytes = receive(&state, &upload, length, request.into_body()).await?;
    Ok(json(&json!({ "upload_id": upload.id.as_str(), "size_bytes": bytes })))
}

/// `OPTIONS /uploads/{upload_id}`: the CORS preflight of a browser.
pub async fn preflight(_: RequestContext) -> Result<Response> {
    let mut response = no_content();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("PUT"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    Ok(response)
}

/// `POST /v2/uploads/{upload_id}/complete`
pub async fn complete(state: Arc<UploadsState>, request: RequestContext) -> Result<Response> {
    let id = UploadId::from(request.param("upload_id"));
    let upload = state.store.upload_of(&request.account()?.id, &id).await?.ok_or_else(unknown)?;
    let found = state.storage.size(&upload.object_key()).await.map_err(|error| ApiError::internal(&error))?;
    let incomplete = |message: String| ApiError::new(StatusCode::CONFLICT, "upload_incomplete", message);
    let Some(bytes) = found.map(|bytes| bytes as i64) else {
        let message = "The bytes have not arrived. Repeat the PUT to the signed URL, then complete again.";
        return Err(incomplete(message.into()));
    };
    if let Some(declared) = upload.declared_bytes.filter(|declared| *declared != bytes) {
        return Err(incomplete(format!(
            "{bytes} bytes have arrived of {declared}. Repeat the PUT to the signed URL, then complete again."
        )));
    }
    // An S3 store accepts uploads of any size.
    if bytes as u64 > state.max_bytes {
        return Err(too_large(state.max_bytes));
    }
    // Uploads to an S3 store are not seen before.
    state.quota.reserve(&upload, Some(bytes as u64), 0).await?;
    if !state.store.mark_upload_ready(&upload.id, bytes).await? {
        return Err(unknown());
    }
    Ok(json(&json!({
        "upload_id": upload.id.as_str(),
        "status": "ready",
        "filename": upload.filename,
        "content_type": upload.content_type,
        "size_bytes": bytes,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_is_recognised_by_content_type_or_extension() {
        for (name, content_type) in [
            ("a", "audio/mpeg"),
            ("a.bin", "video/x-anything"),
            ("a.MP3", "application/octet-stream"),
            ("a.b.M2TS", "application/x-binary"),
            ("x", "Audio/WAV"),
        ] {
            assert!(is_media(name, content_type), "{name} {content_type}");
        }
        for (name, content_type) in [
            ("a.pdf", "application/pdf"),
            ("mp3", "application/octet-stream"),
            ("a.txt", "text/plain"),
            ("a.png", "image/png"),
            ("", ""),
        ] {
            assert!(!is_media(name, content_type), "{name} {content_type}");
        }
        assert!(EXTENSIONS.is_sorted());
    }
}
