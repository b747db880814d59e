//! `auricle listen`: live transcription of a microphone, of a pipe, or of a file in real time.

use std::io::{self, IsTerminal as _, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use auricle_engine::audio::{AudioStream, OpenOptions, SAMPLE_RATE};
use auricle_engine::blocking::{Engine, Events, MAX_SEPARATE_CHANNELS};
use auricle_engine::{EndpointingRules, Error, ListenOptions, LiveEvent, LiveInput, SecondPass};
use clap::{ArgAction, Args, ValueEnum};
use console::{Style, Term, measure_text_width, truncate_str};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::progress::{Bar, clock};
use super::sound_card::Recorder;
use super::{EngineArgs, Failure, Result, SearchArgs, hint, interrupt, loading, output};
use crate::live::frames::TranscriptFrame;

/// Audio per push, in ms.
const BLOCK_MS: u64 = 100;
/// Audio that may wait for the engine, in ms.
const MAX_AHEAD_MS: u64 = 10_000;
/// The same where several channels are fed.
const MAX_APART_MS: u64 = 500;
/// Events that may wait to be shown.
const EVENTS_AHEAD: usize = 16;

#[derive(Args)]
#[command(after_long_help = "\
A terminal shows the current turn in grey, finished turns in the terminal's own colour, and in the corner the time and the delay of the text.
Otherwise each finished turn is a line of text, or with --format json every event is a line: text, end_of_turn, formatted,
words (text, start and end in ms, confidence), with --channels channel. Ctrl-C ends the session after the remaining text; a second Ctrl-C ends it
at once.

Examples:
  auricle listen                                                    the microphone, on Linux by PulseAudio or PipeWire
  auricle listen talk.mp3                                           as if it were spoken now
  arecord -q -f S16_LE -r 16000 -c 1 -t raw | auricle listen -      a microphone by ALSA
  ffmpeg -v error -i rtsp://camera/1 -f s16le -ar 16000 -ac 1 - | auricle listen - --format json
  auricle listen talk.mp3 --fast > talk.txt                         as fast as possible
  auricle listen call.wav --channels                                a call with one speaker a channel, as it would be live")]
pub struct ListenArgs {
    /// Audio or video file, or - for raw PCM on standard input [default: the microphone]
    ///
    /// Raw PCM is 16 bits, little-endian, one channel. Without a terminal on standard input, the default is -.
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
    /// Write spoken numbers in digits: "twelve thousand dollars" as "$12,000"
    ///
    /// This is for English, Spanish, German, French, Portuguese, Italian and Dutch.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    format_numbers: bool,
    /// Model that reads finished turns again: auto, off, or a checkpoint folder
    ///
    /// It also writes languages that the live model lacks.
    #[arg(long, value_name = "MODEL", default_value = "auto")]
    second_pass: SecondPass,
    /// Look-ahead of the model in ms [default: the catalog's for the model]
    #[arg(long, value_name = "MS")]
    look_ahead: Option<u32>,
    /// Silence that ends a turn
    #[arg(long, value_name = "MS", default_value_t = EndpointingRules::default().silence_ms, value_parser = clap::value_parser!(u32).range(SILENCE_MS))]
    silence: u32,
    /// Silence that ends a turn whose speaker has finished, such as 250 [default: none]
    ///
    /// The turn detector of `auricle models pull turn` finds that. Without this option the other silence ends all turns.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(FINISHED_MS))]
    finished_silence: Option<u32>,
    /// Output format without a terminal
    #[arg(long, value_enum, default_value = "text")]
    format: Lines,
    /// Process a file as fast as possible, not in real time
    #[arg(long)]
    fast: bool,
    /// Transcribe each channel of a file by itself: a turn begins with the channel's number
    #[arg(long)]
    channels: bool,
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
        Some(path) if path != Path::new("-") => Source::File { audio: open(path, args.channels)?, paced: !args.fast },
        _ if args.channels => return Err(Failure::Usage("--channels is for files: name one".into())),
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
    let engine_options = args.engine.options()?;
    if io::stderr().is_terminal() {
        hint::say(&args.engine.models.path()?, &args.model);
    }
    let bar = Bar::new(false);
    let is_loading = bar.loading(&loading::model(&engine_options.models, &args.model));
    let engine = Engine::open(engine_options)?;
    if args.finished_silence.is_some() && !engine.load_turn_detector()? {
        let missing = "--finished-silence needs a turn detector, and there is none: `auricle models pull turn`";
        return Err(Failure::Usage(missing.into()));
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
    let count = if let Source::File { audio, .. } = &source { audio.len() } else { 1 };
    let sessions: Vec<_> = (0..count).map(|_| engine.listen(&options)).collect::<Result<_, Error>>()?;
    let (inputs, events): (Vec<_>, Vec<_>) = sessions.into_iter().unzip();
    drop(is_loading);
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
        let fed = scope.spawn(|| feed(inputs, source, &stop));
        let shown = show(events, view, args.channels, &stop);
        // If a session failed, the input ends as well.
        stop.cancel();
        shutdown.exit_if_signaled();
        fed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(shown)
    })
}

/// The sound that is transcribed.
enum Source {
    File {
        /// One, or one for each channel.
        audio: Vec<AudioStream>,
        /// True if it is taken as if it were spoken now.
        paced: bool,
    },
    /// Raw samples on standard input.
    Pcm,
    Microphone(Recorder),
}

