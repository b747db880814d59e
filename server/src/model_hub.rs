//! A client of model hubs: lists a repository and downloads its files. Each file is checked against the hub's checksum. An
//! interrupted download is resumed, in the same call or the next.

use std::io::SeekFrom;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_RANGE, RANGE};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use url::Url;

/// Timeout of connecting, and between parts of a response.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The most consecutive attempts without progress.
const MAX_ATTEMPTS: u32 = 5;
/// Delay before the second attempt. It doubles with each attempt.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The largest listing, in bytes.
const MAX_LISTING_BYTES: usize = 16 << 20;

/// The files of a checkpoint besides its weights.
const SETTINGS: [&str; 12] = [
    "LICENSE",
    "README.md",
    "added_tokens.json",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "normalizer.json",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// An error of a listing or download.
#[derive(Debug, thiserror::Error)]
pub enum ModelHubError {
    #[error("{0}")]
    Address(String),
    #[error("{hub} has no {what}")]
    Missing { hub: String, what: String },
    #[error(
        "{hub} does not give {what} to everyone: accept its terms on {hub}/{what}, and set HF_TOKEN to an access token of \
         yours"
    )]
    Forbidden { hub: String, what: String },
    #[error("{0}")]
    Listing(String),
    #[error("{what}: {reason} ({MAX_ATTEMPTS} attempts brought nothing more; the same command goes on from here)")]
    Broken { what: String, reason: String },
    #[error("{what} is not what the hub says it is: its {kind} is {found}, not {wanted}; it was removed, try again")]
    Checksum { what: String, kind: &'static str, found: String, wanted: String },
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: std::io::Error },
}

type Result<T> = std::result::Result<T, ModelHubError>;

/// A model hub.
pub struct ModelHub {
    client: Client,
    /// The base URL, without a slash at the end.
    address: String,
    token: Option<String>,
}

/// A repository at one commit.
pub struct Listing {
    pub commit: String,
    pub files: Vec<RemoteFile>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    pub name: String,
    pub size: u64,
    checksum: Checksum,
}

/// The checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Checksum {
    /// SHA-256, of large files.
    Sha256(String),
    /// Git's blob id, of other files.
    GitBlob(String),
}

#[derive(Deserialize)]
struct ListingResponse {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob: Option<String>,
    lfs: Option<LfsFile>,
}

#[derive(Deserialize)]
struct LfsFile {
    sha256: String,
    size: u64,
}

impl ModelHub {
    /// A client of the hub at `address`. Every request sends `token`.
    ///
    /// # Errors
    /// [`ModelHubError::Address`] for an invalid address.
    pub fn new(address: &str, token: Option<String>) -> Result<Self> {
        let bad = |reason: String| ModelHubError::Address(format!("{address} is no address of a model hub: {reason}"));
        let url = Url::parse(address).map_err(|error| bad(error.to_string()))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(bad("it does not begin with https://".into()));
        }
        let client = Client::builder()
            .user_agent(concat!("auricle/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(STALL_TIMEOUT)
            .read_timeout(STALL_TIMEOUT)
            .build()
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self { client, address: address.trim_end_matches('/').to_owned(), token })
    }

