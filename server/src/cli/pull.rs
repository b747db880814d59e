//! `auricle models pull`: a published checkpoint from a model hub into the models folder.

use std::path::Path;

use auricle_engine::Catalog;
use clap::Args;

use super::progress::Bar;
use super::{Failure, ModelsFolder, Result, interrupt, output};
use crate::checkpoints::{HUB, Machine, PullError, PullTarget, Pulled, REVISION, Source, Step, decimal_bytes, pull};

#[derive(Args)]
#[command(after_long_help = "\
Examples:
  auricle models pull --recommended             the size of svc-fast that suits this machine's device and free memory
  auricle models pull svc-fast                  what the catalog names for svc-fast
  auricle models pull svc-fast --size base      a smaller checkpoint for it: base (290 MB), small (967 MB), turbo (1.6 GB)
  auricle models pull openai/whisper-small      any checkpoint of a family that is supported
  auricle models pull chat                      a small language model, for `auricle chat`
  auricle models pull diarizer                  what says who speaks, also where people talk at once
  auricle models pull voice-en                  28 voices of American and British English, 342 MB
An interrupted pull resumes when it is started again. Each file is checked against the hub's checksum, and the checkpoint as
a whole before it is used.

Environment:
  HF_ENDPOINT   the hub, like --hub
  HF_TOKEN      an access token, for checkpoints that need one")]
pub struct PullArgs {
    /// Service model, `chat`, `voice-en`, `detector`, `diarizer`, or OWNER/NAME on the hub
    ///
    /// With --recommended the default is the model that comes in sizes.
    #[arg(required_unless_present = "recommended")]
    name: Option<String>,
    /// One of the sizes of the service model, as `auricle models list` names them
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// The size that suits the device and the free memory of this machine
    #[arg(long, conflicts_with = "size")]
    recommended: bool,
    /// A branch, tag or commit
    #[arg(long, default_value = REVISION)]
    revision: String,
    /// The hub's address
    #[arg(
        long,
        value_name = "URL",
        env = "HF_ENDPOINT",
        default_value = HUB,
        hide_env_values = true
    )]
    hub: String,
    /// Pull again even if the checkpoint is present
    #[arg(long)]
    force: bool,
    /// Hide the progress bar
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    models: ModelsFolder,
}

pub fn run(args: &PullArgs) -> Result<()> {
    let models = args.models.path()?;
    let (name, size) = wanted(args, &models)?;
    let target = PullTarget::find(&models, &name, size.as_deref())?;
    let source = Source {
        hub: args.hub.clone(),
        token: std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty()),
        revision: args.revision.clone(),
    };
    let bar = Bar::new(args.quiet);
    interrupt::on_signal(bar.clone());
    let present = if args.force { Present::Replaced } else { Present::Kept };
    let verbosity = if args.quiet { Verbosity::Quiet } else { Verbosity::Normal };
    let repository = &target.repository;
    output::print(&match fetch(&models, &target, &source, present, &bar, verbosity)? {
        Pulled::Present { place } => format!("{repository} is there already: {}\n", place.display()),
        Pulled::New { place, effect } => format!("{repository} is in {}: {effect}\n", place.display()),
    })
}

/// The lines of a pull on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    Normal,
    Quiet,
}

/// The handling of a checkpoint that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    Kept,
    Replaced,
}

/// Pulls a checkpoint, with a bar on a terminal.
///
/// # Errors
/// As [`pull`].
pub fn fetch(
    models: &Path,
    target: &PullTarget,
    source: &Source,
    present: Present,
    bar: &Bar,
    verbosity: Verbosity,
) -> Result<Pulled> {
    let (repository, is_quiet) = (&target.repository, verbosity == Verbosity::Quiet);
    let mut report = |step: Step<'_>| match step {
        Step::Listed { bytes, files } => {
            if !is_quiet {
                output::say(&format_args!("{repository}: {} in {files} files", decimal_bytes(bytes)));
            }
            bar.bytes(repository, Some(bytes));
        }
        Step::Bytes(bytes) => bar.set_bytes(bytes),
        Step::File(file) => {
            if bar.is_hidden() && !is_quiet {
                output::say(&format_args!("{}: {:.1} MB", file.name, file.size as f64 / 1e6));
            }
        }
        Step::Checking => {}
    };
    let pulled = super::runtime()?.block_on(pull(models, target, source, present == Present::Replaced, &mut report));
    bar.clear();
    Ok(pulled?)
}

/// The name and the size to pull: with `--recommended` those that suit this machine.
fn wanted(args: &PullArgs, models: &Path) -> Result<(String, Option<String>)> {
    let named = args.name.as_deref().unwrap_or_default();
    if !args.recommended {
        return Ok((named.to_owned(), args.size.clone()));
    }
    let catalog = Catalog::read(models)?;
    let mut known = catalog.models().iter();
    let model = match &args.name {
        Some(name) => known.find(|model| model.id == *name),
        None => known.find(|model| !model.sizes.is_empty()),
    };
    match model.and_then(|model| Some((model, Machine::probe().recommend(&model.sizes)?))) {
        Some((model, (size, reason))) => {
            output::say(&reason);
            Ok((model.id.clone(), Some(size.name.clone())))
        }
        None if args.name.is_none() => {
            Err(Failure::Usage("no model of the catalog comes in sizes; name what to pull".into()))
        }
        None => Err(Failure::Usage(format!("{named} comes in one size: leave --size and --recommended out"))),
    }
}

impl From<PullError> for Failure {
    fn from(error: PullError) -> Self {
        match error {
            PullError::Request(message) => Self::Usage(message),
            PullError::Running(_) | PullError::Hub(_) => Self::Service(error.to_string()),
            PullError::Write { what, source } => Self::Write { what, source },
            PullError::Engine(error) => Self::Engine(error),
        }
    }
}
