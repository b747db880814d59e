//! `auricle say`: text to speech, through the loudspeaker, into a file or a pipe.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use auricle_engine::audio::ffmpeg_program;
use auricle_engine::blocking::{Engine, Speech};
use auricle_engine::{Error, SPEECH_RATE, SPEEDS, SpeakOptions, SpeechFrame, SpeechInput};
use clap::Args;

use super::out_file::OutFile;
use super::progress::Bar;
use super::sound_card::Player;
use super::{EngineArgs, Failure, Result, interrupt, loading};
use crate::sound_format::{SoundFormat, WAV_HEADER_BYTES, wav_header};

/// Bytes of standard input that are pushed at a time.
const PIECE: usize = 4096;

#[derive(Args)]
#[command(after_long_help = "\
Speech is mono, 16 bits, 24 kHz. A file has the format of its ending: wav, flac, mp3, opus, aac, or pcm for bare samples; all but wav and pcm need ffmpeg.
`-o -` writes the bare samples to standard output as they are made; without -o the
default loudspeaker plays them, on Linux by PulseAudio or PipeWire. Text of any length takes no more memory than a sentence. Markup, SSML among it, is left out: what stands between tags is read.

Examples:
  auricle say 'Good morning.'
  auricle say 'Good morning.' -o morning.wav
  auricle say - -o book.mp3 < book.txt
  auricle say 'It is ten past nine.' --voice ljspeech --speed 1.2 -o time.wav
  auricle say --show-text 'On Mar. 5 it cost $5.20.'    the words that are said for it
  auricle say 'Good morning.' -o - | aplay -q -f S16_LE -r 24000 -c 1
  auricle voices                                       the voices there are")]
