//! `auricle accounts`: what an administrator does for accounts in the service's database. The service may be running.

use clap::{Args, Subcommand};

use super::keys::{DatabaseArgs, database, email};
use super::{Failure, Result, output};
use crate::config::BillingProvider;
use crate::serve;
use crate::speakers::service_secret;
use crate::store::{Account, Store};
use crate::webhook_secrets::WebhookSecrets;
use url::Url;

#[derive(Subcommand)]
pub enum AccountsCommand {
    /// Print a one-time link that sets a password for the dashboard, also a forgotten one
    #[command(after_long_help = "\
The link is valid for a day. Setting a password ends all sign-ins of that address.

Examples:
  auricle accounts link                          for the first account
  auricle accounts link ops@example.com          for another account, which `auricle keys create` or a sign-up has made")]
    Link(LinkArgs),
    /// Make a secret that signs an account's webhooks, and print it, which is done this once
    #[command(after_long_help = "\
Webhooks are then signed as https://www.standardwebhooks.com specifies. If the account has a secret, this one takes its place, and both
sign for a day.

Examples:
  auricle accounts webhook-secret                for the first account
  auricle accounts webhook-secret --remove       no more signatures")]
    WebhookSecret(WebhookSecretArgs),
    /// Lift the limit of an account's free credit, where billing_provider is local
    #[command(after_long_help = "\
Usage is recorded as before, and nothing is refused. The service may be running.

Examples:
  auricle accounts unlimited                     for the first account
  auricle accounts unlimited ops@example.com
  auricle accounts unlimited ops@example.com --off")]
    Unlimited(UnlimitedArgs),
}

/// An account of an existing database.
#[derive(Args)]
struct AccountArgs {
    /// Email address of an account or of a member of its team [default: the first account]
    #[arg(value_name = "EMAIL", value_parser = email)]
    account: Option<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

impl AccountArgs {
    async fn find(&self) -> Result<(Store, Account)> {
        let store = self.database.open_existing().await?;
        let account = match &self.account {
            Some(email) => store.account_named(email).await.map_err(database)?,
            None => store.first_account().await.map_err(database)?,
        };
        Ok((store, account.ok_or_else(|| Failure::Service("there is no such account".into()))?))
    }
}

#[derive(Args)]
pub struct LinkArgs {
    #[command(flatten)]
    of: AccountArgs,
}

#[derive(Args)]
pub struct WebhookSecretArgs {
    #[command(flatten)]
    of: AccountArgs,
    /// Remove the secret: webhooks are no longer signed
    #[arg(long)]
    remove: bool,
}

#[derive(Args)]
pub struct UnlimitedArgs {
    #[command(flatten)]
    of: AccountArgs,
    /// Set the limit again
    #[arg(long)]
    off: bool,
}

pub fn run(command: &AccountsCommand) -> Result<()> {
    super::log_to_stderr(super::Log::Text);
    super::runtime()?.block_on(async {
        match command {
            AccountsCommand::Link(args) => link(args).await,
            AccountsCommand::WebhookSecret(args) => webhook_secret(args).await,
            AccountsCommand::Unlimited(args) => unlimited(args).await,
        }
    })
}

async fn link(args: &LinkArgs) -> Result<()> {
    let (store, account) = args.of.find().await?;
    let config = args.of.database.settings()?;
    let dashboard = match config.dashboard_public_url {
        Some(url) => url,
        None => Url::parse(&format!("http://{}", config.dashboard_listen))
            .map_err(|error| Failure::Service(error.to_string()))?,
    };
    // The address may be a member's.
    let address = args.of.account.as_deref().unwrap_or(&account.email);
    let link = serve::password_link(&store, account.id.clone(), address, &dashboard).await.map_err(database)?;
    store.close().await;
    output::print(&format!("{link}\n"))
}

async fn webhook_secret(args: &WebhookSecretArgs) -> Result<()> {
    let (store, account) = args.of.find().await?;
    if args.remove {
        let removed = store.delete_webhook_secret(&account.id).await.map_err(database)?;
        store.close().await;
        return match removed {
            true => Ok(()),
            false => Err(Failure::Service(format!("{} has no webhook secret", account.email))),
        };
    }
    let secrets = WebhookSecrets::new(store.clone(), &service_secret(&store).await.map_err(database)?);
    let rotated = secrets.rotate(&account.id).await;
    let (secret, _) = rotated.map_err(|error| Failure::Service(format!("the secret: {error}")))?;
    store.close().await;
    output::print(&format!("{secret}\n"))
}

async fn unlimited(args: &UnlimitedArgs) -> Result<()> {
    if args.of.database.settings()?.billing_provider != BillingProvider::Local {
        let reason = "billing_provider is not local: a subscription with the payment provider lifts the limit";
        return Err(Failure::Service(reason.into()));
    }
    let (store, account) = args.of.find().await?;
    store.set_unlimited(&account.id, !args.off).await.map_err(database)?;
    store.close().await;
    let state = if args.off { "has the limit of its free credit again" } else { "has no limit now" };
    output::print(&format!("{} {state}\n", account.email))
}
