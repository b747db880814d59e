//! `auricle models pull`: a published checkpoint from a model hub into the models folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use auricle_engine::{Catalog, CatalogModel, CatalogSize, check_detector, check_model};
use clap::Args;

use super::progress::Bar;
use super::recommend::Machine;
use super::{Failure, ModelsFolder, Result, interrupt, output};
use crate::model_hub::{self, ModelHub, RemoteFile};

#[derive(Args)]
#[command(after_help = "\
Examples:
  auricle models pull --recommended             the size of svc-fast that suits this machine's device and free memory
  auricle models pull svc-fast                  what the catalog names for svc-fast
  auricle models pull svc-fast --size base      a smaller checkpoint for it: base (290 MB), small (967 MB), turbo (1.6 GB)
  auricle models pull openai/whisper-small      any checkpoint of a family that is supported
  auricle models pull chat                      a small language model, for `auricle chat`
An interrupted pull resumes when it is started again. Each file is checked against the hub's checksum, and the checkpoint as
a whole before it is used.

Environment:
  HF_ENDPOINT   the hub, like --hub
  HF_TOKEN      an access token, for checkpoints that need one")]
pub struct PullArgs {
    /// A service model, `chat`, `detector`, or OWNER/NAME on the hub [default with --recommended: the model that comes in sizes]
    #[arg(required_unless_present = "recommended")]
    name: Option<String>,
    /// One of the sizes in which the service model's checkpoint is published, as `auricle models list` names them
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// The size that suits the device and the free memory of this machine
    #[arg(long, conflicts_with = "size")]
    recommended: bool,
    /// A branch, tag or commit
    #[arg(long, default_value = "main")]
    revision: String,
    /// The hub's address
    #[arg(
        long,
        value_name = "URL",
        env = "HF_ENDPOINT",
        default_value = "https://huggingface.co",
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

/// A checkpoint to pull, and its destination.
struct Target {
    repository: String,
    /// The checkpoint's own folder in the models folder.
    folder: String,
    /// The service models that will use it.
    serves: Vec<String>,
    kind: TargetKind,
}

/// What a checkpoint is.
enum TargetKind {
    Model,
    Detector,
    /// A language model in one GGUF file of the repository.
    Gguf(String),
}

pub fn run(args: &PullArgs) -> Result<()> {
    let models = args.models.path()?;
    let target = target(args, &models)?;
    let place = models.join(&target.folder);
    let is_there = match &target.kind {
        TargetKind::Gguf(file) => place.join(file).is_file(),
        TargetKind::Model | TargetKind::Detector => {
            place.join("model.safetensors").is_file() || place.join("config.json").is_file()
        }
    };
    if is_there && !args.force {
        return output::print(&format!("{} is there already: {}\n", target.repository, place.display()));
    }
    let is_empty = || fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_none());
    if !is_there && place.exists() && !is_empty() {
        let place = place.display();
        return Err(Failure::Usage(format!("{place} is there and is no checkpoint: move it away, or rename it")));
    }
    let name = target.folder.replace('/', "-");
    let (pulls, old) = (models.join(".pull"), format!("{name}.old"));
    let parts = pulls.join(&name);
    fs::create_dir_all(&parts).map_err(cannot(&parts))?;
    let _lock = lock(&pulls.join(format!("{name}.lock")), &target.repository)?;
    crate::outbound::install_tls_provider();
    let bar = Bar::new(args.quiet);
    interrupt::on_signal(bar.clone());
    let fetched = super::runtime()?.block_on(fetch(args, &target, &parts, &bar));
    bar.clear();
    fetched?;
    // The checkpoint is checked before it replaces another.
    match target.kind {
        TargetKind::Detector => check_detector(&parts).map(|_| ())?,
        TargetKind::Model | TargetKind::Gguf(_) => check_model(&parts).map(|_| ())?,
    }
    let _ = fs::remove_file(parts.join(COMMIT));
    let old = pulls.join(old);
    if place.exists() {
        fs::rename(&place, &old).map_err(cannot(&place))?;
    }
    fs::create_dir_all(place.parent().unwrap_or(&models)).map_err(cannot(&place))?;
    fs::rename(&parts, &place).map_err(cannot(&place))?;
    if old.exists() {
        fs::remove_dir_all(&old).map_err(cannot(&old))?;
    }
    let effect = effect(&models, &target, &place)?;
    output::print(&format!("{} is in {}: {effect}\n", target.repository, place.display()))
}

