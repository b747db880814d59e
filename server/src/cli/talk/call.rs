//! A client of the voice agent: a session token, the WebSocket that it opens, frames of both sides.

use std::convert::Infallible;

use bytes::Bytes;
use data_encoding::BASE64;
use fastwebsockets::{FragmentCollectorRead, Frame, OpCode, Payload, Role, WebSocket, WebSocketWrite};
use reqwest::header::{CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Client, Response, StatusCode, Upgraded};
use serde_json::{Value, json};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;
use url::Url;

use crate::cli::{Failure, Result};
use crate::config::url_below;
use crate::ids::random;

/// Hertz of both sides' audio: mono, 16 bits.
pub const RATE: u32 = 24_000;

/// The address of a service, and a key of it.
#[derive(Clone, Debug)]
pub struct Host {
    pub url: Url,
    pub key: String,
}

/// A message of the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The settings are changed.
    Updated,
    SpeechStarted,
    SpeechStopped,
    /// The caller's words so far.
    UserPartial(String),
    /// The caller's words.
    User(String),
    ReplyStarted {
        reply: String,
    },
    Audio {
        reply: String,
        samples: Vec<i16>,
    },
    /// The agent's words that were played.
    Agent(String),
    ReplyDone {
        reply: String,
        interrupted: bool,
    },
    Error {
        code: String,
        message: String,
    },
    Ended,
    /// The connection is closed, with the code and reason of its close frame.
    Closed {
        code: u16,
        reason: String,
    },
}

enum Outgoing {
    Text(String),
    Pong(Bytes),
}

/// A session that is ready.
pub struct Call {
    outgoing: mpsc::UnboundedSender<Outgoing>,
    incoming: mpsc::UnboundedReceiver<(Instant, Heard)>,
}

impl Call {
    /// Opens a session with these settings: the `session` of `session.update`.
    ///
    /// # Errors
    /// One line, if the service cannot be reached or refuses.
    pub async fn open(host: &Host, session: &Value) -> Result<Self> {
        let socket = connect(host).await?;
        let (outgoing, to_send) = mpsc::unbounded_channel();
        let (received, incoming) = mpsc::unbounded_channel();
        let (mut read, write) = socket.split(tokio::io::split);
        read.set_auto_close(false);
        read.set_auto_pong(false);
        tokio::spawn(receive(FragmentCollectorRead::new(read), received, outgoing.clone()));
        tokio::spawn(send(write, to_send));
        let mut call = Self { outgoing, incoming };
        call.send(&json!({ "type": "session.update", "session": session }));
        loop {
            match call.next().await {
                Some((_, Heard::Updated)) => return Ok(call),
                Some((_, Heard::Error { message, .. })) => return Err(Failure::Service(message)),
                Some((_, Heard::Closed { reason, .. })) => {
                    return Err(Failure::Service(format!("the service closed the session: {reason}")));
                }
                Some(_) => {}
                None => return Err(Failure::Service("the service is gone".into())),
            }
        }
    }

    /// The next message with the time of its arrival; none after the connection's end.
    pub async fn next(&mut self) -> Option<(Instant, Heard)> {
        self.incoming.recv().await
    }

    /// The next message that has come already.
    pub fn try_next(&mut self) -> Option<(Instant, Heard)> {
        self.incoming.try_recv().ok()
    }

    /// Sends a frame.
    pub fn send(&self, frame: &Value) {
        // Without a connection `next` ends, too.
        let _ = self.outgoing.send(Outgoing::Text(frame.to_string()));
    }

    /// Sends audio of the caller.
    pub fn speak(&self, samples: &[i16]) {
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        self.send(&json!({ "type": "input.audio", "audio": BASE64.encode(&bytes) }));
    }

    /// Asks for the end of the session. [`Heard::Ended`] follows.
    pub fn end(&self) {
        self.send(&json!({ "type": "session.end" }));
    }
}

/// Gets a token and opens its WebSocket.
async fn connect(host: &Host) -> Result<WebSocket<Upgraded>> {
    let failed = |error: reqwest::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Failure::Service(format!("{}: {}{cause}", host.url, error.without_url()))
    };
    let client = Client::builder().http1_only().build().map_err(failed)?;
    let request = client.post(url_below(&host.url, "/v2/voice-agent/token"));
    let request = request.bearer_auth(&host.key).header(CONTENT_TYPE, "application/json").body("{}");
    let token: Value =
        serde_json::from_str(&accepted(request.send().await.map_err(failed)?).await?).unwrap_or_default();
    let text = |name: &str| token[name].as_str().unwrap_or_default();
    let mut address = Url::parse(text("websocket_url"))
        .map_err(|_| Failure::Service(format!("{} is no service that has voice agents", host.url)))?;
    // The schemes of WebSockets are those of HTTP to an HTTP client.
    let scheme = if address.scheme() == "wss" { "https" } else { "http" };
    let _ = address.set_scheme(scheme);
    address.query_pairs_mut().append_pair("token", text("token"));
    let request = client
        .get(address)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, BASE64.encode(&random::<16>()));
    let response = request.send().await.map_err(failed)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        accepted(response).await?;
        return Err(Failure::Service(format!("{} opened no WebSocket", host.url)));
    }
    Ok(WebSocket::after_handshake(response.upgrade().await.map_err(failed)?, Role::Client))
}