    fn get(&self, address: &str) -> RequestBuilder {
        let request = self.client.get(address);
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    /// Lists a repository, `owner/name`, at a branch, tag or commit.
    ///
    /// # Errors
    /// [`ModelHubError`], whose message names the remedy.
    pub async fn list(&self, repository: &str, revision: &str) -> Result<Listing> {
        let address = format!("{}/api/models/{repository}/revision/{revision}?blobs=true", self.address);
        let mut attempt = 0;
        let body = loop {
            let fetched = async {
                let response = self.send(self.get(&address), repository).await?;
                body(response, MAX_LISTING_BYTES).await.map_err(|error| RequestError::Transient(error.to_string()))
            };
            match fetched.await {
                Ok(body) => break body,
                Err(error) => attempt = self.retry(error, attempt, repository).await?,
            }
        };
        let bad = |reason: String| {
            ModelHubError::Listing(format!("{repository}: the hub's answer is not understood: {reason}"))
        };
        let response: ListingResponse = serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))?;
        let file = |sibling: Sibling| {
            let (size, checksum) = match (sibling.lfs, sibling.size, sibling.blob) {
                (Some(large), ..) => (large.size, Checksum::Sha256(large.sha256.to_lowercase())),
                (None, Some(size), Some(blob)) => (size, Checksum::GitBlob(blob.to_lowercase())),
                _ => return Err(bad(format!("{} has no size or no sum", sibling.rfilename))),
            };
            Ok(RemoteFile { name: sibling.rfilename, size, checksum })
        };
        let files = response.siblings.into_iter().map(file).collect::<Result<_>>()?;
        Ok(Listing { commit: response.sha, files })
    }

    /// Downloads a file of a listing into `dir`, and calls `progress` with the bytes on disk. A partial file is resumed; a
    /// complete file is not downloaded again.
    ///
    /// # Errors
    /// [`ModelHubError`]. The partial file is kept, unless its checksum is wrong.
    pub async fn download(
        &self,
        repository: &str,
        commit: &str,
        file: &RemoteFile,
        dir: &Path,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<()> {
        let complete = dir.join(&file.name);
        if tokio::fs::metadata(&complete).await.is_ok_and(|found| found.len() == file.size) {
            progress(file.size);
            return Ok(());
        }
        let path = dir.join(format!("{}.part", file.name));
        let write = |source| ModelHubError::Write { what: path.display().to_string(), source };
        let mut part = PartialFile::open(&path, file).await.map_err(write)?;
        let address = format!("{}/{repository}/resolve/{commit}/{}", self.address, file.name);
        let what = format!("{repository}/{}", file.name);
        let mut attempt = 0;
        progress(part.length);
        while part.length < file.size {
            let before = part.length;
            let error = match self.resume(&address, &what, &mut part, file.size, progress).await {
                Ok(()) if part.length >= file.size => break,
                Ok(()) => RequestError::Transient("the connection was cut".into()),
                Err(error) => error,
            };
            attempt = if part.length > before { 0 } else { attempt };
            attempt = self.retry(error, attempt, &what).await?;
        }
        part.file.sync_all().await.map_err(write)?;
        let found = part.checksum();
        let (kind, wanted) = match &file.checksum {
            Checksum::Sha256(sum) => ("SHA-256", sum),
            Checksum::GitBlob(sum) => ("git blob id", sum),
        };
        if found != *wanted || part.length != file.size {
            tokio::fs::remove_file(&path).await.map_err(write)?;
            return Err(ModelHubError::Checksum { what, kind, found, wanted: wanted.clone() });
        }
        tokio::fs::rename(&path, &complete).await.map_err(write)
    }

    /// Downloads the rest of a partial file, until the connection ends.
    async fn resume(
        &self,
        address: &str,
        what: &str,
        part: &mut PartialFile,
        size: u64,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> std::result::Result<(), RequestError> {
        let mut request = self.get(address);
        if part.length > 0 {
            request = request.header(RANGE, format!("bytes={}-", part.length));
        }
        let mut response = self.send(request, what).await?;
        let written = |source| RequestError::Permanent(ModelHubError::Write { what: what.to_owned(), source });
        let here = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let wanted = format!("bytes {}-", part.length);
        let is_resumed =
            response.status() == StatusCode::PARTIAL_CONTENT && here.is_some_and(|range| range.starts_with(&wanted));
        if part.length > 0 && !is_resumed {
            // The hub ignored the range and sends the whole file.
            part.truncate().await.map_err(written)?;
        }
        while let Some(bytes) = response.chunk().await.map_err(|error| RequestError::Transient(error.to_string()))? {
            // Bytes beyond the listed size are dropped.
            let room = usize::try_from(size - part.length).unwrap_or(usize::MAX);
            let more = bytes.len() > room;
            part.write(&bytes[..bytes.len().min(room)]).await.map_err(written)?;
            progress(part.length);
            if more {
                break;
            }
        }
        Ok(())
    }

    async fn send(&self, request: RequestBuilder, what: &str) -> std::result::Result<Response, RequestError> {
        let response = request.send().await.map_err(|error| RequestError::Transient(reason(&error)))?;
        let (hub, what) = (self.address.clone(), what.to_owned());
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(RequestError::Permanent(ModelHubError::Missing { hub, what })),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(RequestError::Permanent(ModelHubError::Forbidden { hub, what }))
            }
            status => Err(RequestError::Transient(format!("{hub} answered {status}"))),
        }
    }

    /// Waits before the next attempt, and returns its number.
    ///
    /// # Errors
    /// For a permanent error, and after the last attempt.
    async fn retry(&self, error: RequestError, attempt: u32, what: &str) -> Result<u32> {
        match error {
            RequestError::Permanent(error) => Err(error),
            RequestError::Transient(reason) if attempt + 1 >= MAX_ATTEMPTS => {
                Err(ModelHubError::Broken { what: what.to_owned(), reason })
            }
            RequestError::Transient(reason) => {
                tracing::info!(what, reason, "trying again");
                tokio::time::sleep(RETRY_DELAY * 2u32.pow(attempt)).await;
                Ok(attempt + 1)
            }
        }
    }
}

