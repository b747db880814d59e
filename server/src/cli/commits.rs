//! `auricle bench --commit`: the time from a client's end of a turn to its text, where the client finds the ends itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::{EndpointingRules, Engine, ListenOptions, LiveEvent, LiveEvents, LiveOutput};
use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::callers::files_of;
use super::progress::Bar;
use super::{EngineArgs, Failure, Result, interrupt, output, runtime};
use crate::api::uploads::is_media;

/// Samples of a chunk of the speech detector, and its length.
const CHUNK: usize = 512;
const CHUNK_MS: u64 = 32;
/// Probability of speech from which on a chunk is speech.
const SPEECH: f32 = 0.5;
/// Speech that begins a turn, and silence that ends it, ms: as Pipecat does it.
const START_MS: u64 = 200;
const STOP_MS: u64 = 200;
/// Silence after which the engine would end a turn by itself, ms: as in sessions of OpenAI's protocol.
const ENGINE_SILENCE_MS: u32 = 4_000;
/// Silence between two recordings.
const GAP: usize = SAMPLE_RATE as usize;

#[derive(Args)]
pub struct CommitArgs {
    /// Measure the time from the end of a live turn to its text instead
    ///
    /// The client finds the end by 200 ms of silence. FILE may be a folder of recordings.
    #[arg(long, conflicts_with = "talk")]
    pub commit: bool,
    /// Turns to measure
    #[arg(long, value_name = "N", default_value_t = 100, requires = "commit", value_parser = clap::value_parser!(u16).range(1..))]
    utterances: u16,
}

impl CommitArgs {
    /// Speaks the recordings in real time, over and over, into one session, and prints the times.
    ///
    /// # Errors
    /// If the recordings cannot be read, or the session fails.
    pub fn run(&self, recordings: &Path, model: &str, engine: &EngineArgs) -> Result<()> {
        let bar = Bar::new(false);
        interrupt::on_signal(bar.clone());
        let mut samples = Vec::new();
        for file in files(recordings)? {
            samples.extend(AudioStream::open(&file)?.read_to_end()?);
            samples.resize(samples.len() + GAP, 0.0);
        }
        let wanted = usize::from(self.utterances);
        let engine = Engine::open(engine.options()?)?;
        let _file = bar.start(&format!("{wanted} turns, in real time"));
        let (mut times, empty) = runtime()?.block_on(measure(&engine, model, &samples, wanted))?;
        bar.clear();
        times.sort();
        let ms = |percent: usize| format!("{} ms", times[(times.len() - 1) * percent / 100].as_millis());
        let rows = [
            ["turns", "without text", "median", "p95", "longest"].map(String::from).to_vec(),
            vec![times.len().to_string(), empty.to_string(), ms(50), ms(95), ms(100)],
        ];
        output::print(&format!("From the end of a turn to its text, {model}\n\n{}", output::table(&rows)))
    }
}

/// A recording, or those of a folder in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = files_of(path)?;
    files.retain(|file| is_media(&file.to_string_lossy(), ""));
    if files.is_empty() { Err(Failure::Usage(format!("{} has no recordings", path.display()))) } else { Ok(files) }
}

/// The times of so many turns, and the number of those without text.
async fn measure(engine: &Engine, model: &str, samples: &[f32], wanted: usize) -> Result<(Vec<Duration>, usize)> {
    let options =
        ListenOptions::default().model(model).turns(EndpointingRules::default().silence_ms(ENGINE_SILENCE_MS));
    let (mut input, events) = engine.listen(&options).await?;
    if !input.has_detector() {
        return Err(Failure::Usage("there is no speech detector, which finds the ends of the turns".into()));
    }
    let (committed, commits) = mpsc::unbounded_channel();
    let mut reading = tokio::spawn(read(events, commits, wanted));
    let mut clock = interval(Duration::from_millis(CHUNK_MS));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut speech_ms, mut quiet_ms, mut speaks) = (0, 0, false);
    for chunk in samples.chunks_exact(CHUNK).cycle() {
        tokio::select! {
            read = &mut reading => return read.map_err(|error| Failure::Service(error.to_string()))?,
            _ = clock.tick() => {}
        }
        for probability in input.push_and_detect(chunk)? {
            let is_speech = probability >= SPEECH;
            (speech_ms, quiet_ms) = if is_speech { (speech_ms + CHUNK_MS, 0) } else { (0, quiet_ms + CHUNK_MS) };
            speaks |= speech_ms >= START_MS;
            if speaks && quiet_ms >= STOP_MS {
                speaks = false;
                input.end_turn();
                let _ = committed.send(Instant::now());
            }
        }
    }
    Err(Failure::Usage("the recordings are empty".into()))
}

/// Reads the text of the turns.
async fn read(
    mut events: LiveEvents,
    mut commits: mpsc::UnboundedReceiver<Instant>,
    wanted: usize,
) -> Result<(Vec<Duration>, usize)> {
    let (mut times, mut empty, mut has_text) = (Vec::new(), 0, false);
    while times.len() < wanted {
        match events.next_output().await {
            Some(Ok(LiveOutput::Settled)) => {
                let now = Instant::now();
                let Some(at) = commits.recv().await else { break };
                times.push(now.saturating_duration_since(at));
                empty += usize::from(!std::mem::take(&mut has_text));
            }
            Some(Ok(LiveOutput::Event(LiveEvent::Formatted(_)))) => has_text = true,
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(Failure::Service("the session ended early".into())),
        }
    }
    Ok((times, empty))
}