/// The file with the commit of the partial files.
const COMMIT: &str = ".commit";

async fn fetch(args: &PullArgs, target: &Target, parts: &Path, bar: &Bar) -> Result<()> {
    let token = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty());
    let failed = |error: model_hub::ModelHubError| Failure::Service(error.to_string());
    let hub = ModelHub::new(&args.hub, token).map_err(failed)?;
    let listing = hub.list(&target.repository, &args.revision).await.map_err(failed)?;
    let files = match &target.kind {
        TargetKind::Gguf(file) => model_hub::gguf_files(&target.repository, &listing.files, file),
        TargetKind::Model | TargetKind::Detector => model_hub::checkpoint_files(&target.repository, &listing.files),
    };
    let files = files.map_err(failed)?;
    let commit = parts.join(COMMIT);
    if fs::read_to_string(&commit).is_ok_and(|before| before != listing.commit) {
        // Partial files of another commit are useless.
        fs::remove_dir_all(parts).map_err(cannot(parts))?;
        fs::create_dir_all(parts).map_err(cannot(parts))?;
    }
    fs::write(&commit, &listing.commit).map_err(cannot(&commit))?;
    let all: u64 = files.iter().map(|file| file.size).sum();
    if !args.quiet {
        output::say(&format_args!("{}: {} in {} files", target.repository, output::decimal_bytes(all), files.len()));
    }
    let progress = bar.bytes(&target.repository, all);
    let mut before = 0;
    for file in &files {
        let RemoteFile { name, size, .. } = file;
        let mut there = |bytes: u64| progress.set_position(before + bytes);
        hub.download(&target.repository, &listing.commit, file, parts, &mut there).await.map_err(failed)?;
        before += size;
        if bar.is_hidden() && !args.quiet {
            output::say(&format_args!("{name}: {:.1} MB", *size as f64 / 1e6));
        }
    }
    Ok(())
}

fn cannot(what: &Path) -> impl FnOnce(io::Error) -> Failure {
    let what = what.display().to_string();
    move |source| Failure::Write { what, source }
}

/// Locks a checkpoint against a second pull.
fn lock(path: &Path, repository: &str) -> Result<File> {
    let file = File::create(path).map_err(cannot(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::Service(format!("{repository} is being pulled already"))),
        Err(TryLockError::Error(source)) => Err(cannot(path)(source)),
    }
}

