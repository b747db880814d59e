//! A provider's side of a call: the caller's audio in real time, a player that keeps marks, and keys.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use auricle_tests::{Account, spoken};
use data_encoding::BASE64;
use serde_json::{Value, json};
use tungstenite::{Error, Message, WebSocket};

use crate::voice_agent::mulaw;

const PACKET: Duration = Duration::from_millis(20);
const PACKET_BYTES: usize = 160;

/// The last part of the recording, "ask what you can do for your country", of which the starter recognises "you".
pub fn sentence() -> Vec<u8> {
    mulaw(&spoken(8_000)[8 * 16_000..])
}

/// A call that is under way.
pub struct Phone {
    pub provider: &'static str,
    socket: WebSocket<TcpStream>,
    due: Instant,
    /// Frames of the service, with their times.
    pub frames: Vec<(Instant, Value)>,
    /// Bytes of audio that were played, and the end of them.
    pub bytes: usize,
    played_until: Instant,
    marks: VecDeque<(String, Instant)>,
    /// Marks that were sent back.
    pub played: usize,
    pub clears: usize,
    /// Time between the end of audio and its mark.
    pub lag: Duration,
    /// The code and reason of the close; 1006 without one.
    pub closed: Option<(u16, String)>,
}

/// An address for a call: the answer of the service.
#[track_caller]
pub fn address(account: &Account, body: &Value) -> Value {
    account.post("/v2/telephony/token", body).ok()
}

impl Phone {
    /// Connects without a frame.
    #[track_caller]
    pub fn connect(provider: &'static str, url: &str) -> Self {
        let place = url.strip_prefix("ws://").unwrap().split('/').next().unwrap();
        let stream = TcpStream::connect(place).unwrap();
        stream.set_nodelay(true).unwrap();
        let (socket, _) = tungstenite::client(url, stream).unwrap();
        let now = Instant::now();
        Self {
            provider,
            socket,
            due: now,
            frames: Vec::new(),
            bytes: 0,
            played_until: now,
            marks: VecDeque::new(),
            played: 0,
            clears: 0,
            lag: Duration::ZERO,
            closed: None,
        }
    }

    /// A call of an account, whose stream has started.
    #[track_caller]
    pub fn call(account: &Account, provider: &'static str, body: &Value) -> (Self, String) {
        let mut body = body.clone();
        body["provider"] = provider.into();
        let minted = address(account, &body);
        let mut phone = Self::connect(provider, minted["websocket_url"].as_str().unwrap());
        phone.start(&json!({ "name": "Ann" }));
        (phone, minted["transcript_id"].as_str().unwrap().to_owned())
    }

    pub fn start(&mut self, parameters: &Value) {
        let format = json!({ "encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1 });
        match self.provider {
            "twilio" => {
                self.send(&json!({ "event": "connected", "protocol": "Call", "version": "1.0.0" }));
                let start = json!({ "accountSid": "AC1", "streamSid": "MZ1", "callSid": "CA1", "tracks": ["inbound"],
                    "mediaFormat": format, "customParameters": parameters });
                self.send(&json!({ "event": "start", "sequenceNumber": "1", "streamSid": "MZ1", "start": start }));
            }
            "telnyx" => {
                self.send(&json!({ "event": "connected", "version": "1.0.0" }));
                let format = json!({ "encoding": "PCMU", "sample_rate": 8000, "channels": 1 });
                let start = json!({ "user_id": "u", "call_control_id": "v3:1", "client_state": "", "from": "+15550100",
                    "to": "+15550199", "media_format": format, "custom_parameters": parameters });
                self.send(&json!({ "event": "start", "sequence_number": "1", "stream_id": "st-1", "start": start }));
            }
            _ => {
                let pairs: Vec<String> = parameters
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value.as_str().unwrap()))
                    .collect();
                let start = json!({ "callId": "c-1", "streamId": "s-1", "accountId": "MA1", "tracks": ["inbound"], "mediaFormat": format });
                self.send(
                    &json!({ "event": "start", "sequenceNumber": 1, "start": start, "extra_headers": pairs.join(";") }),
                );
            }
        }
        self.due = Instant::now();
    }