pub struct SayArgs {
    /// The text, or - for standard input
    #[arg(required = true)]
    text: Vec<String>,
    /// A voice of `auricle voices`, or a language [default: the first that is listed]
    #[arg(long, value_name = "VOICE")]
    voice: Option<String>,
    /// The language of the text: without --voice the first voice that speaks it says it
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// From 0.5, slow, to 2, fast
    #[arg(long, value_name = "SPEED", default_value_t = 1.0, value_parser = speed)]
    speed: f32,
    /// File, in the format of its ending, or - for bare samples [default: the loudspeaker]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the text that is said, a clause a line; no voice is loaded
    #[arg(long, conflicts_with = "out")]
    show_text: bool,
    /// Show no progress bar
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

impl SayArgs {
    fn speak_options(&self) -> SpeakOptions {
        let mut options = SpeakOptions::default().speed(self.speed);
        options.voice.clone_from(&self.voice);
        options.language.clone_from(&self.language);
        options
    }
}

/// Advice where no sound can be played.
const NO_LOUDSPEAKER: &str = "use -o FILE.wav, or -o - and a player (auricle say --help has an example)";

/// The failure of a text without words.
const NOTHING: &str = "there is nothing to say: the text has no word that this voice can read";

/// The way that speech leaves.
enum Output<'a> {
    Loudspeaker(Player),
    /// Standard output.
    Pipe,
    File(&'a Path, SoundFormat),
    /// Through the encoder at the second path, into this file.
    Encoded(&'a Path, SoundFormat, PathBuf),
}

/// The way into a file, whose ending names its format.
///
/// # Errors
/// For an unknown ending, and for a format whose encoder is not installed: before anything is said.
fn file(path: &Path) -> Result<Output<'_>> {
    let wrong = || {
        let names = SoundFormat::ALL.map(|(name, _)| name).join(", ");
        Failure::Usage(format!("-o {}: the ending of the file names its format, one of {names}", path.display()))
    };
    let format = match path.extension() {
        None => SoundFormat::Wav,
        Some(ending) => {
            SoundFormat::ALL.iter().find(|(name, _)| ending.eq_ignore_ascii_case(name)).ok_or_else(wrong)?.1
        }
    };
    if encoder_arguments(format, path).is_none() {
        return Ok(Output::File(path, format));
    }
    let missing = || {
        Failure::Service(format!(
            "{} needs ffmpeg, which was not found: install it (Debian: apt-get install ffmpeg), name it in AURICLE_FFMPEG, or write a .wav",
            path.display()
        ))
    };
    Ok(Output::Encoded(path, format, ffmpeg_program().ok_or_else(missing)?))
}

/// The arguments of the encoder that writes `path`; none for a format that needs no encoder.
fn encoder_arguments(format: SoundFormat, path: &Path) -> Option<Vec<OsString>> {
    // A name that begins with a dash, or has a colon, is no option and no protocol so.
    let mut output = OsString::from("file:");
    output.push(path);
    format.encoder_arguments(&output)
}

fn speed(text: &str) -> Result<f32, String> {
    let speed = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    match SPEEDS.contains(&speed) {
        true => Ok(speed),
        false => Err(format!("it is {} to {}", SPEEDS.start(), SPEEDS.end())),
    }
}

pub fn run(args: &SayArgs) -> Result<()> {
    if args.show_text {
        return show_text(args);
    }
    let output = match &args.out {
        None => Output::Loudspeaker(Player::open(SPEECH_RATE).map_err(|failure| failure.advise(NO_LOUDSPEAKER))?),
        Some(path) if path == Path::new("-") => Output::Pipe,
        Some(path) => file(path)?,
    };
    let bar = Bar::new(args.quiet);
    interrupt::on_signal(bar.clone());
    let options = args.speak_options();
    let engine_options = args.engine.options()?;
    let models = engine_options.models.clone();
    let engine = Engine::open(engine_options)?;
    let is_loading = bar.loading(&loading::voice(&engine, &models, args.voice.as_deref()));
    let (input, speech) = engine.speak(&options).map_err(no_voice)?;
    drop(is_loading);
    let file_bar = bar.start(match &output {
        Output::File(path, _) | Output::Encoded(path, ..) => path.to_str().unwrap_or("speech"),
        Output::Pipe | Output::Loudspeaker(_) => "speech",
    });
    let text = args.text.join(" ");
    let feeding = thread::spawn(move || feed(input, &text));
    file_bar.begin(None);
    let progress = |samples: u64| file_bar.show(samples as f64 / f64::from(SPEECH_RATE));
    let wrote = match output {
        Output::Loudspeaker(player) => play(speech, player, progress),
        Output::Pipe => write_samples(speech, &mut io::stdout().lock(), progress)
            .map_err(|failure| failure.of("to standard output".into())),
        Output::File(path, format) => write_file(speech, path, |speech, out| match format {
            SoundFormat::Wav => write_wav(speech, out.file(), progress),
            _ => write_samples(speech, out.file(), progress),
        }),
        Output::Encoded(path, format, program) => write_file(speech, path, |speech, out| {
            let mut encoder = Command::new(program);
            encoder.args(encoder_arguments(format, out.path()).unwrap_or_default());
            encode(speech, encoder.stdin(Stdio::piped()).stderr(Stdio::piped()), progress)
        }),
    };
    bar.clear();
    // After a failure the feed may wait for standard input; it ends with the process.
    let wrote = wrote?;
    feeding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    match wrote {
        0 => Err(Failure::Service(NOTHING.into())),
        _ => Ok(()),
    }
}

/// The failure for a voice that is not there.
fn no_voice(error: Error) -> Failure {
    match error {
        // No wrong usage: what voices there are is a matter of the models folder.
        Error::Language(_) => Failure::Service(error.to_string()),
        error => error.into(),
    }
}

/// Prints the text that is said.
fn show_text(args: &SayArgs) -> Result<()> {
    let mut text = args.text.join(" ");
    if text == "-" {
        text.clear();
        let unread = |error: io::Error| Failure::Engine(Error::Read { path: "-".into(), reason: error.to_string() });
        io::stdin().lock().read_to_string(&mut text).map_err(unread)?;
    }
    let options = args.speak_options();
    let clauses = Engine::open(args.engine.options()?)?.spoken_text(&text, &options).map_err(no_voice)?;
    if clauses.is_empty() {
        return Err(Failure::Service(NOTHING.into()));
    }
    let mut out = io::stdout().lock();
    let written = clauses.iter().try_for_each(|clause| writeln!(out, "{clause}")).and_then(|()| out.flush());
    written.map_err(|source| Failure::Write { what: "to standard output".into(), source })
}

/// Pushes the text, no faster than it is said.
fn feed(mut input: SpeechInput, text: &str) -> Result<()> {
    if text != "-" {
        input.push(text)?;
        input.finish();
        return Ok(());
    }
    let unread = |reason: String| Failure::Engine(Error::Read { path: "-".into(), reason });
    let (mut stdin, mut bytes, mut known) = (io::stdin().lock(), vec![0; PIECE], Vec::new());
    loop {
        let read = match stdin.read(&mut bytes) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unread(error.to_string())),
        };
        known.extend_from_slice(&bytes[..read]);
        // A piece may end within a character.
        let whole = match std::str::from_utf8(&known) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
            Err(_) => return Err(unread("it is not UTF-8 text".into())),
        };
        input.push(std::str::from_utf8(&known[..whole]).unwrap_or_default())?;
        known.drain(..whole);
        if read == 0 {
            input.finish();
            return Ok(());
        }
        input.blocking_caught_up();
    }
}

