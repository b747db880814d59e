//! A client of the realtime endpoint: a session token, and the WebSocket that it opens.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Url;
use serde_json::{Value, json};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use crate::client::{Account, Answer};
use crate::service::DEADLINE;

/// Interval of the audio that keeps a session alive.
const PAUSE: Duration = Duration::from_millis(250);

impl Account {
    /// Asks for a session token.
    pub fn ask_for_token(&self, body: &Value) -> Answer {
        self.post("/v2/realtime/token", body)
    }

    /// A session token.
    #[track_caller]
    pub fn mint(&self, body: &Value) -> Token {
        Token { answer: self.ask_for_token(body).ok(), asked: body.clone() }
    }
}

/// A session token: the request and the response.
#[derive(Clone, Debug)]
pub struct Token {
    /// The response of the endpoint.
    pub answer: Value,
    asked: Value,
}

impl Token {
    /// A token that was minted elsewhere, without options.
    pub fn of(answer: &Value) -> Self {
        Self { answer: answer.clone(), asked: json!({}) }
    }

    /// The secret itself.
    pub fn secret(&self) -> &str {
        self.answer["token"].as_str().expect("token")
    }

    /// The WebSocket URL of the response.
    pub fn url(&self) -> Url {
        Url::parse(self.answer["websocket_url"].as_str().expect("websocket_url")).expect("a URL")
    }

    /// The same token with another secret.
    pub fn with_secret(&self, secret: &str) -> Self {
        let mut other = self.clone();
        other.answer["token"] = secret.into();
        other
    }

    /// The same token at another service.
    pub fn at(&self, api: &str) -> Self {
        let mut other = self.clone();
        other.answer["websocket_url"] = format!("{}{}", api.replacen("http", "ws", 1), self.url().path()).into();
        other
    }

    /// The WebSocket URL with the minted values, some of them replaced.
    pub fn address(&self, other: &[(&str, &str)]) -> Url {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let minted = ["token", "model", "sample_rate"].map(|name| (name, &self.answer[name]));
        let asked = ["language_code", "medical_mode", "format_numbers"].map(|name| (name, &self.asked[name]));
        let kept = minted
            .into_iter()
            .chain(asked)
            .filter(|(name, value)| !value.is_null() && other.iter().all(|(changed, _)| changed != name));
        let mut url = self.url();
        url.query_pairs_mut().extend_pairs(kept.map(|(name, value)| (name, text(value)))).extend_pairs(other);
        url
    }

    /// Opens a session with the values of the minting.
    pub fn open(&self) -> Live {
        Live::open(&self.address(&[]))
    }

    /// Opens a session with some values other than the minted ones.
    pub fn open_with(&self, other: &[(&str, &str)]) -> Live {
        Live::open(&self.address(other))
    }
}

/// A frame of the service in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// `ready`
    Ready,
    /// `transcript`
    Transcript(TranscriptFrame),
    /// `reconnect`, with its message.
    Reconnect(String),
    /// `error`, with its message.
    Error(String),
    /// `done`
    Done,
    /// The answer to a ping, with its payload.
    Pong(Vec<u8>),
    /// The end of the connection: the code of the close frame, 1005 if the frame has none, 1006 without a frame.
    Closed(u16),
}

/// A `transcript` frame.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptFrame {
    /// Its text.
    pub text: String,
    /// True if the turn is complete.
    pub end_of_turn: bool,
    /// True if this is the formatted form of a finished turn.
    pub formatted: bool,
    /// Its words.
    pub words: Vec<TranscriptWord>,
}

/// A word of a `transcript` frame.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptWord {
    /// The text.
    pub text: String,
    /// Start, ms.
    pub start: u64,
    /// End, ms.
    pub end: u64,
    /// Confidence, 0 to 1.
    pub confidence: f64,
}

impl Frame {
    fn of(text: &str) -> Self {
        let body: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let message = || {
            let message = body["message"].as_str().unwrap_or_else(|| panic!("no message: {text}"));
            assert!(!message.is_empty(), "an empty message: {text}");
            message.to_owned()
        };
        match body["type"].as_str() {
            Some("ready") => Self::Ready,
            Some("transcript") => Self::Transcript(TranscriptFrame::of(&body)),
            Some("reconnect") => Self::Reconnect(message()),
            Some("error") => Self::Error(message()),
            Some("done") => Self::Done,
            _ => panic!("a frame of no known type: {text}"),
        }
    }

    /// The transcript of the frame; none for another kind.
    pub fn transcript(&self) -> Option<&TranscriptFrame> {
        match self {
            Self::Transcript(heard) => Some(heard),
            _ => None,
        }
    }
}

