//! Pulls a published checkpoint from a model hub into the models folder. An interrupted pull resumes. A checkpoint is checked before it
//! replaces another.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use auricle_engine::{
    Catalog, CatalogModel, CatalogSize, check_detector, check_diarizer, check_model, check_turn_detector, check_voice,
};

use super::{HUB, REVISION, decimal_bytes};
use crate::model_hub::{self, ModelHub, ModelHubError, RemoteFile};

/// The file with the commit of the partial files.
const COMMIT: &str = ".commit";

/// A pull that failed. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// There is no such checkpoint, or no place for it.
    #[error("{0}")]
    Request(String),
    #[error("{0} is being pulled already")]
    Running(String),
    #[error(transparent)]
    Hub(#[from] ModelHubError),
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: io::Error },
    /// The catalog or the checkpoint is not what it should be.
    #[error(transparent)]
    Engine(#[from] auricle_engine::Error),
}

type Result<T, E = PullError> = std::result::Result<T, E>;

/// The hub that checkpoints come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The hub's address.
    pub hub: String,
    pub token: Option<String>,
    /// A branch, tag or commit.
    pub revision: String,
}

/// A checkpoint to pull, and its destination.
pub struct PullTarget {
    /// Its name on the hub, `OWNER/NAME`.
    pub repository: String,
    /// The checkpoint's own folder in the models folder.
    folder: String,
    /// The service models that will use it.
    serves: Vec<String>,
    kind: TargetKind,
}

/// The kind of a checkpoint.
enum TargetKind {
    Model,
    Detector,
    Diarizer,
    Voice,
    /// A language model in one GGUF file of the repository.
    Gguf(String),
    /// The turn detector, in one file of the repository.
    TurnDetector(String),
}

/// A step of a pull, reported while it runs.
pub enum Step<'a> {
    /// The hub has listed the checkpoint.
    Listed { bytes: u64, files: usize },
    /// Bytes that are here, of all files.
    Bytes(u64),
    /// A file is here.
    File(&'a RemoteFile),
    /// All files are here and are being checked.
    Checking,
}

/// The end of a pull.
pub enum Pulled {
    /// The checkpoint was there already.
    Present { place: PathBuf },
    /// It is there now; `effect` says which models run on it.
    New { place: PathBuf, effect: String },
}

/// A checkpoint that was deleted.
pub struct Removed {
    pub path: PathBuf,
    pub bytes: u64,
    /// The models that used it.
    pub served: Vec<String>,
}

impl Source {
    /// The hub and the access token that the environment names, for the newest files.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            hub: variable("HF_ENDPOINT").unwrap_or_else(|| HUB.into()),
            token: variable("HF_TOKEN"),
            revision: REVISION.into(),
        }
    }
}

/// True for a name as checkpoints have it on a model hub, `OWNER/NAME`.
pub fn is_hub_name(name: &str) -> bool {
    own_name(name).is_some()
}

/// The second part of `OWNER/NAME`; none for another text.
fn own_name(name: &str) -> Option<&str> {
    let is_part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(plain)
    };
    name.split_once('/').filter(|(owner, own)| is_part(owner) && is_part(own)).map(|(_, own)| own)
}

