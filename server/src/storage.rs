//! The object store of uploaded files: a local folder with URLs signed by the service, or an S3-compatible store.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Body;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::signer::{SignedUrlOptions, Signer as _};
use object_store::{ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, WriteMultipart};
use sha2::Sha256;
use tokio::io::AsyncWriteExt as _;
use url::Url;

use crate::clock;
use crate::config::{Config, url_below};
use crate::store::Upload;

/// Size of the parts that an object is written in. It bounds the memory of an upload.
const CHUNK_BYTES: usize = 1 << 20;

/// An error of writing or reading an object.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("{0}")]
    Store(#[from] object_store::Error),
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The upload exceeds the size limit.
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    /// The client disconnected, was too slow, or sent an invalid body.
    #[error("the upload broke off: {0}")]
    Interrupted(String),
    #[error("{0}")]
    Setting(String),
}

type Result<T> = std::result::Result<T, StorageError>;

/// The object store.
#[derive(Clone)]
pub struct Storage(Arc<Backend>);

enum Backend {
    Local { store: LocalFileSystem, folder: PathBuf, url: Url, secret: Vec<u8> },
    S3 { store: AmazonS3, prefix: String },
}

/// The result of verifying a signed upload URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadSignature {
    Valid,
    Expired,
    Mismatch,
}

/// An object as a file of this machine.
pub enum LocalFile {
    /// The object's own file.
    Stored(PathBuf),
    /// A temporary copy, deleted with this value.
    Temporary(tempfile::NamedTempFile),
}

impl LocalFile {
    pub fn path(&self) -> &Path {
        match self {
            Self::Stored(path) => path,
            Self::Temporary(file) => file.path(),
        }
    }
}

impl Storage {
    /// Opens the store that the settings name. `url` is the storage listener's public URL; `secret` signs upload URLs of the
    /// local folder.
    ///
    /// # Errors
    /// If the folder cannot be created or the S3 settings are incomplete.
    pub fn open(config: &Config, url: Url, secret: &str) -> Result<Self> {
        let Some(location) = &config.storage_url else {
            let folder = config.data.join("objects");
            std::fs::create_dir_all(&folder)?;
            let store =
                LocalFileSystem::new_with_prefix(&folder)?.with_automatic_cleanup(true).with_fsync(config.fsync);
            return Ok(Self(Arc::new(Backend::Local { store, folder, url, secret: secret.as_bytes().to_vec() })));
        };
        let bucket = location.host_str().ok_or_else(|| StorageError::Setting(format!("{location} names no bucket")))?;
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        if let Some(endpoint) = &config.s3_endpoint {
            let plain = endpoint.scheme() == "http";
            builder = builder
                .with_endpoint(endpoint.as_str().trim_end_matches('/'))
                .with_virtual_hosted_style_request(false)
                .with_client_options(ClientOptions::new().with_allow_http(plain))
                .with_allow_http(plain);
        }
        if let Some(region) = &config.s3_region {
            builder = builder.with_region(region);
        }
        if let (Some(id), Some(key)) = (&config.s3_access_key_id, &config.s3_secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(key);
        }
        let prefix = location.path().trim_matches('/').to_owned();
        Ok(Self(Arc::new(Backend::S3 { store: builder.build()?, prefix })))
    }

    fn key(&self, object_key: &str) -> Key {
        match &*self.0 {
            Backend::Local { .. } => Key::from(object_key),
            Backend::S3 { prefix, .. } if prefix.is_empty() => Key::from(object_key),
            Backend::S3 { prefix, .. } => Key::from(format!("{prefix}/{object_key}")),
        }
    }

    fn store(&self) -> &dyn ObjectStore {
        match &*self.0 {
            Backend::Local { store, .. } => store,
            Backend::S3 { store, .. } => store,
        }
    }

    /// The signed URL for the PUT of an upload.
    ///
    /// # Errors
    /// If there are no S3 credentials.
    pub async fn sign(&self, upload: &Upload) -> Result<Url> {
        match &*self.0 {
            Backend::Local { url, secret, .. } => {
                let mut url = url_below(url, &format!("/uploads/{}", upload.id));
                let signature = HEXLOWER.encode(&mac(secret, upload).finalize().into_bytes());
                url.query_pairs_mut()
                    .append_pair("expires", &upload.expires_at.to_string())
                    .append_pair("signature", &signature);
                Ok(url)
            }
            Backend::S3 { store, .. } => {
                let left = (upload.expires_at - clock::now_ms()).max(0) as u64;
                let content_type = upload.content_type.parse().map_err(|_| {
                    StorageError::Setting(format!("{:?} cannot be sent as a header", upload.content_type))
                })?;
                let options = SignedUrlOptions::new().with_signed_header(hyper::header::CONTENT_TYPE, content_type);
                let key = self.key(&upload.object_key());
                Ok(store.signed_url_opts(Method::PUT, &key, Duration::from_millis(left), &options).await?)
            }
        }
    }

