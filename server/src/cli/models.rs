//! `auricle models`: lists, checks and fetches checkpoints.

use std::path::{Path, PathBuf};

use auricle_engine::{
    Catalog, Error, ModelReport, WordErrorRate, check_detector, check_diarizer, check_model, check_tagger,
    check_turn_detector, check_voice,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::{ListForm, ListFormArgs};
use super::pull::{self, PullArgs};
use super::{Failure, ModelsFolder, Result, output};
use crate::checkpoints::{self, ListedModel, ModelState, PullTarget, bytes_in, decimal_bytes};

#[derive(Subcommand)]
pub enum ModelsCommand {
    /// List the service models, and the checkpoint behind each
    List(ListArgs),
    /// Check that every tensor of a checkpoint is there, has its shape, and no other is
    #[command(after_long_help = "\
Examples:
  auricle models check                              every checkpoint of the models folder
  auricle models check models/parakeet-tdt-0.6b-v3  one checkpoint folder
  auricle models check ggml-small-q5_1.bin          a file of whisper.cpp, or a folder that holds one
  auricle models check faster-whisper-small         a folder of CTranslate2
Exit status 1 if one is broken, with the tensor or file at fault.")]
    Check(CheckArgs),
    /// Fetch a published checkpoint from a model hub into the models folder
    Pull(PullArgs),
    /// Delete a checkpoint that was pulled; starters stay
    #[command(
        visible_alias = "remove",
        after_long_help = "\
What ran on it runs on the next best checkpoint that is there, a running service from its next start on.

Examples:
  auricle models rm svc-fast                    every size of it that was pulled
  auricle models rm svc-fast --size small       one of them
  auricle models rm openai/whisper-small        by its name on the hub"
    )]
    Rm(RemoveArgs),
}

#[derive(Args)]
#[command(after_long_help = "\
The size is that of the checkpoint on the disk. The word error rate is the share of words that it gets wrong: of published checkpoints by
their model cards or as measured here, of starters as measured on recordings that they were not trained on. --json names the recordings.")]
pub struct ListArgs {
    #[command(flatten)]
    form: ListFormArgs,
    /// Name all languages of each model by their codes, in place of a count
    #[arg(long)]
    languages: bool,
    #[command(flatten)]
    models: ModelsFolder,
}

#[derive(Args)]
pub struct RemoveArgs {
    /// As for `auricle models pull`: a service model, `chat`, OWNER/NAME on the hub and the like
    name: String,
    /// One of the sizes of the service model
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    #[command(flatten)]
    models: ModelsFolder,
}

#[derive(Args)]
pub struct CheckArgs {
    /// Checkpoint: a folder, a GGUF file or a ggml file of whisper.cpp [default: all that are here]
    ///
    /// The default is every checkpoint that the catalog names and that is here.
    dir: Option<PathBuf>,
    #[command(flatten)]
    models: ModelsFolder,
}

pub fn run(command: &ModelsCommand) -> Result<()> {
    match command {
        ModelsCommand::List(args) => list(args),
        ModelsCommand::Check(args) => check(args),
        ModelsCommand::Pull(args) => pull::run(args),
        ModelsCommand::Rm(args) => remove(args),
    }
}

fn list(args: &ListArgs) -> Result<()> {
    let dir = args.models.path()?;
    let catalog = Catalog::read(&dir)?;
    let mut items = Vec::new();
    for model in checkpoints::list(&catalog)? {
        let choice = catalog.choose(&model.id).ok();
        let rate = choice.as_ref().and_then(|choice| choice.word_error_rate());
        items.push(listed(&dir, model, rate, args.languages));
    }
    let headings = ["model", "kind", "state", "size", "word error rate", "languages", "checkpoint"];
    if args.form.form() == ListForm::Json {
        return output::list(&headings, items, ListForm::Json);
    }
    output::print(&format!("Models in {}:\n\n", dir.display()))?;
    output::list(&headings, items, ListForm::Table)?;
    let mut text = String::new();
    let starters = catalog.models().iter().filter(|model| catalog.choose(&model.id).is_ok_and(|it| it.is_starter));
    for (index, model) in starters.enumerate() {
        if index == 0 {
            text.push_str(
                "\nA starter is small and ships with the program. For full quality fetch the published checkpoint:\n",
            );
        }
        text.push_str(&format!("  auricle models pull {:<18} {}\n", model.id, model.published));
        for size in &model.sizes {
            let bytes = decimal_bytes(size.download_bytes);
            text.push_str(&format!("    --size {:<6} {bytes:>7}  {}\n", size.name, size.published));
        }
    }
    let voices = catalog.voices().iter().filter(|voice| catalog.published_voice_path(voice).is_none());
    let voices = voices.filter_map(|voice| Some((voice, voice.published.as_ref()?)));
    for (index, (voice, published)) in voices.enumerate() {
        if index == 0 {
            text.push_str("\nThe starter voice is intelligible and plain. For one that sounds human:\n");
        }
        text.push_str(&format!("  auricle models pull {:<18} {published}\n", voice.id));
    }
    let missing =
        catalog.language_models().iter().filter(|model| catalog.choose_language_model(Some(&model.id)).is_err());
    for (index, model) in missing.enumerate() {
        if index == 0 {
            text.push_str("\nA language model has no starter. Fetch the published checkpoint:\n");
        }
        let bytes = decimal_bytes(model.download_bytes);
        text.push_str(&format!("  auricle models pull {:<18} {} ({bytes})\n", model.id, model.published));
    }
    text.push_str(FORMS);
    output::print(&text)
}

