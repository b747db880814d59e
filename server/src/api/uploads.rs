//! Uploads: sign, PUT, complete.

use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE, CONTENT_LENGTH, CONTENT_TYPE,
    HeaderName, HeaderValue,
};
use serde_json::json;

use crate::clock;
use crate::http::response::{ApiError, Response, Result, json, nothing};
use crate::http::{RequestContext, body};
use crate::ids::UploadId;
use crate::storage::{Signature, StorageError};
use crate::store::{Upload, UploadStatus};

/// Extensions of audio and video files, whatever content type they come with.
const EXTENSIONS: [&str; 40] = [
    "3g2", "3ga", "3gp", "8svx", "aac", "ac3", "aif", "aifc", "aiff", "alac", "amr", "ape", "au", "avi", "caf", "dss",
    "flac", "flv", "m2t", "m2ts", "m4a", "m4b", "m4v", "mkv", "mov", "mp2", "mp3", "mp4", "mpeg", "mpg", "mts", "oga",
    "ogg", "ogv", "opus", "ts", "wav", "webm", "wma", "wmv",
];

fn is_media(filename: &str, content_type: &str) -> bool {
    let kind = content_type.to_ascii_lowercase();
    let extension = filename.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    kind.starts_with("audio/")
        || kind.starts_with("video/")
        || extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
}

fn unknown() -> ApiError {
    ApiError::not_found("There is no such upload.")
}

fn too_large(most: u64) -> ApiError {
    let message = format!("An upload may have {most} bytes.");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "upload_too_large", message)
}

/// `POST /v2/uploads/sign`
pub async fn sign(call: RequestContext) -> Result<Response> {
    let account = call.account()?.id.clone();
    let (app, headers) = (call.app.clone(), call.headers().clone());
    let mut fields = body::Fields::parse(&headers, &body::read(call.into_request(), body::JSON_BYTES).await?)?;
    let filename = fields.required_string("filename", 1..=1024)?;
    // What a header has around its value is no part of it.
    let content_type = fields.required_string("content_type", 0..=255)?.trim().to_owned();
    let declared_bytes = fields.integer("size_bytes", 0..=i64::MAX)?;
    let most = app.config.max_upload_bytes;
    let is_sendable = content_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if content_type.is_empty() || !is_sendable {
        return Err(ApiError::validation("`content_type` must be a media type, such as audio/mpeg."));
    }
    if !is_media(&filename, &content_type) {
        return Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "unsupported_media_type",
            format!("{filename:?} ({content_type}) is neither audio nor video."),
        ));
    }
    if declared_bytes.is_some_and(|bytes| bytes as u64 > most) {
        return Err(too_large(most));
    }
    let upload = Upload {
        id: UploadId::new(),
        account,
        filename,
        content_type,
        declared_bytes,
        status: UploadStatus::Pending,
        expires_at: clock::now_ms() + i64::from(app.config.upload_url_seconds) * 1000,
    };
    let url = app.storage.sign(&upload).await.map_err(|error| ApiError::internal(&error))?;
    app.store.create_upload(&upload).await?;
    Ok(json(&json!({
        "upload_id": upload.id.as_str(),
        "url": url.as_str(),
        "method": "PUT",
        "headers": { "Content-Type": upload.content_type },
        "expires_at": clock::iso(upload.expires_at),
        "max_size_bytes": most,
    })))
}

/// The upload that a PUT to a signed URL is for, and whether that is what was signed.
pub async fn signed(call: &RequestContext) -> Result<Option<(Upload, Signature)>> {
    // An upload that is not there tells no more than a wrong signature does.
    let Some(upload) = call.app.store.upload(&call.param("upload_id").into()).await? else { return Ok(None) };
    let (expires, signature) = (call.query("expires").unwrap_or_default(), call.query("signature").unwrap_or_default());
    let content_type = header(call, CONTENT_TYPE);
    let signature = call.app.storage.check(&upload, &content_type, &expires, &signature);
    Ok(Some((upload, signature)))
}

fn header(call: &RequestContext, name: HeaderName) -> String {
    call.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// `PUT /uploads/{upload_id}?expires=&signature=` on the storage listener.
pub async fn put(call: RequestContext) -> Result<Response> {
    let forbidden = |code, message: &str| ApiError::new(StatusCode::FORBIDDEN, code, message);
    let mismatch = || forbidden("signature_mismatch", "The URL and headers are not those that were signed.");
    let app = call.app.clone();
    let most = app.config.max_upload_bytes;
    let refusal = match signed(&call).await? {
        None | Some((_, Signature::Mismatch)) => Err(mismatch()),
        Some((_, Signature::Expired)) => {
            Err(forbidden("upload_expired", "This URL has expired; sign the upload again."))
        }
        Some(_) if header(&call, CONTENT_LENGTH).parse::<u64>().is_ok_and(|length| length > most) => {
            Err(too_large(most))
        }
        Some((upload, Signature::Valid)) => Ok(upload),
    };
    let upload = match refusal {
        Ok(upload) => upload,
        Err(error) => {
            body::skip(call.into_request());
            return Err(error);
        }
    };
    match app.storage.put(&upload.object_key(), call.into_body(), most).await {
        Ok(_) if !app.store.is_wanted(&upload).await? => {
            app.deletion_notify.notify_one();
            Err(ApiError::not_found("The upload was deleted meanwhile."))
        }
        Ok(bytes) => {
            tracing::info!(upload = %upload.id, bytes, "received");
            Ok(json(&json!({ "upload_id": upload.id.as_str(), "size_bytes": bytes })))
        }
        Err(StorageError::TooLarge(most)) => Err(too_large(most)),
        Err(StorageError::BrokeOff(reason)) => Err(ApiError::invalid(format!("The upload broke off: {reason}."))),
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// `OPTIONS /uploads/{upload_id}`: a browser asks whether a page may put.
pub async fn preflight(_: RequestContext) -> Result<Response> {
    let mut reply = nothing();
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("PUT"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    Ok(reply)
}

/// `POST /v2/uploads/{upload_id}/complete`
pub async fn complete(call: RequestContext) -> Result<Response> {
    let id = UploadId::from(call.param("upload_id"));
    let app = &call.app;
    let upload = app.store.upload_of(&call.account()?.id, &id).await?.ok_or_else(unknown)?;
    let found = app.storage.size(&upload.object_key()).await.map_err(|error| ApiError::internal(&error))?;
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
    // A store elsewhere takes whatever is put to it.
    if bytes as u64 > app.config.max_upload_bytes {
        return Err(too_large(app.config.max_upload_bytes));
    }
    if !app.store.upload_ready(&upload.id, bytes).await? {
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
    fn media_is_told_by_type_or_extension() {
        for (name, kind) in [
            ("a", "audio/mpeg"),
            ("a.bin", "video/x-anything"),
            ("a.MP3", "application/octet-stream"),
            ("a.b.M2TS", "application/x-binary"),
            ("x", "Audio/WAV"),
        ] {
            assert!(is_media(name, kind), "{name} {kind}");
        }
        for (name, kind) in [
            ("a.pdf", "application/pdf"),
            ("mp3", "application/octet-stream"),
            ("a.txt", "text/plain"),
            ("a.png", "image/png"),
            ("", ""),
        ] {
            assert!(!is_media(name, kind), "{name} {kind}");
        }
        assert!(EXTENSIONS.is_sorted());
    }
}