enum RequestError {
    /// Another attempt may succeed.
    Transient(String),
    Permanent(ModelHubError),
}

/// The message of an error and its causes, which reqwest's own text leaves out.
fn reason(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

async fn body(mut response: Response, most: usize) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        body.extend_from_slice(&bytes);
        if body.len() > most {
            break;
        }
    }
    Ok(body)
}

/// A partial file and the digest of its bytes.
struct PartialFile {
    file: File,
    length: u64,
    size: u64,
    digest: Digest,
}

enum Digest {
    Sha256(Sha256),
    GitBlob(Sha1),
}

impl PartialFile {
    async fn open(path: &Path, of: &RemoteFile) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).await?;
        let digest = match of.checksum {
            Checksum::Sha256(_) => Digest::Sha256(Sha256::new()),
            Checksum::GitBlob(_) => Digest::GitBlob(Sha1::new()),
        };
        let mut part = Self { file, length: 0, size: of.size, digest };
        part.reset();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = part.file.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            part.add(&buffer[..read]);
        }
        if part.length > of.size {
            part.truncate().await?;
        }
        Ok(part)
    }

    fn reset(&mut self) {
        self.length = 0;
        match &mut self.digest {
            Digest::Sha256(digest) => *digest = Sha256::new(),
            Digest::GitBlob(digest) => *digest = Sha1::new_with_prefix(format!("blob {}\0", self.size)),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        match &mut self.digest {
            Digest::Sha256(digest) => digest.update(bytes),
            Digest::GitBlob(digest) => digest.update(bytes),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes).await?;
        self.add(bytes);
        Ok(())
    }

    async fn truncate(&mut self) -> std::io::Result<()> {
        self.file.set_len(0).await?;
        self.file.seek(SeekFrom::Start(0)).await?;
        self.reset();
        Ok(())
    }

    fn checksum(&self) -> String {
        match &self.digest {
            Digest::Sha256(digest) => data_encoding::HEXLOWER.encode(&digest.clone().finalize()),
            Digest::GitBlob(digest) => data_encoding::HEXLOWER.encode(&digest.clone().finalize()),
        }
    }
}