impl PullTarget {
    /// The checkpoint of a service model in one of its sizes, of a language model, of a model that speaks, of `detector`, `diarizer` or
    /// `turn`, or of this name on the hub.
    ///
    /// # Errors
    /// [`PullError::Request`], which says what there is.
    pub fn find(models: &Path, name: &str, size: Option<&str>) -> Result<Self> {
        let catalog = match Catalog::read(models) {
            Ok(catalog) => Some(catalog),
            // A full repository name needs no catalog.
            Err(_) if name.contains('/') && models.is_dir() => None,
            Err(error) => return Err(error.into()),
        };
        let known = catalog.as_ref().map_or(&[][..], Catalog::models);
        let whole = catalog.as_ref().filter(|_| size.is_none());
        let detector = whole.and_then(Catalog::published_detector);
        if let Some(detector) = detector.filter(|detector| name == "detector" || name == detector.published) {
            let (repository, folder) = (detector.published.clone(), detector.folder.clone());
            let serves = vec!["the detector".into()];
            return Ok(Self { repository, folder, serves, kind: TargetKind::Detector });
        }
        let diarizer = whole.and_then(Catalog::published_diarizer);
        if let Some(diarizer) = diarizer.filter(|diarizer| name == "diarizer" || name == diarizer.published) {
            let (repository, folder) = (diarizer.published.clone(), diarizer.folder.clone());
            let serves = vec!["the diarizer".into()];
            return Ok(Self { repository, folder, serves, kind: TargetKind::Diarizer });
        }
        let turn = whole.and_then(Catalog::published_turn_detector);
        if let Some(turn) = turn.filter(|turn| name == "turn" || name == turn.published) {
            let (repository, folder) = (turn.published.clone(), turn.folder.clone());
            let kind = TargetKind::TurnDetector(turn.file.clone());
            return Ok(Self { repository, folder, serves: vec!["the turn detector".into()], kind });
        }
        let voices = whole.map_or(&[][..], Catalog::voices).iter();
        let mut voices = voices.filter_map(|voice| Some((voice, voice.published.as_ref()?, voice.folder.as_ref()?)));
        if let Some((voice, repository, folder)) =
            voices.find(|(voice, published, _)| voice.id == name || *published == name)
        {
            let (repository, folder) = (repository.clone(), folder.clone());
            return Ok(Self { repository, folder, serves: vec![voice.id.clone()], kind: TargetKind::Voice });
        }
        let languages = whole.map_or(&[][..], Catalog::language_models);
        if let Some(model) = languages.iter().find(|model| model.id == name || model.published == name) {
            let (repository, folder) = (model.published.clone(), model.folder.clone());
            let kind = model.file.clone().map_or(TargetKind::Model, TargetKind::Gguf);
            return Ok(Self { repository, folder, serves: vec![model.id.clone()], kind });
        }
        let model = known.iter().find(|model| model.id == name);
        let repository = match (size.map(|size| sized(name, model, size)).transpose()?, model) {
            (Some(size), _) => size.published.clone(),
            (None, Some(model)) => model.published.clone(),
            (None, None) => name.to_owned(),
        };
        let Some(own) = own_name(&repository) else {
            let ids: Vec<&str> = known.iter().map(|model| model.id.as_str()).collect();
            let spoken = catalog.as_ref().map_or(&[][..], Catalog::voices).iter();
            let others = languages.iter().map(|model| model.id.as_str());
            let others = others.chain(spoken.filter(|voice| voice.published.is_some()).map(|voice| voice.id.as_str()));
            let others: Vec<&str> = others.chain(["detector", "diarizer", "turn"]).collect();
            return Err(PullError::Request(format!(
                "{name} is no service model ({}), none of {}, and no OWNER/NAME of a model hub",
                ids.join(", "),
                others.join(", ")
            )));
        };
        let folders = known.iter().filter_map(|model| Some((model.id.clone(), folder_of(model, &repository)?)));
        let (serves, folders): (Vec<_>, Vec<_>) = folders.unzip();
        let folder = folders.first().map_or_else(|| own.to_owned(), |folder| (*folder).clone());
        Ok(Self { repository, folder, serves, kind: TargetKind::Model })
    }

    /// The same, and every size of a model whose size is left out.
    ///
    /// # Errors
    /// As [`PullTarget::find`].
    pub fn find_all(models: &Path, name: &str, size: Option<&str>) -> Result<Vec<Self>> {
        let first = Self::find(models, name, size)?;
        let catalog = Catalog::read(models).ok();
        let model = catalog.iter().flat_map(Catalog::models).find(|model| model.id == name && size.is_none());
        let sizes = model.map_or(&[][..], |model| &model.sizes);
        let others = sizes.iter().map(|size| Self::find(models, name, Some(&size.name)));
        let mut all = vec![first];
        for other in others {
            let other = other?;
            if all.iter().all(|known| known.folder != other.folder) {
                all.push(other);
            }
        }
        Ok(all)
    }

    /// Deletes the checkpoint from a models folder, and what is there of a pull of it. Returns what was deleted; none if it was not there.
    ///
    /// # Errors
    /// [`PullError::Running`] while it is pulled; [`PullError::Write`].
    pub fn remove(&self, models: &Path) -> Result<Option<Removed>> {
        let Some(path) = self.place(models) else { return Ok(None) };
        let pulls = models.join(".pull");
        fs::create_dir_all(&pulls).map_err(cannot(&pulls))?;
        let name = self.folder.replace('/', "-");
        let _lock = lock(&pulls.join(format!("{name}.lock")), &self.repository)?;
        let bytes = bytes_in(&path);
        // A link leads to a checkpoint that lies elsewhere, and stays there.
        let deleted = if path.is_symlink() { fs::remove_file(&path) } else { fs::remove_dir_all(&path) };
        deleted.map_err(cannot(&path))?;
        let parts = pulls.join(&name);
        if parts.exists() {
            fs::remove_dir_all(&parts).map_err(cannot(&parts))?;
        }
        Ok(Some(Removed { path, bytes, served: self.serves.clone() }))
    }