/// A failure while samples are made or written.
enum Unwritten {
    Engine(Error),
    Io(io::Error),
}

impl Unwritten {
    fn of(self, what: String) -> Failure {
        match self {
            Self::Engine(error) => Failure::Engine(error),
            Self::Io(source) => Failure::Write { what, source },
        }
    }
}

/// Plays samples as they come, and waits until all are heard; gives their number.
fn play(speech: Speech, mut player: Player, progress: impl Fn(u64)) -> Result<u64> {
    let mut played = 0;
    for frame in speech {
        let frame = frame?;
        player.play(&frame.samples)?;
        played += frame.samples.len() as u64;
        progress(played);
    }
    player.finish()?;
    Ok(played)
}

/// Writes samples of 16 bits as they come; gives their number.
fn write_samples(
    speech: impl Iterator<Item = Result<SpeechFrame, Error>>,
    out: &mut impl Write,
    progress: impl Fn(u64),
) -> Result<u64, Unwritten> {
    let mut written = 0;
    for frame in speech {
        let frame = frame.map_err(Unwritten::Engine)?;
        let bytes: Vec<u8> = frame.samples.iter().flat_map(|sample| pcm16(*sample).to_le_bytes()).collect();
        out.write_all(&bytes).and_then(|()| out.flush()).map_err(Unwritten::Io)?;
        written += frame.samples.len() as u64;
        progress(written);
    }
    Ok(written)
}

/// Writes a file as the samples come; it has its name once all are there. Without samples there is no file.
fn write_file(
    speech: Speech,
    path: &Path,
    write: impl FnOnce(Peekable<Speech>, &mut OutFile) -> Result<u64, Unwritten>,
) -> Result<u64> {
    let mut speech = speech.peekable();
    match speech.peek() {
        None => Ok(0),
        // Nor is there one if the voice fails at once.
        Some(Err(error)) => Err(Failure::Engine(error.clone())),
        Some(Ok(_)) => {
            let whole = || {
                let mut out = OutFile::create(path).map_err(Unwritten::Io)?;
                let written = write(speech, &mut out)?;
                out.keep().map_err(Unwritten::Io)?;
                Ok(written)
            };
            whole().map_err(|failure: Unwritten| failure.of(format!("to {}", path.display())))
        }
    }
}

/// Writes a WAV file. Until the end its header has the largest sizes.
fn write_wav(
    speech: impl Iterator<Item = Result<SpeechFrame, Error>>,
    file: &mut File,
    progress: impl Fn(u64),
) -> Result<u64, Unwritten> {
    file.write_all(&wav_header(SPEECH_RATE, None)).map_err(Unwritten::Io)?;
    let written = write_samples(speech, file, progress)?;
    let data_bytes = u32::try_from(2 * written).unwrap_or(u32::MAX).min(u32::MAX - WAV_HEADER_BYTES);
    let header = wav_header(SPEECH_RATE, Some(data_bytes));
    file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&header)).map_err(Unwritten::Io)?;
    Ok(written)
}

/// Pipes samples through an encoder.
fn encode(
    speech: impl Iterator<Item = Result<SpeechFrame, Error>>,
    encoder: &mut Command,
    progress: impl Fn(u64),
) -> Result<u64, Unwritten> {
    let mut encoder = encoder.spawn().map_err(Unwritten::Io)?;
    let wrote = encoder.stdin.take().map(|mut stdin| write_samples(speech, &mut stdin, progress));
    let ended = encoder.wait_with_output().map_err(Unwritten::Io)?;
    match wrote {
        Some(Err(Unwritten::Engine(error))) => Err(Unwritten::Engine(error)),
        Some(Ok(written)) if ended.status.success() => Ok(written),
        // A pipe that breaks is the encoder's failure.
        _ => Err(Unwritten::Io(io::Error::other(format!("ffmpeg: {}", String::from_utf8_lossy(&ended.stderr).trim())))),
    }
}

fn pcm16(sample: f32) -> i16 {
    (sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16
}
