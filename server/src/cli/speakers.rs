//! `auricle speakers`: the people whom transcripts may name. They are kept in the service's database, which may be running.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_engine::blocking::Engine;
use auricle_engine::{Catalog, Error, KnownSpeaker};
use clap::{Args, Subcommand};
use serde_json::json;

use super::keys::{DatabaseArgs, database, email};
use super::output::ListFormArgs;
use super::progress::Bar;
use super::{EngineArgs, Failure, Result, loading, output};
use crate::clock;
use crate::config::Config;
use crate::ids::AccountId;
use crate::serve::FIRST_ACCOUNT;
use crate::speakers::{MAX_SPEAKERS, Profiles, checked_name, service_secret};
use crate::store::{NameRefusal, Store};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SpeakersArgs {
    #[command(subcommand)]
    command: Option<SpeakersCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Subcommand)]
enum SpeakersCommand {
    /// Keep the voice of a person, from a clip of that person alone
    #[command(after_long_help = "\
A voice identifies a person: ask for consent. The clip has at least five seconds of speech and at most ten minutes, without
other people or music. What is kept of it is encrypted; the clip is not.

Examples:
  auricle speakers add 'Ada Lovelace' ada.wav
  auricle transcribe meeting.mp3 --speakers --identify")]
    Add(AddArgs),
    /// List the people: id, name, seconds of speech, whether the profile can be used [default]
    List(ListArgs),
    /// Delete a person, by name or by the id that `list` shows
    Remove(RemoveArgs),
}

#[derive(Args)]
struct AddArgs {
    /// The name in transcripts
    #[arg(value_parser = name)]
    name: String,
    /// An audio or video file
    file: PathBuf,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    form: ListFormArgs,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    models: super::ModelsFolder,
}

#[derive(Args)]
struct RemoveArgs {
    /// The name, or the id
    speaker: String,
    #[command(flatten)]
    owner: OwnerArgs,
}

/// The account that the people belong to.
#[derive(Args)]
struct OwnerArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The account's email address [default: the first account]
    #[arg(long, value_name = "EMAIL", value_parser = email)]
    account: Option<String>,
}

fn name(text: &str) -> Result<String, String> {
    checked_name(text).map(str::to_owned)
}

impl OwnerArgs {
    /// The account; that of a new database is created.
    async fn create(&self) -> Result<(Store, Config, AccountId)> {
        let (store, config) = self.database.open().await?;
        let account = match (&self.account, store.first_account().await.map_err(database)?) {
            (None, Some(first)) => first,
            (email, _) => {
                let email = email.as_deref().unwrap_or(FIRST_ACCOUNT);
                store.account_of(email, config.free_credit_cents.into()).await.map_err(database)?
            }
        };
        Ok((store, config, account.id))
    }

    /// The account of an existing database.
    async fn find(&self) -> Result<(Store, Config, AccountId)> {
        let store = self.database.open_existing().await?;
        let account = match &self.account {
            Some(email) => store.account_named(email).await.map_err(database)?,
            None => store.first_account().await.map_err(database)?,
        };
        let account = account.ok_or_else(|| Failure::Service("there is no such account".into()))?;
        Ok((store, self.database.settings()?, account.id))
    }
}

async fn profiles(store: &Store, config: &Config, catalog: Catalog) -> Result<Profiles> {
    let secret = service_secret(store).await.map_err(database)?;
    let key = config.speaker_key.as_deref().unwrap_or(&secret);
    Ok(Profiles::new(store.clone(), Arc::new(catalog), key))
}

/// The people whom the transcripts of the first account may name.
///
/// # Errors
/// If there is no database, or nobody who can be named.
pub(super) fn known(args: &DatabaseArgs, catalog: &Catalog) -> Result<Vec<KnownSpeaker>> {
    super::runtime()?.block_on(async {
        let store = args.open_existing().await?;
        let account = store.first_account().await.map_err(database)?;
        let known = match account {
            Some(account) => {
                let profiles = profiles(&store, &args.settings()?, catalog.clone()).await?;
                profiles.known(&account.id).await.map_err(|error| Failure::Service(error.to_string()))?
            }
            None => Vec::new(),
        };
        store.close().await;
        match known.is_empty() {
            true => Err(Failure::Service("nobody can be named: `auricle speakers add NAME FILE` keeps a voice".into())),
            false => Ok(known),
        }
    })
}

