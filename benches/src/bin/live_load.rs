//! Load test of live sessions over real sockets.

use std::error::Error;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use auricle_benches::process::{cpu_seconds, resident_mb};
use auricle_benches::speech_set::references;
use auricle_benches::word_errors::{WordErrors, normalize};
use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_tests::{Account, Service, Setup};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use tungstenite::protocol::Role;
use tungstenite::{Error as SocketError, Message, WebSocket};

/// Load test of live sessions over real sockets: latency, word error rate, processor time and memory
///
/// Starts the service with its defaults and opens many sessions at once. Each session sends its utterances at the pace of speech,
/// with two seconds of silence after each. The latency of an utterance runs from the moment when its last sound was sent to the
/// arrival of the final that ends after it and has words of it, without the silence that ends the turn. An utterance without such a
/// final counts as missed; finals of it that came before its end count as cuts. The formatted text of a turn is timed from its final, and
/// is read again where the second pass was in time. Processor time and memory are those of the service; the clients run on the same
/// machine.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --bin live_load -- eval/librispeech-sample
  cargo run --release --bin live_load -- eval/librispeech-sample --levels 50,100 --lm off --model svc-realtime
  cargo run --release --bin live_load -- eval/librispeech-sample --levels 10 --models FOLDER --chats 16

AURICLE_BIN names the auricle program to start, if it is not the one of this build.")]
struct Arguments {
    /// Folder with audio files and refs.tsv: a file name, a tab and a text a line
    folder: PathBuf,
    /// Numbers of sessions, measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,10,25,50")]
    levels: Vec<usize>,
    /// Live model
    #[arg(long, default_value = "svc-realtime-pro")]
    model: String,
    /// Language of the sessions
    #[arg(long, default_value = "en", value_name = "CODE")]
    language: String,
    /// Utterances of each session
    #[arg(long, default_value_t = 4)]
    utterances: usize,
    /// The service searches with the language model
    #[arg(long, value_enum, default_value = "on")]
    lm: Switch,
    /// Chat requests that wait or are answered at all times, each over a prompt of some 1,000 tokens; needs a language model
    #[arg(long, default_value_t = 0, value_name = "N")]
    chats: usize,
    /// The models folder [default: the repository's]
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// A Smart Turn network that detects whether a speaker has finished, which ends a turn after 250 ms
    #[arg(long, value_name = "PATH")]
    turn_detector: Option<PathBuf>,
    /// Length of a frame of audio, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    frame: u64,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Silence after each utterance.
const SILENCE_MS: u64 = 2_000;
/// Silence after which the service ends a turn; latencies do not include it.
const ENDPOINT_MS: u64 = 700;

struct Utterance {
    pcm: Vec<u8>,
    /// End of its sound, ms.
    ends_ms: u64,
    text: String,
}

/// Results of one session.
#[derive(Default)]
struct SessionResult {
    latencies_ms: Vec<f64>,
    /// From each final to its formatted text.
    formatted_ms: Vec<f64>,
    errors: WordErrors,
    formatted_errors: WordErrors,
    words: usize,
    missed: usize,
    /// Turns that ended within an utterance.
    cuts: usize,
    /// Delay of its most delayed frame behind the schedule, ms.
    late_ms: f64,
    failed: bool,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { folder, levels, model, language, utterances: count, lm, .. } = arguments;
    let Arguments { chats, models, turn_detector, frame: frame_ms, .. } = arguments;
    let utterances = Arc::new(read_utterances(&folder)?);
    let most = levels.iter().max().copied().unwrap_or(1);
    let setup = match &turn_detector {
        Some(path) => Setup::new().with("turn_detector", path.display()).with("turn_finished_silence_ms", 250),
        None => Setup::new().with("turn_detector", "off"),
    };
    let service = setup
        .on(&models.unwrap_or_else(auricle_tests::models))
        // An account alone gets eight ninths.
        .with("max_live_sessions", most + most / 8 + 2)
        .with("free_credit_cents", 1_000_000)
        .with("live_language_model", lm == Switch::On)
        .start();
    let account = service.account();
    let clients = Clients { account, model, language, utterances, count, frame_ms };
    // A session that is not measured loads the model.
    clients.session(0..1, &Barrier::new(1));
    let search = if lm == Switch::On { "with the language model" } else { "greedy" };
    println!("{}, {search}, {count} utterances a session, frames of {frame_ms} ms\n", clients.model);
    println!(
        "| Sessions | Final after end of turn (700 ms of silence left out), ms: p50 | p95 | p99 | Formatted after its final, ms: p50 | p95 | Read again, of | Missed, of | Cuts | WER %: finals, formatted | CPU, cores | Memory, MB | Latest frame sent, ms late | Failed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let questions = Questions::start(&clients.account, chats);
    for level in levels {
        measure(&service, &clients, level);
    }
    if let Some(questions) = questions {
        let (answers, tokens, seconds) = questions.stop();
        println!("\n{chats} chat requests at all times: {answers} answers, {:.1} tokens/s", tokens as f64 / seconds);
    }
    Ok(())
}

/// Clients that ask a language model, each again as soon as it is answered.
struct Questions {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<(usize, u64)>>,
    began: Instant,
}

impl Questions {
    /// None for no client. One question is answered first: it loads the model.
    fn start(account: &Account, clients: usize) -> Option<Self> {
        (clients > 0).then(|| {
            ask(account, 0, 1);
            let stop = Arc::new(AtomicBool::new(false));
            let client = |number: usize| {
                let (account, stop) = (account.clone(), stop.clone());
                thread::spawn(move || {
                    let (mut answers, mut tokens) = (0, 0);
                    while !stop.load(Relaxed) {
                        tokens += ask(&account, number * 1_000 + answers, 256);
                        answers += 1;
                    }
                    (answers, tokens)
                })
            };
            Self { clients: (0..clients).map(client).collect(), stop, began: Instant::now() }
        })
    }

