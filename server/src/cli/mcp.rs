//! `auricle mcp`: the Model Context Protocol over standard input and output, for assistants that start their servers themselves.
//!
//! Messages go to a service over HTTP and its answers come back, one line each. Tools with files of this machine are added here.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf, absolute};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Args;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Client, RequestBuilder, Response};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::io::ReaderStream;

use super::out_file::OutFile;
use super::progress::Bar;
use super::talk::call::Host;
use super::talk::host::HostArgs;
use super::{EngineArgs, Failure, Result, runtime};
use crate::compat::mcp::message::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, headers_of};
use crate::compat::mcp::tools::local_definitions;
use crate::config::url_below;
use crate::ids;
use crate::sound_format::{SoundFormat, wav_header};

/// The longest message, in bytes: that of the service.
const MAX_LINE_BYTES: u64 = crate::http::body::MAX_JSON_BYTES as u64;
/// Requests at a time. Further ones are refused.
const MAX_REQUESTS: usize = 64;
/// How long requests at work may go on after the end of standard input.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// Bytes of a file that are read at a time.
const READ_BYTES: usize = 64 << 10;

#[derive(Args)]
#[command(after_long_help = "\
An assistant starts this command and talks to it over standard input and output. It finds, reads and questions the transcripts of a running
service, transcribes files and addresses, and writes speech into new files. Without --url a service of its own runs as long as the command,
and its transcripts end with it. docs/mcp.md has the lines for Claude Desktop, Cursor and VS Code.

Examples:
  auricle mcp --url http://127.0.0.1:8080 --key svc_...
  AURICLE_KEY=svc_... auricle mcp --url https://speech.example.com
  {\"mcpServers\": {\"auricle\": {\"command\": \"auricle\", \"args\": [\"mcp\"]}}}")]
pub struct McpArgs {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

pub fn run(args: &McpArgs) -> Result<()> {
    let service = args.host.service(&args.engine, None, Bar::new(true))?;
    // Before the client, which needs what this installs.
    let runtime = runtime()?;
    let bridge = Bridge {
        host: service.host.clone(),
        client: Client::builder().build().map_err(|error| Failure::Service(error.to_string()))?,
        running: Mutex::default(),
    };
    runtime.block_on(Arc::new(bridge).serve());
    drop(service);
    Ok(())
}

/// A line of standard input.
enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// Reads lines, no faster than they are taken.
fn read(to: mpsc::Sender<Line>) {
    // Never joined: it may wait for a pipe that does not end.
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match stdin.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => return tracing::error!("standard input: {error}"),
            }
            let is_whole = line.last() == Some(&b'\n') || line.len() as u64 <= MAX_LINE_BYTES;
            if !is_whole && stdin.skip_until(b'\n').is_err() {
                return;
            }
            let line = if is_whole { Line::Text(line) } else { Line::TooLong };
            if to.blocking_send(line).is_err() {
                return;
            }
        }
    });
}

/// Writes a message as one line. A client that reads no more is gone.
fn write(message: &Value) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{message}").and_then(|()| out.flush()) {
        tracing::debug!("standard output: {error}");
    }
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    let mut error = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": message } });
    if !id.is_null() {
        error["id"] = id.clone();
    }
    error
}

/// A reason that an assistant reads.
type Outcome<T> = std::result::Result<T, String>;

struct Bridge {
    host: Host,
    client: Client,
    /// The requests at work, by their ids as JSON.
    running: Mutex<HashMap<String, AbortHandle>>,
}

