//! The example `twilio_bridge`: a telephone call in the messages of Twilio's media streams.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use auricle_tests::{example, spoken};
use data_encoding::BASE64;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::conversations::mulaw;
use super::talking;

/// A bridge process, which ends with this value.
struct Bridge(std::process::Child);

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(phone: &mut WebSocket<TcpStream>, event: &Value) {
    phone.send(Message::text(event.to_string())).unwrap();
}

/// Sends audio as a telephone does, 20 ms at a time.
fn speak(phone: &mut WebSocket<TcpStream>, audio: &[u8]) {
    let began = Instant::now();
    for (number, piece) in audio.chunks(160).enumerate() {
        let media = json!({ "track": "inbound", "payload": BASE64.encode(piece) });
        send(phone, &json!({ "event": "media", "streamSid": "MZ1", "media": media }));
        let due = began + Duration::from_millis(20 * (number as u64 + 1));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The next event for the telephone.
fn next(phone: &mut WebSocket<TcpStream>) -> Option<Value> {
    loop {
        match phone.read() {
            Ok(Message::Text(text)) => return Some(serde_json::from_str(text.as_str()).unwrap()),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

#[test]
fn a_telephone_call_is_answered_and_interrupted() {
    let account = talking().account();
    let mut process = Command::new(example("twilio_bridge"))
        .args([account.api.as_str(), "127.0.0.1:0", "You are a miller."])
        .env("AURICLE_KEY", &account.key)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    let _bridge = Bridge(process);
    let listening = said.next().unwrap().unwrap();
    let address = listening.strip_prefix("listening on ").unwrap();
    let (mut phone, _) = tungstenite::client(format!("ws://{address}/"), TcpStream::connect(address).unwrap()).unwrap();
    send(&mut phone, &json!({ "event": "connected", "protocol": "Call", "version": "1.0.0" }));
    send(&mut phone, &json!({ "event": "start", "streamSid": "MZ1", "start": { "streamSid": "MZ1" } }));
    // The greeting is mu-law at 8 kHz for this stream.
    let media = next(&mut phone).unwrap();
    assert_eq!((&media["event"], &media["streamSid"]), (&json!("media"), &json!("MZ1")), "{media}");
    let greeting = BASE64.decode(media["media"]["payload"].as_str().unwrap().as_bytes()).unwrap();
    assert!(!greeting.is_empty() && greeting.len() < 8_000, "{} bytes", greeting.len());
    // A turn; the reply to it is the notice that there is no language model, which more speech interrupts.
    let pcm = spoken(8_000);
    let (turn, whole) = (mulaw(&pcm[8 * 16_000..]), mulaw(&pcm));
    speak(&mut phone, &turn);
    let mut clears = 0;
    // The reply to the first words is spoken over by the two seconds after the second pause.
    for _ in 0..3 {
        speak(&mut phone, &whole[..8 * 8_000]);
        phone.get_ref().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        while let Some(event) = next(&mut phone) {
            clears += usize::from(event["event"] == "clear");
        }
    }
    assert!(clears > 0, "no reply was interrupted");
    phone.get_ref().set_read_timeout(None).unwrap();
    send(&mut phone, &json!({ "event": "stop", "streamSid": "MZ1" }));
    while next(&mut phone).is_some() {}
    let lines: Vec<String> = said.by_ref().take_while(|line| line.is_ok()).map_while(Result::ok).take(2).collect();
    assert!(lines.iter().any(|line| line.starts_with("agent: ")), "{lines:?}");
}
