//! The dashboard: pages for people, rendered here, with a little script; and the events of Stripe.
//!
//! `frame` is what all pages share, `words` every word of them, `assets` their style and script. Templates are in `server/templates`.
//! Requests of a page's script are answered by the handlers of the API itself.

mod api_schema;
pub mod assets;
mod attempts;
pub mod audio;
pub mod billing;
mod chart;
pub mod checkout;
mod docx;
pub mod forgot;
mod form;
mod found;
pub mod frame;
mod insights;
pub mod join;
pub mod keys;
pub mod library;
mod markdown;
pub mod openid;
pub mod operator;
mod passwords;
pub mod playground;
pub mod presets;
mod provider_button;
mod pulls;
pub mod reference;
pub mod share;
mod shown;
pub mod sign_in;
pub mod speakers;
mod starters;
pub mod stripe_events;
pub mod team;
pub mod transcripts;
pub mod usage;
mod waveform;
pub mod webhooks;
pub mod welcome;
mod words;
mod zip;

use std::sync::Arc;

use auricle_engine::{Catalog, Engine, SecondPass};
use url::Url;

use crate::api::TranscriptsState;
use crate::auth::openid::OpenId;
use crate::auth::visitor::Cookies;
use crate::billing::PaymentProvider;
use crate::http::response::Result;
use crate::notify::Notifiers;
use crate::storage::Storage;
use crate::store::{SignUp, Store};
use crate::webhook_secrets::WebhookSecrets;
pub use attempts::Attempts;
pub use frame::BrowserRules;
pub use operator::Operation;
pub use passwords::Passwords;
pub use pulls::Pulls;
pub use reference::Reference;

/// The state of these pages.
pub struct DashboardState {
    pub store: Store,
    pub storage: Storage,
    pub catalog: Arc<Catalog>,
    /// What writes live languages that the live models lack.
    pub second_pass: SecondPass,
    /// None if this process does not transcribe.
    pub engine: Option<Engine>,
    pub payments: Arc<PaymentProvider>,
    pub notifiers: Arc<Notifiers>,
    pub webhook_secrets: Arc<WebhookSecrets>,
    pub transcripts: Arc<TranscriptsState>,
    pub cookies: Cookies,
    pub passwords: Passwords,
    pub attempts: Attempts,
    /// The dashboard's URL, for links that people pass on.
    pub dashboard_url: Url,
    /// Headers of every response.
    pub browser_rules: BrowserRules,
    /// The API's URL, for the code that the pages show.
    pub api_url: Url,
    /// The pages of the API.
    pub reference: Reference,
    /// Signs people in, too.
    pub openid: Option<OpenId>,
    /// Who may create an account.
    pub sign_up: SignUp,
    /// The settings name a mail server.
    pub sends_mail: bool,
    pub free_credit_cents: i64,
    /// For the operator's page.
    pub operation: Operation,
}

/// Lifetime of a link that sets a password.
const LINK_MS: i64 = 24 * 3_600_000;

/// A one-time link that sets a password, and its lifetime.
pub struct OneTimeLink {
    /// The path on the dashboard, with the secret.
    pub path: String,
    /// By which the store keeps it.
    pub secret_hash: String,
    pub expires_at: i64,
}

impl OneTimeLink {
    /// A new link, valid for a day.
    pub fn new(now: i64) -> Self {
        let secret = crate::auth::visitor::new_secret();
        Self {
            path: format!("/welcome/{secret}"),
            secret_hash: crate::auth::visitor::hash_of(&secret),
            expires_at: now + LINK_MS,
        }
    }
}

/// The value of a template that has been rendered.
fn rendered(html: askama::Result<String>) -> Result<String> {
    html.map_err(|error| crate::http::response::ApiError::internal(&error))
}
