//! The command line: parses the arguments, runs one command, returns an exit status.
//!
//! Exit status: 0 success, 1 failure (one line each on standard error), 2 wrong usage, 130 interrupted.

mod accounts;
mod analyze;
mod bench;
mod callers;
mod chat;
mod commits;
mod completions;
mod devices;
mod doctor;
mod findings;
mod gpu_plan;
mod hint;
mod interrupt;
mod keys;
mod listen;
mod loading;
mod mcp;
mod models;
mod named_model;
mod out_file;
mod output;
mod progress;
mod progress_lines;
mod pull;
mod say;
mod serve;
mod settings;
mod sound_card;
mod speakers;
mod talk;
mod transcribe;
mod voices;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::config::precision_choice;
use crate::starter_models;
use auricle_engine::{DeviceChoice, EngineOptions, Error, FusionWeights, LanguageModelChoice, Precision};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

#[derive(Parser)]
#[command(
    name = "auricle",
    version,
    about = "Speech to text, and text to speech, on your own machine, on its GPU where there is one",
    after_help = "\
Without a command, it serves: `auricle` is `auricle serve`.

Examples:
  auricle                                        the service, on 127.0.0.1:8080
  auricle transcribe talk.mp3                    the text, on standard output
  auricle transcribe talk.mp4 -o talk.srt        subtitles
  auricle listen talk.mp3                        the text as it is spoken, live
  auricle chat --transcript talk.txt             questions about a transcript, to a language model
  auricle say 'Good morning.' -o morning.wav     speech
  auricle talk --help                            a spoken conversation
  auricle devices                                which GPU will be used
  auricle doctor                                 what is missing, with the commands that mend it
  auricle transcribe --help                      all options, with examples

Environment:
  AURICLE_MODELS   the models folder, like --models
  AURICLE_FFMPEG   the ffmpeg program, for formats that are not decoded natively
  AURICLE_LOG      what is logged on standard error: error, warn (default), info, debug, or a tracing filter"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API [default]
    Serve(Box<serve::ServeArgs>),
    /// Create, list and revoke API keys of the service
    #[command(subcommand, arg_required_else_help = true)]
    Keys(keys::KeysCommand),
    /// Administer accounts: links that set passwords, webhook secrets, limits of free credit
    #[command(subcommand, arg_required_else_help = true)]
    Accounts(accounts::AccountsCommand),
    /// Transcribe audio or video files
    Transcribe(transcribe::TranscribeArgs),
    /// Analyze text: hide personal words, find entities, mask profanity
    Analyze(analyze::AnalyzeArgs),
    /// Transcribe live: the microphone, a pipe, or a file as if it were spoken now
    Listen(listen::ListenArgs),
    /// Ask a language model, about a transcript or anything else
    Chat(chat::ChatArgs),
    /// Serve transcripts to an assistant, in the Model Context Protocol over standard streams
    Mcp(mcp::McpArgs),
    /// Talk to a voice agent
    Talk(talk::TalkArgs),
    /// Say a text: speech through the loudspeaker, into a WAV file or a pipe
    Say(say::SayArgs),
    /// List the voices that speak, and make and delete those of recordings
    Voices(voices::VoicesArgs),
    /// Keep, list and remove the voices of people whom transcripts may name
    Speakers(speakers::SpeakersArgs),
    /// List the compute devices, and show which one is used
    Devices(devices::DevicesArgs),
    /// List, check and fetch checkpoints
    #[command(subcommand, arg_required_else_help = true)]
    Models(models::ModelsCommand),
    /// Find what this machine and its settings lack, with the commands that mend it
    Doctor(doctor::DoctorArgs),
    /// Show the settings of the service, or write a file of them
    #[command(subcommand, arg_required_else_help = true)]
    Config(settings::ConfigCommand),
    /// Measure how fast this machine transcribes
    Bench(bench::BenchArgs),
    /// Print what a shell needs to complete the commands: bash, zsh, fish, elvish or powershell
    Completions(completions::CompletionsArgs),
    /// Write the manual's pages, for packages
    #[command(hide = true)]
    Man(completions::ManArgs),
}

