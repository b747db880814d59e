//! A multipart form with one file. The file goes into the object store as it arrives; the other fields may stand before or after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, StatusCode};
use multer::{Constraints, Field, Multipart, SizeLimit};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::uploads::{UploadsState, new_upload, receive, too_large};
use crate::http::body::{Fields, MAX_JSON_BYTES};
use crate::http::request_body::RequestBody;
use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::sound_format::wav_header;
use crate::store::Upload;
use crate::visible;

/// The most fields that are no file.
const MAX_FIELDS: usize = 64;

/// The longest name of a file, in characters.
const MAX_FILENAME_CHARS: usize = 1024;

/// The file of a form, as its protocol sends it.
pub struct FilePart {
    pub name: &'static str,
    /// The rate in hertz of audio that has no header: 16 bits, mono.
    pub raw_rate: Option<u32>,
    /// The most bytes of all other fields.
    pub max_field_bytes: usize,
}

impl Default for FilePart {
    fn default() -> Self {
        Self { name: "file", raw_rate: None, max_field_bytes: MAX_JSON_BYTES }
    }
}

/// A form that has been read.
#[derive(Default)]
pub struct Form {
    pub file: Option<FormFile>,
    /// The other fields, in their order.
    pub fields: Vec<(String, String)>,
}

/// The file of a form, stored as a complete upload. It is deleted with this value unless it is kept: a request that fails, or whose
/// client is gone, leaves nothing behind.
pub struct FormFile {
    pub upload: Upload,
    /// The hash of its bytes.
    pub sha256: String,
    state: Arc<UploadsState>,
    is_kept: bool,
}

impl Drop for FormFile {
    fn drop(&mut self) {
        // At the end of the process there is no runtime; housekeeping deletes the file as other unused uploads.
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_kept {
            return;
        }
        let (state, id) = (self.state.clone(), self.upload.id.clone());
        runtime.spawn(async move {
            match state.store.delete_refused_upload(&id).await {
                Ok(()) => state.notifiers.deletions.notify_one(),
                Err(error) => tracing::warn!(upload = %id, %error, "deleting the file of a form failed"),
            }
        });
    }
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

    /// The hash of what the form asks for. The boundary, the order of fields and empty ones do not change it.
    pub fn hash(&self) -> String {
        let mut fields: BTreeMap<&str, &str> =
            self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields.retain(|_, value| !value.is_empty());
        let file = self.file.as_ref().map(|file| (&file.upload.filename, &file.sha256));
        HEXLOWER.encode(&Sha256::digest(json!([fields, file]).to_string()))
    }

    /// The fields as those of a request to create a transcript: the file is an upload.
    ///
    /// # Errors
    /// 400 without a file, and for another recording beside it.
    pub fn request(&self) -> Result<Fields> {
        let Some(file) = &self.file else {
            let message =
                "`file` is missing: the recording. Without a file send JSON, with `audio_url` or `upload_id`.";
            return Err(ApiError::invalid(message));
        };
        if let Some(other) = ["audio_url", "upload_id"].into_iter().find(|name| self.text(name).is_some()) {
            return Err(ApiError::invalid(format!("A form has its recording in `file`; leave `{other}` out.")));
        }
        let upload = ("upload_id".to_owned(), file.upload.id.to_string());
        Ok(Fields::of_form(self.fields.iter().cloned().chain([upload])))
    }

    /// Keeps the file: a transcript uses it.
    pub fn keep(self) {
        if let Some(file) = self.file {
            file.keep();
        }
    }
}