impl TranscriptFrame {
    fn of(body: &Value) -> Self {
        let text = |value: &Value| value["text"].as_str().unwrap_or_else(|| panic!("no text: {body}")).to_owned();
        let flag = |name: &str| body[name].as_bool().unwrap_or_else(|| panic!("no {name}: {body}"));
        let moment = |word: &Value, name: &str| word[name].as_u64().unwrap_or_else(|| panic!("no whole ms: {word}"));
        let words =
            body["words"].as_array().unwrap_or_else(|| panic!("no words: {body}")).iter().map(|word| TranscriptWord {
                text: text(word),
                start: moment(word, "start"),
                end: moment(word, "end"),
                confidence: word["confidence"].as_f64().unwrap_or_else(|| panic!("no confidence: {word}")),
            });
        Self {
            text: text(body),
            end_of_turn: flag("end_of_turn"),
            formatted: flag("formatted"),
            words: words.collect(),
        }
    }

    /// Asserts the invariants of a transcript frame: the text is its words, the words are in order and within the audio.
    fn assert_sound(&self, audio_ms: u64) {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(self.text.split_whitespace().collect::<Vec<_>>(), words, "the text is its words");
        for word in &self.words {
            assert!(word.start <= word.end && word.end <= audio_ms, "inside {audio_ms} ms of audio: {word:?}");
            assert!((0.0..=1.0).contains(&word.confidence), "{word:?}");
        }
        for pair in self.words.windows(2) {
            assert!(pair[0].start <= pair[1].start && pair[0].end <= pair[1].end, "one after the other: {pair:?}");
        }
    }
}

/// A finished turn: its final frame and its formatted frame.
#[derive(Clone, Debug)]
pub struct Turn {
    /// `formatted` false
    pub raw: TranscriptFrame,
    /// `formatted` true
    pub formatted: TranscriptFrame,
}

/// Assembles the turns of a whole session as a client does, and asserts the contract of every transcript
/// frame.
#[track_caller]
pub fn turns(frames: &[Frame], audio_ms: u64) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut ended: Option<TranscriptFrame> = None;
    let mut finished = 0;
    for heard in frames.iter().filter_map(Frame::transcript) {
        heard.assert_sound(audio_ms);
        let (first, last) = (heard.words.first().map(|word| word.start), heard.words.last().map(|word| word.end));
        if heard.formatted {
            assert!(heard.end_of_turn, "only a finished turn is restated: {heard:?}");
            let raw = ended.take().unwrap_or_else(|| panic!("a restatement follows the end of its turn: {heard:?}"));
            assert!(first >= raw.words.first().map(|word| word.start) && last <= Some(finished), "{raw:?} {heard:?}");
            assert!(!heard.words.is_empty(), "a turn of words is restated in words: {raw:?}");
            turns.push(Turn { raw, formatted: heard.clone() });
            continue;
        }
        assert!(first.is_none_or(|first| first >= finished), "a turn that ended at {finished} ms is over: {heard:?}");
        if heard.end_of_turn {
            assert!(ended.is_none(), "a turn is restated before the next one ends: {ended:?} {heard:?}");
            finished = last.unwrap_or_else(|| panic!("a turn without a word"));
            ended = Some(heard.clone());
        }
    }
    assert_eq!(ended, None, "every turn is restated");
    turns
}

