//! `auricle keys`: creates, lists and revokes API keys in the service's database. The service may be running.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use toml::{Table, Value};

use super::output::ListFormArgs;
use super::{Failure, Result, output};
use crate::clock;
use crate::config::Config;
use crate::serve::{FIRST_ACCOUNT, data_folder};
use crate::store::{Durability, Store, email_address};
use crate::visible;

#[derive(Subcommand)]
pub enum KeysCommand {
    /// Create a key and print its secret, which is shown this once
    #[command(after_long_help = "\
Examples:
  auricle keys create                            for the first account
  auricle keys create --account ops@example.com  for another account, which is created if it is new
  export AURICLE_KEY=$(auricle keys create)")]
    Create(CreateArgs),
    /// List keys, without their secrets
    List(ListArgs),
    /// Revoke a key, by its secret or by the id that `list` shows: the next request with it fails
    Revoke(RevokeArgs),
}

/// The database: that of the data folder, unless AURICLE_DATABASE_URL or the settings name another.
#[derive(Args)]
pub(super) struct DatabaseArgs {
    /// Folder of the service's database [default: AURICLE_DATA, else auricle-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Settings, as TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args)]
pub struct CreateArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The account's email address [default: the first account]
    #[arg(long, value_name = "EMAIL", value_parser = email)]
    account: Option<String>,
    /// Name of the key in lists
    #[arg(long, default_value = "", value_parser = name)]
    name: String,
}

#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Only the keys of this account
    #[arg(long, value_name = "EMAIL", value_parser = email)]
    account: Option<String>,
    #[command(flatten)]
    form: ListFormArgs,
}

#[derive(Args)]
pub struct RevokeArgs {
    /// The secret, or the id
    key: String,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Parses an email address.
pub(super) fn email(text: &str) -> Result<String, String> {
    email_address(text).ok_or_else(|| "an email address, such as ops@example.com".into())
}

fn name(text: &str) -> Result<String, String> {
    visible::check(text).map(|()| text.to_owned())
}

impl DatabaseArgs {
    pub(super) fn settings(&self) -> Result<Config> {
        let data =
            self.data.as_ref().map(|data| ("data".to_owned(), Value::String(data.to_string_lossy().into_owned())));
        Config::read(self.config.as_deref(), data.into_iter().collect::<Table>()).map_err(Failure::Usage)
    }

    /// Opens an existing database. A missing folder is an error and is not created.
    pub(super) async fn open_existing(&self) -> Result<Store> {
        let config = self.settings()?;
        if config.database_url.is_none() && !Store::file_in(&config.data).is_file() {
            let data = config.data.display();
            let reason = format!("there is no service in {data}: name its folder with --data or AURICLE_DATA");
            return Err(Failure::Service(reason));
        }
        Ok(self.open().await?.0)
    }

    /// Opens the database, and creates it if it does not exist.
    pub(super) async fn open(&self) -> Result<(Store, Config)> {
        let config = self.settings()?;
        let url = match &config.database_url {
            Some(url) => url.clone(),
            None => {
                data_folder::prepare(&config.data).map_err(Failure::Service)?;
                Store::url_in(&config.data)
            }
        };
        let store = Store::open(&url, Durability::PowerCut).await.map_err(database)?;
        Ok((store, config))
    }
}

pub(super) fn database(error: crate::store::Error) -> Failure {
    Failure::Service(format!("the database: {error}"))
}

pub fn run(command: &KeysCommand) -> Result<()> {
    super::log_to_stderr(super::Log::Text);
    super::runtime()?.block_on(async {
        match command {
            KeysCommand::Create(args) => create(args).await,
            KeysCommand::List(args) => list(args).await,
            KeysCommand::Revoke(args) => revoke(args).await,
        }
    })
}

async fn create(args: &CreateArgs) -> Result<()> {
    let (store, config) = args.database.open().await?;
    let first = store.first_account().await.map_err(database)?;
    let account = match (&args.account, first) {
        (None, Some(first)) => first,
        (account, _) => {
            let email = account.as_deref().unwrap_or(FIRST_ACCOUNT);
            store.account_of(email, config.free_credit_cents.into()).await.map_err(database)?
        }
    };
    let key = store.create_key(&account.id, &args.name, None).await.map_err(database)?;
    output::print(&format!("{}\n", key.secret))?;
    store.close().await;
    Ok(())
}

async fn list(args: &ListArgs) -> Result<()> {
    let store = args.database.open_existing().await?;
    let keys = store.keys(args.account.as_deref()).await.map_err(database)?;
    let items = keys.into_iter().map(|key| {
        let (created, revoked) = (clock::iso(key.created_at), key.revoked_at.map(clock::iso));
        let object = json!({
            "id": key.id.as_str(),
            "account": key.email,
            "name": key.name,
            "created_at": created,
            "revoked_at": revoked,
        });
        (object, vec![key.id.to_string(), key.email, key.name, created, revoked.unwrap_or_default()])
    });
    output::list(&["id", "account", "name", "created", "revoked"], items.collect(), args.form.form())
}

async fn revoke(args: &RevokeArgs) -> Result<()> {
    let store = args.database.open_existing().await?;
    if store.revoke_key(args.key.trim()).await.map_err(database)? {
        return Ok(());
    }
    Err(Failure::Service("no such key, or it is revoked already; `auricle keys list` shows them".into()))
}