    /// Answers, their tokens, and the seconds that they took.
    fn stop(self) -> (usize, u64, f64) {
        self.stop.store(true, Relaxed);
        let counts = self.clients.into_iter().map(|client| client.join().unwrap_or_default());
        let (answers, tokens) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (answers, tokens, self.began.elapsed().as_secs_f64())
    }
}

/// The tokens of an answer to a prompt that no other question begins with.
fn ask(account: &Account, number: usize, tokens: usize) -> u64 {
    let items: Vec<String> =
        (0..100).map(|at| format!("item {} costs {}", number + at, (number * 7 + at * 13) % 97)).collect();
    let content = format!("List {number}: {}. Describe each item in a long sentence.", items.join(", "));
    let body = json!({ "messages": [{ "role": "user", "content": content }], "max_tokens": tokens });
    account.post("/v2/llm/chat-completions", &body).ok()["usage"]["completion_tokens"].as_u64().unwrap_or_default()
}

/// Clients that stream utterances at the pace of speech.
#[derive(Clone)]
struct Clients {
    account: Account,
    model: String,
    language: String,
    utterances: Arc<Vec<Utterance>>,
    /// Utterances a session.
    count: usize,
    frame_ms: u64,
}

fn measure(service: &Service, clients: &Clients, level: usize) {
    let start = Arc::new(Barrier::new(level));
    let (cpu, began) = (cpu_seconds(service.process_id()), Instant::now());
    let passes = |result: &str| service.metric(&format!("auricle_second_passes_total{{result=\"{result}\"}}"));
    let before = ["done", "missed"].map(passes);
    let count = clients.count;
    let sessions: Vec<_> = (0..level)
        .map(|n| {
            let (clients, start) = (clients.clone(), start.clone());
            thread::spawn(move || clients.session(n * count..(n + 1) * count, &start))
        })
        .collect();
    let results: Vec<SessionResult> = sessions.into_iter().map(|session| session.join().unwrap_or_default()).collect();
    let cpu = (cpu_seconds(service.process_id()) - cpu) / began.elapsed().as_secs_f64();
    let quantiles = |of: fn(&SessionResult) -> &Vec<f64>| {
        let mut all: Vec<f64> = results.iter().flat_map(of).copied().collect();
        all.sort_by(f64::total_cmp);
        move |share: f64| {
            let at = ((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1));
            all.get(at).map_or("-".into(), |ms| format!("{ms:.0}"))
        }
    };
    let (shown, formatted) = (quantiles(|result| &result.latencies_ms), quantiles(|result| &result.formatted_ms));
    let (mut errors, mut formatted_errors) = (WordErrors::default(), WordErrors::default());
    for result in &results {
        errors.add(&result.errors);
        formatted_errors.add(&result.formatted_errors);
    }
    let words: usize = results.iter().map(|result| result.words).sum();
    println!(
        "| {level} | {} | {} | {} | {} | {} | {}, {} | {}, {} | {} | {:.1}, {:.1} | {cpu:.2} | {:.0} | {:.0} | {} |",
        shown(0.5),
        shown(0.95),
        shown(0.99),
        formatted(0.5),
        formatted(0.95),
        passes("done") - before[0],
        passes("done") + passes("missed") - before[0] - before[1],
        results.iter().map(|result| result.missed).sum::<usize>(),
        level * count,
        results.iter().map(|result| result.cuts).sum::<usize>(),
        errors.percent_of(words),
        formatted_errors.percent_of(words),
        resident_mb(service.process_id()),
        results.iter().map(|result| result.late_ms).fold(0.0, f64::max),
        results.iter().filter(|result| result.failed).count(),
    );
}

impl Clients {
    /// One session, from the token to the close.
    fn session(&self, indices: std::ops::Range<usize>, start: &Barrier) -> SessionResult {
        let token = self
            .account
            .post(
                "/v2/realtime/token",
                &json!({ "model": self.model, "language_code": self.language, "format_numbers": false }),
            )
            .ok();
        let address = format!("{}?token={}", text(&token["websocket_url"]), text(&token["token"]));
        let host = address.split('/').nth(2).unwrap_or_default().to_owned();
        let stream = TcpStream::connect(&host).expect("the service listens");
        let _ = stream.set_nodelay(true);
        let (socket, _) = tungstenite::client(&address, stream).expect("a WebSocket");
        let writing = socket.get_ref().try_clone().expect("a second handle");
        let mut out = WebSocket::from_raw_socket(writing, Role::Client, None);
        let reader = thread::spawn(move || receive(socket));
        // Sessions do not start in the same millisecond.
        start.wait();
        thread::sleep(Duration::from_millis(37 * indices.start as u64 % 1_000));

        let mut result = SessionResult::default();
        let began = Instant::now();
        let mut sent_ms = 0;
        // Begin and end of the sound of each utterance, ms.
        let mut spans: Vec<(u64, u64)> = Vec::new();
        let mut expected = Vec::new();
        for index in indices {
            let utterance = &self.utterances[index % self.utterances.len()];
            let mut pcm = utterance.pcm.clone();
            pcm.resize(pcm.len() + (SILENCE_MS * u64::from(SAMPLE_RATE) / 1000 * 2) as usize, 0);
            spans.push((sent_ms, sent_ms + utterance.ends_ms));
            expected.extend(normalize(&utterance.text));
            for frame in pcm.chunks((self.frame_ms * u64::from(SAMPLE_RATE) / 1000 * 2) as usize) {
                sent_ms += self.frame_ms.min(frame.len() as u64 / 32);
                let due = began + Duration::from_millis(sent_ms);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                result.late_ms = result.late_ms.max(Instant::now().saturating_duration_since(due).as_secs_f64() * 1e3);
                if out.send(Message::binary(frame.to_vec())).is_err() {
                    result.failed = true;
                    break;
                }
            }
        }
        result.failed |= out.send(Message::text(r#"{"type":"stop"}"#)).is_err();
        let SessionOutput { finals, formatted, formatted_ms, done } = reader.join().unwrap_or_default();
        result.formatted_ms = formatted_ms;
        result.failed |= !done;
        let recognized: Vec<String> = finals.iter().flat_map(|transcript| normalize(&transcript.text)).collect();
        result.words = expected.len();
        result.errors = WordErrors::between(&expected, &recognized);
        result.formatted_errors = WordErrors::between(&expected, &normalize(&formatted));
        for (begin, end) in spans {
            let ended = began + Duration::from_millis(end);
            // Word times are accurate to a few tenths of a second.
            let belongs = |transcript: &&Final| transcript.last_ms > begin && transcript.last_ms <= end + 500;
            let (cut, after): (Vec<&Final>, Vec<&Final>) =
                finals.iter().filter(belongs).partition(|transcript| transcript.at <= ended);
            result.cuts += cut.len();
            match after.first() {
                Some(transcript) => {
                    let after = transcript.at.duration_since(ended).as_secs_f64() * 1e3 - ENDPOINT_MS as f64;
                    result.latencies_ms.push(after);
                }
                None => result.missed += 1,
            }
        }
        result
    }
}

/// The final transcript of a turn.
struct Final {
    /// Time of its arrival.
    at: Instant,
    /// End of its last word, ms.
    last_ms: u64,
    text: String,
}

#[derive(Default)]
struct SessionOutput {
    finals: Vec<Final>,
    /// The text of all formatted turns.
    formatted: String,
    formatted_ms: Vec<f64>,
    done: bool,
}

fn receive(mut socket: WebSocket<TcpStream>) -> SessionOutput {
    let mut output = SessionOutput::default();
    loop {
        match socket.read() {
            Ok(Message::Text(frame)) => {
                let frame: Value = serde_json::from_str(&frame).unwrap_or_default();
                match frame["type"].as_str() {
                    Some("transcript") if frame["end_of_turn"] == true && frame["formatted"] == false => {
                        let last = frame["words"].as_array().and_then(|words| words.last());
                        let last_ms = last.and_then(|word| word["end"].as_u64()).unwrap_or_default();
                        let text = text(&frame["text"]).to_owned();
                        output.finals.push(Final { at: Instant::now(), last_ms, text });
                    }
                    Some("transcript") if frame["end_of_turn"] == true => {
                        let since = output.finals.last().map(|raw| raw.at.elapsed().as_secs_f64() * 1e3);
                        output.formatted_ms.extend(since);
                        output.formatted = format!("{} {}", output.formatted, text(&frame["text"]));
                    }
                    Some("done") => output.done = true,
                    Some("error") => eprintln!("{frame}"),
                    _ => {}
                }
            }
            Ok(_) => {}
            Err(SocketError::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return output,
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn read_utterances(folder: &Path) -> Result<Vec<Utterance>, Box<dyn Error>> {
    references(folder)?
        .into_iter()
        .map(|reference| {
            let samples = AudioStream::open(&reference.path)?.read_to_end()?;
            let pcm = samples.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect();
            Ok(Utterance { pcm, ends_ms: end_ms(&samples), text: reference.text })
        })
        .collect()
}

/// End of the last 10 ms that are within 35 dB of the loudest, in milliseconds.
fn end_ms(samples: &[f32]) -> u64 {
    let energy: Vec<f32> = samples.chunks(160).map(|frame| frame.iter().map(|s| s * s).sum()).collect();
    let loudest = energy.iter().copied().fold(0.0, f32::max);
    let last = energy.iter().rposition(|energy| *energy > loudest * 3.2e-4).unwrap_or(0);
    (last as u64 + 1) * 10
}
