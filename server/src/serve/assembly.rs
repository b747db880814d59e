//! Builds the parts of the service from the settings and from what has been opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{Catalog, CatalogLanguageModel, Engine};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::housekeeping::Housekeeping;
use crate::api::TranscriptsState;
use crate::api::billing::BillingState;
use crate::api::health::HealthState;
use crate::api::language::LanguageState;
use crate::api::models::ModelsState;
use crate::api::openai::speech::{self, SpeechState};
use crate::api::rendering::Renderer;
use crate::api::speakers::{self, SpeakersState};
use crate::api::upload_quota::UploadQuota;
use crate::api::uploads::UploadsState;
use crate::api::voices::VoicesState;
use crate::api::webhooks::WebhooksState;
use crate::auth::Authenticator;
use crate::auth::openid::OpenId;
use crate::auth::visitor::Cookies;
use crate::billing::PaymentProvider;
use crate::checkpoints::Source;
use crate::cloned_voices::ClonedVoices;
use crate::compat::mcp::McpState;
use crate::config::{Config, url_below};
use crate::dashboard::{Attempts, BrowserRules, DashboardState, Operation, Passwords, Pulls, Reference};
use crate::http::proxies::TrustedProxies;
use crate::http::rate_limits::RateLimits;
use crate::http::transfer::TransferLimits;
use crate::ids::NodeId;
use crate::jobs::{JobRunner, JobSettings};
use crate::language::local::Local;
use crate::language::upstream::{Upstream, UpstreamSettings};
use crate::language::{self, LanguageModel, LanguageModels};
#[cfg(feature = "webrtc")]
use crate::live::call::{CallSettings, Calls};
use crate::live::{AgentState, LiveState, SessionSettings, SessionThreads};
use crate::mail::{MailOutbox, Smtp};
use crate::metering::Metering;
use crate::notify::Notifiers;
use crate::openapi;
use crate::outbound::Outbound;
use crate::prometheus::Metrics;
use crate::sharing::Places;
use crate::speakers::Profiles;
use crate::state::AppState;
use crate::storage::Storage;
use crate::store::{SignUp, Store};
use crate::usage_reports::UsageReporter;
use crate::webhook_outbox::WebhookOutbox;
use crate::webhook_secrets::WebhookSecrets;

/// The public URLs of the listeners.
pub struct PublicUrls {
    pub api: Url,
    pub storage: Url,
    pub dashboard: Url,
    /// None if health and metrics are on the API's listener.
    pub health: Option<Url>,
}

/// The limits of connections.
pub fn transfer_limits(config: &Config) -> TransferLimits {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    TransferLimits {
        head: seconds(config.head_timeout_seconds),
        idle: seconds(config.idle_timeout_seconds),
        stall: seconds(config.stall_timeout_seconds),
        bytes_per_second: config.min_bytes_per_second.into(),
    }
}