/// The models folder: `--models`, else the folder that the engine finds.
#[derive(Args)]
struct ModelsFolder {
    /// The models folder, with catalog.toml [default: AURICLE_MODELS, else one that is found]
    ///
    /// Without AURICLE_MODELS it is `models` in the working directory, beside the program or above it, else the user's own, such as
    /// ~/.local/share/auricle/models.
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
}

impl ModelsFolder {
    /// # Errors
    /// [`Failure::Service`] if the program cannot write its starters into the user's own models folder.
    fn path(&self) -> Result<PathBuf> {
        let path = self.models.clone().unwrap_or_else(starter_models::default_folder);
        starter_models::prepare(&path).map_err(Failure::Service)?;
        Ok(path)
    }
}

/// Options of the engine.
#[derive(Args)]
struct EngineArgs {
    /// Compute device: auto, cpu, gpu or vulkan:N
    ///
    /// `auricle devices` lists them. auto takes the first real GPU, else the CPU. Several with commas share the work.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_delimiter = ',')]
    device: Vec<DeviceChoice>,
    /// Precision of the weights: auto, full, half, int8 or int4
    ///
    /// auto is int8 for Whisper on a CPU, and full for the rest. half is 16 bits for Whisper, language models and FastConformer's
    /// encoder on a GPU. int8 is for Whisper's decoder and Pocket TTS, on CPUs with AVX-512 VNNI for all encoders, and with AVX2
    /// for language models of GGUF files, which is faster and takes less memory; on a GPU these keep their quantised weights. int4
    /// is int8 with 4 bits for the feed-forward layers of Whisper's decoder.
    #[arg(long, value_name = "PRECISION", default_value = "auto", value_parser = precision_choice)]
    // A plain `Option` would be an argument that may be left out.
    precision: std::option::Option<Precision>,
    #[command(flatten)]
    models: ModelsFolder,
}

impl EngineArgs {
    fn options(&self) -> Result<EngineOptions> {
        let options = EngineOptions::default().models(self.models.path()?).devices(self.device.clone());
        // One file or talk is work for one device.
        Ok(options.every_gpu(false).precision(self.precision))
    }

    /// The same for `auricle serve`.
    fn serve_flags(&self) -> Result<[OsString; 6]> {
        let devices: Vec<String> = self.device.iter().map(ToString::to_string).collect();
        let precision =
            self.precision.map_or_else(|| "auto".into(), |precision| format!("{precision:?}").to_lowercase());
        let models = self.models.path()?.into_os_string();
        Ok([
            "--models".into(),
            models,
            "--device".into(),
            devices.join(",").into(),
            "--precision".into(),
            precision.into(),
        ])
    }
}

/// Options of the search with a language model.
#[derive(Args)]
struct SearchArgs {
    /// Language model of the search: an ARPA file, or off [default: that of the starter]
    ///
    /// Live, the default joins on a CPU alone.
    #[arg(long, value_name = "FILE")]
    lm: Option<LanguageModelChoice>,
    /// Weight of the language model, 0 to 10 [default: 0.45]
    ///
    /// The default is tuned for the starter; a more accurate checkpoint needs less.
    #[arg(long, value_name = "WEIGHT")]
    lm_weight: Option<f32>,
}

impl SearchArgs {
    fn language_model(&self) -> LanguageModelChoice {
        self.lm.clone().unwrap_or_default()
    }

    fn weights(&self) -> FusionWeights {
        self.lm_weight.map(FusionWeights::new).unwrap_or_default()
    }
}

/// An error that ends a command.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
    /// Standard output or a file cannot be written.
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: io::Error },
    /// A models folder without any checkpoint.
    #[error("no checkpoint in {}", .0.display())]
    NoCheckpoint(PathBuf),
    /// The service cannot start, or its database cannot be used.
    #[error("{0}")]
    Service(String),
    /// The failure has been printed already.
    #[error("failed")]
    Reported,
}

