//! The model that a command line names: a path, a service model, or a checkpoint of a model hub, which is fetched once.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use super::progress::Bar;
use super::{Failure, Result, output, pull, runtime};
use crate::checkpoints::{PullTarget, Pulled, Source, decimal_bytes, is_hub_name};

/// A model that is named.
pub enum NamedModel {
    Here(LocalModel),
    /// A checkpoint of a model hub that is not here yet.
    Missing(PullTarget),
}

/// A model that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalModel {
    /// A folder or file.
    Checkpoint(PathBuf),
    /// A model of the catalog.
    Service(String),
}

/// Permission to fetch a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetching {
    Allowed,
    /// The user can be asked.
    Asked,
    Refused,
}

impl Fetching {
    /// With the option that allows it, else by a question where a user is at the terminal.
    pub fn new(is_allowed: bool) -> Self {
        match is_allowed {
            true => Self::Allowed,
            false if io::stdin().is_terminal() && io::stderr().is_terminal() => Self::Asked,
            false => Self::Refused,
        }
    }
}

impl NamedModel {
    /// Nothing is fetched yet.
    ///
    /// # Errors
    /// [`Failure::Service`] for a checkpoint of a model hub that is not here and may not be fetched, [`Failure::Usage`] for one that transcribes
    /// nothing.
    pub fn find(models: &Path, name: &str, fetching: Fetching) -> Result<Self> {
        let path = Path::new(name);
        if path.exists() {
            return Ok(Self::Here(LocalModel::Checkpoint(path.into())));
        }
        if !is_hub_name(name) {
            // A model's id has no folder before it.
            let is_path = path.components().count() > 1;
            return Ok(Self::Here(match is_path {
                true => LocalModel::Checkpoint(path.into()),
                false => LocalModel::Service(name.into()),
            }));
        }
        let target = PullTarget::find(models, name, None)?;
        if let Some(purpose) = target.other_purpose() {
            return Err(Failure::Usage(format!("{name} transcribes nothing: it is for {purpose}")));
        }
        match target.place(models) {
            Some(place) => Ok(Self::Here(LocalModel::Checkpoint(place))),
            None if fetching == Fetching::Refused => Err(Failure::Service(format!(
                "there is no file or folder {name}, and {} has no checkpoint of that name; `auricle models pull {name}` or --pull fetches it \
                 from the model hub",
                models.display()
            ))),
            None => Ok(Self::Missing(target)),
        }
    }

    /// The model, whose checkpoint is fetched if it is not here.
    ///
    /// # Errors
    /// [`Failure::Service`] if the user declines, and what a pull reports.
    pub fn fetch(
        &mut self,
        models: &Path,
        fetching: Fetching,
        bar: &Bar,
        verbosity: pull::Verbosity,
    ) -> Result<LocalModel> {
        let target = match self {
            Self::Here(model) => return Ok(model.clone()),
            Self::Missing(target) => target,
        };
        let source = Source::from_environment();
        if fetching == Fetching::Asked {
            let bytes = runtime()?.block_on(target.download_bytes(&source))?;
            ask(&target.repository, bytes, &source.hub)?;
        }
        let pulled = pull::fetch(models, target, &source, pull::Present::Kept, bar, verbosity)?;
        let (Pulled::Present { place } | Pulled::New { place, .. }) = pulled;
        if verbosity == pull::Verbosity::Normal {
            output::say(&format_args!("{} is in {}", target.repository, place.display()));
        }
        let model = LocalModel::Checkpoint(place);
        *self = Self::Here(model.clone());
        Ok(model)
    }
}

/// Asks whether to fetch a checkpoint.
///
/// # Errors
/// [`Failure::Service`] unless the answer is yes.
fn ask(repository: &str, bytes: u64, hub: &str) -> Result<()> {
    eprint!("auricle: {repository} is not here. Fetch {} from {hub}? [Y/n] ", decimal_bytes(bytes));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    let is_yes = ["", "y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    // The end of the input is no answer.
    match read {
        Ok(1..) if is_yes => Ok(()),
        _ => {
            Err(Failure::Service(format!("{repository} is not fetched; `auricle models pull {repository}` fetches it")))
        }
    }
}