pub fn run(args: &SpeakersArgs) -> Result<()> {
    match &args.command {
        Some(SpeakersCommand::Add(args)) => add(args),
        Some(SpeakersCommand::List(args)) => super::runtime()?.block_on(list(args)),
        None => super::runtime()?.block_on(list(&args.list)),
        Some(SpeakersCommand::Remove(args)) => super::runtime()?.block_on(remove(args)),
    }
}

/// The failure of reading a clip.
pub(super) fn clip_failure(clip: &Path, error: Error) -> Failure {
    let clip = clip.display();
    match error {
        Error::Read { reason, .. } => Failure::Service(format!("{clip}: {reason}")),
        error @ (Error::UnsuitableClip(_) | Error::UnsupportedMedia(_) | Error::NoAudioTrack(_)) => {
            Failure::Service(format!("{clip}: {error}"))
        }
        error => error.into(),
    }
}

fn add(args: &AddArgs) -> Result<()> {
    let named = |error| clip_failure(&args.file, error);
    let audio = AudioStream::open_with(&args.file, &OpenOptions::default().name("the file")).map_err(named)?;
    let bar = Bar::new(false);
    let is_loading = bar.loading(&loading::model(&args.engine.models.path()?, "diarizer"));
    let engine = Engine::open(args.engine.options()?)?;
    let profile = engine.enroll(audio).map_err(named)?;
    drop(is_loading);
    super::runtime()?.block_on(async {
        let (store, config, account) = args.owner.create().await?;
        let taken = || Failure::Service(format!("{} is known already; remove that profile first", args.name));
        match store.speaker_refusal(&account, &args.name, MAX_SPEAKERS).await.map_err(database)? {
            Some(NameRefusal::Taken) => return Err(taken()),
            Some(NameRefusal::Full) => {
                return Err(Failure::Service(format!("{MAX_SPEAKERS} people are known; remove one first")));
            }
            None => {}
        }
        let profiles = profiles(&store, &config, engine.catalog().clone()).await?;
        let speaker = profiles.speaker(&account, &args.name, &profile);
        let speaker = speaker.map_err(|error| Failure::Service(error.to_string()))?;
        if !store.create_speaker(&account, &speaker, None).await.map_err(database)? {
            return Err(taken());
        }
        store.close().await;
        output::print(&format!("{}\n", speaker.id))
    })
}

async fn list(args: &ListArgs) -> Result<()> {
    let (store, config, account) = args.owner.find().await?;
    let profiles = profiles(&store, &config, Catalog::read(&args.models.path()?)?).await?;
    let model = profiles.model().await.map_err(|error| Failure::Service(error.to_string()))?;
    let mut items = Vec::new();
    for speaker in store.all_speakers(&account).await.map_err(database)? {
        let is_usable = profiles.profile(&account, &speaker, model.as_deref()).is_some();
        let (speech_s, created) = (speaker.speech_ms as f64 / 1e3, clock::iso(speaker.created_at));
        let usable = match is_usable {
            true => "yes",
            false => "no: made by another model, or encrypted with another key; remove it and add it again",
        };
        let object = json!({
            "id": speaker.id.as_str(),
            "name": speaker.name,
            "speech_sec": speech_s,
            "created_at": created,
            "usable": is_usable,
        });
        let row = vec![speaker.id.to_string(), speaker.name, format!("{speech_s:.1} s"), created, usable.into()];
        items.push((object, row));
    }
    output::list(&["id", "name", "speech", "created", "usable"], items, args.form.form())
}

async fn remove(args: &RemoveArgs) -> Result<()> {
    let (store, _, account) = args.owner.find().await?;
    let wanted = args.speaker.trim();
    let people = store.all_speakers(&account).await.map_err(database)?;
    let found = people.iter().find(|one| one.id.as_str() == wanted || one.name.to_lowercase() == wanted.to_lowercase());
    let Some(speaker) = found else {
        return Err(Failure::Service(format!("no person is {wanted}; `auricle speakers list` names them")));
    };
    store.delete_speaker(&account, &speaker.id).await.map_err(database)?;
    // Of a running service, which may read the log just now, housekeeping empties it.
    store.empty_log().await.map_err(database)?;
    store.close().await;
    Ok(())
}