fn target(args: &PullArgs, models: &Path) -> Result<Target> {
    let catalog = match Catalog::read(models) {
        Ok(catalog) => Some(catalog),
        // A full repository name needs no catalog.
        Err(_) if args.name.as_ref().is_some_and(|name| name.contains('/')) && models.is_dir() => None,
        Err(error) => return Err(error.into()),
    };
    let known = catalog.as_ref().map_or(&[][..], Catalog::models);
    let sized = known.iter().find(|model| !model.sizes.is_empty());
    let Some(name) = args.name.as_ref().or(sized.map(|model| &model.id)) else {
        return Err(Failure::Usage("no model of the catalog comes in sizes; name what to pull".into()));
    };
    let detector = catalog.as_ref().and_then(Catalog::published_detector);
    let named = detector.filter(|detector| name == "detector" || *name == detector.published);
    if let Some(detector) = named.filter(|_| args.size.is_none() && !args.recommended) {
        let (repository, folder) = (detector.published.clone(), detector.folder.clone());
        return Ok(Target { repository, folder, serves: vec!["the detector".into()], kind: TargetKind::Detector });
    }
    let languages = catalog.as_ref().map_or(&[][..], Catalog::language_models);
    let named = languages.iter().find(|model| model.id == *name || model.published == *name);
    if let Some(model) = named.filter(|_| args.size.is_none() && !args.recommended) {
        let (repository, folder) = (model.published.clone(), model.folder.clone());
        let kind = model.file.clone().map_or(TargetKind::Model, TargetKind::Gguf);
        return Ok(Target { repository, folder, serves: vec![model.id.clone()], kind });
    }
    let model = known.iter().find(|model| model.id == *name);
    let repository = match (sized_checkpoint(args, name, model)?, model) {
        (Some(size), _) => size.published.clone(),
        (None, Some(model)) => model.published.clone(),
        (None, None) => name.to_owned(),
    };
    let is_part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(plain)
    };
    let Some((_, own)) = repository.split_once('/').filter(|(owner, own)| is_part(owner) && is_part(own)) else {
        let ids: Vec<&str> = known.iter().map(|model| model.id.as_str()).collect();
        return Err(Failure::Usage(format!(
            "{name} is no service model ({}), and no OWNER/NAME of a model hub",
            ids.join(", ")
        )));
    };
    let folders = known.iter().filter_map(|model| Some((model.id.clone(), folder_of(model, &repository)?)));
    let (serves, folders): (Vec<_>, Vec<_>) = folders.unzip();
    let folder = folders.first().map_or_else(|| own.to_owned(), |folder| (*folder).clone());
    Ok(Target { repository, folder, serves, kind: TargetKind::Model })
}

/// The size that `--size` or `--recommended` names; none without them.
fn sized_checkpoint<'a>(
    args: &PullArgs,
    name: &str,
    model: Option<&'a CatalogModel>,
) -> Result<Option<&'a CatalogSize>> {
    if args.size.is_none() && !args.recommended {
        return Ok(None);
    }
    let sizes = model.map_or(&[][..], |model| &model.sizes);
    if sizes.is_empty() {
        return Err(Failure::Usage(format!("{name} comes in one size: leave --size and --recommended out")));
    }
    match &args.size {
        Some(wanted) => {
            let found = sizes.iter().find(|size| size.name == *wanted);
            let listed = |size: &CatalogSize| format!("{} ({})", size.name, output::decimal_bytes(size.download_bytes));
            let listed = || sizes.iter().rev().map(listed).collect::<Vec<_>>().join(", ");
            found
                .map(Some)
                .ok_or_else(|| Failure::Usage(format!("{name} has no size {wanted}; there are {}", listed())))
        }
        None => {
            let recommended = Machine::probe().recommend(sizes);
            if let Some((_, reason)) = &recommended {
                output::say(reason);
            }
            Ok(recommended.map(|(size, _)| size))
        }
    }
}

/// The folder in which a model expects a published checkpoint.
fn folder_of<'a>(model: &'a CatalogModel, repository: &str) -> Option<&'a String> {
    if model.published == repository {
        return Some(&model.folder);
    }
    model.sizes.iter().find(|size| size.published == repository).map(|size| &size.folder)
}

/// Describes the effect of a new checkpoint: the models that now run on it, and those that have a better one.
fn effect(models: &Path, target: &Target, place: &Path) -> Result<String> {
    if target.serves.is_empty() {
        return Ok(format!("a model of catalog.toml runs on it whose `folder` is {:?}", target.folder));
    }
    let catalog = Catalog::read(models)?;
    let is_language = catalog.language_models().iter().any(|model| target.serves.contains(&model.id));
    if is_language || matches!(target.kind, TargetKind::Detector) {
        return Ok(format!("{} now runs on it", target.serves.join(", ")));
    }
    let mut effects = Vec::new();
    for id in &target.serves {
        let choice = catalog.choose(id)?;
        effects.push(match choice.published() {
            Some(better) if choice.dir != place => {
                format!("{id} still runs on {better}, which is better and is in {}", choice.dir.display())
            }
            _ => format!("{id} now runs on it"),
        });
    }
    Ok(effects.join("; "))
}
