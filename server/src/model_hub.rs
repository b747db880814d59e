//! A model hub over HTTP: what a repository holds, and its files, each checked against the sum that the hub states. A fetch
//! that breaks off goes on where it was, in this call or the next.

use std::io::SeekFrom;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_RANGE, RANGE};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use url::Url;

/// How long a peer may be silent in the middle of an answer.
const STALL: Duration = Duration::from_secs(30);
/// Attempts, one after the other, that bring nothing.
const ATTEMPTS: u32 = 5;
/// Before the second attempt; twice as long before each after it.
const PAUSE: Duration = Duration::from_millis(500);
/// What a listing may hold, bytes.
const LISTING: usize = 16 << 20;

/// A file is taken if its name is one of these, or that of weights.
const SETTINGS: [&str; 11] = [
    "LICENSE",
    "README.md",
    "added_tokens.json",
    "config.json",
    "generation_config.json",
    "normalizer.json",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// Why something was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
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
    #[error("{what}: {reason} ({ATTEMPTS} attempts brought nothing more; the same command goes on from here)")]
    Broken { what: String, reason: String },
    #[error("{what} is not what the hub says it is: its {kind} is {found}, not {wanted}; it was removed, try again")]
    Sum { what: String, kind: &'static str, found: String, wanted: String },
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: std::io::Error },
}

type Result<T> = std::result::Result<T, HubError>;

/// A model hub.
pub struct ModelHub {
    client: Client,
    /// Without a slash at the end.
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
    sum: Sum,
}

/// What tells that a file is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sum {
    /// Of large files: SHA-256.
    Sha256(String),
    /// Of others: git's name for their contents.
    Blob(String),
}

#[derive(Deserialize)]
struct Answer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob: Option<String>,
    lfs: Option<Large>,
}

#[derive(Deserialize)]
struct Large {
    sha256: String,
    size: u64,
}

impl ModelHub {
    /// A hub by its address; `token` is shown to it with each request.
    ///
    /// # Errors
    /// [`HubError::Address`] for one that is no address.
    pub fn new(address: &str, token: Option<String>) -> Result<Self> {
        let bad = |reason: String| HubError::Address(format!("{address} is no address of a model hub: {reason}"));
        let url = Url::parse(address).map_err(|error| bad(error.to_string()))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(bad("it does not begin with https://".into()));
        }
        let client = Client::builder()
            .user_agent(concat!("auricle/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(STALL)
            .read_timeout(STALL)
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

    /// What a repository, `owner/name`, holds at a branch, tag or commit.
    ///
    /// # Errors
    /// [`HubError`], which says what to do.
    pub async fn list(&self, repository: &str, revision: &str) -> Result<Listing> {
        let address = format!("{}/api/models/{repository}/revision/{revision}?blobs=true", self.address);
        let mut attempt = 0;
        let body = loop {
            let fetched = async {
                let response = self.send(self.get(&address), repository).await?;
                body(response, LISTING).await.map_err(|error| Trouble::Passing(error.to_string()))
            };
            match fetched.await {
                Ok(body) => break body,
                Err(trouble) => attempt = self.again(trouble, attempt, repository).await?,
            }
        };
        let bad =
            |reason: String| HubError::Listing(format!("{repository}: the hub's answer is not understood: {reason}"));
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))?;
        let file = |sibling: Sibling| {
            let (size, sum) = match (sibling.lfs, sibling.size, sibling.blob) {
                (Some(large), ..) => (large.size, Sum::Sha256(large.sha256.to_lowercase())),
                (None, Some(size), Some(blob)) => (size, Sum::Blob(blob.to_lowercase())),
                _ => return Err(bad(format!("{} has no size or no sum", sibling.rfilename))),
            };
            Ok(RemoteFile { name: sibling.rfilename, size, sum })
        };
        let files = answer.siblings.into_iter().map(file).collect::<Result<_>>()?;
        Ok(Listing { commit: answer.sha, files })
    }

    /// Fetches a file of a listing into `dir`; `progress` is told how much of it is there. What is there of an earlier attempt
    /// is kept; what is whole is not fetched again.
    ///
    /// # Errors
    /// [`HubError`]; what was fetched so far stays, but for a file whose sum is wrong.
    pub async fn fetch(
        &self,
        repository: &str,
        commit: &str,
        file: &RemoteFile,
        dir: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let whole = dir.join(&file.name);
        if tokio::fs::metadata(&whole).await.is_ok_and(|found| found.len() == file.size) {
            progress(file.size);
            return Ok(());
        }
        let path = dir.join(format!("{}.part", file.name));
        let write = |source| HubError::Write { what: path.display().to_string(), source };
        let mut part = Part::open(&path, file).await.map_err(write)?;
        let address = format!("{}/{repository}/resolve/{commit}/{}", self.address, file.name);
        let what = format!("{repository}/{}", file.name);
        let mut attempt = 0;
        progress(part.length);
        while part.length < file.size {
            let before = part.length;
            let trouble = match self.go_on(&address, &what, &mut part, file.size, progress).await {
                Ok(()) if part.length >= file.size => break,
                Ok(()) => Trouble::Passing("the connection was cut".into()),
                Err(trouble) => trouble,
            };
            attempt = if part.length > before { 0 } else { attempt };
            attempt = self.again(trouble, attempt, &what).await?;
        }
        part.file.sync_all().await.map_err(write)?;
        let found = part.sum();
        let (kind, wanted) = match &file.sum {
            Sum::Sha256(sum) => ("SHA-256", sum),
            Sum::Blob(sum) => ("git blob id", sum),
        };
        if found != *wanted || part.length != file.size {
            tokio::fs::remove_file(&path).await.map_err(write)?;
            return Err(HubError::Sum { what, kind, found, wanted: wanted.clone() });
        }
        tokio::fs::rename(&path, &whole).await.map_err(write)
    }

