//! Live sessions over real sockets: people who read aloud, each at their own pace, all at once.
//!
//!     cargo run --release --example live -- FOLDER [--levels 1,10,25,50] [--model svc-realtime] [--utterances 4] [--lm on|off]
//!
//! FOLDER has speech and `refs.tsv` (file, tab, text). Each session sends its utterances as they would be spoken, in frames
//! of 100 ms (or `--frame MS`), with two seconds of silence after each. The latency of an utterance runs from the moment when
//! the sound of its last word was sent, by its level, to the final that ends after it and holds words of it; the silence that
//! ends a turn is taken off. Utterances of which nothing was heard, or whose last words were not, have no such final: they
//! count as missed. The service is started here, with its defaults; its processor time and memory are those of its process.
//! What plays the people runs on the same machine and takes its share.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use auricle_benches::{WordErrors, normalised};
use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_tests::{Account, Service, Setup};
use serde_json::{Value, json};
use tungstenite::protocol::Role;
use tungstenite::{Error, Message, WebSocket};

const SILENCE_MS: u64 = 2_000;
/// What the service waits for before a turn ends.
const ENDPOINT_MS: u64 = 700;

struct Utterance {
    pcm: Vec<u8>,
    /// Where its sound ends, ms.
    ends_ms: u64,
    said: String,
}

/// What one session found.
#[derive(Default)]
struct Found {
    latencies_ms: Vec<f64>,
    errors: WordErrors,
    words: usize,
    missed: usize,
    /// How late its latest frame was sent, ms.
    late_ms: f64,
    failed: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut folder, mut model, mut count) = (None, "svc-realtime-pro".to_owned(), 4);
    let mut levels = vec![1, 10, 25, 50];
    let mut language_model = true;
    let mut frame_ms = 100;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--model" => model = value()?,
            "--lm" => language_model = value()? != "off",
            "--frame" => frame_ms = value()?.parse()?,
            "--utterances" => count = value()?.parse()?,
            "--levels" => levels = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            _ => folder = Some(PathBuf::from(argument)),
        }
    }
    let utterances = Arc::new(read(&folder.ok_or("name a folder with refs.tsv")?)?);
    let most = levels.iter().max().copied().unwrap_or(1);
    let service = Setup::new()
        .starter()
        .with("max_live_sessions", most.max(1))
        .with("free_credit_cents", 1_000_000)
        .with("live_language_model", language_model)
        .start();
    let account = service.account();
    let people = People { account, model, utterances, count, frame_ms: frame_ms.max(1) };
    people.session(0..1, &Barrier::new(1));
    let search = if language_model { "with the language model" } else { "greedy" };
    println!("{}, {search}, {count} utterances a session, frames of {frame_ms} ms\n", people.model);
    println!(
        "| Sessions | Final after end of speech, ms: p50 | p95 | p99 | Missed, of | WER % | CPU, cores | Memory, MB | Latest frame sent, ms late | Failed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for level in levels {
        measure(&service, &people, level);
    }
    Ok(())
}

/// Those who read aloud, and what.
#[derive(Clone)]
struct People {
    account: Account,
    model: String,
    utterances: Arc<Vec<Utterance>>,
    /// Utterances a session.
    count: usize,
    frame_ms: u64,
}

fn measure(service: &Service, people: &People, level: usize) {
    let together = Arc::new(Barrier::new(level));
    let (cpu, began) = (cpu_s(service.process_id()), Instant::now());
    let count = people.count;
    let sessions: Vec<_> = (0..level)
        .map(|n| {
            let (people, together) = (people.clone(), together.clone());
            thread::spawn(move || people.session(n * count..(n + 1) * count, &together))
        })
        .collect();
    let found: Vec<Found> = sessions.into_iter().map(|session| session.join().unwrap_or_default()).collect();
    let cpu = (cpu_s(service.process_id()) - cpu) / began.elapsed().as_secs_f64();
    let mut latencies: Vec<f64> = found.iter().flat_map(|found| found.latencies_ms.iter().copied()).collect();
    latencies.sort_by(f64::total_cmp);
    let at =
        |share: f64| latencies.get(((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1)));
    let shown = |share: f64| at(share).map_or("-".into(), |ms| format!("{ms:.0}"));
    let mut errors = WordErrors::default();
    found.iter().for_each(|found| errors.add(&found.errors));
    let words: usize = found.iter().map(|found| found.words).sum();
    println!(
        "| {level} | {} | {} | {} | {}, {} | {:.1} | {cpu:.2} | {:.0} | {:.0} | {} |",
        shown(0.5),
        shown(0.95),
        shown(0.99),
        found.iter().map(|found| found.missed).sum::<usize>(),
        level * count,
        100.0 * errors.total() as f64 / words.max(1) as f64,
        memory_mb(service.process_id()),
        found.iter().map(|found| found.late_ms).fold(0.0, f64::max),
        found.iter().filter(|found| found.failed).count(),
    );
}

