//! `auricle transcribe`: transcribes files one after the other.
//!
//! - `inputs`: the files, folders and addresses of the command line.
//! - `fetch`: recordings from addresses.
//! - `job`: one input to its transcript.
//! - `batch`: inputs one after the other to their outputs.
//! - `watch`: a folder whose recordings are transcribed as they come.
//! - `document`: the formats of outputs.
//! - `destination`: the files that transcripts go to.
//! - `excerpt_args`, `subtitle_args`: the part of a recording, the look of subtitles.

mod batch;
mod destination;
mod document;
mod excerpt_args;
mod fetch;
mod inputs;
mod job;
mod subtitle_args;
mod watch;

use std::io::{self, IsTerminal as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use auricle_engine::documents::Times;
use auricle_engine::{Catalog, EngineOptions, KnownSpeaker, analysis};
use clap::{ArgAction, Args, ValueEnum};

use self::batch::Batch;
use self::destination::{Destination, Existing};
use self::document::{Format, Look};
use self::excerpt_args::ExcerptArgs;
use self::inputs::{Depth, Input, Inputs, Source};
use self::job::Job;
use self::subtitle_args::SubtitleArgs;
use self::watch::Watch;
use super::analyze::{AnalysisArgs, TaggerArgs};
use super::keys::DatabaseArgs;
use super::named_model::{Fetching, NamedModel};
use super::progress::Bar;
use super::{EngineArgs, Failure, Result, SearchArgs, interrupt, output, speakers};

#[derive(Args)]
#[command(after_long_help = "\
Text goes to standard output, progress and messages to standard error. A file that cannot be transcribed gets one line
there; the others are done all the same, and the exit status is 1. Wrong usage is 2, Ctrl-C 130.

--out is a folder where it is one already, ends in a slash or has no ending. A stem that comes twice in it gets a number, and results of
an earlier run are replaced. With --recursive it has the folders of the inputs. An output has its name once it is whole.

JSON has one object a file, each on one line: file, text, words (text, start and end in ms, confidence), confidence,
language_code, audio_duration_sec, model, warnings. With --speakers, words have a speaker (A, B, C by first word), and there
are utterances: speaker, text, start, end, confidence; with --identify both have a speaker_name where it is sure. With --channels, words have a channel (1, 2), too. With --entities there are entities: text, label, start, end.

With --progress json each line of standard error is a JSON object. Its event is loading, fetching (bytes, total_bytes, percent),
progress (percent, audio_sec, total_sec, speed, eta_sec), done (outputs), skipped, failed (message) or message; its file is the input.

Examples:
  auricle transcribe talk.mp3
  auricle transcribe interview.mp4 -o interview.srt
  auricle transcribe interview.mp4 -o interview.vtt --max-line-width 32 --highlight-words
  auricle transcribe recordings --recursive --format srt,json --out transcripts/ --skip-existing
  auricle transcribe --watch inbox --out transcripts --format markdown
  auricle transcribe talk.mp3 --start 1:30 --duration 60 --timestamps
  auricle transcribe https://example.com/talk.mp3
  auricle transcribe call.ogg --keyterm Auricle --keyterm 'Ada Lovelace'
  auricle transcribe hearing.wav --lm law.arpa
  auricle transcribe meeting.mp3 --speakers
  auricle transcribe meeting.mp3 --speakers --identify
  auricle transcribe call.wav --channels
  auricle transcribe talk.mp3 --model ggml-small-q5_1.bin
  auricle transcribe talk.mp3 --model openai/whisper-small --pull
  curl -s https://example.com/talk.mp3 | auricle transcribe -
  auricle transcribe *.flac --format json | jq -r '.file + \": \" + .text'")]
pub struct TranscribeArgs {
    /// Audio or video files, folders of them, http(s) addresses, or - for standard input
    #[arg(required_unless_present = "watch", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Search the folders within a folder, too
    #[arg(long)]
    recursive: bool,
    /// Transcribe the recordings of this folder, and those that come, until Ctrl-C
    ///
    /// A file is taken once it has stood still for two seconds, so that one that is being written is left alone, and again when it
    /// changes. Recordings whose outputs are there when the command starts are left out. What cannot be read is reported once, and the
    /// others go on. With --recursive the folders within are watched, too.
    #[arg(long, value_name = "DIR", requires = "out", conflicts_with = "files")]
    watch: Option<PathBuf>,
    /// Model: an id of `auricle models list`, a checkpoint's path, or OWNER/NAME on the hub
    ///
    /// A path leads to a published folder, a ggml file of whisper.cpp, or a folder of CTranslate2. A checkpoint of the model hub is
    /// fetched once, after a question.
    #[arg(long, value_name = "ID|PATH|OWNER/NAME", default_value = "svc-best")]
    model: String,
    /// Fetch OWNER/NAME of --model without a question if it is not here
    #[arg(long)]
    pull: bool,
    /// The spoken language, such as en; if left out, the model detects it where it can
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// Languages of a recording that changes between them, such as en,de (Whisper)
    #[arg(long, value_name = "CODES", value_delimiter = ',', conflicts_with = "language")]
    languages: Vec<String>,
    /// Output format, or several with commas [default: that of the ending of --out, else text]
    ///
    /// Several are files beside each other in the folder of --out.
    #[arg(long, value_enum, value_delimiter = ',')]
    format: Vec<Format>,
    /// Write to this file, or for each input into this folder, not to standard output
    ///
    /// A file has the format of its ending. In a folder the files of an input have its name, and .txt, .json, .srt and so on.
    #[arg(short, long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    subtitles: SubtitleArgs,
    /// Begin each line of text, or paragraph of Markdown, with its time
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    excerpt: ExcerptArgs,
    /// Leave out the inputs whose outputs are there, and the formats that are
    #[arg(long, requires = "out")]
    skip_existing: bool,
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
    /// Look-ahead of streaming models in ms [default: the longest that the model knows]
    #[arg(long, value_name = "MS")]
    look_ahead: Option<u32>,
    #[command(flatten)]
    search: SearchArgs,
    /// Beam width of the search
    ///
    /// A wider beam is slower and more accurate up to a point. The default is 16 with a language model, 5 for svc-best's starter on
    /// a CPU, and 1 for other Whisper checkpoints.
    #[arg(long, value_name = "N")]
    beam: Option<usize>,
    /// Decode windows in sequence, each with the text of the one before (Whisper)
    ///
    /// This is slower; names and style stay more consistent.
    #[arg(long)]
    sequential: bool,
    /// Write English, whatever language is spoken (Whisper of many languages, Canary)
    #[arg(long)]
    translate: bool,
    /// Say who speaks, each turn on a line; N, 1 to 20, is about how many there are
    ///
    /// Without N there are as many speakers as are found.
    #[arg(long, value_name = "N", num_args = 0..=1, value_parser = speaker_count)]
    speakers: Option<Option<usize>>,
    /// Name the speakers whose voices `auricle speakers add` has kept, where it is sure
    #[arg(long, requires = "speakers")]
    identify: bool,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Transcribe each channel of a file by itself, as a speaker: for calls
    ///
    /// `auricle listen --channels` does so live.
    #[arg(long, conflicts_with = "speakers")]
    channels: bool,
    /// Audio track of a file with several, from 1 [default: that which the file states]
    #[arg(long, value_name = "N")]
    track: Option<NonZeroUsize>,
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    tagger: TaggerArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Hide the progress bar and notes; warnings and errors are shown
    #[arg(long, short)]
    quiet: bool,
    /// The form of progress and messages on standard error
    #[arg(long, value_enum, default_value = "bar", value_name = "FORM", conflicts_with = "quiet")]
    pub(super) progress: ProgressForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressForm {
    /// A bar on a terminal
    Bar,
    /// A JSON object a line, for programs
    Json,
}

/// Reads the number of `--speakers`.
fn speaker_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=20) => Ok(count),
        Ok(count) => Err(format!("{count} is not from 1 to 20")),
        Err(_) => Err("it takes a number from 1 to 20, or none; a file goes before it".into()),
    }
}