/// Selects the files of a checkpoint: its settings, and one copy of its weights, without other formats or precisions.
///
/// # Errors
/// [`ModelHubError::Listing`] for a repository without such weights.
pub fn checkpoint_files(repository: &str, files: &[RemoteFile]) -> Result<Vec<RemoteFile>> {
    let one = files.iter().any(|file| file.name == "model.safetensors");
    let is_shard = |name: &str| {
        let middle = name.strip_prefix("model-").and_then(|name| name.strip_suffix(".safetensors"));
        middle.is_some_and(|middle| {
            middle.split("-of-").all(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    let is_weight = |name: &str| match one {
        true => name == "model.safetensors",
        false => name == "model.safetensors.index.json" || is_shard(name),
    };
    let wanted: Vec<RemoteFile> =
        files.iter().filter(|file| SETTINGS.contains(&file.name.as_str()) || is_weight(&file.name)).cloned().collect();
    if !wanted.iter().any(|file| file.name.ends_with(".safetensors")) {
        return Err(ModelHubError::Listing(format!(
            "{repository} has no weights as model.safetensors, so it cannot be loaded"
        )));
    }
    Ok(wanted)
}

/// The files of a checkpoint that is one file, as GGUF and ONNX files are: that file, its licence and its card.
///
/// # Errors
/// [`ModelHubError::Listing`] if the repository lacks the file.
pub fn one_file(repository: &str, files: &[RemoteFile], name: &str) -> Result<Vec<RemoteFile>> {
    let wanted = |file: &&RemoteFile| ["LICENSE", "README.md", name].contains(&file.name.as_str());
    let wanted: Vec<RemoteFile> = files.iter().filter(wanted).cloned().collect();
    if !wanted.iter().any(|file| file.name == name) {
        return Err(ModelHubError::Listing(format!("{repository} has no file {name}")));
    }
    Ok(wanted)
}

/// The files of a checkpoint of Kokoro's form: its settings, its weights as PyTorch saves them, and its voices that speak American and
/// British English.
///
/// # Errors
/// [`ModelHubError::Listing`] for a repository without weights or voices.
pub fn voice_files(repository: &str, files: &[RemoteFile]) -> Result<Vec<RemoteFile>> {
    let is_weights = |name: &str| name.ends_with(".pth") && !name.contains('/');
    let is_voice = |name: &str| {
        let id = name.strip_prefix("voices/").and_then(|name| name.strip_suffix(".pt"));
        let is_plain = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        id.is_some_and(|id| ["af_", "am_", "bf_", "bm_"].iter().any(|prefix| id.starts_with(prefix)) && is_plain(id))
    };
    let is_settings = |name: &str| ["LICENSE", "README.md", "config.json"].contains(&name);
    let is_wanted = |name: &str| is_weights(name) || is_voice(name) || is_settings(name);
    let wanted: Vec<RemoteFile> = files.iter().filter(|file| is_wanted(&file.name)).cloned().collect();
    for (what, is_it) in
        [("weights as a .pth file", &is_weights as &dyn Fn(&str) -> bool), ("English voices", &is_voice)]
    {
        if !wanted.iter().any(|file| is_it(&file.name)) {
            return Err(ModelHubError::Listing(format!("{repository} has no {what}, so it cannot be loaded")));
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<RemoteFile> {
        let file =
            |name: &&str| RemoteFile { name: (*name).into(), size: 1, checksum: Checksum::GitBlob(String::new()) };
        names.iter().map(file).collect()
    }

    fn selected(names: &[&str]) -> Vec<String> {
        checkpoint_files("a/b", &files(names)).unwrap().into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn the_english_voices_of_a_speaking_checkpoint_are_selected() {
        let all = [
            "README.md",
            "config.json",
            "kokoro-v1_0.pth",
            "old/kokoro-v0_19.pth",
            "voices/af_heart.pt",
            "voices/bm_lewis.pt",
            "voices/ff_siwis.pt",
            "voices/af_../../x.pt",
            "samples/HEARME.wav",
        ];
        let names = |all: &[&str]| -> Result<Vec<String>> {
            Ok(voice_files("a/b", &files(all))?.into_iter().map(|file| file.name).collect())
        };
        let wanted = ["README.md", "config.json", "kokoro-v1_0.pth", "voices/af_heart.pt", "voices/bm_lewis.pt"];
        assert_eq!(names(&all).unwrap(), wanted);
        assert!(names(&all[..3]).unwrap_err().to_string().contains("no English voices"));
        assert!(names(&["config.json", "voices/af_heart.pt"]).unwrap_err().to_string().contains(".pth"));
    }

    #[test]
    fn one_copy_of_the_weights_is_selected() {
        let settings = ["config.json", "tokenizer.json"];
        let with = |weights: &[&'static str]| [settings.as_slice(), weights].concat();
        let all = with(&[
            "model.safetensors",
            "model.fp32-00001-of-00002.safetensors",
            "pytorch_model.bin",
            "onnx/model.onnx",
        ]);
        assert_eq!(selected(&all), with(&["model.safetensors"]));
        let shards =
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"];
        assert_eq!(selected(&with(&shards)), with(&shards));
        let both = with(&["model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"]);
        assert_eq!(selected(&both), with(&["model.safetensors"]));
        assert!(checkpoint_files("a/b", &files(&["config.json", "pytorch_model.bin"])).is_err());
        assert_eq!(selected(&["model.safetensors", "sub/config.json", "../config.json"]), ["model.safetensors"]);
    }
}