/// The sound of a file, mixed or with its channels apart.
fn open(path: &Path, is_apart: bool) -> Result<Vec<AudioStream>> {
    let mixed = AudioStream::open(path)?;
    let count = if is_apart { mixed.channels() } else { 1 };
    if count > MAX_SEPARATE_CHANNELS {
        let reason = format!("the file has {count} channels; at most {MAX_SEPARATE_CHANNELS} can be transcribed apart");
        return Err(Error::UnsupportedMedia(reason).into());
    }
    let mut audio = vec![mixed];
    if is_apart {
        let of_channel = |channel| AudioStream::open_with(path, &OpenOptions::default().channel(channel));
        audio = (0..count).map(of_channel).collect::<Result<_, Error>>()?;
    }
    Ok(audio.into_iter().map(|audio| audio.with_block(samples(BLOCK_MS))).collect())
}

fn samples(ms: u64) -> usize {
    (ms * u64::from(SAMPLE_RATE) / 1000) as usize
}

/// Feeds sessions until their audio ends or `stop` is canceled, then ends their input. All sources but files have one session.
fn feed(mut inputs: Vec<LiveInput>, source: Source, stop: &CancellationToken) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.map_err(|error| Failure::Service(format!("no timer: {error}")))?.block_on(async {
        let feeding = async {
            match (source, &mut inputs[..]) {
                (Source::File { audio, paced }, inputs) => feed_file(inputs, audio, paced).await,
                (Source::Pcm, [input, ..]) => feed_pcm(input).await,
                (Source::Microphone(recorder), [input, ..]) => feed_microphone(input, recorder).await,
                (_, []) => Ok(()),
            }
        };
        let fed = tokio::select! {
            fed = feeding => fed,
            () = stop.cancelled() => Ok(()),
        };
        // All end, also where one cannot.
        let finished: Vec<_> = inputs.iter_mut().map(LiveInput::finish).collect();
        fed.and(finished.into_iter().collect::<Result<(), Error>>().map_err(Failure::from))
    })
}

async fn feed_file(inputs: &mut [LiveInput], mut audio: Vec<AudioStream>, paced: bool) -> Result<()> {
    let began = tokio::time::Instant::now();
    let mut sent = 0;
    // Channels that are far apart would give their turns out of order.
    let ahead_ms = if inputs.len() > 1 { MAX_APART_MS } else { MAX_AHEAD_MS };
    loop {
        let blocks = audio.iter_mut().map(AudioStream::next_block).collect::<Result<Vec<_>, Error>>()?;
        let Some(longest) = blocks.iter().flatten().map(Vec::len).max() else { break };
        sent += longest as u64;
        if paced {
            // A block is available when its last sample has been spoken.
            tokio::time::sleep_until(began + Duration::from_micros(sent * 1_000_000 / u64::from(SAMPLE_RATE))).await;
        }
        for (block, input) in blocks.iter().zip(inputs.iter_mut()) {
            if let Some(block) = block {
                input.push(block)?;
            }
            input.caught_up(ahead_ms).await;
        }
    }
    for warning in audio.iter().flat_map(AudioStream::warnings) {
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

/// An event of the session of a channel.
#[derive(Serialize)]
struct ChannelFrame<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<usize>,
    #[serde(flatten)]
    frame: TranscriptFrame<'a>,
}

/// Shows the events of sessions, with the number of each if they are `numbered`.
/// Cancels `stop` when an output fails.
fn show(sessions: Vec<Events>, mut view: View, numbered: bool, stop: &CancellationToken) -> Result<()> {
    let shown: Result<()> = thread::scope(|scope| {
        let (give, take) = std::sync::mpsc::sync_channel(EVENTS_AHEAD);
        for (index, mut events) in sessions.into_iter().enumerate() {
            let give = give.clone();
            scope.spawn(move || {
                while let Some(event) = events.next() {
                    if give.send((index + 1, event, events.waiting_ms())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(give);
        let mut events = take.into_iter();
        let shown = events
            .try_for_each(|(channel, event, waiting_ms)| view.show(&event?, numbered.then_some(channel), waiting_ms));
        if shown.is_err() {
            stop.cancel();
        }
        shown
    });
    shown?;
    if let View::Terminal(screen) = &view {
        screen.clear().map_err(unwritten)?;
    }
    Ok(())
}

impl View {
    fn show(&mut self, event: &LiveEvent, channel: Option<usize>, waiting_ms: u64) -> Result<()> {
        let label = channel.map(|channel| format!("{channel}: ")).unwrap_or_default();
        match self {
            Self::Terminal(screen) => screen.show(event, &label, waiting_ms),
            Self::Text => match event {
                LiveEvent::Formatted(caption) => output::print(&format!("{label}{}\n", caption.text)),
                _ => Ok(()),
            },
            Self::Json => output::print(&output::json(&ChannelFrame { channel, frame: TranscriptFrame::from(event) })?),
        }
    }
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

    fn show(&self, event: &LiveEvent, label: &str, waiting_ms: u64) -> Result<()> {
        let corner = format!("{}  {waiting_ms} ms behind", clock(self.began.elapsed().as_millis() as u64));
        let drawn = match event {
            LiveEvent::Partial(caption) => self.draw(&format!("{label}{}", caption.text), &corner),
            // The formatted turn follows at once.
            LiveEvent::Final(_) => Ok(()),
            LiveEvent::Formatted(caption) => {
                let line = format!("{label}{}", caption.text);
                self.clear().and_then(|()| self.term.write_line(&line)).and_then(|()| self.draw("", &corner))
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
