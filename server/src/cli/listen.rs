//! `auricle listen`: live transcription of a microphone, of a pipe, or of a file in real time.

use std::io::{self, IsTerminal as _, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::{Engine, Events};
use auricle_engine::{EndpointingRules, Error, ListenOptions, LiveEvent, LiveInput, SecondPass};
use clap::{ArgAction, Args, ValueEnum};
use console::{Style, Term, measure_text_width, truncate_str};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::progress::clock;
use super::sound_card::Recorder;
use super::{EngineArgs, Failure, Result, SearchArgs, hint, interrupt, output};
use crate::live::frames::TranscriptFrame;

/// Audio per push, in ms.
const BLOCK_MS: u64 = 100;
/// Audio that may wait for the engine, in ms.
const MAX_AHEAD_MS: u64 = 10_000;

#[derive(Args)]
#[command(after_help = "\
A terminal shows the current turn in grey, finished turns in the terminal's own colour, and in the corner the time and the delay of the text.
Otherwise each finished turn is a line of text, or with --format json every event is a line: text, end_of_turn, formatted,
words (text, start and end in ms, confidence). Ctrl-C ends the session after the remaining text; a second Ctrl-C ends it
at once.

Examples:
  auricle listen                                                    the microphone, on Linux by PulseAudio or PipeWire
  auricle listen talk.mp3                                           as if it were spoken now
  arecord -q -f S16_LE -r 16000 -c 1 -t raw | auricle listen -      a microphone by ALSA
  ffmpeg -v error -i rtsp://camera/1 -f s16le -ar 16000 -ac 1 - | auricle listen - --format json
  auricle listen talk.mp3 --fast > talk.txt                         as fast as possible")]
pub struct ListenArgs {
    /// An audio or video file; `-` reads raw PCM from standard input: 16 bits, little-endian, one channel [default: the default
    /// microphone if standard input is a terminal, else -]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Sample rate of raw PCM and of the microphone
    #[arg(long, value_name = "HERTZ", default_value_t = SAMPLE_RATE)]
    rate: u32,
    /// The live model, as `auricle models list` names it
    #[arg(long, default_value = "svc-realtime-pro")]
    model: String,
    /// The spoken language, such as en; if left out, the model detects it where it can
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// A name or term to expect; may be repeated
    #[arg(long = "keyterm", value_name = "TERM")]
    keyterms: Vec<String>,
    /// Expect medical terms, in English, Spanish, German and French
    #[arg(long)]
    medical: bool,
    /// Write spoken numbers in digits, in English, Spanish, German, French, Portuguese, Italian and Dutch: "twelve thousand dollars" as
    /// "$12,000"
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    format_numbers: bool,
    /// The offline model that reads finished turns again, and writes languages that the live model lacks: auto, off, or a checkpoint
    /// folder
    #[arg(long, value_name = "MODEL", default_value = "auto")]
    second_pass: SecondPass,
    /// Look-ahead of the model in ms [default: the catalog's for the model]
    #[arg(long, value_name = "MS")]
    look_ahead: Option<u32>,
    /// Silence that ends a turn
    #[arg(long, value_name = "MS", default_value_t = EndpointingRules::default().silence_ms, value_parser = clap::value_parser!(u32).range(SILENCE_MS))]
    silence: u32,
    /// Silence that ends a turn whose speaker has finished, by the turn detector of `auricle models pull turn`, 250 say [default: none: the
    /// other silence alone]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(FINISHED_MS))]
    finished_silence: Option<u32>,
    /// Output format without a terminal
    #[arg(long, value_enum, default_value = "text")]
    format: Lines,
    /// Process a file as fast as possible, not in real time
    #[arg(long)]
    fast: bool,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Longest wait for the second pass of a turn with --fast, ms.
const FAST_FORMATTED_WITHIN_MS: u32 = 60_000;
const SILENCE_MS: RangeInclusive<i64> = 100..=10_000;
const FINISHED_MS: RangeInclusive<i64> = 200..=10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lines {
    /// Finished turns
    Text,
    /// Every event
    Json,
}

pub fn run(args: &ListenArgs) -> Result<()> {
    let is_terminal = io::stdin().is_terminal();
    let source = match &args.file {
        Some(path) if path != Path::new("-") => {
            let audio = AudioStream::open(path)?.with_block(samples(BLOCK_MS));
            Source::File { audio: Box::new(audio), paced: !args.fast }
        }
        _ if args.fast => {
            return Err(Failure::Usage("--fast is for files; live sound is taken as fast as it comes".into()));
        }
        Some(_) if is_terminal => {
            return Err(Failure::Usage("standard input is a terminal; name a file, or pipe raw PCM into it".into()));
        }
        None if is_terminal => Source::Microphone(Recorder::open(args.rate).map_err(|failure| {
            failure.advise("name a file, or pipe raw PCM into it (auricle listen --help has examples)")
        })?),
        _ => Source::Pcm,
    };
    let engine = Engine::open(args.engine.options()?)?;
    if args.finished_silence.is_some() && !engine.load_turn_detector()? {
        let missing = "--finished-silence needs a turn detector, and there is none: `auricle models pull turn`";
        return Err(Failure::Usage(missing.into()));
    }
    if io::stderr().is_terminal() {
        hint::say(&args.engine.models.path()?, &args.model);
    }
    for warning in engine.warnings() {
        output::say(&format_args!("warning: {warning}"));
    }
    let mut turns = EndpointingRules::default().silence_ms(args.silence);
    turns.finished_silence_ms = args.finished_silence;
    let mut options = ListenOptions::default()
        .model(&args.model)
        .sample_rate(if matches!(source, Source::File { .. }) { SAMPLE_RATE } else { args.rate })
        .keyterms(args.keyterms.clone())
        .medical_mode(args.medical)
        .format_numbers(args.format_numbers)
        .turns(turns)
        .language_model(args.search.language_model())
        .second_pass(args.second_pass.clone())
        .fusion(args.search.weights());
    options.language.clone_from(&args.language);
    options.look_ahead_ms = args.look_ahead;
    if args.fast {
        // The text is not read as it is spoken, so that each turn has the time that it takes.
        options = options.formatted_within_ms(FAST_FORMATTED_WITHIN_MS);
    }
    let (input, events) = engine.listen(&options)?;
    // After the first Ctrl-C, the remaining text is still shown.
    let stop = CancellationToken::new();
    let term = Term::stdout();
    let left = term.clone();
    let end = stop.clone();
    let shutdown = interrupt::Shutdown::on_signal(
        move || end.cancel(),
        move || {
            let _ = if left.is_term() { left.show_cursor() } else { Ok(()) };
        },
    );
    let view = match args.format {
        Lines::Text if term.is_term() => View::Terminal(Screen::new(term)),
        Lines::Text => View::Text,
        Lines::Json => View::Json,
    };
    thread::scope(|scope| {
        let fed = scope.spawn(|| feed(input, source, &stop));
        let shown = show(events, view);
        // If the output failed, the input ends as well.
        stop.cancel();
        shutdown.exit_if_signaled();
        fed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(shown)
    })
}

/// The sound that is transcribed.
enum Source {
    File {
        audio: Box<AudioStream>,
        /// True if it is taken as if it were spoken now.
        paced: bool,
    },
    /// Raw samples on standard input.
    Pcm,
    Microphone(Recorder),
}

fn samples(ms: u64) -> usize {
    (ms * u64::from(SAMPLE_RATE) / 1000) as usize
}

/// Feeds a session until its audio ends or `stop` is canceled, then ends its input.
fn feed(mut input: LiveInput, source: Source, stop: &CancellationToken) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.map_err(|error| Failure::Service(format!("no timer: {error}")))?.block_on(async {
        let feeding = async {
            match source {
                Source::File { audio, paced } => feed_file(&mut input, *audio, paced).await,
                Source::Pcm => feed_pcm(&mut input).await,
                Source::Microphone(recorder) => feed_microphone(&mut input, recorder).await,
            }
        };
        let fed = tokio::select! {
            fed = feeding => fed,
            () = stop.cancelled() => Ok(()),
        };
        let finished = input.finish();
        fed.and(finished.map_err(Failure::from))
    })
}

async fn feed_file(input: &mut LiveInput, mut audio: AudioStream, paced: bool) -> Result<()> {
    let began = tokio::time::Instant::now();
    let mut sent = 0;
    while let Some(block) = audio.next_block()? {
        sent += block.len() as u64;
        if paced {
            // A block is available when its last sample has been spoken.
            tokio::time::sleep_until(began + Duration::from_micros(sent * 1_000_000 / u64::from(SAMPLE_RATE))).await;
        }
        input.push(&block)?;
        input.caught_up(MAX_AHEAD_MS).await;
    }
    for warning in audio.warnings() {
        output::say(&format_args!("warning: {warning}"));
    }
    Ok(())
}

async fn feed_microphone(input: &mut LiveInput, recorder: Recorder) -> Result<()> {
    let (give, mut pieces) = mpsc::channel((MAX_AHEAD_MS / BLOCK_MS) as usize);
    let recording = recorder.record(samples(BLOCK_MS), give);
    while let Some(piece) = pieces.recv().await {
        let bytes: Vec<u8> = piece.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        input.push_pcm16(&bytes)?;
        input.caught_up(MAX_AHEAD_MS).await;
    }
    recording.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn feed_pcm(input: &mut LiveInput) -> Result<()> {
    // Reading a pipe blocks, so it has a thread of its own, which ends with the process.
    let (give, mut pieces) = mpsc::channel(1);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut bytes = [0; 8192];
        loop {
            let piece = match stdin.read(&mut bytes) {
                Ok(0) => return,
                Ok(read) => Ok(bytes[..read].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(Error::Read { path: "-".into(), reason: error.to_string() }),
            };
            if give.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    while let Some(piece) = pieces.recv().await {
        input.push_pcm16(&piece?)?;
        input.caught_up(MAX_AHEAD_MS).await;
    }
    Ok(())
}

enum View {
    Terminal(Screen),
    Text,
    Json,
}

fn show(mut events: Events, mut view: View) -> Result<()> {
    while let Some(event) = events.next() {
        let event = event?;
        match &mut view {
            View::Terminal(screen) => screen.show(&event, &events)?,
            View::Text => {
                if let LiveEvent::Formatted(caption) = &event {
                    output::print(&format!("{}\n", caption.text))?;
                }
            }
            View::Json => {
                output::print(&format!("{}\n", TranscriptFrame::from(&event).to_json()))?;
            }
        }
    }
    if let View::Terminal(screen) = &view {
        screen.clear().map_err(unwritten)?;
    }
    Ok(())
}

/// Shows finished turns above, and the current turn in the last line.
struct Screen {
    term: Term,
    began: Instant,
}

impl Screen {
    fn new(term: Term) -> Self {
        let _ = term.hide_cursor();
        Self { term, began: Instant::now() }
    }

    fn show(&self, event: &LiveEvent, events: &Events) -> Result<()> {
        let corner = format!("{}  {} ms behind", clock(self.began.elapsed().as_millis() as u64), events.waiting_ms());
        let drawn = match event {
            LiveEvent::Partial(caption) => self.draw(&caption.text, &corner),
            // The formatted turn follows at once.
            LiveEvent::Final(_) => Ok(()),
            LiveEvent::Formatted(caption) => {
                self.clear().and_then(|()| self.term.write_line(&caption.text)).and_then(|()| self.draw("", &corner))
            }
        };
        drawn.map_err(unwritten)
    }

    /// One line: the end of the text in grey, and the corner.
    fn draw(&self, text: &str, corner: &str) -> io::Result<()> {
        self.clear()?;
        let width = usize::from(self.term.size().1);
        let room = width.saturating_sub(measure_text_width(corner) + 3);
        let words: Vec<&str> = text.split(' ').collect();
        // The line shows the end of the text.
        let first = (0..words.len()).find(|first| measure_text_width(&words[*first..].join(" ")) <= room);
        let tail = truncate_str(&words[first.unwrap_or(words.len())..].join(" "), room, "").into_owned();
        let gap = " ".repeat(width.saturating_sub(measure_text_width(&tail) + measure_text_width(corner) + 1));
        let grey = Style::new().color256(245);
        self.term.write_str(&format!("{}{gap}{}", grey.apply_to(tail), Style::new().dim().apply_to(corner)))
    }

    fn clear(&self) -> io::Result<()> {
        self.term.clear_line()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.term.show_cursor();
    }
}

fn unwritten(source: io::Error) -> Failure {
    Failure::Write { what: "to the terminal".into(), source }
}
