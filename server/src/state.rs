//! The state of the service, in parts: each handler gets the part of its resource alone.

use std::sync::Arc;

use crate::api::TranscriptsState;
use crate::api::billing::BillingState;
use crate::api::health::HealthState;
use crate::api::language::LanguageState;
use crate::api::models::ModelsState;
use crate::api::openai::speech::SpeechState;
use crate::api::speakers::SpeakersState;
use crate::api::uploads::UploadsState;
use crate::api::voices::VoicesState;
use crate::api::webhooks::WebhooksState;
use crate::auth::Authenticator;
use crate::compat::mcp::McpState;
use crate::dashboard::DashboardState;
use crate::http::proxies::TrustedProxies;
use crate::http::rate_limits::RateLimits;
use crate::live::{AgentState, LiveState};

/// One part per resource, and those of every request.
pub struct AppState {
    pub authenticator: Authenticator,
    pub rate_limits: Arc<RateLimits>,
    pub trusted_proxies: TrustedProxies,
    pub transcripts: Arc<TranscriptsState>,
    pub uploads: Arc<UploadsState>,
    pub models: Arc<ModelsState>,
    pub language: Arc<LanguageState>,
    pub speech: Arc<SpeechState>,
    pub voices: Arc<VoicesState>,
    pub speakers: Arc<SpeakersState>,
    pub mcp: Arc<McpState>,
    pub billing: Arc<BillingState>,
    pub webhooks: Arc<WebhooksState>,
    pub health: Arc<HealthState>,
    pub realtime: Arc<LiveState>,
    pub agent: Arc<AgentState>,
    pub dashboard: Arc<DashboardState>,
}
