//! A client of the realtime endpoint: a session token, and the WebSocket that it opens.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Url;
use serde_json::Value;
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use crate::client::{Account, Answer};
use crate::service::DEADLINE;

/// How often a session that is kept up says that it is there.
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

/// A session token, as it was asked for and as it was minted.
#[derive(Clone, Debug)]
pub struct Token {
    /// What the endpoint answered.
    pub answer: Value,
    asked: Value,
}

impl Token {
    /// The secret itself.
    pub fn secret(&self) -> &str {
        self.answer["token"].as_str().expect("token")
    }

    /// Where the service says that it is redeemed.
    pub fn url(&self) -> Url {
        Url::parse(self.answer["websocket_url"].as_str().expect("websocket_url")).expect("a URL")
    }

    /// The same with another secret.
    pub fn with_secret(&self, secret: &str) -> Self {
        let mut other = self.clone();
        other.answer["token"] = secret.into();
        other
    }

    /// The same at another service.
    pub fn at(&self, api: &str) -> Self {
        let mut other = self.clone();
        other.answer["websocket_url"] = format!("{}{}", api.replacen("http", "ws", 1), self.url().path()).into();
        other
    }

    /// The address with the values of the minting but for these.
    pub fn address(&self, other: &[(&str, &str)]) -> Url {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let minted = ["token", "model", "sample_rate"].map(|name| (name, &self.answer[name]));
        let asked = ["language_code", "medical_mode"].map(|name| (name, &self.asked[name]));
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

    /// Opens a session with some values that are not those of the minting.
    pub fn open_with(&self, other: &[(&str, &str)]) -> Live {
        Live::open(&self.address(other))
    }
}

/// What the service says in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// `ready`
    Ready,
    /// `transcript`
    Transcript(Heard),
    /// `reconnect`, with its message.
    Reconnect(String),
    /// `error`, with its message.
    Error(String),
    /// `done`
    Done,
    /// The answer to a ping, with its payload.
    Pong(Vec<u8>),
    /// The end of the connection: the code of the close frame; 1005 if it has none, 1006 if there was no such frame.
    Closed(u16),
}

/// A `transcript` frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// What was said.
    pub text: String,
    /// Whether the turn is complete.
    pub end_of_turn: bool,
    /// Whether this restates a finished turn.
    pub formatted: bool,
    /// Its words.
    pub words: Vec<Spoken>,
}

/// A word of a `transcript` frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoken {
    /// As it is written.
    pub text: String,
    /// Its first moment, in ms.
    pub start: u64,
    /// Its last moment, in ms.
    pub end: u64,
    /// 0 to 1.
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
            Some("transcript") => Self::Transcript(Heard::of(&body)),
            Some("reconnect") => Self::Reconnect(message()),
            Some("error") => Self::Error(message()),
            Some("done") => Self::Done,
            _ => panic!("a frame of no known type: {text}"),
        }
    }

    /// The transcript that it carries, if it carries one.
    pub fn transcript(&self) -> Option<&Heard> {
        match self {
            Self::Transcript(heard) => Some(heard),
            _ => None,
        }
    }
}

impl Heard {
    fn of(body: &Value) -> Self {
        let text = |value: &Value| value["text"].as_str().unwrap_or_else(|| panic!("no text: {body}")).to_owned();
        let flag = |name: &str| body[name].as_bool().unwrap_or_else(|| panic!("no {name}: {body}"));
        let moment = |word: &Value, name: &str| word[name].as_u64().unwrap_or_else(|| panic!("no whole ms: {word}"));
        let words = body["words"].as_array().unwrap_or_else(|| panic!("no words: {body}")).iter().map(|word| Spoken {
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

    /// Demands what holds for every transcript: its text is its words, they follow each other and lie in the audio.
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

/// A finished turn, as both frames that tell of it have it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// `formatted` false
    pub raw: Heard,
    /// `formatted` true
    pub formatted: Heard,
}

/// Puts the turns of a whole session together as a client does, and demands of every transcript frame what the contract
/// says of it.
#[track_caller]
pub fn turns(frames: &[Frame], audio_ms: u64) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut ended: Option<Heard> = None;
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

/// The text of these turns, restated.
pub fn text_of(turns: &[Turn]) -> String {
    turns.iter().map(|turn| turn.formatted.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A session.
pub struct Live {
    socket: WebSocket<TcpStream>,
    asked: Instant,
    opened: Instant,
}

impl Live {
    /// Opens a session at an address, whose query says everything.
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
        Self { socket, asked, opened: Instant::now() }
    }

    /// The time for which the service has had this connection, at least.
    pub fn at_least(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The moment before which the service cannot have had this connection.
    pub fn asked(&self) -> Instant {
        self.asked
    }

    /// What comes next.
    #[track_caller]
    pub fn read(&mut self) -> Frame {
        self.read_within(DEADLINE).unwrap_or_else(|| panic!("nothing comes within {DEADLINE:?}"))
    }

    /// What comes next, if anything does within a time.
    pub fn read_within(&mut self, time: Duration) -> Option<Frame> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.get_ref().set_read_timeout(Some(left)).expect("a timeout");
            match self.socket.read() {
                Ok(Message::Text(text)) => return Some(Frame::of(text.as_str())),
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

    /// After a close frame the connection ends too, and nothing more comes.
    fn hang_up(&mut self) {
        self.socket.get_ref().set_read_timeout(Some(DEADLINE)).expect("a timeout");
        match self.socket.read() {
            Ok(more) => panic!("after the close frame: {more:?}"),
            Err(Error::Io(error)) if is_timeout(&error) => panic!("the connection stays open after the close frame"),
            Err(Error::Protocol(ProtocolError::ReceivedAfterClosing)) => panic!("frames after the close frame"),
            Err(_) => {}
        }
    }

    /// Waits for `ready`, which comes before anything else.
    #[track_caller]
    pub fn ready(&mut self) {
        assert_eq!(self.read(), Frame::Ready);
    }

    /// Waits for a transcript, which is what comes next.
    #[track_caller]
    pub fn heard(&mut self) -> Heard {
        match self.read() {
            Frame::Transcript(heard) => heard,
            other => panic!("no transcript: {other:?}"),
        }
    }

    /// Everything that comes until the connection has ended, the end included.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<Frame> {
        let mut frames = vec![self.read()];
        while !matches!(frames.last(), Some(Frame::Closed(_))) {
            frames.push(self.read());
        }
        frames
    }

    /// Sends audio in frames of so many bytes.
    #[track_caller]
    pub fn send(&mut self, pcm: &[u8], frame: usize) {
        for part in pcm.chunks(frame) {
            self.socket.write(Message::Binary(Bytes::copy_from_slice(part))).expect("audio is taken");
        }
        self.socket.flush().expect("audio is taken");
    }

    /// Sends one message of any kind; false if the connection is gone.
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

    /// Sends a ping and waits for its pong, which is what comes next.
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

    /// Writes bytes as they are, under the protocol; false if the connection is gone.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> bool {
        self.socket.get_mut().write_all(bytes).is_ok()
    }

    /// Keeps a session up, in which nothing is said, until it has lasted so long.
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