pub fn run(args: &TranscribeArgs) -> Result<()> {
    if args.progress == ProgressForm::Json {
        output::say_in_json();
    }
    let depth = if args.recursive { Depth::Recursive } else { Depth::Flat };
    let out = args.out.as_deref().filter(|out| *out != Path::new("-"));
    let formats = destination::formats(out, &args.format)?;
    args.subtitles.check(&formats)?;
    if args.timestamps && !formats.iter().any(|format| format.may_show_times()) {
        return Err(Failure::Usage(
            "--timestamps is for text and Markdown; the other formats have times already".into(),
        ));
    }
    if let Some(folder) = &args.watch {
        let out = out.ok_or_else(|| Failure::Usage("--watch writes files: name their folder with --out".into()))?;
        return Watch::new(folder, depth, out, &args.format)?.run(&mut batch(args)?);
    }
    let inputs = Inputs::find(&args.files, depth);
    check_standard_input(args, &inputs.list)?;
    for (name, reason) in &inputs.faults {
        output::fault(name, reason);
    }
    let failed = !inputs.faults.is_empty();
    let inputs = inputs.list;
    if inputs.is_empty() {
        return Err(Failure::Reported);
    }
    let existing = if args.skip_existing { Existing::Skip } else { Existing::Replace };
    let destination = Destination::plan(out, &args.format, &inputs, existing)?;
    let mut batch = batch(args)?;
    batch.failed = failed;
    for (index, input) in inputs.iter().enumerate() {
        match &destination {
            Destination::Files(files) if files[index].is_empty() => batch.leave_out(input),
            Destination::Files(files) => drop(batch.write_files(input, &files[index], || false)?),
            Destination::StandardOutput(format) => batch.print(input, *format, inputs.len())?,
        }
    }
    if batch.failed { Err(Failure::Reported) } else { Ok(()) }
}