/// The body of a good answer.
async fn accepted(response: Response) -> Result<String> {
    let status = response.status();
    let url = response.url().host_str().unwrap_or_default().to_owned();
    let body = response.text().await.map_err(|error| Failure::Service(format!("{url}: {}", error.without_url())))?;
    if status.is_success() {
        return Ok(body);
    }
    let error: Value = serde_json::from_str(&body).unwrap_or_default();
    let message = error["error"]["message"].as_str().map_or_else(|| status.to_string(), str::to_owned);
    Err(Failure::Service(format!("{url}: {message}")))
}

async fn receive(
    mut read: FragmentCollectorRead<ReadHalf<Upgraded>>,
    to: mpsc::UnboundedSender<(Instant, Heard)>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
) {
    loop {
        let mut no_reply = |_| async { Ok::<(), Infallible>(()) };
        let heard = match read.read_frame(&mut no_reply).await {
            Ok(frame) => match frame.opcode {
                OpCode::Text => parse(&frame.payload),
                OpCode::Ping => {
                    let _ = outgoing.send(Outgoing::Pong(Bytes::copy_from_slice(&frame.payload)));
                    None
                }
                OpCode::Close => Some(closed(&frame.payload)),
                _ => None,
            },
            Err(error) => Some(Heard::Closed { code: 1006, reason: error.to_string() }),
        };
        let Some(heard) = heard else { continue };
        let last = matches!(heard, Heard::Closed { .. });
        if to.send((Instant::now(), heard)).is_err() || last {
            return;
        }
    }
}

async fn send(mut write: WebSocketWrite<WriteHalf<Upgraded>>, mut from: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(message) = from.recv().await {
        let frame = match message {
            Outgoing::Text(text) => Frame::text(Payload::Owned(text.into_bytes())),
            Outgoing::Pong(payload) => Frame::pong(Payload::Owned(payload.to_vec())),
        };
        if write.write_frame(frame).await.is_err() {
            return;
        }
    }
}

fn closed(payload: &[u8]) -> Heard {
    match payload {
        [high, low, reason @ ..] => Heard::Closed {
            code: u16::from_be_bytes([*high, *low]),
            reason: String::from_utf8_lossy(reason).into_owned(),
        },
        _ => Heard::Closed { code: 1005, reason: String::new() },
    }
}

/// A frame of the service; none for another one. No tools are offered, so none is called.
fn parse(payload: &[u8]) -> Option<Heard> {
    let frame: Value = serde_json::from_slice(payload).ok()?;
    let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
    Some(match frame["type"].as_str()? {
        "session.ready" | "session.updated" => Heard::Updated,
        "input.speech.started" => Heard::SpeechStarted,
        "input.speech.stopped" => Heard::SpeechStopped,
        "transcript.user.delta" => Heard::UserPartial(text("text")),
        "transcript.user" => Heard::User(text("text")),
        "reply.started" => Heard::ReplyStarted { reply: text("reply_id") },
        "reply.audio" => {
            let bytes = BASE64.decode(text("data").as_bytes()).ok()?;
            let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
            Heard::Audio { reply: text("reply_id"), samples }
        }
        "transcript.agent" => Heard::Agent(text("text")),
        "reply.done" => Heard::ReplyDone { reply: text("reply_id"), interrupted: text("status") == "interrupted" },
        "session.error" => Heard::Error { code: text("code"), message: text("message") },
        "session.ended" => Heard::Ended,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_service_are_read() {
        let heard = |frame: Value| parse(frame.to_string().as_bytes());
        let audio = json!({ "type": "reply.audio", "reply_id": "reply_1", "data": BASE64.encode(&[1, 0, 255, 255]) });
        assert_eq!(heard(audio), Some(Heard::Audio { reply: "reply_1".into(), samples: vec![1, -1] }));
        let done = json!({ "type": "reply.done", "reply_id": "reply_1", "status": "interrupted" });
        assert_eq!(heard(done), Some(Heard::ReplyDone { reply: "reply_1".into(), interrupted: true }));
        assert_eq!(heard(json!({ "type": "of.another.version" })), None);
        assert_eq!(parse(b"no json"), None);
        assert_eq!(closed(&[0x11, 0x31, b'o', b'h']), Heard::Closed { code: 4401, reason: "oh".into() });
        assert_eq!(closed(&[]), Heard::Closed { code: 1005, reason: String::new() });
    }
}