impl People {
    /// One person, from token to close.
    fn session(&self, which: std::ops::Range<usize>, together: &Barrier) -> Found {
        let token = self.account.post("/v2/realtime/token", &json!({ "model": self.model })).ok();
        let address = format!("{}?token={}", text(&token["websocket_url"]), text(&token["token"]));
        let host = address.split('/').nth(2).unwrap_or_default().to_owned();
        let stream = TcpStream::connect(&host).expect("the service listens");
        let _ = stream.set_nodelay(true);
        let (socket, _) = tungstenite::client(&address, stream).expect("a WebSocket");
        let writing = socket.get_ref().try_clone().expect("a second handle");
        let mut out = WebSocket::from_raw_socket(writing, Role::Client, None);
        let reader = thread::spawn(move || listen(socket));
        // Not all on the same millisecond, as people are not.
        together.wait();
        thread::sleep(Duration::from_millis(37 * which.start as u64 % 1_000));

        let mut found = Found::default();
        let began = Instant::now();
        let mut sent_ms = 0;
        // Where the sound of each utterance begins and ends, ms.
        let mut spans: Vec<(u64, u64)> = Vec::new();
        let mut said = Vec::new();
        for at in which {
            let utterance = &self.utterances[at % self.utterances.len()];
            let mut pcm = utterance.pcm.clone();
            pcm.resize(pcm.len() + (SILENCE_MS * u64::from(SAMPLE_RATE) / 1000 * 2) as usize, 0);
            spans.push((sent_ms, sent_ms + utterance.ends_ms));
            said.extend(normalised(&utterance.said));
            for frame in pcm.chunks((self.frame_ms * u64::from(SAMPLE_RATE) / 1000 * 2) as usize) {
                sent_ms += self.frame_ms.min(frame.len() as u64 / 32);
                let due = began + Duration::from_millis(sent_ms);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                found.late_ms = found.late_ms.max(Instant::now().saturating_duration_since(due).as_secs_f64() * 1e3);
                if out.send(Message::binary(frame.to_vec())).is_err() {
                    found.failed = true;
                    break;
                }
            }
        }
        found.failed |= out.send(Message::text(r#"{"type":"stop"}"#)).is_err();
        let Heard { finals, done } = reader.join().unwrap_or_default();
        found.failed |= !done;
        let heard: Vec<String> = finals.iter().flat_map(|spoken| normalised(&spoken.text)).collect();
        found.words = said.len();
        found.errors = WordErrors::between(&said, &heard);
        for (start, end) in spans {
            let ended = began + Duration::from_millis(end);
            // Word times are good to a few tenths of a second.
            let of_it = |spoken: &&Final| spoken.at > ended && spoken.last_ms > start && spoken.last_ms <= end + 500;
            match finals.iter().find(of_it) {
                Some(spoken) => {
                    let after = spoken.at.duration_since(ended).as_secs_f64() * 1e3 - ENDPOINT_MS as f64;
                    found.latencies_ms.push(after);
                }
                None => found.missed += 1,
            }
        }
        found
    }
}

/// A turn that ended.
struct Final {
    /// When it came.
    at: Instant,
    /// Where its last word ends, ms.
    last_ms: u64,
    text: String,
}

#[derive(Default)]
struct Heard {
    finals: Vec<Final>,
    done: bool,
}

fn listen(mut socket: WebSocket<TcpStream>) -> Heard {
    let mut heard = Heard::default();
    loop {
        match socket.read() {
            Ok(Message::Text(frame)) => {
                let frame: Value = serde_json::from_str(&frame).unwrap_or_default();
                match frame["type"].as_str() {
                    Some("transcript") if frame["end_of_turn"] == true && frame["formatted"] == false => {
                        let last = frame["words"].as_array().and_then(|words| words.last());
                        let last_ms = last.and_then(|word| word["end"].as_u64()).unwrap_or_default();
                        let text = text(&frame["text"]).to_owned();
                        heard.finals.push(Final { at: Instant::now(), last_ms, text });
                    }
                    Some("done") => heard.done = true,
                    Some("error") => eprintln!("{frame}"),
                    _ => {}
                }
            }
            Ok(_) => {}
            Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return heard,
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn read(folder: &Path) -> Result<Vec<Utterance>, Box<dyn std::error::Error>> {
    let references = std::fs::read_to_string(folder.join("refs.tsv"))?;
    let lines = references.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(file, said)| {
            let samples = AudioStream::open(&folder.join(file))?.read_to_end()?;
            let pcm = samples.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect();
            Ok(Utterance { pcm, ends_ms: end_ms(&samples), said: said.to_owned() })
        })
        .collect()
}

/// Where the last 10 ms end that are within 35 dB of the loudest.
fn end_ms(samples: &[f32]) -> u64 {
    let energy: Vec<f32> = samples.chunks(160).map(|frame| frame.iter().map(|s| s * s).sum()).collect();
    let loudest = energy.iter().copied().fold(0.0, f32::max);
    let last = energy.iter().rposition(|energy| *energy > loudest * 3.2e-4).unwrap_or(0);
    (last as u64 + 1) * 10
}

/// Processor time of a process so far; Linux.
fn cpu_s(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    // In hundredths of a second, user and system.
    (ticks(11) + ticks(12)) / 100.0
}

/// Resident memory of a process; Linux.
fn memory_mb(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}
