//! A client of live transcription: a file's sound as it would be spoken, turns of text as they come.
//!
//!     ADDRESS=$(curl -s 127.0.0.1:8080/v2/realtime/token -H "Authorization: Bearer $AURICLE_KEY" --json '{}' |
//!         jq -r '.websocket_url + "?token=" + .token')
//!     ffmpeg -v error -i talk.mp3 -f s16le -ar 16000 -ac 1 talk.pcm
//!     cargo run --release --example live_client -- "$ADDRESS" talk.pcm
//!
//! The key stays where the token is minted; the client has the token alone. `live.html` is the same for a microphone.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket, client};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, file] = &arguments[..] else { return Err("usage: live_client ADDRESS FILE.pcm".into()) };
    let host = address.split('/').nth(2).ok_or("the address begins with ws://HOST:PORT/")?;
    let (mut incoming, _) = client(address, TcpStream::connect(host)?)?;
    let mut outgoing = WebSocket::from_raw_socket(incoming.get_ref().try_clone()?, Role::Client, None);
    let pcm = std::fs::read(file)?;
    thread::spawn(move || -> Result<(), tungstenite::Error> {
        for piece in pcm.chunks(3200) {
            outgoing.send(Message::binary(piece.to_vec()))?;
            thread::sleep(Duration::from_millis(100));
        }
        outgoing.send(Message::text(r#"{"type":"stop"}"#))
    });
    while let Ok(message) = incoming.read() {
        let Message::Text(frame) = message else { continue };
        let frame: serde_json::Value = serde_json::from_str(&frame)?;
        match frame["type"].as_str() {
            Some("transcript") if frame["formatted"] == true => println!("\r\x1b[K{}", text(&frame)),
            Some("transcript") => eprint!("\r\x1b[K{}", text(&frame)),
            Some("done") => break,
            _ => {}
        }
    }
    Ok(())
}

fn text(frame: &serde_json::Value) -> &str {
    frame["text"].as_str().unwrap_or_default()
}