    /// The checkpoint in a models folder; none if it is not there.
    pub fn place(&self, models: &Path) -> Option<PathBuf> {
        Some(models.join(&self.folder)).filter(|place| self.is_in(place))
    }

    /// The purpose of a checkpoint that transcribes nothing, as the catalog names it.
    pub fn other_purpose(&self) -> Option<String> {
        (!matches!(self.kind, TargetKind::Model)).then(|| self.serves.join(", "))
    }

    /// The bytes of a pull, as the hub lists them.
    ///
    /// # Errors
    /// If the hub has no such checkpoint, or cannot be reached.
    pub async fn download_bytes(&self, source: &Source) -> Result<u64> {
        let hub = ModelHub::new(&source.hub, source.token.clone())?;
        let (_, files) = self.list(&hub, &source.revision).await?;
        Ok(files.iter().map(|file| file.size).sum())
    }

    /// The commit of a revision, and its files that make the checkpoint.
    async fn list(&self, hub: &ModelHub, revision: &str) -> Result<(String, Vec<RemoteFile>)> {
        let listing = hub.list(&self.repository, revision).await?;
        let files = match &self.kind {
            TargetKind::Gguf(file) | TargetKind::TurnDetector(file) => {
                model_hub::one_file(&self.repository, &listing.files, file)
            }
            TargetKind::Voice => model_hub::voice_files(&self.repository, &listing.files),
            TargetKind::Model | TargetKind::Detector | TargetKind::Diarizer => {
                model_hub::checkpoint_files(&self.repository, &listing.files)
            }
        };
        Ok((listing.commit, files?))
    }

    fn is_in(&self, place: &Path) -> bool {
        match &self.kind {
            TargetKind::Gguf(file) | TargetKind::TurnDetector(file) => place.join(file).is_file(),
            TargetKind::Model | TargetKind::Detector | TargetKind::Diarizer | TargetKind::Voice => {
                place.join("model.safetensors").is_file() || place.join("config.json").is_file()
            }
        }
    }
}

/// The size of this name.
fn sized<'a>(name: &str, model: Option<&'a CatalogModel>, wanted: &str) -> Result<&'a CatalogSize> {
    let sizes = model.map_or(&[][..], |model| &model.sizes);
    if sizes.is_empty() {
        return Err(PullError::Request(format!("{name} comes in one size: leave --size and --recommended out")));
    }
    let listed = |size: &CatalogSize| format!("{} ({})", size.name, decimal_bytes(size.download_bytes));
    let listed = || sizes.iter().rev().map(listed).collect::<Vec<_>>().join(", ");
    let found = sizes.iter().find(|size| size.name == wanted);
    found.ok_or_else(|| PullError::Request(format!("{name} has no size {wanted}; there are {}", listed())))
}

/// The folder in which a model expects a published checkpoint.
fn folder_of<'a>(model: &'a CatalogModel, repository: &str) -> Option<&'a String> {
    if model.published == repository {
        return Some(&model.folder);
    }
    model.sizes.iter().find(|size| size.published == repository).map(|size| &size.folder)
}

