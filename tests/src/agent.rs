//! A client of the voice agent: a session token, the WebSocket that it opens, and a caller who speaks.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use reqwest::Url;
use serde_json::{Value, json};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use crate::client::{Account, Answer};
use crate::service::DEADLINE;

impl Account {
    /// Asks for a token of a voice agent.
    pub fn ask_for_agent_token(&self, body: &Value) -> Answer {
        self.post("/v2/voice-agent/token", body)
    }

    /// The URL of a session: its WebSocket with a token.
    #[track_caller]
    pub fn agent_url(&self, body: &Value) -> Url {
        let answer = self.ask_for_agent_token(body).ok();
        let mut url = Url::parse(answer["websocket_url"].as_str().expect("websocket_url")).expect("a URL");
        url.query_pairs_mut().append_pair("token", answer["token"].as_str().expect("token"));
        url
    }

    /// A session that is ready, with these settings.
    #[track_caller]
    pub fn call(&self, session: &Value) -> Call {
        let mut call = Call::open(&self.agent_url(&json!({})));
        call.update(session);
        let ready = call.frame();
        assert_eq!(ready["type"], "session.ready", "{ready}");
        assert!(ready["session_id"].as_str().is_some_and(|id| !id.is_empty()), "{ready}");
        call
    }
}

/// A frame of the service, or the end of the connection with its code: 1006 without a close frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A frame.
    Frame(Value),
    /// The end.
    Closed(u16),
}

/// A reply: its audio, its text and its status.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Decoded audio.
    pub audio: Vec<u8>,
    /// `transcript.agent`; empty if nothing was played.
    pub text: String,
    /// `completed` or `interrupted`.
    pub status: String,
    /// The time from its first audio to its end.
    pub took: Duration,
}

/// A session.
pub struct Call {
    socket: WebSocket<TcpStream>,
    /// The connection attempt.
    pub asked: Instant,
    /// All frames so far.
    pub frames: Vec<Value>,
}

impl Call {
    /// Opens a session.
    pub fn open(address: &Url) -> Self {
        let asked = Instant::now();
        let place = (address.host_str().expect("a host"), address.port().expect("a port"));
        let stream = TcpStream::connect(place).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_write_timeout(Some(DEADLINE)).expect("a timeout");
        let (socket, _) = tungstenite::client(address.as_str(), stream)
            .unwrap_or_else(|error| panic!("no WebSocket at {address}: {error}"));
        Self { socket, asked, frames: Vec::new() }
    }

    /// Sends a frame.
    #[track_caller]
    pub fn send(&mut self, frame: &Value) {
        assert!(self.try_send(Message::text(frame.to_string())), "the connection is gone");
    }

    /// Sends any message. False if the connection is gone.
    pub fn try_send(&mut self, message: Message) -> bool {
        self.socket.send(message).is_ok()
    }

    /// Sends `session.update`.
    #[track_caller]
    pub fn update(&mut self, session: &Value) {
        self.send(&json!({ "type": "session.update", "session": session }));
    }

    /// Sends audio as fast as it is taken, in frames of this many bytes.
    #[track_caller]
    pub fn speak(&mut self, audio: &[u8], frame: usize) {
        for part in audio.chunks(frame) {
            self.send(&json!({ "type": "input.audio", "audio": BASE64.encode(part) }));
        }
    }

    /// The next frame or the end.
    #[track_caller]
    pub fn read(&mut self) -> Said {
        self.read_within(DEADLINE).unwrap_or_else(|| panic!("nothing comes within {DEADLINE:?}: {:?}", self.kinds()))
    }

    /// The next frame or the end, if one comes within a time.
    pub fn read_within(&mut self, time: Duration) -> Option<Said> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.get_ref().set_read_timeout(Some(left)).expect("a timeout");
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    let frame: Value =
                        serde_json::from_str(text.as_str()).unwrap_or_else(|error| panic!("{error}: {text}"));
                    self.frames.push(frame.clone());
                    return Some(Said::Frame(frame));
                }
                Ok(Message::Close(close)) => {
                    // The answer to the close is sent by reading on.
                    let _ = self.socket.read();
                    return Some(Said::Closed(close.map_or(CloseCode::Status, |close| close.code).into()));
                }
                Ok(_) => {}
                Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return None;
                }
                Err(
                    Error::ConnectionClosed
                    | Error::AlreadyClosed
                    | Error::Io(_)
                    | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                ) => return Some(Said::Closed(CloseCode::Abnormal.into())),
                Err(error) => panic!("the service breaks the protocol: {error}"),
            }
        }
    }

    /// The next frame.
    #[track_caller]
    pub fn frame(&mut self) -> Value {
        match self.read() {
            Said::Frame(frame) => frame,
            Said::Closed(code) => panic!("closed with {code}: {:?}", self.kinds()),
        }
    }

    /// Reads until a frame of this type.
    #[track_caller]
    pub fn until(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.frame();
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Reads to the end of the next reply.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        let started = self.until("reply.started");
        let (mut audio, mut text) = (Vec::new(), String::new());
        let mut first = None;
        loop {
            let frame = self.frame();
            if frame["type"].as_str().is_some_and(|kind| kind.starts_with("reply.") || kind == "transcript.agent") {
                assert_eq!(frame["reply_id"], started["reply_id"], "{frame}");
            }
            match frame["type"].as_str() {
                Some("reply.audio") => {
                    first.get_or_insert_with(Instant::now);
                    audio.extend(BASE64.decode(frame["data"].as_str().expect("data").as_bytes()).expect("base64"));
                }
                Some("transcript.agent") => frame["text"].as_str().expect("text").clone_into(&mut text),
                Some("reply.done") => {
                    let status = frame["status"].as_str().expect("status").to_owned();
                    return Reply { audio, text, status, took: first.map_or(Duration::ZERO, |first| first.elapsed()) };
                }
                _ => {}
            }
        }
    }

    /// Everything until the connection ends: its code.
    #[track_caller]
    pub fn rest(&mut self) -> u16 {
        loop {
            if let Said::Closed(code) = self.read() {
                return code;
            }
        }
    }

    /// Sends `session.end` and reads to the end, which must be a normal one; returns `session.ended`.
    #[track_caller]
    pub fn end(&mut self) -> Value {
        self.send(&json!({ "type": "session.end" }));
        assert_eq!(self.rest(), 1000, "{:?}", self.kinds());
        let last = self.frames.last().expect("a frame").clone();
        assert_eq!(last["type"], "session.ended", "{last}");
        last
    }

    /// Sends a close frame with code 1000.
    pub fn close(&mut self) {
        let close = tungstenite::protocol::CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.socket.close(Some(close)).expect("a close frame is sent");
    }

    /// The types of all frames so far.
    pub fn kinds(&self) -> Vec<&str> {
        self.frames.iter().map(|frame| frame["type"].as_str().unwrap_or_default()).collect()
    }
}
