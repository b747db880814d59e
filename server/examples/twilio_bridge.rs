//! Answers telephone calls with a voice agent: a bridge between Twilio's media streams and the service. Both speak mu-law at 8 kHz, so
//! that no audio is converted.
//!
//!     AURICLE_KEY=... cargo run --release --example twilio_bridge -- http://127.0.0.1:8080 0.0.0.0:9000 "You are the desk of a hotel."
//!
//! Twilio connects where the number's TwiML says, over TLS that a proxy in front of this program ends:
//!
//!     <Response><Connect><Stream url="wss://bridge.example.com/"/></Connect></Response>

use std::error::Error;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [service, listen, prompt] = &arguments[..] else {
        return Err("usage: twilio_bridge SERVICE_URL LISTEN_ADDRESS PROMPT".into());
    };
    let key = std::env::var("AURICLE_KEY").map_err(|_| "AURICLE_KEY is a key of the service")?;
    let listener = TcpListener::bind(listen)?;
    println!("listening on {}", listener.local_addr()?);
    for call in listener.incoming() {
        let (service, key, prompt, call) = (service.clone(), key.clone(), prompt.clone(), call?);
        thread::spawn(move || {
            if let Err(error) = answer(call, &service, &key, &prompt) {
                eprintln!("a call: {error}");
            }
        });
    }
    Ok(())
}

/// Takes a call until one side ends it.
fn answer(call: TcpStream, service: &str, key: &str, prompt: &str) -> Result<()> {
    let mut caller = tungstenite::accept(call)?;
    // "connected" comes first, then "start" with the stream's id, which each message to Twilio names.
    let stream = loop {
        let event = json_of(&caller.read()?);
        if event["event"] == "start" {
            break event["streamSid"].clone();
        }
    };
    let address = token(service, key)?;
    let host = address.split('/').nth(2).ok_or("the address begins with ws://HOST:PORT/")?;
    let (mut agent, _) = tungstenite::client(address.as_str(), TcpStream::connect(host)?)?;
    let format = json!({ "format": { "encoding": "audio/pcmu", "sample_rate": 8000 } });
    let session =
        json!({ "system_prompt": prompt, "greeting": "Hello. How can I help you?", "input": format, "output": format });
    agent.send(text(&json!({ "type": "session.update", "session": session })))?;

    let mut to_agent = second_half(&agent, Role::Client)?;
    let mut to_caller = second_half(&caller, Role::Server)?;
    let heard = thread::spawn(move || -> Result<()> {
        loop {
            let event = json_of(&caller.read()?);
            match event["event"].as_str() {
                Some("media") => {
                    to_agent.send(text(&json!({ "type": "input.audio", "audio": event["media"]["payload"] })))?;
                }
                Some("stop") => return Ok(to_agent.send(text(&json!({ "type": "session.end" })))?),
                _ => {}
            }
        }
    });
    while let Ok(message) = agent.read() {
        let frame = json_of(&message);
        match frame["type"].as_str() {
            Some("reply.audio") => {
                let media = json!({ "payload": frame["data"] });
                to_caller.send(text(&json!({ "event": "media", "streamSid": stream, "media": media })))?;
            }
            // Twilio plays what it has buffered unless it is stopped.
            Some("reply.done") if frame["status"] == "interrupted" => {
                to_caller.send(text(&json!({ "event": "clear", "streamSid": stream })))?;
            }
            Some("transcript.user") => println!("caller: {}", frame["text"]),
            Some("transcript.agent") => println!("agent: {}", frame["text"]),
            Some("session.error") => eprintln!("{}", frame["message"]),
            _ => {}
        }
    }
    // The call ends with the session.
    to_caller.get_ref().shutdown(Shutdown::Both).ok();
    match heard.join() {
        Ok(ended) => ended.or(Ok(())),
        Err(_) => Err("the thread of the caller's audio panicked".into()),
    }
}

/// The address of a new session, with its token.
fn token(service: &str, key: &str) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(async {
        let request = reqwest::Client::new().post(format!("{}/v2/voice-agent/token", service.trim_end_matches('/')));
        let answer = request.bearer_auth(key).header("content-type", "application/json").body("{}").send().await?;
        let token: Value = serde_json::from_str(&answer.text().await?)?;
        match (token["websocket_url"].as_str(), token["token"].as_str()) {
            (Some(url), Some(secret)) => Ok(format!("{url}?token={secret}")),
            _ => Err(format!("no token: {}", token["error"]["message"]).into()),
        }
    })
}

fn second_half(socket: &WebSocket<TcpStream>, role: Role) -> Result<WebSocket<TcpStream>> {
    Ok(WebSocket::from_raw_socket(socket.get_ref().try_clone()?, role, None))
}

fn text(frame: &Value) -> Message {
    Message::text(frame.to_string())
}

/// The JSON of a text message; null for another.
fn json_of(message: &Message) -> Value {
    match message {
        Message::Text(text) => serde_json::from_str(text.as_str()).unwrap_or_default(),
        _ => Value::Null,
    }
}
