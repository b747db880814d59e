//! A multipart form with one file. The file goes into the object store as it arrives; the other fields may stand before or after it.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, StatusCode};
use multer::{Constraints, Multipart, SizeLimit};

use crate::api::uploads::{UploadsState, is_media, too_large};
use crate::clock;
use crate::http::request_body::RequestBody;
use crate::http::response::{ApiError, Result};
use crate::ids::{AccountId, UploadId};
use crate::storage::StorageError;
use crate::store::{Upload, UploadStatus};
use crate::visible;

/// The most bytes of a field that is no file, and the most such fields.
const MAX_FIELD_BYTES: u64 = 64 << 10;
const MAX_FIELDS: usize = 64;

/// The longest name of a file, in characters.
const MAX_FILENAME_CHARS: usize = 1024;

/// A form that has been read.
#[derive(Debug)]
pub struct Form {
    /// The file, whose bytes are stored and which is not marked as complete.
    pub file: Option<(Upload, i64)>,
    /// The other fields, in their order.
    pub fields: Vec<(String, String)>,
}

impl Form {
    /// The last value of a field, if it is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().rev().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// All values of a field, whose name may end with `[]`.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        let is_named = |field: &str| field.strip_suffix("[]").unwrap_or(field) == name;
        self.fields.iter().filter(|(field, _)| is_named(field)).map(|(_, value)| value.as_str()).collect()
    }
}

/// Reads a form.
///
/// # Errors
/// 415 for a body that is no form, 400 for a broken one, 413 and 429 for too many bytes.
pub async fn read(state: &UploadsState, account: &AccountId, headers: &HeaderMap, body: RequestBody) -> Result<Form> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type).map_err(|_| {
        let message = "Send the body as a form, with Content-Type: multipart/form-data and its boundary.";
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    })?;
    let limits = SizeLimit::new().whole_stream(u64::MAX).per_field(MAX_FIELD_BYTES).for_field("file", u64::MAX);
    let mut parts =
        Multipart::with_constraints(body.into_data_stream(), boundary, Constraints::new().size_limit(limits));
    let mut form = Form { file: None, fields: Vec::new() };
    match read_parts(state, account, &mut parts, &mut form).await {
        Ok(()) => Ok(form),
        Err(error) => {
            discard(state, &form).await;
            Err(error)
        }
    }
}

/// Deletes the file of a refused form: no other request can name it.
pub async fn discard(state: &UploadsState, form: &Form) {
    let Some((upload, _)) = &form.file else { return };
    match state.store.delete_refused_upload(&upload.id).await {
        Ok(()) => state.notifiers.deletions.notify_one(),
        Err(error) => tracing::warn!(%error, upload = %upload.id, "deleting the file of a refused form failed"),
    }
}

async fn read_parts(
    state: &UploadsState,
    account: &AccountId,
    parts: &mut Multipart<'_>,
    form: &mut Form,
) -> Result<()> {
    let broken = |error: &dyn std::fmt::Display| ApiError::invalid(format!("The form could not be read: {error}."));
    while let Some(part) = parts.next_field().await.map_err(|error| broken(&error))? {
        let name = part.name().unwrap_or_default().to_owned();
        if name == "file" && form.file.is_none() {
            let filename = part.file_name().unwrap_or("audio").to_owned();
            let content_type = part.content_type().map(ToString::to_string);
            let bytes = part.map_ok(Frame::data);
            form.file = Some(store_file(state, account, filename, content_type, StreamBody::new(bytes)).await?);
            continue;
        }
        if form.fields.len() >= MAX_FIELDS {
            return Err(ApiError::invalid(format!("The form has more than {MAX_FIELDS} fields.")));
        }
        let value = part.text().await.map_err(|error| broken(&error))?;
        form.fields.push((name, value));
    }
    Ok(())
}

/// Stores a file as an upload that is not complete. One that no transcript comes to use is deleted with other such uploads.
async fn store_file<B>(
    state: &UploadsState,
    account: &AccountId,
    filename: String,
    content_type: Option<String>,
    bytes: B,
) -> Result<(Upload, i64)>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let filename: String = visible::only(&filename).chars().take(MAX_FILENAME_CHARS).collect();
    let content_type = content_type.unwrap_or_else(|| "application/octet-stream".into());
    if !is_media(&filename, &content_type) {
        let message = format!("{filename:?} ({content_type}) is neither audio nor video.");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "unsupported_media_type", message));
    }
    let upload = Upload {
        id: UploadId::new(),
        account: account.clone(),
        filename,
        content_type,
        declared_bytes: None,
        status: UploadStatus::Pending,
        expires_at: clock::now_ms() + i64::from(state.url_seconds) * 1000,
    };
    state.quota.check_signing(&upload).await?;
    state.store.create_upload(&upload).await?;
    let reserved = state.quota.reserve(&upload, None, state.max_bytes).await?;
    let stored = state.storage.put(&upload.object_key(), bytes, reserved.bytes).await.map_err(|error| match error {
        StorageError::TooLarge(limit) if limit < state.max_bytes => state.quota.exceeded(),
        StorageError::TooLarge(most) => too_large(most),
        StorageError::Interrupted(reason) => ApiError::invalid(format!("The file broke off: {reason}.")),
        other => ApiError::internal(&other),
    })?;
    let bytes = stored as i64;
    if !state.store.confirm_upload(&upload, bytes).await? {
        return Err(ApiError::not_found("The upload was deleted meanwhile."));
    }
    Ok((upload, bytes))
}
