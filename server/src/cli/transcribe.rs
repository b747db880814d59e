//! `auricle transcribe`: transcribes files one after the other.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use auricle_engine::analysis::{self, Analysis};
use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_engine::blocking::Engine;
use auricle_engine::{Catalog, EngineOptions, Error, KnownSpeaker, SpeakerLabels, TranscribeOptions, Transcript};
use clap::Args;

use super::analyze::{AnalysisArgs, TaggerArgs};
use super::findings::Findings;
use super::keys::DatabaseArgs;
use super::output::{self, Format, OutFolder};
use super::progress::{Bar, clock, speed};
use super::{EngineArgs, Failure, Result, SearchArgs, hint, interrupt, speakers};

#[derive(Args)]
#[command(after_help = "\
Text goes to standard output, progress and messages to standard error. A file that cannot be transcribed gets one line
there; the others are done all the same, and the exit status is 1. Wrong usage is 2, Ctrl-C 130.

JSON has one object a file, each on one line: file, text, words (text, start and end in ms, confidence), confidence,
language_code, audio_duration_sec, model, warnings. With --speakers, words have a speaker (A, B, C by first word), and there
are utterances: speaker, text, start, end, confidence; with --identify both have a speaker_name where it is sure. With --channels, words have a channel (1, 2), too. With --entities there are entities: text, label, start, end.

