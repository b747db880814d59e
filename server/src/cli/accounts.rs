//! `auricle accounts`: links with which people set their passwords.

use clap::{Args, Subcommand};

use super::keys::{DatabaseArgs, database, email};
use super::{Failure, Result, output};
use crate::serve;
use url::Url;

#[derive(Subcommand)]
pub enum AccountsCommand {
    /// Print a one-time link that sets a password for the dashboard, also a forgotten one
    #[command(after_help = "\
The link is valid for a day. Setting a password ends all sign-ins of that address.

Examples:
  auricle accounts link                          for the first account
  auricle accounts link ops@example.com          for another account, which `auricle keys create` or a sign-up has made")]
    Link(LinkArgs),
}

#[derive(Args)]
pub struct LinkArgs {
    /// The email address of an account or of a member of its team [default: the first account]
    #[arg(value_name = "EMAIL", value_parser = email)]
    account: Option<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

pub fn run(command: &AccountsCommand) -> Result<()> {
    super::log_to_stderr(super::Log::Text);
    let AccountsCommand::Link(args) = command;
    super::runtime()?.block_on(link(args))
}

async fn link(args: &LinkArgs) -> Result<()> {
    let store = args.database.open_existing().await?;
    let config = args.database.settings()?;
    let account = match &args.account {
        Some(email) => store.account_named(email).await.map_err(database)?,
        None => store.first_account().await.map_err(database)?,
    };
    let account = account.ok_or_else(|| Failure::Service("there is no such account".into()))?;
    let dashboard = match config.dashboard_public_url {
        Some(url) => url,
        None => Url::parse(&format!("http://{}", config.dashboard_listen))
            .map_err(|error| Failure::Service(error.to_string()))?,
    };
    // The address may be a member's.
    let address = args.account.as_deref().unwrap_or(&account.email);
    let link = serve::password_link(&store, account.id.clone(), address, &dashboard).await.map_err(database)?;
    store.close().await;
    output::print(&format!("{link}\n"))
}
