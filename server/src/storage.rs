//! Where uploaded files lie: a local folder behind URLs that we sign, or an S3-compatible store behind its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use futures_util::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::signer::{SignedUrlOptions, Signer as _};
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, WriteMultipart};
use sha2::Sha256;
use tokio::io::AsyncWriteExt as _;
use url::Url;

use crate::clock;
use crate::config::{Config, below};
use crate::http::body::STALL;
use crate::store::Upload;

/// Bytes that a file is written in at a time: memory stays flat whatever its size.
const CHUNK: usize = 1 << 20;

/// Why an object could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("{0}")]
    Store(#[from] object_store::Error),
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The client sent more than an upload may have.
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    /// The client went away, or sent something that is no body.
    #[error("the upload broke off: {0}")]
    BrokeOff(String),
    #[error("{0}")]
    Setting(String),
}

type Result<T> = std::result::Result<T, StorageError>;

/// The object store.
#[derive(Clone)]
pub struct Storage(Arc<Kind>);

enum Kind {
    Local { store: LocalFileSystem, folder: PathBuf, url: Url, secret: Vec<u8> },
    S3 { store: AmazonS3, prefix: String },
}

/// What a PUT to a signed URL gets told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    Valid,
    Expired,
    Mismatch,
}

/// A file to be read, where it lies on this machine.
pub enum OnDisk {
    Stored(PathBuf),
    /// A copy of ours, gone with this value.
    Copy(tempfile::NamedTempFile),
}

impl OnDisk {
    pub fn path(&self) -> &Path {
        match self {
            Self::Stored(path) => path,
            Self::Copy(file) => file.path(),
        }
    }
}

impl Storage {
    /// `url` is the storage listener's address as clients see it, `secret` what local URLs are signed with.
    ///
    /// # Errors
    /// A folder that cannot be made, or an incomplete S3 configuration.
    pub fn open(config: &Config, url: Url, secret: &str) -> Result<Self> {
        let Some(place) = &config.storage_url else {
            let folder = config.data.join("objects");
            std::fs::create_dir_all(&folder)?;
            let store = LocalFileSystem::new_with_prefix(&folder)?.with_automatic_cleanup(true);
            return Ok(Self(Arc::new(Kind::Local { store, folder, url, secret: secret.as_bytes().to_vec() })));
        };
        let bucket = place.host_str().ok_or_else(|| StorageError::Setting(format!("{place} names no bucket")))?;
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
        let prefix = place.path().trim_matches('/').to_owned();
        Ok(Self(Arc::new(Kind::S3 { store: builder.build()?, prefix })))
    }

    fn key(&self, object_key: &str) -> Key {
        match &*self.0 {
            Kind::Local { .. } => Key::from(object_key),
            Kind::S3 { prefix, .. } if prefix.is_empty() => Key::from(object_key),
            Kind::S3 { prefix, .. } => Key::from(format!("{prefix}/{object_key}")),
        }
    }

    fn store(&self) -> &dyn ObjectStore {
        match &*self.0 {
            Kind::Local { store, .. } => store,
            Kind::S3 { store, .. } => store,
        }
    }

    /// The URL that this upload's bytes are put to, until it expires.
    ///
    /// # Errors
    /// If an S3 store's credentials cannot be had.
    pub async fn sign(&self, upload: &Upload) -> Result<Url> {
        match &*self.0 {
            Kind::Local { url, secret, .. } => {
                let mut url = below(url, &format!("/uploads/{}", upload.id));
                let signature = HEXLOWER.encode(&mac(secret, upload).finalize().into_bytes());
                url.query_pairs_mut()
                    .append_pair("expires", &upload.expires_at.to_string())
                    .append_pair("signature", &signature);
                Ok(url)
            }
            Kind::S3 { store, .. } => {
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

    /// Judges a PUT to a URL of ours.
    pub fn check(&self, upload: &Upload, content_type: &str, expires: &str, signature: &str) -> Signature {
        let Kind::Local { secret, .. } = &*self.0 else { return Signature::Mismatch };
        let signed = HEXLOWER.decode(signature.as_bytes()).unwrap_or_default();
        // Compared in constant time.
        let genuine = mac(secret, upload).verify_slice(&signed).is_ok();
        if !genuine || expires != upload.expires_at.to_string() || content_type != upload.content_type {
            Signature::Mismatch
        } else if clock::now_ms() > upload.expires_at {
            Signature::Expired
        } else {
            Signature::Valid
        }
    }

    /// Writes a body as it comes in. Only a whole one becomes an object.
    ///
    /// # Errors
    /// If it is larger than `most`, breaks off, or cannot be written; then nothing has changed.
    pub async fn put(&self, object_key: &str, mut body: Incoming, most: u64) -> Result<u64> {
        let upload = self.store().put_multipart(&self.key(object_key)).await?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, CHUNK);
        let mut written = 0u64;
        let broke_off = loop {
            match tokio::time::timeout(STALL, body.frame()).await {
                Err(_) => break StorageError::BrokeOff("nothing came any more".into()),
                Ok(Some(Err(error))) => break StorageError::BrokeOff(error.to_string()),
                Ok(None) => {
                    writer.finish().await?;
                    return Ok(written);
                }
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    written += data.len() as u64;
                    if written > most {
                        break StorageError::TooLarge(most);
                    }
                    if let Err(error) = writer.wait_for_capacity(2).await {
                        break error.into();
                    }
                    writer.put(data);
                }
            }
        };
        if let Err(error) = writer.abort().await {
            tracing::warn!(%error, "an upload that broke off could not be removed");
        }
        Err(broke_off)
    }

    /// The size of an object, if there is one.
    pub async fn size(&self, object_key: &str) -> Result<Option<u64>> {
        match self.store().head(&self.key(object_key)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an object; one that is not there is deleted already.
    pub async fn delete(&self, object_key: &str) -> Result<()> {
        match self.store().delete(&self.key(object_key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// An object as a file of this machine, copied into `scratch` where it lies elsewhere. None if there is none.
    pub async fn on_disk(&self, object_key: &str, scratch: &Path) -> Result<Option<OnDisk>> {
        if let Kind::Local { store, .. } = &*self.0 {
            let path = store.path_to_filesystem(&self.key(object_key))?;
            return Ok(tokio::fs::try_exists(&path).await?.then_some(OnDisk::Stored(path)));
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
        Ok(Some(OnDisk::Copy(file)))
    }

    /// Removes what uploads left that broke off with the process, once no PUT can still be writing it.
    pub fn sweep(&self, older_than: Duration) -> Result<()> {
        match &*self.0 {
            Kind::Local { folder, .. } => Ok(sweep(folder, older_than)?),
            Kind::S3 { .. } => Ok(()),
        }
    }
}

fn mac(secret: &[u8], upload: &Upload) -> Hmac<Sha256> {
    // HMAC takes keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("keys have any length"));
    mac.update(format!("PUT\n{}\n{}\n{}", upload.id, upload.content_type, upload.expires_at).as_bytes());
    mac
}

/// Unfinished files have a `#` in their names, which no object key of ours has.
fn sweep(folder: &Path, older_than: Duration) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sweep(&entry.path(), older_than)?;
        } else if kind.is_file() && entry.file_name().to_string_lossy().contains('#') {
            let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
            if age > older_than {
                std::fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}