/// The language models: the default that the settings name, the server that they name, then those of the catalog. The first is loaded in
/// the background.
fn language_models(config: &Config, engine: Option<&Engine>) -> Result<LanguageModels, String> {
    let mut models: Vec<Arc<dyn LanguageModel>> = Vec::new();
    if let (Some(url), Some(model)) = (&config.language_upstream, &config.language_model) {
        models.push(Arc::new(Upstream::new(UpstreamSettings {
            url: url.clone(),
            model: model.clone(),
            key: config.language_key.clone(),
            context_tokens: config.language_context_tokens as usize,
            timeout: Duration::from_secs(config.language_timeout_seconds.into()),
        })?));
    }
    let places = language::places(config.max_chats.unwrap_or(config.max_live_sessions));
    let catalog = engine.into_iter().flat_map(|engine| {
        let local = |model: &CatalogLanguageModel| Local::new(engine.clone(), &model.id, places.clone());
        engine.catalog().language_models().iter().map(local)
    });
    models.extend(catalog.map(|model| Arc::new(model) as Arc<dyn LanguageModel>));
    if let Some(default) = &config.default_language_model {
        let found = models.iter().position(|model| model.id() == default);
        let model = match (found, engine) {
            (Some(place), _) => models.remove(place),
            (None, Some(engine)) if Path::new(default).exists() => {
                Arc::new(Local::at(engine.clone(), Path::new(default), places)) as Arc<dyn LanguageModel>
            }
            // Without an engine, the models of this machine are those of other processes.
            (None, None) => return Ok(LanguageModels::new(models)),
            (None, Some(_)) => {
                let known: Vec<&str> = models.iter().map(|model| model.id()).collect();
                return Err(format!(
                    "settings: default_language_model: {default:?} is no file or folder, and no language model ({})",
                    known.join(", ")
                ));
            }
        };
        models.insert(0, model);
    }
    let models = LanguageModels::new(models);
    if let Some(model) = models.default_model().cloned() {
        tokio::spawn(async move {
            if let Err(error) = model.prepare().await {
                tracing::error!(model = model.id(), %error, "the language model cannot be loaded");
            }
        });
    }
    Ok(models)
}

/// The state of the operator's page. The environment names the hub, as for `auricle models pull`.
fn operation(config: &Config, urls: &PublicUrls, store: &Store, node: NodeId) -> Operation {
    let source = Source::from_environment();
    Operation {
        operators: config.operators.clone(),
        pulls: Pulls::new(store.clone(), node.clone(), config.models.clone(), source),
        metrics_url: url_below(urls.health.as_ref().unwrap_or(&urls.api), "/metrics"),
        max_live_sessions: config.max_live_sessions,
        node,
    }
}

/// The settings and the resources that were opened with them.
pub struct Opened<'a> {
    pub config: &'a Config,
    pub store: Store,
    /// Signs URLs and tokens. All nodes on one database share it.
    pub secret: String,
    pub catalog: Catalog,
    /// None if this process does not transcribe.
    pub engine: Option<Engine>,
    pub urls: &'a PublicUrls,
}

/// The parts of the service.
pub struct Service {
    pub state: Arc<AppState>,
    pub store: Store,
    pub notifiers: Arc<Notifiers>,
    pub metering: Arc<Metering>,
    pub housekeeping: Housekeeping,
    /// None if the settings name no mail server.
    pub mail: Option<Arc<MailOutbox>>,
    /// None if this process does not transcribe.
    pub workers: Option<Workers>,
    /// Canceled when the service stops. From then on it accepts no new work.
    pub stopping: CancellationToken,
}

/// The background tasks of a process that transcribes.
pub struct Workers {
    pub jobs: Arc<JobRunner>,
    pub webhooks: Arc<WebhookOutbox>,
    pub usage_reports: UsageReporter,
}