Examples:
  auricle transcribe talk.mp3
  auricle transcribe interview.mp4 --format srt > interview.srt
  auricle transcribe recordings/*.wav --format json --out transcripts
  auricle transcribe call.ogg --keyterm Auricle --keyterm 'Ada Lovelace'
  auricle transcribe hearing.wav --lm law.arpa
  auricle transcribe meeting.mp3 --speakers
  auricle transcribe meeting.mp3 --speakers --identify
  auricle transcribe call.wav --channels
  auricle transcribe talk.mp3 --model ggml-small-q5_1.bin
  curl -s https://example.com/talk.mp3 | auricle transcribe -
  auricle transcribe *.flac --format json | jq -r '.file + \": \" + .text'")]
pub struct TranscribeArgs {
    /// Audio or video files; `-` reads one from standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The model, as `auricle models list` names it, or the path of a checkpoint: a folder, a ggml file of whisper.cpp, or a
    /// folder of CTranslate2
    #[arg(long, value_name = "NAME|PATH", default_value = "svc-best")]
    model: String,
    /// The spoken language, such as en; if left out, the model detects it where it can
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// The languages of a recording that changes between them, such as en,de (Whisper checkpoints)
    #[arg(long, value_name = "CODES", value_delimiter = ',', conflicts_with = "language")]
    languages: Vec<String>,
    /// Output format; for subtitles of several files, use --out
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write STEM.txt (.json, .srt, .vtt) into this folder for each file, instead of to standard output. A stem that
    /// comes twice gets a number; results of an earlier run are replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A name or term to expect; may be repeated
    #[arg(long = "keyterm", value_name = "TERM")]
    keyterms: Vec<String>,
    /// Expect medical terms, in English, Spanish, German and French
    #[arg(long)]
    medical: bool,
    /// Look-ahead of streaming models in ms [default: the longest that the model was trained with]
    #[arg(long, value_name = "MS")]
    look_ahead: Option<u32>,
    #[command(flatten)]
    search: SearchArgs,
    /// Beam width of the search; a wider beam is slower and more accurate up to a point [default: 16 with a language model, 5 for
    /// svc-best's starter on a CPU, 1 for other Whisper checkpoints]
    #[arg(long, value_name = "N")]
    beam: Option<usize>,
    /// Decode windows in sequence, each with the text of the previous one: slower; names and style stay more consistent
    /// (Whisper checkpoints)
    #[arg(long)]
    sequential: bool,
    /// Say who speaks: each turn on a line of its own. N, 1 to 20, is about how many speakers there are [default: as many as
    /// are found]
    #[arg(long, value_name = "N", num_args = 0..=1, value_parser = speaker_count)]
    speakers: Option<Option<usize>>,
    /// Name the speakers whose voices `auricle speakers add` has kept, where it is surely theirs
    #[arg(long, requires = "speakers")]
    identify: bool,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Transcribe each channel by itself, and take it for a speaker: for calls with one speaker a channel. Takes files alone
    #[arg(long, conflicts_with = "speakers")]
    channels: bool,
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    tagger: TaggerArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Hide the progress bar and notes; warnings and errors are shown
    #[arg(long, short)]
    quiet: bool,
}

/// Reads the number of `--speakers`.
fn speaker_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=20) => Ok(count),
        Ok(count) => Err(format!("{count} is not from 1 to 20")),
        Err(_) => Err("it takes a number from 1 to 20, or none; a file goes before it".into()),
    }
}

/// One `FILE` of the command line.
enum AudioInput<'a> {
    File(&'a Path),
    StandardInput,
}

impl<'a> AudioInput<'a> {
    fn new(path: &'a Path) -> Self {
        if path == Path::new("-") { Self::StandardInput } else { Self::File(path) }
    }

    /// The name in messages and JSON.
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.to_string_lossy().into_owned(),
            Self::StandardInput => "-".into(),
        }
    }

    fn stem(&self) -> &'a OsStr {
        match self {
            Self::File(path) => path.file_stem().unwrap_or(OsStr::new("transcript")),
            Self::StandardInput => OsStr::new("stdin"),
        }
    }

    fn path(&self) -> &'a Path {
        match self {
            Self::File(path) => path,
            Self::StandardInput => Path::new("-"),
        }
    }

    /// The message on standard error begins with the file's name already.
    fn open_options() -> OpenOptions {
        OpenOptions::default().name("the file")
    }

    fn open(&self) -> Result<AudioStream, Error> {
        let options = Self::open_options();
        match self {
            Self::File(path) => AudioStream::open_with(path, &options),
            Self::StandardInput => {
                // Containers need seeking, which a pipe cannot do. The unnamed file disappears with the process.
                let failed = |error: io::Error| Error::Read { path: "-".into(), reason: error.to_string() };
                let mut spool = tempfile::tempfile().map_err(failed)?;
                io::copy(&mut io::stdin().lock(), &mut spool).map_err(failed)?;
                AudioStream::from_source(spool, &options)
            }
        }
    }
}

pub fn run(args: &TranscribeArgs) -> Result<()> {
    let inputs: Vec<AudioInput<'_>> = args.files.iter().map(|path| AudioInput::new(path)).collect();
    match inputs.iter().filter(|input| matches!(input, AudioInput::StandardInput)).count() {
        0 => {}
        1 if args.channels => {
            return Err(Failure::Usage("--channels reads the audio several times; give a file in place of -".into()));
        }
        1 if io::stdin().is_terminal() => {
            return Err(Failure::Usage("standard input is a terminal; pipe an audio file into it".into()));
        }
        1 => {}
        _ => return Err(Failure::Usage("standard input (-) can be read once only".into())),
    }
    let out = match &args.out {
        None => None,
        Some(dir) => {
            let names: Vec<_> = inputs.iter().map(|input| (input.path(), input.stem())).collect();
            Some(OutFolder::plan(dir, &names, args.format)?)
        }
    };
    let bar = Bar::new(args.quiet);
    interrupt::on_signal(bar.clone());
    let engine_options = args.engine.options()?.tagger(args.tagger.choice());
    let known = known_speakers(args, &engine_options)?;
    let mut job = Job { args, bar, engine_options, engine: None, known };
    let (mut failed, mut printed) = (false, false);
    let coloured = out.is_none() && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let with_headers = inputs.len() > 1 && (args.format == Format::Text || io::stdout().is_terminal());
    for (index, input) in inputs.iter().enumerate() {
        let name = input.name();
        let result = job.transcribe(input, &name);
        job.bar.clear();
        let (transcript, analysis) = match result {
            Ok(done) => done,
            Err(error) if is_about_the_file(&error) => {
                failed = true;
                output::say(&format_args!("{name}: {}", reason(&error)));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for warning in &transcript.warnings {
            output::say(&format_args!("{name}: warning: {warning}"));
        }
        let mut document = args.format.render(&name, &transcript, analysis.as_ref(), coloured)?;
        let findings = analysis.as_ref().map(|analysis| Findings::of(analysis).sections()).unwrap_or_default();
        match args.format {
            Format::Text => document += &findings,
            Format::Srt | Format::Vtt if !findings.is_empty() => {
                let place = "subtitles have no place for the analysis: --format json has it";
                output::say(&format_args!("{name}: warning: {place}"));
            }
            _ => {}
        }
        match &out {
            Some(folder) => match folder.write(index, &document) {
                Ok(path) if !args.quiet => output::say(&format_args!("{name}: wrote {}", path.display())),
                Ok(_) => {}
                Err(failure) => {
                    failed = true;
                    output::say(&format_args!("{name}: {failure}"));
                }
            },
            None if with_headers => {
                let gap = if printed { "\n" } else { "" };
                print(&format!("{gap}==> {} <==\n{document}", output::one_line(&name)), failed)?;
                printed = true;
            }
            None => print(&document, failed)?,
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

/// The people whom the transcripts may name. Where names of persons are hidden, nobody is named.
fn known_speakers(args: &TranscribeArgs, engine: &EngineOptions) -> Result<Vec<KnownSpeaker>> {
    let hides_names =
        args.analysis.passes().redaction.is_some_and(|redaction| redaction.covers(analysis::Label::PersonName));
    if !args.identify || hides_names {
        return Ok(Vec::new());
    }
    speakers::known(&args.database, &Catalog::read(&engine.models)?)
}

/// Writes to standard output. A closed pipe does not hide the failure of an earlier file.
fn print(text: &str, failed: bool) -> Result<()> {
    output::print(text).map_err(|failure| if failed { Failure::Reported } else { failure })
}

/// The state that all files share. The engine is opened for the first file that can be decoded, so that a wrong path is
/// reported at once.
struct Job<'a> {
    args: &'a TranscribeArgs,
    bar: Bar,
    engine_options: EngineOptions,
    engine: Option<Engine>,
    known: Vec<KnownSpeaker>,
}

impl Job<'_> {
    /// The transcript, and its analysis if one was asked.
    fn transcribe(&mut self, input: &AudioInput<'_>, name: &str) -> Result<(Transcript, Option<Analysis>), Error> {
        let audio = input.open()?;
        if self.engine.is_none() && !self.bar.is_hidden() {
            hint::say(&self.engine_options.models, &self.args.model);
        }
        let bar = self.bar.start(&file_name(input));
        let engine = match &mut self.engine {
            Some(engine) => engine,
            empty => {
                let engine = Engine::open(self.engine_options.clone())?;
                for warning in engine.warnings() {
                    output::say(&format_args!("warning: {warning}"));
                }
                empty.insert(engine)
            }
        };
        let mut options = TranscribeOptions::default()
            .languages(self.args.languages.clone())
            .keyterms(self.args.keyterms.clone())
            .medical_mode(self.args.medical)
            .language_model(self.args.search.language_model())
            .fusion(self.args.search.weights())
            .sequential(self.args.sequential)
            .known_speakers(self.known.clone());
        match Path::new(&self.args.model) {
            // A model's id has no folder before it.
            path if path.exists() || path.components().count() > 1 => options.checkpoint = Some(path.into()),
            _ => options.model = Some(self.args.model.clone()),
        }
        options.speakers = match self.args.speakers {
            None => SpeakerLabels::Off,
            Some(None) => SpeakerLabels::Found,
            Some(Some(count)) => SpeakerLabels::Expected(count),
        };
        options.language.clone_from(&self.args.language);
        options.look_ahead_ms = self.args.look_ahead;
        options.beam = self.args.beam;
        engine.load(&options)?;
        let passes = self.args.analysis.passes();
        let tagger = if passes.ask_for_entities() { engine.tagger()? } else { None };
        tracing::info!(file = name, format = audio.format(), device = engine.device_names(), "transcribing");
        bar.begin(audio.duration_s());
        let started = Instant::now();
        let mut transcript = if self.args.channels {
            let open = AudioInput::open_options();
            engine.transcribe_channels(input.path(), &open, &options, |progress| bar.update(progress))?
        } else {
            engine.transcribe_with(audio, &options, |progress| bar.update(progress))?
        };
        if !self.bar.is_hidden() {
            self.bar.clear();
            let work = started.elapsed();
            let length = clock((transcript.audio_duration_sec * 1e3) as u64);
            output::say(&format_args!(
                "{name}: {length} of audio in {:.1} s, {:.1}x real time on {}",
                work.as_secs_f64(),
                speed(transcript.audio_duration_sec, work),
                engine.device_names()
            ));
        }
        if passes.is_empty() {
            return Ok((transcript, None));
        }
        let analysis = transcript.analyze(&passes, tagger.as_deref())?;
        Ok((transcript, Some(analysis)))
    }
}

fn file_name(input: &AudioInput<'_>) -> String {
    let name = input.path().file_name().unwrap_or(input.stem());
    output::one_line(&name.to_string_lossy())
}

/// Tells if only this file is at fault, not the options, the checkpoint or the device.
fn is_about_the_file(error: &Error) -> bool {
    !matches!(
        error,
        Error::Checkpoint { .. }
            | Error::Weights { .. }
            | Error::Device { .. }
            | Error::LanguageModel { .. }
            | Error::Language(_)
            | Error::UnknownModel(_)
            | Error::InvalidOption(_)
    )
}

/// The message without the path, which the line begins with already.
fn reason(error: &Error) -> String {
    match error {
        Error::Read { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}
