//! Transcribes many files at once, which share the device's steps, and prints each as soon as it is done:
//! `cargo run --release --example many_files -- *.mp3`

use auricle_engine::{Engine, EngineOptions, TranscribeOptions};
use tokio::task::JoinSet;

/// Files that are decoded and transcribed at a time.
const AT_ONCE: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineOptions::default().recordings(AT_ONCE))?;
    let options = TranscribeOptions::default();
    let mut files = std::env::args().skip(1);
    let mut running = JoinSet::new();
    loop {
        while running.len() < AT_ONCE
            && let Some(file) = files.next()
        {
            let transcription = engine.transcribe_file(&file, &options);
            running.spawn(async move { (file, transcription.await) });
        }
        match running.join_next().await {
            Some(done) => match done? {
                (file, Ok(transcript)) => println!("{file}: {}", transcript.text),
                (file, Err(error)) => eprintln!("{file}: {error}"),
            },
            None => return Ok(()),
        }
    }
}
