//! Words per hour that a model recognizes in audio without speech.

use std::error::Error;
use std::f32::consts::TAU;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::ExitCode;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions, Result, TranscribeOptions, Transcript};
use clap::Parser;

/// Words per hour that a model recognizes in audio without speech
///
/// Transcribes nine synthetic sounds: digital silence, noise, hum, tones, music. No detector was trained on them. Then it
/// transcribes the given files, one at a time. Runs on the CPU.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --bin false_words
  cargo run --release --bin false_words -- noise/*.flac --model svc-fast --minutes 1")]
struct Arguments {
    /// Audio files without speech
    files: Vec<PathBuf>,
    /// Model of the catalog [default: the engine's]
    #[arg(long)]
    model: Option<String>,
    /// Folder of models with catalog.toml [default: the one that ships]
    #[arg(long)]
    models: Option<PathBuf>,
    /// Minutes of each synthetic sound
    #[arg(long, default_value_t = 10)]
    minutes: usize,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> std::result::Result<(), Box<dyn Error>> {
    let mut open = EngineOptions::default().device(DeviceChoice::Cpu);
    let mut options = TranscribeOptions::default();
    if let Some(models) = arguments.models {
        open.models = models;
    }
    options.model = arguments.model;
    let engine = Engine::open(open)?;
    println!("{:<26} {:>8} {:>12}  warnings", "sound", "minutes", "words/hour");
    let mut all = Count::default();
    for (name, sound) in sounds() {
        let mut noise = Noise(7);
        let samples = arguments.minutes * 60 * SAMPLE_RATE as usize;
        let pcm: Vec<u8> = (0..samples)
            .map(|n| sound(n as f32 / SAMPLE_RATE as f32, &mut noise).clamp(-1.0, 1.0))
            .flat_map(|sample| ((sample * 32_767.0).round() as i16).to_le_bytes())
            .collect();
        let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm), SAMPLE_RATE, 1)?;
        let mut count = Count::default();
        count.add(engine.transcribe(audio, &options)?);
        count.print(name);
        all.join(&count);
    }
    let files = &arguments.files;
    if !files.is_empty() {
        let mut count = Count::default();
        for file in files {
            count.add(transcribe(&engine, file, &options)?);
        }
        count.print(&format!("{} files", files.len()));
        all.join(&count);
    }
    all.print("all");
    Ok(())
}

fn transcribe(engine: &Engine, file: &std::path::Path, options: &TranscribeOptions) -> Result<Transcript> {
    engine.transcribe(AudioStream::open(file)?, options)
}

#[derive(Default)]
struct Count {
    words: usize,
    seconds: f64,
    warnings: Vec<String>,
}

impl Count {
    fn add(&mut self, transcript: Transcript) {
        self.words += transcript.words.len();
        self.seconds += transcript.audio_duration_sec;
        self.warnings.extend(transcript.warnings);
    }

    fn join(&mut self, other: &Self) {
        self.words += other.words;
        self.seconds += other.seconds;
    }

    fn print(&self, name: &str) {
        let warning = match self.warnings.as_slice() {
            [] => String::new(),
            [only] => only.clone(),
            [first, rest @ ..] => format!("{first}, and {} more warnings", rest.len()),
        };
        let rate = self.words as f64 * 3600.0 / self.seconds;
        println!("{name:<26} {:>8.1} {rate:>12.1}  {warning}", self.seconds / 60.0);
    }
}

/// Uniform noise between -1 and 1 (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

type Sound = fn(f32, &mut Noise) -> f32;

/// Each sound as a function of the time in seconds.
fn sounds() -> [(&'static str, Sound); 9] {
    [
        ("digital silence", |_, _| 0.0),
        ("noise, -70 dB", |_, noise| noise.next() * 5e-4),
        ("noise, -20 dB", |_, noise| noise.next() * 0.17),
        ("noise in gusts", |t, noise| noise.next() * 0.3 * (0.5 + 0.5 * (t * 1.7).sin()).powi(3)),
        ("mains hum", |t, noise| 0.1 * (tone(50.0, t) + 0.5 * tone(150.0, t)) + 1e-3 * noise.next()),
        ("tones of 1 to 3 s", |t, _| 0.3 * tone(220.0 * 2f32.powf(step(t, 2.0, 13) / 4.0), t)),
        ("key tones", |t, _| {
            let on = if t % 0.3 < 0.15 { 0.25 } else { 0.0 };
            on * (tone(697.0 + 80.0 * step(t, 0.3, 4), t) + tone(1209.0 + 130.0 * step(t, 0.3, 3), t))
        }),
        ("a melody of plucked notes", |t, _| 0.4 * pluck(262.0 * 2f32.powf(step(t, 0.4, 12) / 12.0), t, 0.4)),
        ("chords and drums", |t, noise| {
            let root = 110.0 * 2f32.powf(step(t, 2.0, 7) / 12.0);
            let chord: f32 = [1.0, 1.26, 1.5, 2.0].iter().map(|ratio| pluck(root * ratio, t, 2.0)).sum();
            0.12 * chord + 0.3 * noise.next() * (-(t % 0.5) * 40.0).exp()
        }),
    ]
}

fn tone(hertz: f32, t: f32) -> f32 {
    (TAU * (hertz * t).fract()).sin()
}

/// A pseudo-random integer below `of`, another one every `every` seconds.
fn step(t: f32, every: f32, of: u32) -> f32 {
    let number = (t / every) as u32;
    (number.wrapping_mul(2_654_435_761).rotate_left(13) % of) as f32
}

/// A decaying note of eight partials that starts every `every` seconds.
fn pluck(hertz: f32, t: f32, every: f32) -> f32 {
    let since = t % every;
    (1..9).map(|k| tone(hertz * k as f32, t) / k as f32 * (-since * (1.5 + k as f32)).exp()).sum()
}