/// A model as JSON and as a row of the table.
fn listed(dir: &Path, model: ListedModel, rate: Option<&WordErrorRate>, names_languages: bool) -> (Value, Vec<String>) {
    let ListedModel { id, kind, path, state, languages, published, offers } = model;
    let bytes = Some(bytes_in(&path)).filter(|_| state != ModelState::Missing);
    let offers = offers.iter().map(|offer| {
        json!({ "size": offer.size, "published": offer.published, "download_bytes": offer.download_bytes, "serves": offer.serves })
    });
    let object = json!({
        "model": id,
        "kind": kind,
        "state": state.name(),
        "bytes": bytes,
        "word_error_rate": rate.map(|rate| json!({ "percent": rate.percent, "recordings": rate.recordings })),
        "languages": languages,
        "checkpoint": path,
        "published": published,
        "offers": offers.collect::<Vec<_>>(),
    });
    let shown = match languages.len() {
        FEW_LANGUAGES.. if !names_languages => languages.len().to_string(),
        _ => languages.join(" "),
    };
    let size = bytes.map_or_else(|| "-".into(), decimal_bytes);
    let rate = rate.map_or_else(|| "-".into(), |rate| format!("{:.1} %", rate.percent));
    let checkpoint = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
    (object, vec![id, kind, state.name().into(), size, rate, shown, checkpoint])
}

/// From so many on, languages are a number.
const FEW_LANGUAGES: usize = 4;

/// What a path may lead to beside the checkpoints of the list.
const FORMS: &str = "
A checkpoint that is here already needs no pull. `auricle models check PATH` and `auricle transcribe --model PATH` take
  a published folder, its weights as safetensors or as GGUF (model.gguf, or shards model-00001-of-00002.gguf),
  Whisper as a file of whisper.cpp (ggml-*.bin), or a folder that holds one,
  Whisper as a folder of CTranslate2, as faster-whisper has it (model.bin);
`auricle chat --model PATH` a published folder or a GGUF file of a language model.
";