impl Failure {
    /// The same failure with what helps.
    fn advise(self, advice: &str) -> Self {
        match self {
            Self::Usage(reason) => Self::Usage(format!("{reason}; {advice}")),
            Self::Service(reason) => Self::Service(format!("{reason}; {advice}")),
            failure => failure,
        }
    }

    fn status(&self) -> u8 {
        match self {
            // A closed pipe is no failure, as in `auricle ... | head`.
            Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Usage(_) => 2,
            // Option values that only the engine can check.
            Self::Engine(Error::UnknownModel(_) | Error::Language(_) | Error::InvalidOption(_)) => 2,
            Self::Engine(_) | Self::Write { .. } | Self::NoCheckpoint(_) | Self::Service(_) | Self::Reported => 1,
        }
    }
}

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Runs the program on its arguments.
pub fn main() -> ExitCode {
    // Before any thread starts: the Vulkan loader's layers would write lines of their own to standard error.
    auricle_engine::disable_mesa_device_select();
    match Cli::try_parse_from(std::env::args_os()) {
        Ok(cli) => ExitCode::from(run(&cli.command.unwrap_or_else(|| Command::Serve(Box::default())))),
        Err(error) => {
            // Help and version arrive here too. A failure to print them cannot be reported.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

fn run(command: &Command) -> u8 {
    // The service, `keys` and `accounts` configure their logs themselves.
    if !matches!(command, Command::Serve(_) | Command::Keys(_) | Command::Accounts(_)) {
        let is_json = matches!(command, Command::Transcribe(args) if args.progress == transcribe::ProgressForm::Json);
        log_to_stderr(if is_json { Log::Json } else { Log::Text });
    }
    let done = match command {
        Command::Serve(args) => serve::run(args),
        Command::Keys(command) => keys::run(command),
        Command::Accounts(command) => accounts::run(command),
        Command::Transcribe(args) => transcribe::run(args),
        Command::Analyze(args) => analyze::run(args),
        Command::Listen(args) => listen::run(args),
        Command::Chat(args) => chat::run(args),
        Command::Mcp(args) => mcp::run(args),
        Command::Talk(args) => talk::run(args),
        Command::Say(args) => say::run(args),
        Command::Voices(args) => voices::run(args),
        Command::Speakers(args) => speakers::run(args),
        Command::Devices(args) => devices::run(args),
        Command::Models(command) => models::run(command),
        Command::Doctor(args) => doctor::run(args),
        Command::Config(command) => settings::run(command),
        Command::Bench(args) => bench::run(args),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Man(args) => completions::write_pages(args, Cli::command()),
    };
    interrupt::wait_if_ending();
    match done {
        Ok(()) => 0,
        Err(failure) => {
            let status = failure.status();
            if status != 0 && !matches!(failure, Failure::Reported) {
                output::say(&failure);
            }
            status
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    Text,
    /// One JSON object a line.
    Json,
}

fn log_to_stderr(log: Log) {
    let filter = EnvFilter::try_from_env("AURICLE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match log {
        Log::Text => lines.init(),
        Log::Json => lines.json().init(),
    }
}

/// The async runtime.
fn runtime() -> Result<tokio::runtime::Runtime> {
    crate::outbound::install_tls_provider();
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| Failure::Service(format!("no threads: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn short_help_has_one_line_for_each_option_and_no_second_word_for_starters() {
        fn check(command: &clap::Command, path: &str) {
            let short = |help: Option<&clap::builder::StyledStr>, of: &str| {
                let help = help.map(ToString::to_string).unwrap_or_default();
                assert!((1..=92).contains(&help.chars().count()), "{path}: {of}: {help:?}");
            };
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                short(argument.get_help(), argument.get_id().as_str());
                let long = argument.get_long_help().map(ToString::to_string).unwrap_or_default();
                assert!(!long.contains("stand-in"), "{path}: {long}");
            }
            short(command.get_about(), "about");
            for below in command.get_subcommands() {
                check(below, &format!("{path} {}", below.get_name()));
            }
        }
        check(&Cli::command(), "auricle");
    }
}
