//! The resources of `/v2`, one module each: request validation and response bodies.

pub mod billing;
pub mod chat;
mod chat_request;
pub mod create;
pub mod edits;
pub mod form;
pub mod health;
pub mod language;
pub mod models;
pub mod one_request;
pub mod openai;
pub mod rendering;
pub mod speakers;
pub mod stored_object;
pub mod tags;
pub mod transcript_search;
mod transcript_stream;
pub mod transcripts;
pub mod understanding;
pub mod upload_quota;
pub mod uploads;
pub mod voices;
pub mod webhooks;

use std::sync::Arc;

use auricle_engine::Catalog;
use url::Url;

use self::rendering::Renderer;
use self::speakers::SpeakersState;
use self::uploads::UploadsState;
use crate::config::BillingProvider;
use crate::notify::Notifiers;
use crate::outbound::Outbound;
use crate::storage::Storage;
use crate::store::Store;

/// The state of transcripts.
pub struct TranscriptsState {
    pub store: Store,
    pub storage: Storage,
    /// Takes the files of forms.
    pub uploads: Arc<UploadsState>,
    /// Reads the voices of known speakers.
    pub speakers: Arc<SpeakersState>,
    pub outbound: Outbound,
    pub catalog: Arc<Catalog>,
    pub notifiers: Arc<Notifiers>,
    pub renderer: Arc<Renderer>,
    pub billing_provider: BillingProvider,
    /// The API's public URL.
    pub public_url: Url,
    /// Transcripts of an account that may wait at a time.
    pub max_queued: i64,
}