    pub fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string());
    }

    pub fn send_text(&mut self, text: &str) {
        if self.socket.send(Message::text(text)).is_err() {
            self.pump(Duration::from_millis(200));
        }
    }

    pub fn media(&mut self, audio: &[u8]) {
        let media = json!({ "track": "inbound", "chunk": "1", "timestamp": "5", "payload": BASE64.encode(audio) });
        self.send(&json!({ "event": "media", "media": media }));
    }

    /// Sends a packet in its time, and takes what has come meanwhile.
    fn packet(&mut self, audio: &[u8]) {
        self.media(audio);
        self.due += PACKET;
        let left = self.due.saturating_duration_since(Instant::now());
        self.pump(left.max(Duration::from_millis(1)));
    }

    /// Speaks.
    pub fn speak(&mut self, audio: &[u8]) {
        for piece in audio.chunks(PACKET_BYTES) {
            if self.closed.is_some() {
                return;
            }
            self.packet(piece);
        }
    }

    /// Is silent for a time.
    pub fn wait(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && self.closed.is_none() {
            self.packet(&[0xff; PACKET_BYTES]);
        }
    }

    /// Is silent until something is so.
    #[track_caller]
    pub fn until(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is(self) {
            assert!(Instant::now() < until, "{what}: {:?}", self.events());
            assert!(self.closed.is_none(), "{what}: closed {:?}", self.closed);
            self.packet(&[0xff; PACKET_BYTES]);
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        for key in keys.chars() {
            self.send(&json!({ "event": "dtmf", "dtmf": { "track": "inbound_track", "digit": key.to_string() } }));
        }
    }

    /// Hangs up. Plivo closes the connection, the others send `stop` first.
    pub fn hang_up(&mut self) {
        if self.provider == "plivo" {
            let _ = self.socket.close(None);
        } else {
            self.send(&json!({ "event": "stop", "stop": { "accountSid": "AC1" } }));
        }
    }

    /// Waits for the close of the service.
    #[track_caller]
    pub fn close_code(&mut self) -> (u16, String) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.closed.is_none() {
            assert!(Instant::now() < until, "it does not close: {:?}", self.events());
            self.pump(Duration::from_millis(50));
        }
        self.closed.clone().unwrap()
    }

    pub fn events(&self) -> Vec<&str> {
        self.frames.iter().map(|(_, frame)| frame["event"].as_str().unwrap()).collect()
    }

    /// True while the agent's audio is played.
    pub fn is_playing(&self) -> bool {
        self.played_until > Instant::now()
    }

    /// Takes what comes within a time.
    pub fn pump(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            self.send_marks();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.closed.is_some() {
                return;
            }
            let _ = self.socket.get_ref().set_read_timeout(Some(left));
            match self.socket.read() {
                Ok(Message::Text(text)) => self.take(serde_json::from_str(text.as_str()).unwrap()),
                Ok(Message::Close(close)) => {
                    let (code, reason) =
                        close.map_or((1005, String::new()), |close| (close.code.into(), close.reason.to_string()));
                    let _ = self.socket.read();
                    self.closed = Some((code, reason));
                }
                Ok(_) => {}
                Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => self.closed = Some((1006, String::new())),
            }
        }
    }

    fn take(&mut self, frame: Value) {
        let now = Instant::now();
        match (self.provider, frame["event"].as_str().unwrap()) {
            (_, "media" | "playAudio") => {
                let audio = BASE64.decode(frame["media"]["payload"].as_str().unwrap().as_bytes()).unwrap();
                assert!(audio.len().is_multiple_of(PACKET_BYTES), "{} bytes", audio.len());
                self.bytes += audio.len();
                self.played_until = self.played_until.max(now) + Duration::from_micros(125) * audio.len() as u32;
            }
            (_, "mark" | "checkpoint") => {
                let name = frame["mark"]["name"].as_str().or(frame["name"].as_str()).unwrap();
                self.marks.push_back((name.to_owned(), self.played_until + self.lag));
            }
            (_, "clear" | "clearAudio") => {
                self.clears += 1;
                self.played_until = now;
                // Twilio and Telnyx send the marks of cleared audio back, Plivo does not.
                if self.provider == "plivo" {
                    self.marks.clear();
                }
                self.marks.iter_mut().for_each(|(_, due)| *due = now);
            }
            (provider, other) => panic!("{provider} knows no {other}"),
        }
        self.frames.push((now, frame));
    }

    fn send_marks(&mut self) {
        while self.marks.front().is_some_and(|(_, due)| *due <= Instant::now()) {
            let Some((name, _)) = self.marks.pop_front() else { return };
            self.played += 1;
            let frame = match self.provider {
                "plivo" => json!({ "event": "playedStream", "streamId": "s-1", "name": name }),
                _ => json!({ "event": "mark", "mark": { "name": name } }),
            };
            let _ = self.socket.send(Message::text(frame.to_string()));
        }
    }
}