impl FormFile {
    /// As [`Form::keep`].
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

/// True for a body that is a form.
pub fn is_form(headers: &HeaderMap) -> bool {
    let essence = content_type(headers).split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("multipart/form-data")
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn broken(error: &multer::Error) -> ApiError {
    ApiError::invalid(format!("The form could not be read: {error}."))
}

/// Reads a form.
///
/// # Errors
/// 415 for a body that is no form, 400 for a broken one, 413 and 429 for too many bytes.
pub async fn read(
    state: &Arc<UploadsState>,
    account: &AccountId,
    headers: &HeaderMap,
    body: RequestBody,
    expected: FilePart,
) -> Result<Form> {
    let boundary = boundary(headers)?;
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let max_field_bytes = expected.max_field_bytes;
    // Boundaries and the heads of parts are as large again at most.
    if length.is_some_and(|length| length.saturating_sub(2 * max_field_bytes as u64) > state.max_bytes) {
        return Err(too_large(state.max_bytes));
    }
    let limits =
        SizeLimit::new().whole_stream(u64::MAX).per_field(max_field_bytes as u64).for_field(expected.name, u64::MAX);
    let mut parts =
        Multipart::with_constraints(body.into_data_stream(), boundary, Constraints::new().size_limit(limits));
    let mut form = Form::default();
    let mut left = max_field_bytes;
    while let Some(part) = parts.next_field().await.map_err(|error| broken(&error))? {
        if part.name() == Some(expected.name) {
            if form.file.is_some() {
                return Err(ApiError::invalid("The form has two files; send a form for each."));
            }
            form.file = Some(store_file(state, account, part, expected.raw_rate).await?);
            continue;
        }
        push_field(&mut form.fields, &mut left, max_field_bytes, part).await?;
    }
    Ok(form)
}

/// The fields of a form without files, whose bytes have been read.
///
/// # Errors
/// As [`read`].
#[cfg(feature = "webrtc")]
pub async fn read_fields(headers: &HeaderMap, body: Bytes) -> Result<Vec<(String, String)>> {
    let body = stream::once(std::future::ready(Ok::<_, std::convert::Infallible>(body)));
    let mut parts = Multipart::new(body, boundary(headers)?);
    let (mut fields, mut left) = (Vec::new(), MAX_JSON_BYTES);
    while let Some(part) = parts.next_field().await.map_err(|error| broken(&error))? {
        push_field(&mut fields, &mut left, MAX_JSON_BYTES, part).await?;
    }
    Ok(fields)
}

fn boundary(headers: &HeaderMap) -> Result<String> {
    multer::parse_boundary(content_type(headers)).map_err(|_| {
        let message = "Send the body as a form, with Content-Type: multipart/form-data and its boundary.";
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    })
}

/// Adds a field, which takes of the bytes that are left of `most`.
async fn push_field(fields: &mut Vec<(String, String)>, left: &mut usize, most: usize, part: Field<'_>) -> Result<()> {
    let too_long = || {
        let message = format!("The fields of the form are larger than {most} bytes.");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    };
    if fields.len() >= MAX_FIELDS {
        return Err(ApiError::invalid(format!("The form has more than {MAX_FIELDS} fields.")));
    }
    let name = part.name().unwrap_or_default().to_owned();
    let value = part.text().await.map_err(|error| match error {
        multer::Error::FieldSizeExceeded { .. } => too_long(),
        error => broken(&error),
    })?;
    *left = left.checked_sub(name.len() + value.len()).ok_or_else(too_long)?;
    fields.push((name, value));
    Ok(())
}

async fn store_file(
    state: &Arc<UploadsState>,
    account: &AccountId,
    part: Field<'_>,
    raw_rate: Option<u32>,
) -> Result<FormFile> {
    let filename = visible::only(part.file_name().unwrap_or("audio")).chars().take(MAX_FILENAME_CHARS).collect();
    let sent = part.content_type().map_or_else(|| "application/octet-stream".into(), ToString::to_string);
    let content_type = if raw_rate.is_some() { "audio/wav".into() } else { sent };
    let upload = new_upload(state, account.clone(), filename, content_type, None).await?;
    store(state, upload, raw_rate.map(|rate| wav_header(rate, None)), part).await
}

/// Stores bytes as a complete upload, behind a header that its hash does not count.
///
/// # Errors
/// 413 and 429 for too many bytes, 400 for a body that breaks off, 404 if the upload was deleted meanwhile.
pub async fn store<E: std::fmt::Display>(
    state: &Arc<UploadsState>,
    upload: Upload,
    header: Option<Vec<u8>>,
    bytes: impl Stream<Item = std::result::Result<Bytes, E>> + Unpin,
) -> Result<FormFile> {
    state.store.create_upload(&upload).await?;
    let length = upload.declared_bytes.map(i64::unsigned_abs);
    let mut file = FormFile { upload, sha256: String::new(), state: state.clone(), is_kept: false };
    let mut hash = Sha256::new();
    let bytes = bytes.map_ok(|bytes| {
        hash.update(&bytes);
        Frame::data(bytes)
    });
    let bytes = stream::iter(header.map(|header| Ok(Frame::data(header.into())))).chain(bytes);
    let bytes = receive(state, &file.upload, length, StreamBody::new(bytes)).await?;
    if !state.store.mark_upload_ready(&file.upload.id, bytes as i64).await? {
        return Err(ApiError::not_found("The upload was deleted meanwhile."));
    }
    file.sha256 = HEXLOWER.encode(&hash.finalize());
    Ok(file)
}