impl Service {
    /// Builds the parts. This is possible once per process, because it installs the metrics recorder.
    ///
    /// # Errors
    /// One line for a setting that cannot be used.
    pub fn assemble(opened: Opened<'_>) -> Result<Self, String> {
        let Opened { config, store, secret, catalog, engine, urls } = opened;
        let metrics = Metrics::install().map_err(|error| format!("metrics: {error}"))?;
        let storage =
            Storage::open(config, urls.storage.clone(), &secret).map_err(|error| format!("storage: {error}"))?;
        let outbound =
            Outbound::new(&config.allow_private_hosts).map_err(|error| format!("outbound client: {error}"))?;
        let payments = Arc::new(PaymentProvider::new(config, &urls.dashboard, &secret)?);
        let threads = SessionThreads::start().map_err(|error| format!("threads of live sessions: {error}"))?;

        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let (lease, poll) = (seconds(config.job_lease_seconds), seconds(config.poll_seconds));
        let stopping = CancellationToken::new();
        let notifiers = Arc::new(Notifiers::default());
        let metering = Arc::new(Metering::new(store.clone(), lease, seconds(config.live_session_seconds)));
        let catalog = Arc::new(catalog);
        let signing_key: Arc<str> = secret.into();
        let renderer = Arc::new(Renderer::new(config.scratch()));
        let models = language_models(config, engine.as_ref())?;
        let speaker_key = config.speaker_key.as_deref().unwrap_or(&signing_key);
        let profiles = Profiles::new(store.clone(), catalog.clone(), speaker_key);
        let clones = ClonedVoices::new(store.clone(), speaker_key, config.voice_cloning);
        let webhook_secrets = WebhookSecrets::new(store.clone(), &signing_key);

        let workers = engine.clone().map(|engine| Workers {
            jobs: Arc::new(JobRunner {
                store: store.clone(),
                storage: storage.clone(),
                outbound: outbound.clone(),
                engine,
                profiles: profiles.clone(),
                notifiers: notifiers.clone(),
                billing_provider: config.billing_provider,
                settings: JobSettings {
                    workers: config.job_workers,
                    downloads: config.job_downloads,
                    parallel: config.parallel_jobs.into(),
                    parallel_subscribed: config.parallel_jobs_subscribed.into(),
                    poll,
                    lease,
                    fetch_timeout: seconds(config.fetch_timeout_seconds),
                    fetch_max_bytes: config.fetch_max_bytes,
                    scratch: config.scratch(),
                },
                company: RwLock::default(),
            }),
            webhooks: Arc::new(WebhookOutbox {
                store: store.clone(),
                outbound: outbound.clone(),
                secrets: webhook_secrets.clone(),
                notifiers: notifiers.clone(),
                timeout: seconds(config.webhook_timeout_seconds),
                retry_seconds: config.webhook_retry_seconds.clone(),
                poll,
            }),
            usage_reports: UsageReporter { store: store.clone(), payments: payments.clone(), poll },
        });
        let mail = Smtp::new(config)?.map(|smtp| {
            Arc::new(MailOutbox {
                store: store.clone(),
                smtp,
                dashboard: urls.dashboard.clone(),
                notifiers: notifiers.clone(),
                retry_seconds: config.mail_retry_seconds.clone(),
                poll,
            })
        });
        let housekeeping = Housekeeping {
            store: store.clone(),
            storage: storage.clone(),
            notifiers: notifiers.clone(),
            incomplete_ms: i64::from(config.stale_upload_hours) * 3_600_000,
            unused_ms: i64::from(config.unused_upload_days) * 24 * 3_600_000,
            transcript_ms: (config.transcript_retention_days > 0)
                .then(|| i64::from(config.transcript_retention_days) * 24 * 3_600_000),
        };
        let speakers = Arc::new(SpeakersState {
            store: store.clone(),
            storage: storage.clone(),
            outbound: outbound.clone(),
            engine: engine.clone(),
            profiles,
            notifiers: notifiers.clone(),
            places: Places::new(speakers::MAX_REQUESTS),
            scratch: config.scratch(),
        });
        let uploads = Arc::new(UploadsState {
            store: store.clone(),
            storage: storage.clone(),
            notifiers: notifiers.clone(),
            max_bytes: config.max_upload_bytes,
            quota: UploadQuota::new(store.clone(), config.max_unused_upload_bytes),
            url_seconds: config.upload_url_seconds,
        });
        let transcripts = Arc::new(TranscriptsState {
            store: store.clone(),
            storage: storage.clone(),
            uploads: uploads.clone(),
            speakers: speakers.clone(),
            outbound,
            catalog: catalog.clone(),
            notifiers: notifiers.clone(),
            renderer: renderer.clone(),
            billing_provider: config.billing_provider,
            public_url: urls.api.clone(),
            max_queued: config.max_queued_transcripts.into(),
        });
        let live = Arc::new(LiveState {
            store: store.clone(),
            catalog: catalog.clone(),
            engine: engine.clone(),
            metering: metering.clone(),
            billing_provider: config.billing_provider,
            threads,
            connections: TaskTracker::new(),
            places: Places::new(config.max_live_sessions),
            stopping: stopping.clone(),
            signing_key: signing_key.clone(),
            public_url: urls.api.clone(),
            settings: SessionSettings {
                turn_silence_ms: config.turn_silence_ms,
                turn_finished_silence_ms: config.turn_finished_silence_ms,
                language_model: config.live_language_model_choice(),
                second_pass: config.live_second_pass_choice(),
                idle_timeout: seconds(config.live_idle_seconds),
                max_duration: seconds(config.live_session_seconds),
            },
            #[cfg(feature = "webrtc")]
            call_settings: CallSettings {
                listen: config.webrtc_listen,
                ports: config.webrtc_port_range(),
                public_ip: config.webrtc_public_ip,
            },
            #[cfg(feature = "webrtc")]
            calls: Calls::default(),
        });
        let cookies = Cookies::new(&urls.dashboard);
        let openid = OpenId::new(config, &urls.dashboard, signing_key.clone())?;
        let document = openapi::document(&urls.api);
        let dashboard = Arc::new(DashboardState {
            store: store.clone(),
            storage: storage.clone(),
            catalog: catalog.clone(),
            second_pass: config.live_second_pass_choice(),
            engine: engine.clone(),
            payments: payments.clone(),
            notifiers: notifiers.clone(),
            webhook_secrets: webhook_secrets.clone(),
            transcripts: transcripts.clone(),
            cookies: cookies.clone(),
            passwords: Passwords::new(),
            attempts: Attempts::new(),
            dashboard_url: urls.dashboard.clone(),
            browser_rules: BrowserRules::new(&urls.api, &storage.upload_origin(config, &urls.storage)),
            api_url: urls.api.clone(),
            reference: Reference::new(&document),
            openid,
            sign_up: match config.sign_up {
                Some(true) => SignUp::Open,
                Some(false) => SignUp::Closed,
                None => SignUp::First,
            },
            sends_mail: mail.is_some(),
            free_credit_cents: config.free_credit_cents.into(),
            operation: operation(config, urls, &store, metering.node().clone()),
        });
        let language = Arc::new(LanguageState {
            store: store.clone(),
            models: models.clone(),
            renderer,
            secret: signing_key.clone(),
        });
        let speech =
            Arc::new(SpeechState { engine, places: Places::new(speech::MAX_REQUESTS), clones: clones.clone() });
        let state = AppState {
            authenticator: Authenticator {
                store: store.clone(),
                storage,
                payments: payments.clone(),
                signing_key,
                cookies,
            },
            rate_limits: Arc::new(RateLimits::new(config.request_limit)),
            trusted_proxies: TrustedProxies::new(&config.trusted_proxies),
            voices: Arc::new(VoicesState {
                speech: speech.clone(),
                speakers: speakers.clone(),
                uploads: uploads.clone(),
            }),
            speakers,
            mcp: Arc::new(McpState {
                transcripts: transcripts.clone(),
                language: language.clone(),
                speech: speech.clone(),
                urls: [urls.api.clone(), urls.dashboard.clone()],
            }),
            speech,
            transcripts,
            uploads,
            models: Arc::new(ModelsState {
                catalog: catalog.clone(),
                second_pass: config.live_second_pass_choice(),
                language: models.clone(),
            }),
            language,
            billing: Arc::new(BillingState { store: store.clone(), payments }),
            webhooks: Arc::new(WebhooksState { store: store.clone(), secrets: webhook_secrets }),
            health: Arc::new(HealthState {
                store: store.clone(),
                data: config.data.clone(),
                last_checks: Default::default(),
                metrics,
                openapi: document.to_string(),
                asyncapi: openapi::ASYNCAPI,
            }),
            agent: Arc::new(AgentState { live: live.clone(), models, clones }),
            realtime: live,
            dashboard,
        };
        Ok(Self { state: Arc::new(state), store, notifiers, metering, housekeeping, mail, workers, stopping })
    }
}
