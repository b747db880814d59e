//! Live sessions over WebSockets: tokens, frames, sessions.
//!
//! `realtime` transcribes, with `session`, `frames` and `screen`, which hides words; `agent` talks. Both, and `/v1/realtime`, open their sockets by `upgrade` and meter
//! them by `metered`; audio in base64 is coded by `codec`. `call` stands in for the socket where the client comes by WebRTC.

pub mod agent;
#[cfg(feature = "webrtc")]
pub mod call;
pub mod codec;
pub mod frames;
pub mod metered;
pub mod realtime;
pub mod screen;
mod session;
mod session_threads;
pub mod socket;
pub mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{Catalog, EndpointingRules, Engine, LanguageModelChoice, ListenOptions, SecondPass};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::cloned_voices::ClonedVoices;
use crate::config::{BillingProvider, url_below};
use crate::language::LanguageModels;
use crate::languages;
use crate::metering::Metering;
use crate::sharing::Places;
use crate::store::{JobOptions, Store};
pub use session_threads::SessionThreads;

/// The state of live sessions.
pub struct LiveState {
    pub store: Store,
    pub catalog: Arc<Catalog>,
    /// None if this process does not transcribe.
    pub engine: Option<Engine>,
    pub metering: Arc<Metering>,
    pub billing_provider: BillingProvider,
    pub threads: SessionThreads,
    /// Every connection from its handshake to its close. Shutdown waits for them.
    pub connections: TaskTracker,
    /// One place per running session.
    pub places: Places,
    /// Canceled when the service stops.
    pub stopping: CancellationToken,
    /// The key that session tokens are signed with.
    pub signing_key: Arc<str>,
    /// The API's public URL.
    pub public_url: Url,
    pub settings: SessionSettings,
    #[cfg(feature = "webrtc")]
    pub call_settings: call::CallSettings,
    #[cfg(feature = "webrtc")]
    pub calls: call::Calls,
}

impl LiveState {
    /// The public URL of a WebSocket.
    pub fn websocket_url(&self, path: &str) -> Url {
        let mut url = url_below(&self.public_url, path);
        let _ = url.set_scheme(if url.scheme() == "https" { "wss" } else { "ws" });
        url
    }
}

/// The state of voice agents.
pub struct AgentState {
    pub live: Arc<LiveState>,
    /// Language models.
    pub models: LanguageModels,
    /// Voices of the accounts.
    pub clones: ClonedVoices,
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Silence that ends a turn.
    pub turn_silence_ms: u32,
    /// Silence that ends a turn which sounds finished, if the turn detector is to be asked.
    pub turn_finished_silence_ms: Option<u32>,
    pub language_model: LanguageModelChoice,
    pub second_pass: SecondPass,
    /// A session without audio for this time is ended.
    pub idle_timeout: Duration,
    /// The longest duration of a session.
    pub max_duration: Duration,
}

impl SessionSettings {
    /// The options of a session with a live model, but for those that its client chooses.
    pub fn listen_options(&self, model: &str, sample_rate: u32) -> ListenOptions {
        let mut options = ListenOptions::default()
            .model(model)
            .sample_rate(sample_rate)
            .language_model(self.language_model.clone())
            .second_pass(self.second_pass.clone());
        options.languages =
            languages::REALTIME.into_iter().filter(|code| !code.contains('_')).map(Into::into).collect();
        options
    }

    /// Those of a session that is opened by a token, with the options of it.
    pub fn asked_options(
        &self,
        model: &str,
        sample_rate: u32,
        language: Option<&str>,
        asked: &JobOptions,
    ) -> ListenOptions {
        let mut turns = EndpointingRules::default().silence_ms(self.turn_silence_ms);
        turns.finished_silence_ms = self.turn_finished_silence_ms;
        let mut options = self
            .listen_options(model, sample_rate)
            .medical_mode(asked.medical_mode)
            .format_numbers(asked.format_numbers.unwrap_or(true))
            .keyterms(asked.keyterms_prompt.iter().flatten().map(String::as_str))
            .turns(turns);
        options.language = language.map(str::to_owned);
        options
    }
}