fn check(args: &CheckArgs) -> Result<()> {
    let dirs = match &args.dir {
        Some(dir) => vec![dir.clone()],
        None => present(&args.models.path()?)?,
    };
    if dirs.is_empty() {
        return Err(Failure::NoCheckpoint(args.models.path()?));
    }
    let mut failed = false;
    for dir in &dirs {
        match check_checkpoint(dir) {
            Ok(text) => output::print(&text)?,
            Err(error) => {
                failed = true;
                match error {
                    // The message begins with the path already.
                    Error::Checkpoint { .. } => output::say(&error),
                    _ => output::say(&format_args!("{}: {error}", dir.display())),
                }
            }
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

/// Checks a checkpoint and describes it.
///
/// # Errors
/// Its fault.
pub fn check_checkpoint(dir: &Path) -> Result<String, Error> {
    let part = |name: &str, values: usize| {
        format!("{}: good\n  {name}, {:.1} M parameters\n", dir.display(), values as f64 / 1e6)
    };
    // The published detector is a file of tensors without settings.
    if !dir.is_file() && !dir.join("config.json").is_file() && dir.join("model.safetensors").is_file() {
        return check_detector(dir).map(|values| part("voice activity detector", values));
    }
    if is_voice(dir) {
        return check_voice(dir).map(|values| part("voice", values));
    }
    if dir.extension().is_some_and(|extension| extension == "onnx") {
        return check_turn_detector(dir).map(|values| part("turn detector", values));
    }
    match part_of(dir) {
        Some((name, check)) => check(dir).map(|values| part(name, values)),
        None => check_model(dir).map(|report| described(dir, &report)),
    }
}

fn remove(args: &RemoveArgs) -> Result<()> {
    let models = args.models.path()?;
    let mut removed = Vec::new();
    for target in PullTarget::find_all(&models, &args.name, args.size.as_deref())? {
        removed.extend(target.remove(&models)?);
    }
    if removed.is_empty() {
        let (name, models) = (&args.name, models.display());
        let reason =
            format!("no checkpoint of {name} in {models} was pulled; `auricle models list` shows what is there");
        return Err(Failure::Service(reason));
    }
    for place in &removed {
        output::print(&format!("{} is deleted, {} are free\n", place.path.display(), decimal_bytes(place.bytes)))?;
    }
    let catalog = Catalog::read(&models)?;
    for ListedModel { id, state, published, .. } in checkpoints::list(&catalog)? {
        if removed.iter().any(|place| place.served.contains(&id)) {
            let now = match (state, published) {
                (ModelState::Missing, _) => "has no checkpoint now".to_owned(),
                (ModelState::Starter, _) | (_, None) => "runs on the starter now".to_owned(),
                (ModelState::Published, Some(published)) => format!("runs on {published} now"),
            };
            output::print(&format!("{id} {now}\n"))?;
        }
    }
    Ok(())
}

/// The existing checkpoint folders of a catalog, each once.
pub fn present(dir: &Path) -> Result<Vec<PathBuf>> {
    let catalog = Catalog::read(dir)?;
    let named = catalog.models().iter().flat_map(|model| {
        [&model.folder, &model.starter].into_iter().chain(model.sizes.iter().map(|size| &size.folder))
    });
    let named = named.map(|folder| dir.join(folder)).chain(catalog.detector());
    let named = named.chain(catalog.diarizer()).chain(catalog.starter_diarizer()).chain(catalog.tagger());
    let named = named.chain(catalog.voices().iter().flat_map(|voice| catalog.voice_paths(voice)));
    let languages = catalog.language_models().iter();
    let languages = languages.filter_map(|model| Some(catalog.choose_language_model(Some(&model.id)).ok()?.1));
    let files = languages.chain(catalog.turn_detector());
    let mut dirs: Vec<PathBuf> = named.filter(|dir| dir.is_dir()).chain(files).collect();
    dirs.sort();
    dirs.dedup();
    Ok(dirs)
}

/// Tells if the folder is of voices: one of folders, or one with a network of its own.
fn is_voice(dir: &Path) -> bool {
    let is_network = |name: String| matches!(name.as_str(), "pocket_tts" | "gradium_phonon_tts");
    let speaks_clauses = config(dir).is_some_and(|config| config["istftnet"].is_object());
    dir.join("acoustic").is_dir() || speaks_clauses || model_type(dir).is_some_and(is_network)
}

/// Loads a checkpoint and gives the number of values in its tensors.
type Check = fn(&Path) -> Result<usize, Error>;

/// The name and the check of a checkpoint that transcribes nothing by itself; none for another.
fn part_of(dir: &Path) -> Option<(&'static str, Check)> {
    match model_type(dir)?.as_str() {
        "ecapa_tdnn" => Some(("speaker embedding", |dir| check_diarizer(dir))),
        "nemotron3_diarization" => Some(("diarizer", |dir| check_diarizer(dir))),
        "bert" => Some(("tagger", |dir| check_tagger(dir))),
        _ => None,
    }
}

/// The `model_type` of the folder's `config.json`.
fn model_type(dir: &Path) -> Option<String> {
    config(dir)?["model_type"].as_str().map(str::to_owned)
}

/// The folder's `config.json`.
fn config(dir: &Path) -> Option<serde_json::Value> {
    serde_json::from_str(&std::fs::read_to_string(dir.join("config.json")).ok()?).ok()
}

fn described(dir: &Path, report: &ModelReport) -> String {
    let layers = if report.class.ends_with("ForCausalLM") { "layers" } else { "encoder layers" };
    let mut text = format!(
        "{}: good\n  {}, {:.1} M parameters, {} {layers} of {}, {} tokens\n",
        dir.display(),
        report.class,
        report.parameters as f64 / 1e6,
        report.layers,
        report.hidden_size,
        report.vocab_size
    );
    text.push_str(&format!("  read from {}\n", report.form));
    if report.streaming {
        let choices: Vec<String> = report.look_aheads_ms.iter().map(u32::to_string).collect();
        text.push_str(&format!("  streaming, look-ahead of {} ms\n", choices.join(", ")));
    }
    text
}