impl Bridge {
    /// Answers messages until standard input ends.
    async fn serve(self: Arc<Self>) {
        let (to, mut lines) = mpsc::channel(MAX_REQUESTS);
        read(to);
        while let Some(line) = lines.recv().await {
            let Line::Text(line) = line else {
                write(&error(&Value::Null, INVALID_REQUEST, &format!("A message may have {MAX_LINE_BYTES} bytes.")));
                continue;
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let message: Value = match serde_json::from_slice(&line) {
                Ok(message) => message,
                Err(reason) => {
                    write(&error(&Value::Null, PARSE_ERROR, &format!("The line is not JSON: {reason}.")));
                    continue;
                }
            };
            if message["method"] == "notifications/cancelled" {
                let id = message["params"]["requestId"].to_string();
                if let Some(running) = self.running().remove(&id) {
                    running.abort();
                }
                continue;
            }
            self.start(message);
        }
        let drained = async {
            while !self.running().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WAIT, drained).await;
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a message beside others.
    fn start(self: &Arc<Self>, message: Value) {
        let bridge = Arc::clone(self);
        let listed = if message["id"].is_null() { ids::fresh("no-id") } else { message["id"].to_string() };
        let key = listed.clone();
        let is_notification = message["method"].is_string() && message["id"].is_null();
        // Held until the request is listed, so that it is not taken off before.
        let mut running = self.running();
        if running.len() >= MAX_REQUESTS {
            let reason = format!("{MAX_REQUESTS} requests are at work; send more when some have ended.");
            return write(&error(&message["id"], INTERNAL_ERROR, &reason));
        }
        let task = tokio::spawn(async move {
            let id = message["id"].clone();
            let answer =
                bridge.answer(message).await.unwrap_or_else(|reason| Some(error(&id, INTERNAL_ERROR, &reason)));
            // A request that was canceled meanwhile has no answer.
            let is_wanted = bridge.running().remove(&key).is_some();
            if let Some(answer) = answer.filter(|_| is_wanted && !is_notification) {
                write(&answer);
            }
        });
        running.insert(listed, task.abort_handle());
    }

    async fn answer(&self, mut message: Value) -> Outcome<Option<Value>> {
        if message["method"] == "tools/call"
            && let Some(params) = message.get_mut("params").and_then(Value::as_object_mut)
        {
            let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let mut arguments = match params.remove("arguments") {
                Some(Value::Object(arguments)) => arguments,
                None => Map::new(),
                Some(_) => return Ok(Some(error(&message["id"], INVALID_PARAMS, "`arguments` must be an object."))),
            };
            match name.as_str() {
                "speak" => {
                    let (text, is_error) = match self.speak(&arguments).await {
                        Ok(written) => (written, false),
                        Err(reason) => (reason, true),
                    };
                    return Ok(Some(tool_result(&message, &text, is_error)));
                }
                "transcribe_file" => match self.upload(&mut arguments).await {
                    Ok(()) => drop(params.insert("name".into(), "transcribe".into())),
                    Err(reason) => return Ok(Some(tool_result(&message, &reason, true))),
                },
                _ => {}
            }
            params.insert("arguments".into(), arguments.into());
        }
        let answer = self.forward(&message).await?;
        Ok(answer.map(|mut answer| {
            let tools = answer.pointer_mut("/result/tools").and_then(Value::as_array_mut);
            if let Some(tools) = tools.filter(|_| message["method"] == "tools/list") {
                let local = local_definitions();
                let local = local.as_array().cloned().unwrap_or_default();
                tools.retain(|tool| !local.iter().any(|own| own["name"] == tool["name"]));
                tools.extend(local);
            }
            answer
        }))
    }

    /// Sends a message to the service. None if it has no answer.
    async fn forward(&self, message: &Value) -> Outcome<Option<Value>> {
        let mut request = self.post("/mcp").header(CONTENT_TYPE, "application/json").body(message.to_string());
        for (name, value) in headers_of(message) {
            request = request.header(name, value);
        }
        let response = self.send(request).await?;
        let (status, host) = (response.status(), self.host.url.clone());
        let body = response.bytes().await.map_err(|error| format!("{host}: {}", error.without_url()))?;
        if body.is_empty() && status.is_success() {
            return Ok(None);
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match body["jsonrpc"].is_string() {
            true => Ok(Some(body)),
            false => Err(reason(&body).unwrap_or_else(|| format!("{host} has no assistants' interface: {status}"))),
        }
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(url_below(&self.host.url, path)).bearer_auth(&self.host.key)
    }

    async fn send(&self, request: RequestBuilder) -> Outcome<Response> {
        request.send().await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{} cannot be reached{cause}", self.host.url)
        })
    }

    /// The JSON of a good answer.
    async fn accepted(&self, request: RequestBuilder) -> Outcome<Value> {
        let response = self.send(request).await?;
        let status = response.status();
        let body: Value = serde_json::from_slice(&response.bytes().await.unwrap_or_default()).unwrap_or_default();
        if status.is_success() { Ok(body) } else { Err(reason(&body).unwrap_or_else(|| status.to_string())) }
    }

    /// Uploads the file that the arguments name, and names the upload in its place.
    async fn upload(&self, arguments: &mut Map<String, Value>) -> Outcome<()> {
        let path = path_of(arguments.remove("path"))?;
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let file = tokio::fs::File::open(&path).await.map_err(failed)?;
        let about = file.metadata().await.map_err(failed)?;
        if !about.is_file() {
            return Err(format!("{} is no file", path.display()));
        }
        let filename = path.file_name().unwrap_or_default().to_string_lossy();
        let sign = json!({ "filename": filename, "content_type": "", "size_bytes": about.len() });
        let sign = self.post("/v2/uploads/sign").header(CONTENT_TYPE, "application/json").body(sign.to_string());
        let signed = self.accepted(sign).await?;
        let (url, upload) = (signed["url"].as_str().unwrap_or_default(), signed["upload_id"].clone());
        let mut put = self.client.put(url).header("content-length", about.len());
        for (name, value) in signed["headers"].as_object().into_iter().flatten() {
            put = put.header(name, value.as_str().unwrap_or_default());
        }
        let bytes = ReaderStream::with_capacity(file, READ_BYTES);
        self.accepted(put.body(Body::wrap_stream(bytes))).await?;
        let complete = format!("/v2/uploads/{}/complete", upload.as_str().unwrap_or_default());
        self.accepted(self.post(&complete)).await?;
        arguments.insert("upload_id".into(), upload);
        Ok(())
    }

    /// Writes speech into a new file.
    async fn speak(&self, arguments: &Map<String, Value>) -> Outcome<String> {
        let path = path_of(arguments.get("path").cloned())?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
        let format = SoundFormat::ALL.iter().find(|(name, _)| *name == ending && *name != "pcm");
        let Some((format, kind)) = format else {
            return Err("`path` must end in .wav, .mp3, .opus, .aac or .flac".into());
        };
        if path.exists() {
            return Err(format!("{} is there already; name a new file", path.display()));
        }
        let is_wav = *kind == SoundFormat::Wav;
        let mut request = json!({ "model": "tts-1", "response_format": if is_wav { "pcm" } else { format } });
        for (name, value) in arguments {
            let field = match name.as_str() {
                "text" => "input",
                "voice" | "speed" => name,
                "path" => continue,
                other => return Err(format!("`{other}` is unknown; speak takes text, path, voice and speed")),
            };
            request[field] = value.clone();
        }
        let request = self.post("/v1/audio/speech").header(CONTENT_TYPE, "application/json").body(request.to_string());
        let mut response = self.send(request).await?;
        let status = response.status();
        if !status.is_success() {
            let body = serde_json::from_slice(&response.bytes().await.unwrap_or_default()).unwrap_or_default();
            return Err(reason(&body).unwrap_or_else(|| status.to_string()));
        }
        let failed = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        let mut file = OutFile::create(&path).map_err(failed)?;
        if is_wav {
            file.file().write_all(&wav_header(auricle_engine::SPEECH_RATE, None)).map_err(failed)?;
        }
        let mut bytes = 0;
        while let Some(part) = response.chunk().await.map_err(|error| format!("the speech ended early: {error}"))? {
            bytes += part.len() as u64;
            file.file().write_all(&part).map_err(failed)?;
        }
        if is_wav {
            let header = wav_header(auricle_engine::SPEECH_RATE, u32::try_from(bytes).ok());
            file.file().seek(SeekFrom::Start(0)).and_then(|_| file.file().write_all(&header)).map_err(failed)?;
        }
        file.keep_new().map_err(failed)?;
        Ok(format!("Wrote {}.", absolute(&path).unwrap_or(path).display()))
    }
}

/// The result of a tool.
fn tool_result(message: &Value, text: &str, is_error: bool) -> Value {
    let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    if !headers_of(message).is_empty() {
        result["resultType"] = "complete".into();
    }
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
}

fn path_of(argument: Option<Value>) -> Outcome<PathBuf> {
    match argument {
        Some(Value::String(path)) if !path.is_empty() => Ok(Path::new(&path).to_owned()),
        _ => Err("`path` is missing: the path of a file".into()),
    }
}

/// The reason in the body of a refusal.
fn reason(body: &Value) -> Option<String> {
    body["error"]["message"].as_str().map(str::to_owned)
}