    /// Verifies a PUT to a signed URL of the local folder.
    pub fn verify(&self, upload: &Upload, content_type: &str, expires: &str, signature: &str) -> UploadSignature {
        let Backend::Local { secret, .. } = &*self.0 else { return UploadSignature::Mismatch };
        let signed = HEXLOWER.decode(signature.as_bytes()).unwrap_or_default();
        // The comparison takes constant time.
        let genuine = mac(secret, upload).verify_slice(&signed).is_ok();
        if !genuine || expires != upload.expires_at.to_string() || content_type != upload.content_type {
            UploadSignature::Mismatch
        } else if clock::now_ms() > upload.expires_at {
            UploadSignature::Expired
        } else {
            UploadSignature::Valid
        }
    }

    /// Writes a request body as it arrives, and returns its size in bytes. Only a complete body becomes an object.
    ///
    /// # Errors
    /// If the body is larger than `limit` bytes, is interrupted, or cannot be written. The store is then unchanged.
    pub async fn put<B>(&self, object_key: &str, mut body: B, limit: u64) -> Result<u64>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let upload = self.store().put_multipart(&self.key(object_key)).await?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, CHUNK_BYTES);
        let mut written = 0u64;
        let interrupted = loop {
            match body.frame().await {
                Some(Err(error)) => break StorageError::Interrupted(error.to_string()),
                None => {
                    writer.finish().await?;
                    return Ok(written);
                }
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    written += data.len() as u64;
                    if written > limit {
                        break StorageError::TooLarge(limit);
                    }
                    if let Err(error) = writer.wait_for_capacity(2).await {
                        break error.into();
                    }
                    writer.put(data);
                }
            }
        };
        if let Err(error) = writer.abort().await {
            tracing::warn!(%error, "removing an interrupted upload failed");
        }
        Err(interrupted)
    }

    /// The size of an object, if there is one.
    pub async fn size(&self, object_key: &str) -> Result<Option<u64>> {
        match self.store().head(&self.key(object_key)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of a part of an object, as they are read.
    ///
    /// # Errors
    /// If there is no such object or part.
    pub async fn read(&self, object_key: &str, part: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        let options = GetOptions { range: Some(GetRange::Bounded(part)), ..GetOptions::default() };
        let found = self.store().get_opts(&self.key(object_key), options).await?;
        Ok(found.into_stream().map_err(StorageError::from).boxed())
    }

    /// Where signed uploads go, as the sources of a content security policy. `url` is the storage listener's.
    pub fn upload_origin(&self, config: &Config, url: &Url) -> String {
        match (&*self.0, &config.s3_endpoint) {
            (Backend::Local { .. }, _) => url.origin().ascii_serialization(),
            (Backend::S3 { .. }, Some(endpoint)) => endpoint.origin().ascii_serialization(),
            (Backend::S3 { .. }, None) => "https://*.amazonaws.com".to_owned(),
        }
    }

    /// Deletes an object. A missing object is not an error.
    pub async fn delete(&self, object_key: &str) -> Result<()> {
        match self.store().delete(&self.key(object_key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// True if objects are on another machine.
    pub fn is_remote(&self) -> bool {
        matches!(&*self.0, Backend::S3 { .. })
    }

    /// An object as a local file, copied into `scratch` if the store is remote. None if there is no such object.
    pub async fn local_file(&self, object_key: &str, scratch: &Path) -> Result<Option<LocalFile>> {
        if let Backend::Local { store, .. } = &*self.0 {
            let path = store.path_to_filesystem(&self.key(object_key))?;
            return Ok(tokio::fs::try_exists(&path).await?.then_some(LocalFile::Stored(path)));
        }
        let found = match self.store().get(&self.key(object_key)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let file = tempfile::NamedTempFile::new_in(scratch)?;
        let mut out = tokio::fs::File::from_std(file.reopen()?);
        let mut stream = found.into_stream();
        while let Some(chunk) = stream.next().await {
            out.write_all(&chunk?).await?;
        }
        out.flush().await?;
        Ok(Some(LocalFile::Temporary(file)))
    }

    /// Deletes files of uploads that were interrupted by the end of a process. `older_than` exceeds the longest PUT.
    pub fn delete_unfinished(&self, older_than: Duration) -> Result<()> {
        match &*self.0 {
            Backend::Local { folder, .. } => Ok(delete_unfinished(folder, older_than)?),
            Backend::S3 { .. } => Ok(()),
        }
    }
}

fn mac(secret: &[u8], upload: &Upload) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("keys have any length"));
    mac.update(format!("PUT\n{}\n{}\n{}", upload.id, upload.content_type, upload.expires_at).as_bytes());
    mac
}

/// The names of unfinished files contain `#`, which no object key does.
fn delete_unfinished(folder: &Path, older_than: Duration) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let file_type = entry.file_type()?;
        if file_type.is_dir() {
            delete_unfinished(&entry.path(), older_than)?;
        } else if file_type.is_file() && entry.file_name().to_string_lossy().contains('#') {
            let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
            if age > older_than {
                std::fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}