    /// Fetches what is missing of a part, as far as the connection goes.
    async fn go_on(
        &self,
        address: &str,
        what: &str,
        part: &mut Part,
        size: u64,
        progress: &mut dyn FnMut(u64),
    ) -> std::result::Result<(), Trouble> {
        let mut request = self.get(address);
        if part.length > 0 {
            request = request.header(RANGE, format!("bytes={}-", part.length));
        }
        let mut response = self.send(request, what).await?;
        let written = |source| Trouble::Lasting(HubError::Write { what: what.to_owned(), source });
        let here = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let wanted = format!("bytes {}-", part.length);
        let goes_on =
            response.status() == StatusCode::PARTIAL_CONTENT && here.is_some_and(|range| range.starts_with(&wanted));
        if part.length > 0 && !goes_on {
            // A hub that cannot go on in the middle begins anew.
            part.empty().await.map_err(written)?;
        }
        while let Some(bytes) = response.chunk().await.map_err(|error| Trouble::Passing(error.to_string()))? {
            // More than was promised is not taken: the sum would be wrong anyway.
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

    async fn send(&self, request: RequestBuilder, what: &str) -> std::result::Result<Response, Trouble> {
        let response = request.send().await.map_err(|error| Trouble::Passing(reason(&error)))?;
        let (hub, what) = (self.address.clone(), what.to_owned());
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(Trouble::Lasting(HubError::Missing { hub, what })),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(Trouble::Lasting(HubError::Forbidden { hub, what }))
            }
            status => Err(Trouble::Passing(format!("{hub} answered {status}"))),
        }
    }

    /// Waits before the next attempt, unless there is none.
    async fn again(&self, trouble: Trouble, attempt: u32, what: &str) -> Result<u32> {
        match trouble {
            Trouble::Lasting(error) => Err(error),
            Trouble::Passing(reason) if attempt + 1 >= ATTEMPTS => {
                Err(HubError::Broken { what: what.to_owned(), reason })
            }
            Trouble::Passing(reason) => {
                tracing::info!(what, reason, "trying again");
                tokio::time::sleep(PAUSE * 2u32.pow(attempt)).await;
                Ok(attempt + 1)
            }
        }
    }
}

enum Trouble {
    /// Another attempt may do.
    Passing(String),
    Lasting(HubError),
}

/// An error with what caused it: reqwest's own text ends before that.
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

/// What there is of a file, and its sum so far.
struct Part {
    file: File,
    length: u64,
    size: u64,
    digest: Digests,
}

enum Digests {
    Sha256(Sha256),
    Blob(Sha1),
}

impl Part {
    async fn open(path: &Path, of: &RemoteFile) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).await?;
        let digest = match of.sum {
            Sum::Sha256(_) => Digests::Sha256(Sha256::new()),
            Sum::Blob(_) => Digests::Blob(Sha1::new()),
        };
        let mut part = Self { file, length: 0, size: of.size, digest };
        part.begin();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = part.file.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            part.add(&buffer[..read]);
        }
        if part.length > of.size {
            part.empty().await?;
        }
        Ok(part)
    }

    fn begin(&mut self) {
        self.length = 0;
        match &mut self.digest {
            Digests::Sha256(digest) => *digest = Sha256::new(),
            Digests::Blob(digest) => *digest = Sha1::new_with_prefix(format!("blob {}\0", self.size)),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        match &mut self.digest {
            Digests::Sha256(digest) => digest.update(bytes),
            Digests::Blob(digest) => digest.update(bytes),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes).await?;
        self.add(bytes);
        Ok(())
    }

    async fn empty(&mut self) -> std::io::Result<()> {
        self.file.set_len(0).await?;
        self.file.seek(SeekFrom::Start(0)).await?;
        self.begin();
        Ok(())
    }

    fn sum(&self) -> String {
        match &self.digest {
            Digests::Sha256(digest) => data_encoding::HEXLOWER.encode(&digest.clone().finalize()),
            Digests::Blob(digest) => data_encoding::HEXLOWER.encode(&digest.clone().finalize()),
        }
    }
}

/// The files of a repository that make a checkpoint in its published form: settings, and the weights once, not their copies in
/// other forms or precisions.
///
/// # Errors
/// [`HubError::Listing`] for a repository without such weights.
pub fn checkpoint(repository: &str, files: &[RemoteFile]) -> Result<Vec<RemoteFile>> {
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
        return Err(HubError::Listing(format!(
            "{repository} has no weights as model.safetensors, so it cannot be loaded"
        )));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<RemoteFile> {
        let file = |name: &&str| RemoteFile { name: (*name).into(), size: 1, sum: Sum::Blob(String::new()) };
        names.iter().map(file).collect()
    }

    fn taken(names: &[&str]) -> Vec<String> {
        checkpoint("a/b", &files(names)).unwrap().into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn weights_are_taken_once() {
        let settings = ["config.json", "tokenizer.json"];
        let with = |weights: &[&'static str]| [settings.as_slice(), weights].concat();
        let all = with(&[
            "model.safetensors",
            "model.fp32-00001-of-00002.safetensors",
            "pytorch_model.bin",
            "onnx/model.onnx",
        ]);
        assert_eq!(taken(&all), with(&["model.safetensors"]));
        let shards =
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"];
        assert_eq!(taken(&with(&shards)), with(&shards));
        let both = with(&["model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"]);
        assert_eq!(taken(&both), with(&["model.safetensors"]));
        assert!(checkpoint("a/b", &files(&["config.json", "pytorch_model.bin"])).is_err());
        assert_eq!(taken(&["model.safetensors", "sub/config.json", "../config.json"]), ["model.safetensors"]);
    }
}
