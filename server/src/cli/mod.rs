//! The command line: arguments in, one function a command, an exit status out.
//!
//! Exit status: 0 done, 1 something failed (one line each on standard error), 2 wrong usage, 130 interrupted.

mod bench;
mod devices;
mod hint;
mod interrupt;
mod keys;
mod listen;
mod models;
mod output;
mod progress;
mod pull;
mod recommend;
mod serve;
mod transcribe;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use auricle_engine::{DeviceChoice, EngineOptions, Error, FusionWeights, LanguageModelChoice, Precision};
use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

#[derive(Parser)]
#[command(
    name = "auricle",
    version,
    about = "Speech to text on your own machine, on its GPU where there is one",
    after_help = "\
Without a command, it serves: `auricle` is `auricle serve`.

Examples:
  auricle                                        the service, on 127.0.0.1:8080
  auricle transcribe talk.mp3                    the text, on standard output
  auricle transcribe *.mp4 --format srt --out .  subtitles beside the videos
  auricle listen talk.mp3                        the text as it is spoken, live
  auricle devices                                which GPU will be used
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
    /// Make, list and revoke API keys of the service
    #[command(subcommand, arg_required_else_help = true)]
    Keys(keys::KeysCommand),
    /// Transcribe audio or video files
    Transcribe(transcribe::TranscribeArgs),
    /// Transcribe live: a file as if it were spoken now, or a microphone through a pipe
    Listen(listen::ListenArgs),
    /// List the devices that can compute, and say which one is used
    Devices(devices::DevicesArgs),
    /// Look at the models folder, check and fetch checkpoints
    #[command(subcommand, arg_required_else_help = true)]
    Models(models::ModelsCommand),
    /// Measure how fast this machine transcribes
    Bench(bench::BenchArgs),
}

/// Where the models are: `--models`, else what the engine finds by itself.
#[derive(Args)]
struct ModelsFolder {
    /// The models folder, with catalog.toml [default: AURICLE_MODELS, else `models` in the working directory, beside
    /// the program or above it]
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
}

impl ModelsFolder {
    fn path(&self) -> PathBuf {
        self.models.clone().unwrap_or_else(auricle_engine::models_dir)
    }
}

/// What an engine is opened with.
#[derive(Args)]
struct EngineArgs {
    /// The device that computes: auto, cpu, gpu or vulkan:N as `auricle devices` counts. `auto` takes the first real
    /// GPU, else the CPU
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// How exactly the weights of Whisper's decoder are kept: full, or int8, which is faster and takes less memory
    #[arg(long, value_name = "PRECISION", default_value = "full")]
    precision: Precision,
    #[command(flatten)]
    models: ModelsFolder,
}

impl EngineArgs {
    fn options(&self) -> EngineOptions {
        let (device, precision) = (self.device, self.precision);
        EngineOptions { models: self.models.path(), device, precision, ..EngineOptions::default() }
    }
}

/// The language model's part in a search.
#[derive(Args)]
struct SearchArgs {
    /// A language model of words that joins the search: an ARPA file, or off [default: for the starter, the one that
    /// ships with it; live, on a CPU alone]
    #[arg(long, value_name = "FILE")]
    lm: Option<LanguageModelChoice>,
    /// How much the language model counts, 0 to 10; less for a checkpoint that hears better [default: 0.45, which is best
    /// for the starter]
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

/// Why a command ends early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The arguments do not fit together.
    #[error("{0}")]
    Usage(String),
    /// Standard output, or a file to be written, cannot be written.
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: io::Error },
    /// A models folder without any checkpoint.
    #[error("no checkpoint in {}", .0.display())]
    NoCheckpoint(PathBuf),
    /// The service cannot start, or its database cannot be used.
    #[error("{0}")]
    Service(String),
    /// What failed was said already.
    #[error("failed")]
    Reported,
}

impl Failure {
    fn status(&self) -> u8 {
        match self {
            // The reader has what it wanted: `auricle ... | head` is no failure.
            Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Usage(_) => 2,
            // Values of options that only the engine can judge.
            Self::Engine(Error::UnknownModel(_) | Error::Language(_) | Error::InvalidOption(_)) => 2,
            Self::Engine(_) | Self::Write { .. } | Self::NoCheckpoint(_) | Self::Service(_) | Self::Reported => 1,
        }
    }
}

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Runs the program on its arguments.
pub fn main() -> ExitCode {
    // Before any thread starts: the Vulkan loader's layers would write lines of their own to standard error.
    auricle_engine::device::disable_mesa_device_select();
    match Cli::try_parse_from(std::env::args_os()) {
        Ok(cli) => ExitCode::from(run(&cli.command.unwrap_or_else(|| Command::Serve(Box::default())))),
        Err(error) => {
            // Help and version arrive here too; where they cannot be printed, there is nobody to tell.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

fn run(command: &Command) -> u8 {
    // The service, and what works on its database, have a setting for it.
    if !matches!(command, Command::Serve(_) | Command::Keys(_)) {
        log_to_stderr(Log::Text);
    }
    let done = match command {
        Command::Serve(args) => serve::run(args),
        Command::Keys(command) => keys::run(command),
        Command::Transcribe(args) => transcribe::run(args),
        Command::Listen(args) => listen::run(args),
        Command::Devices(args) => devices::run(args),
        Command::Models(command) => models::run(command),
        Command::Bench(args) => bench::run(args),
    };
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

/// How a log line is written.
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

/// The threads that wait for sockets and databases.
fn runtime() -> Result<tokio::runtime::Runtime> {
    crate::outbound::install_tls_provider();
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| Failure::Service(format!("no threads: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
