//! Transcribes a microphone live. Raw PCM comes from a program that records, so that this one needs no sound library:
//!
//! ```sh
//! arecord -q -f S16_LE -r 16000 -c 1 -t raw | cargo run --release --example microphone
//! ```

use std::io::Read as _;

use auricle_engine::blocking::Engine;
use auricle_engine::{EngineOptions, ListenOptions, LiveEvent, MAX_AHEAD_MS};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineOptions::default())?;
    let (mut input, events) = engine.listen(&ListenOptions::default().sample_rate(16_000))?;
    let microphone = std::thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = [0; 3_200]; // a tenth of a second
        loop {
            match stdin.read(&mut bytes)? {
                0 => return Ok(input.finish()?),
                read => input.push_pcm16(&bytes[..read])?,
            }
            input.blocking_caught_up(MAX_AHEAD_MS);
        }
    });
    for event in events {
        match event? {
            LiveEvent::Partial(caption) => eprint!("\r\x1b[K{}", caption.text),
            LiveEvent::Final(_) => {}
            LiveEvent::Formatted(caption) => println!("\r\x1b[K{}", caption.text),
        }
    }
    microphone.join().map_err(|_| "the microphone's thread panicked")?.map_err(|error| error.to_string())?;
    Ok(())
}