/// Pulls a checkpoint, also where one is there if `force` is set.
///
/// # Errors
/// [`PullError`]. What was downloaded is kept, and the next pull goes on from there.
pub async fn pull(
    models: &Path,
    target: &PullTarget,
    source: &Source,
    force: bool,
    report: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<Pulled> {
    let place = models.join(&target.folder);
    let is_there = target.is_in(&place);
    if is_there && !force {
        return Ok(Pulled::Present { place });
    }
    let is_empty = || fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_none());
    if !is_there && place.exists() && !is_empty() {
        let place = place.display();
        return Err(PullError::Request(format!("{place} is there and is no checkpoint: move it away, or rename it")));
    }
    let name = target.folder.replace('/', "-");
    let pulls = models.join(".pull");
    let parts = pulls.join(&name);
    fs::create_dir_all(&parts).map_err(cannot(&parts))?;
    let _lock = lock(&pulls.join(format!("{name}.lock")), &target.repository)?;
    fetch(target, source, &parts, report).await?;
    report(Step::Checking);
    let check: fn(&PathBuf) -> auricle_engine::Result<()> = match target.kind {
        TargetKind::Detector => |dir| check_detector(dir).map(|_| ()),
        TargetKind::Diarizer => |dir| check_diarizer(dir).map(|_| ()),
        TargetKind::TurnDetector(_) => |dir| check_turn_detector(dir).map(|_| ()),
        TargetKind::Voice => |dir| check_voice(dir).map(|_| ()),
        TargetKind::Model | TargetKind::Gguf(_) => |dir| check_model(dir).map(|_| ()),
    };
    let checked = parts.clone();
    match tokio::task::spawn_blocking(move || check(&checked)).await {
        Ok(checked) => checked?,
        Err(panic) => return Err(PullError::Request(format!("{} could not be checked: {panic}", target.repository))),
    }
    let old = pulls.join(format!("{name}.old"));
    // A pull that was killed may have left it.
    if old.exists() {
        fs::remove_dir_all(&old).map_err(cannot(&old))?;
    }
    if place.exists() {
        fs::rename(&place, &old).map_err(cannot(&place))?;
    }
    fs::create_dir_all(place.parent().unwrap_or(models)).map_err(cannot(&place))?;
    fs::rename(&parts, &place).map_err(cannot(&place))?;
    // Not before: parts without a commit are those of any.
    let _ = fs::remove_file(place.join(COMMIT));
    if old.exists() {
        fs::remove_dir_all(&old).map_err(cannot(&old))?;
    }
    let effect = effect(models, target, &place)?;
    Ok(Pulled::New { place, effect })
}

async fn fetch(
    target: &PullTarget,
    source: &Source,
    parts: &Path,
    report: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<()> {
    let hub = ModelHub::new(&source.hub, source.token.clone())?;
    let (listed, files) = target.list(&hub, &source.revision).await?;
    let commit = parts.join(COMMIT);
    if fs::read_to_string(&commit).is_ok_and(|before| before != listed) {
        // Partial files of another commit are useless.
        fs::remove_dir_all(parts).map_err(cannot(parts))?;
        fs::create_dir_all(parts).map_err(cannot(parts))?;
    }
    fs::write(&commit, &listed).map_err(cannot(&commit))?;
    report(Step::Listed { bytes: files.iter().map(|file| file.size).sum(), files: files.len() });
    let mut before = 0;
    for file in &files {
        if let Some(folder) = parts.join(&file.name).parent() {
            fs::create_dir_all(folder).map_err(cannot(folder))?;
        }
        let mut there = |bytes: u64| report(Step::Bytes(before + bytes));
        hub.download(&target.repository, &listed, file, parts, &mut there).await?;
        before += file.size;
        report(Step::File(file));
    }
    Ok(())
}

/// The bytes of the files in a folder, or of one file. Folders behind links within are left out: they may lead back.
pub fn bytes_in(path: &Path) -> u64 {
    if !path.is_dir() {
        return fs::metadata(path).map_or(0, |metadata| metadata.len());
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| !(path.is_symlink() && path.is_dir()))
        .map(|path| bytes_in(&path))
        .sum()
}

fn cannot(what: &Path) -> impl FnOnce(io::Error) -> PullError {
    let what = what.display().to_string();
    move |source| PullError::Write { what, source }
}

/// Locks a checkpoint against a second pull.
fn lock(path: &Path, repository: &str) -> Result<File> {
    let file = File::create(path).map_err(cannot(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(PullError::Running(repository.to_owned())),
        Err(TryLockError::Error(source)) => Err(cannot(path)(source)),
    }
}

/// Describes the effect of a new checkpoint: the models that now run on it, and those that have a better one.
fn effect(models: &Path, target: &PullTarget, place: &Path) -> Result<String> {
    if target.serves.is_empty() {
        return Ok(format!("a model of catalog.toml runs on it whose `folder` is {:?}", target.folder));
    }
    let catalog = Catalog::read(models)?;
    let is_language = catalog.language_models().iter().any(|model| target.serves.contains(&model.id));
    let is_part = matches!(
        target.kind,
        TargetKind::Detector | TargetKind::Diarizer | TargetKind::TurnDetector(_) | TargetKind::Voice
    );
    if is_language || is_part {
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