/// The formatted text of these turns.
pub fn text_of(turns: &[Turn]) -> String {
    turns.iter().map(|turn| turn.formatted.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A session.
pub struct Live {
    socket: WebSocket<TcpStream>,
    asked: Instant,
    opened: Instant,
    /// All text frames so far.
    pub frames: Vec<Value>,
}

impl Live {
    /// Opens a session at a URL that holds all parameters.
    pub fn open(address: &Url) -> Self {
        let asked = Instant::now();
        let place = (address.host_str().expect("a host"), address.port().expect("a port"));
        let stream = TcpStream::connect(place).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("a timeout");
        // A refusal is a close code: a browser does not see the status of a handshake that failed.
        let (socket, _) = tungstenite::client(address.as_str(), stream)
            .unwrap_or_else(|error| panic!("no WebSocket at {address}: {error}"));
        Self { socket, asked, opened: Instant::now(), frames: Vec::new() }
    }

    /// Opens a session at a service that may be gone or frozen. None if it does not answer within a time.
    pub fn try_open(address: &Url, time: Duration) -> Option<Self> {
        let asked = Instant::now();
        let place = address.socket_addrs(|| None).ok()?;
        let stream = TcpStream::connect_timeout(place.first()?, time).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(time)).ok()?;
        stream.set_write_timeout(Some(time)).ok()?;
        let (socket, _) = tungstenite::client(address.as_str(), stream).ok()?;
        Some(Self { socket, asked, opened: Instant::now(), frames: Vec::new() })
    }

    /// Shortest time for which the service can have had this connection.
    pub fn at_least(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The moment of the connection attempt: the service has not had the connection earlier.
    pub fn asked(&self) -> Instant {
        self.asked
    }

    /// The next frame.
    #[track_caller]
    pub fn read(&mut self) -> Frame {
        self.read_within(DEADLINE).unwrap_or_else(|| panic!("nothing comes within {DEADLINE:?}"))
    }

    /// The next frame, if one comes within a time.
    pub fn read_within(&mut self, time: Duration) -> Option<Frame> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.get_ref().set_read_timeout(Some(left)).expect("a timeout");
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    self.frames.push(serde_json::from_str(text.as_str()).expect("JSON"));
                    return Some(Frame::of(text.as_str()));
                }
                Ok(Message::Pong(payload)) => return Some(Frame::Pong(payload.to_vec())),
                // The next read answers it.
                Ok(Message::Ping(_)) => {}
                Ok(Message::Close(close)) => {
                    let code = close.map_or(CloseCode::Status, |close| close.code);
                    self.hang_up();
                    return Some(Frame::Closed(code.into()));
                }
                Ok(other) => panic!("the service sends text alone: {other:?}"),
                Err(Error::Io(error)) if is_timeout(&error) => return None,
                Err(
                    Error::ConnectionClosed
                    | Error::AlreadyClosed
                    | Error::Io(_)
                    | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                ) => return Some(Frame::Closed(CloseCode::Abnormal.into())),
                Err(error) => panic!("the service breaks the protocol: {error}"),
            }
        }
    }

    /// Asserts that the connection ends after a close frame, without further frames.
    fn hang_up(&mut self) {
        self.socket.get_ref().set_read_timeout(Some(DEADLINE)).expect("a timeout");
        match self.socket.read() {
            Ok(more) => panic!("after the close frame: {more:?}"),
            Err(Error::Io(error)) if is_timeout(&error) => panic!("the connection stays open after the close frame"),
            Err(Error::Protocol(ProtocolError::ReceivedAfterClosing)) => panic!("frames after the close frame"),
            Err(_) => {}
        }
    }

    /// Waits for `ready`, the first frame.
    #[track_caller]
    pub fn ready(&mut self) {
        assert_eq!(self.read(), Frame::Ready);
    }

    /// Waits for a transcript frame, which must be the next one.
    #[track_caller]
    pub fn heard(&mut self) -> TranscriptFrame {
        match self.read() {
            Frame::Transcript(heard) => heard,
            other => panic!("no transcript: {other:?}"),
        }
    }

    /// All frames until the connection ends, its end included.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<Frame> {
        let mut frames = vec![self.read()];
        while !matches!(frames.last(), Some(Frame::Closed(_))) {
            frames.push(self.read());
        }
        frames
    }

    /// Sends audio in frames of `bytes` bytes.
    #[track_caller]
    pub fn send(&mut self, pcm: &[u8], frame: usize) {
        for part in pcm.chunks(frame) {
            self.socket.write(Message::Binary(Bytes::copy_from_slice(part))).expect("audio is taken");
        }
        self.socket.flush().expect("audio is taken");
    }

    /// Sends one message. False if the connection is closed.
    pub fn try_send(&mut self, message: Message) -> bool {
        self.socket.send(message).is_ok()
    }

    /// Sends a text frame.
    #[track_caller]
    pub fn say(&mut self, text: &str) {
        assert!(self.try_send(Message::text(text)), "the connection is gone");
    }

    /// Sends `stop`.
    #[track_caller]
    pub fn stop(&mut self) {
        self.say("{\"type\":\"stop\"}");
    }

    /// Sends a ping and waits for its pong, which must be the next frame.
    #[track_caller]
    pub fn ping(&mut self, payload: &[u8]) {
        assert!(self.try_send(Message::Ping(Bytes::copy_from_slice(payload))), "the connection is gone");
        assert_eq!(self.read(), Frame::Pong(payload.to_vec()));
    }

    /// Sends a close frame with code 1000.
    pub fn close(&mut self) {
        let close = tungstenite::protocol::CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.socket.close(Some(close)).expect("a close frame is sent");
    }

    /// Writes raw bytes to the TCP connection. False if it is closed.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> bool {
        self.socket.get_mut().write_all(bytes).is_ok()
    }

    /// Sends silence until the session has lasted so long.
    #[track_caller]
    pub fn last(&mut self, time: Duration) {
        while let Some(left) = time.checked_sub(self.at_least()) {
            self.ping(b"still there");
            assert_eq!(self.read_within(left.min(PAUSE)), None, "nothing was said");
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
