//! `auricle voices`: the voices that speak, and those that are made of recordings.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions, Error, SpeakOptions};
use clap::{Args, Subcommand};
use serde_json::json;

use super::output::ListFormArgs;
use super::speakers::clip_failure;
use super::{EngineArgs, Failure, ModelsFolder, Result, out_file, output};
use crate::cloned_voices::checked_consent;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct VoicesArgs {
    #[command(subcommand)]
    command: Option<VoicesCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Subcommand)]
enum VoicesCommand {
    /// List the voices of `auricle say`, the default first: id, language, model [default]
    List(ListArgs),
    /// Make a voice of a clip of a person who has agreed
    #[command(after_long_help = "\
A voice imitates a person: ask for consent. The clip has 5 to 20 s of one person's speech, without music. A model of Pocket TTS's form,
whose audio tokenizer has its encoder, speaks with the voice, which is a file beside those of the model.

Examples:
  auricle voices add ada ada.wav --consent 'I, Ada Lovelace, agree that Auricle copies my voice.'
  auricle say 'Good morning.' --voice ada
  auricle voices rm ada")]
    Add(AddArgs),
    /// Delete a voice that `add` has made
    #[command(visible_alias = "remove")]
    Rm {
        /// Its name
        name: String,
        #[command(flatten)]
        models: ModelsFolder,
    },
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    form: ListFormArgs,
    #[command(flatten)]
    models: ModelsFolder,
}

#[derive(Args)]
struct AddArgs {
    /// The voice's name: letters, digits, - and _
    #[arg(value_parser = name)]
    name: String,
    /// An audio or video file
    clip: PathBuf,
    /// Words of the person's consent, kept with the voice [default: asked for on a terminal]
    #[arg(long, value_name = "WORDS", value_parser = consent)]
    consent: Option<String>,
    /// The language that the voice is to speak [default: that of the first model that makes voices]
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    #[command(flatten)]
    engine: EngineArgs,
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match (1..=40).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('-') {
        true => Ok(text.to_owned()),
        false => Err("a voice's name has 1 to 40 letters, digits, - and _".into()),
    }
}

fn consent(text: &str) -> Result<String, String> {
    checked_consent(text).map(str::to_owned)
}

pub fn run(args: &VoicesArgs) -> Result<()> {
    match &args.command {
        None => list(&args.list),
        Some(VoicesCommand::List(args)) => list(args),
        Some(VoicesCommand::Add(args)) => add(args),
        Some(VoicesCommand::Rm { name, models }) => remove(name, models),
    }
}

fn on_cpu(models: &ModelsFolder) -> Result<Engine> {
    let options = EngineOptions::default().models(models.path()?).device(DeviceChoice::Cpu);
    Ok(Engine::open(options)?)
}

fn list(args: &ListArgs) -> Result<()> {
    let items = on_cpu(&args.models)?.voices(&SpeakOptions::default())?.into_iter().map(|voice| {
        let object = json!({ "id": voice.id, "language": voice.language, "model": voice.model });
        (object, vec![voice.id, voice.language, voice.model])
    });
    output::list(&[], items.collect(), args.form.form())
}

fn add(args: &AddArgs) -> Result<()> {
    let consent = args.consent.clone().map_or_else(ask, Ok)?;
    let failed = |error| clip_failure(&args.clip, error);
    let audio = AudioStream::open_with(&args.clip, &OpenOptions::default().name("the clip")).map_err(failed)?;
    let (engine, language) = (Engine::open(args.engine.options()?)?, args.language.as_deref());
    let path = engine.cloned_voice_path(&args.name, language).map_err(failed)?;
    if engine.voices(&SpeakOptions::default())?.iter().any(|voice| voice.id == args.name) {
        return Err(Failure::Service(format!("there is a voice {} already; take another name", args.name)));
    }
    let voice = engine.clone_voice(audio, &consent, language).map_err(failed)?;
    let unwritten = |source| Failure::Write { what: format!("to {}", path.display()), source };
    out_file::write(&path, &voice.to_file()?).map_err(unwritten)?;
    output::print(&format!("{}  {}  {}\n", args.name, voice.language, voice.model))
}

/// Asks for the words of the consent.
fn ask() -> Result<String> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let needed = "a voice is made of the recording of a person who has agreed: give the words with --consent";
        return Err(Failure::Usage(needed.into()));
    }
    output::say(
        &"Whose voice is this, and in which words has that person agreed that it is copied? They are kept with the voice.",
    );
    let mut words = String::new();
    let unread = |error: io::Error| Failure::Engine(Error::Read { path: "-".into(), reason: error.to_string() });
    io::stdin().lock().read_line(&mut words).map_err(unread)?;
    checked_consent(&words).map(str::to_owned).map_err(|reason| Failure::Usage(format!("the consent {reason}")))
}

fn remove(name: &str, models: &ModelsFolder) -> Result<()> {
    let Some(file) = on_cpu(models)?.cloned_voice_file(name)? else {
        return Err(Failure::Service(format!("{name} came with its model; `auricle voices add` has not made it")));
    };
    let what = || format!("{}, which is to be deleted", file.display());
    fs::remove_file(&file).map_err(|source| Failure::Write { what: what(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files_anywhere() {
        assert_eq!(name("ada_2-b"), Ok("ada_2-b".into()));
        for wrong in ["", "-a", "a/b", "..", "a b", "Zoë", &"x".repeat(41)] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }
}
