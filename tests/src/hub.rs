//! A model hub on this machine that serves one repository from a folder and can misbehave.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// A hub on this machine.
pub struct Hub {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    repository: String,
    folder: PathBuf,
    how: Mutex<HubFaults>,
    seen: Mutex<Vec<FileRequest>>,
}

/// Faults of the hub; the default has none.
#[derive(Clone, Default)]
pub struct HubFaults {
    /// Bytes of a file after which a connection is cut, by name.
    pub cuts: HashMap<String, usize>,
    /// Number of cut connections; unlimited if none.
    pub times: Option<usize>,
    /// Files whose stated checksum is wrong.
    pub lies: Vec<String>,
    /// Range requests are ignored.
    pub no_ranges: bool,
    /// Requests need this access token.
    pub token: Option<String>,
    /// The status of every response.
    pub status: Option<u16>,
    /// A cut connection stays open for 20 s without data.
    pub slow: bool,
}

/// One request for a file, as the hub saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRequest {
    /// The file.
    pub file: String,
    /// First byte requested.
    pub from: usize,
    /// Bytes sent.
    pub sent: usize,
}

impl Hub {
    /// Serves the files of a folder as `repository`.
    pub fn serve(repository: &str, folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            repository: repository.into(),
            folder: folder.into(),
            how: Mutex::default(),
            seen: Mutex::default(),
        });
        let served = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                thread::spawn(move || served.answer(&stream));
            }
        });
        Self { address, state }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the behaviour and forgets the requests so far.
    pub fn behave(&self, how: HubFaults) {
        *self.state.how.lock().unwrap() = how;
        self.state.seen.lock().unwrap().clear();
    }

    /// Requests for one file since the last change of behaviour.
    pub fn asked(&self, file: &str) -> Vec<FileRequest> {
        self.state.seen.lock().unwrap().iter().filter(|asked| asked.file == file).cloned().collect()
    }
}

impl State {
    fn answer(&self, stream: &TcpStream) {
        let mut lines = BufReader::new(stream).lines();
        let Some(Ok(first)) = lines.next() else { return };
        let headers: HashMap<String, String> = lines
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())))
            .collect();
        let path = first.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        let how = self.how.lock().unwrap().clone();
        let refused =
            how.token.as_ref().is_some_and(|token| headers.get("authorization") != Some(&format!("Bearer {token}")));
        let listing = format!("/api/models/{}/revision/main", self.repository);
        let files = format!("/{}/resolve/0123abcd/", self.repository);
        match (how.status, path.strip_prefix(&files)) {
            (Some(status), _) => self.reply(stream, status, "", b""),
            _ if refused => self.reply(stream, 401, "", b""),
            _ if path == listing => self.reply(stream, 200, "", self.listing(&how).as_bytes()),
            (None, Some(name)) => self.file(stream, name, headers.get("range"), &how),
            _ => self.reply(stream, 404, "", b""),
        }
    }

    fn reply(&self, mut stream: &TcpStream, status: u16, headers: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let _ = stream.shutdown(Shutdown::Write);
    }

    fn listing(&self, how: &HubFaults) -> String {
        let mut siblings = Vec::new();
        for path in files(&self.folder) {
            let name = path.strip_prefix(&self.folder).unwrap().to_string_lossy().into_owned();
            let bytes = fs::read(&path).unwrap();
            let lied = how.lies.contains(&name);
            let hex =
                |digest: &[u8]| digest.iter().map(|byte| format!("{:02x}", byte ^ u8::from(lied))).collect::<String>();
            let blob = hex(&Sha1::digest([format!("blob {}\0", bytes.len()).as_bytes(), &bytes].concat()));
            siblings.push(match [".safetensors", ".gguf", ".pth"].iter().any(|end| name.ends_with(end)) {
                true => json!({
                    "rfilename": name, "size": bytes.len(), "blobId": "0".repeat(40),
                    "lfs": { "sha256": hex(&Sha256::digest(&bytes)), "size": bytes.len(), "pointerSize": 135 },
                }),
                false => json!({ "rfilename": name, "size": bytes.len(), "blobId": blob }),
            });
        }
        siblings.push(json!({ "rfilename": "pytorch_model.bin", "size": 9, "blobId": "0".repeat(40) }));
        json!({ "id": self.repository, "sha": "0123abcd", "siblings": siblings }).to_string()
    }

    fn file(&self, mut stream: &TcpStream, name: &str, range: Option<&String>, how: &HubFaults) {
        let Ok(bytes) = fs::read(self.folder.join(name)) else { return self.reply(stream, 404, "", b"") };
        let from = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        let from = from.filter(|_| !how.no_ranges).unwrap_or(0);
        let (status, place) = match from {
            0 => (200, String::new()),
            from => (206, format!("Content-Range: bytes {from}-{}/{}\r\n", bytes.len() - 1, bytes.len())),
        };
        let body = &bytes[from..];
        let before = self.seen.lock().unwrap().iter().filter(|asked| asked.file == name).count();
        let cut = how.cuts.get(name).filter(|_| how.times.is_none_or(|times| before < times));
        let sent = cut.map_or(body.len(), |cut| body.len().min(*cut));
        self.seen.lock().unwrap().push(FileRequest { file: name.into(), from, sent });
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n{place}\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..sent]));
        if how.slow && cut.is_some() {
            thread::sleep(std::time::Duration::from_secs(20));
        }
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
