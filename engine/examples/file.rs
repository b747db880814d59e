//! Transcribes a file: `cargo run --release --example file -- talk.mp3`

use auricle_engine::blocking::Engine;
use auricle_engine::{EngineOptions, TranscribeOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: file FILE")?;
    let engine = Engine::open(EngineOptions::default())?;
    let transcript = engine.transcribe_file(path, &TranscribeOptions::default())?;
    for word in &transcript.words {
        println!("{:>8} ms  {}", word.start, word.text);
    }
    println!("{}", transcript.text);
    Ok(())
}