/// The work that the arguments ask for.
fn batch(args: &TranscribeArgs) -> Result<Batch<'_>> {
    let bar = if args.progress == ProgressForm::Json { Bar::json() } else { Bar::new(args.quiet) };
    interrupt::on_signal(bar.clone());
    let engine_options = args.engine.options()?.tagger(args.tagger.choice());
    let fetching = Fetching::new(args.pull);
    let model = NamedModel::find(&engine_options.models, &args.model, fetching)?;
    let known = known_speakers(args, &engine_options)?;
    let look = Look {
        subtitles: args.subtitles.options(),
        times: if args.timestamps { Times::Shown } else { Times::Hidden },
        start_ms: args.excerpt.excerpt().start_ms,
    };
    Ok(Batch::new(Job { args, bar, engine_options, engine: None, model, fetching, known }, look))
}

/// # Errors
/// [`Failure::Usage`] if standard input cannot be read as it is asked.
fn check_standard_input(args: &TranscribeArgs, inputs: &[Input]) -> Result<()> {
    match inputs.iter().filter(|input| matches!(input.source, Source::StandardInput)).count() {
        0 => Ok(()),
        1 if args.channels => {
            Err(Failure::Usage("--channels reads the audio several times; give a file in place of -".into()))
        }
        1 if io::stdin().is_terminal() => {
            Err(Failure::Usage("standard input is a terminal; pipe an audio file into it".into()))
        }
        1 => Ok(()),
        _ => Err(Failure::Usage("standard input (-) can be read once only".into())),
    }
}

/// The people whom the transcripts may name. Where names of persons are hidden, it is empty.
fn known_speakers(args: &TranscribeArgs, engine: &EngineOptions) -> Result<Vec<KnownSpeaker>> {
    let hides_names =
        args.analysis.passes().redaction.is_some_and(|redaction| redaction.covers(analysis::Label::PersonName));
    if !args.identify || hides_names {
        return Ok(Vec::new());
    }
    speakers::known(&args.database, &Catalog::read(&engine.models)?)
}
