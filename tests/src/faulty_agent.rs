//! A voice agent with a planted fault: it stands between the callers and a good agent, and spoils what passes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::{Value, json};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use crate::client::Account;

/// A fault of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: everything passes as it is.
    None,
    /// It hears silence.
    Deaf,
    /// It takes its own voice for the caller's: a reply stops in its middle, for a turn that nobody spoke.
    Echoing,
    /// Its audio comes in fits and starts.
    Stuttering,
    /// It sends audio after the end of a reply.
    Leaking,
    /// It does not let itself be interrupted.
    Stubborn,
    /// It takes every pause for the end of the turn.
    Hasty,
}

/// Frames of audio in a reply before it stops for its echo: four seconds of 80 ms.
const ECHO_AFTER: usize = 50;
/// Frames of audio between two fits, and their length.
const FIT_EVERY: usize = 20;
const FIT: Duration = Duration::from_millis(900);

/// A service of voice agents that have a fault, on 127.0.0.1.
pub struct FaultyAgent {
    url: String,
}

impl FaultyAgent {
    /// Stands between callers and the agents that an account may call.
    pub fn before(account: &Account, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let account = account.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let account = account.clone();
                thread::spawn(move || {
                    let mut start = [0; 4];
                    match client.peek(&mut start) {
                        Ok(4) if &start == b"POST" => give_token(client, &account),
                        _ => pass(client, account.api.trim_start_matches("http://"), fault),
                    }
                });
            }
        });
        Self { url }
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// Answers the request for a token with one of the account, whose WebSocket is here.
fn give_token(mut client: TcpStream, account: &Account) {
    let own = client.local_addr().expect("its address");
    let mut request = Vec::new();
    // The body is `{}`.
    while !request.ends_with(b"\r\n\r\n{}") {
        let mut bytes = [0; 512];
        match client.read(&mut bytes) {
            Ok(read) if read > 0 => request.extend(&bytes[..read]),
            _ => return,
        }
    }
    let mut token = account.post("/v2/voice-agent/token", &json!({})).ok();
    token["websocket_url"] = format!("ws://{own}/v2/voice-agent/ws").into();
    let body = token.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let _ = write!(client, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
}

/// Passes one session on until one side closes it.
fn pass(client: TcpStream, service: &str, fault: Fault) {
    // The request is one packet, whose second word is the path with the token.
    let mut request = [0; 2048];
    let length = client.peek(&mut request).expect("a request");
    let request = String::from_utf8_lossy(&request[..length]);
    let path = request.split(' ').nth(1).expect("a path");
    let from_client = tungstenite::accept(client).expect("a WebSocket of the caller");
    let stream = TcpStream::connect(service).expect("the service listens");
    let (from_service, _) = tungstenite::client(format!("ws://{service}{path}"), stream).expect("a WebSocket");
    let to_client = second_half(&from_client, Role::Server);
    let to_service = second_half(&from_service, Role::Client);
    let heard = thread::spawn(move || relay(from_client, to_service, |frame| spoil_heard(fault, frame)));
    let mut voice = Voice { fault, audio: 0, reply: Value::Null, last: Value::Null };
    relay(from_service, to_client, |frame| voice.spoil(frame));
    let _ = heard.join();
}

fn second_half(socket: &WebSocket<TcpStream>, role: Role) -> WebSocket<TcpStream> {
    WebSocket::from_raw_socket(socket.get_ref().try_clone().expect("a second handle"), role, None)
}

/// Passes messages on, frames as `spoil` makes them.
fn relay(mut from: WebSocket<TcpStream>, mut to: WebSocket<TcpStream>, mut spoil: impl FnMut(Value) -> Vec<Value>) {
    while let Ok(message) = from.read() {
        let messages = match message {
            Message::Text(text) => {
                let frame = serde_json::from_str(text.as_str()).expect("a frame is JSON");
                spoil(frame).into_iter().map(|frame| Message::text(frame.to_string())).collect()
            }
            Message::Close(_) => vec![Message::Close(None)],
            other => vec![other],
        };
        for message in messages {
            if to.send(message).is_err() {
                return;
            }
        }
    }
    let _ = to.get_ref().shutdown(Shutdown::Both);
}

/// A frame of the caller as the agent gets it.
fn spoil_heard(fault: Fault, mut frame: Value) -> Vec<Value> {
    match (fault, frame["type"].as_str()) {
        (Fault::Deaf, Some("input.audio")) => {
            let length = BASE64.decode(frame["audio"].as_str().expect("audio").as_bytes()).expect("base64").len();
            frame["audio"] = BASE64.encode(&vec![0; length]).into();
        }
        (Fault::Stubborn, Some("session.update")) => {
            frame["session"]["input"]["turn_detection"] = json!({ "interrupt_response": false });
        }
        (Fault::Hasty, Some("session.update")) => {
            frame["session"]["input"]["turn_detection"] = json!({ "min_silence_ms": 200, "max_silence_ms": 200 });
        }
        _ => {}
    }
    vec![frame]
}

/// Spoils the frames of the agent.
struct Voice {
    fault: Fault,
    /// Frames of audio in this reply, or in all of them.
    audio: usize,
    /// The reply that was stopped for its echo.
    reply: Value,
    /// The last frame of audio.
    last: Value,
}

impl Voice {
    /// A frame of the agent as the caller gets it, with what comes with it.
    fn spoil(&mut self, frame: Value) -> Vec<Value> {
        let kind = frame["type"].as_str().unwrap_or_default();
        match (self.fault, kind) {
            (Fault::Echoing, "reply.started") => self.audio = 0,
            (Fault::Echoing, "reply.audio" | "reply.done" | "transcript.agent") if frame["reply_id"] == self.reply => {
                return Vec::new();
            }
            (Fault::Echoing, "reply.audio") => {
                self.audio += 1;
                // The greeting is left alone: the callers speak over it.
                if self.audio == ECHO_AFTER && frame["reply_id"] != "reply_1" {
                    self.reply = frame["reply_id"].clone();
                    let turn = json!({ "type": "transcript.user", "text": "I have no language" });
                    let done = json!({ "type": "reply.done", "reply_id": self.reply, "status": "interrupted" });
                    return vec![frame, done, turn];
                }
            }
            (Fault::Stuttering, "reply.audio") => {
                self.audio += 1;
                if self.audio.is_multiple_of(FIT_EVERY) {
                    thread::sleep(FIT);
                }
            }
            (Fault::Leaking, "reply.audio") => self.last = frame.clone(),
            (Fault::Leaking, "reply.done") if !self.last.is_null() => return vec![frame, self.last.take()],
            _ => {}
        }
        vec![frame]
    }
}
