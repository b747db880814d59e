//! Settings of the service: one flat list of keys, in a TOML file, in the environment (`AURICLE_` and the key in
//! capitals) or as flags. Flags win over the environment, which wins over the file. Values are checked at start.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
#[cfg(feature = "webrtc")]
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use auricle_engine::{DeviceChoice, LanguageModelChoice, Precision, SecondPass, TaggerChoice, TurnDetectorChoice};
use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::{Table, Value};
use url::Url;

use crate::starter_models;

/// All settings. The comment of each is its documentation. Defaults are in [`Config::default`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder of the database, the objects and temporary files. Default: `auricle-data`.
    pub data: PathBuf,
    /// The models folder. Default: `AURICLE_MODELS`, else `models` in the working directory, beside the program or above
    /// it, else the user's own, which the program fills with its starters.
    pub models: PathBuf,
    /// `auto`, `cpu`, `gpu` or `vulkan:N`.
    pub device: String,
    /// The precision of the weights: `auto` (`int8` for Whisper on a CPU, `full` for the rest), `full`, `half` (16 bits for Whisper, language models and FastConformer's encoder on a GPU),
    /// `int8` (Whisper's decoder, on CPUs with AVX-512 VNNI all encoders, and with AVX2 language models of GGUF files) or `int4` (as
    /// `int8`, with 4 bits for the feed-forward layers of Whisper's decoder).
    pub precision: String,
    /// Memory for the weights of loaded models. Default: three quarters of the machine's.
    pub model_memory_bytes: Option<u64>,
    /// The tagger of personal words: a folder with a `BertForTokenClassification`, or `off`. Default: the one of the models folder.
    pub tagger: Option<String>,
    /// The turn detector: a Smart Turn network, an `.onnx` file or a folder, or `off`. Default: the one that is pulled.
    pub turn_detector: Option<String>,
    /// `all`, `api` (no transcription) or `worker` (transcription alone).
    pub role: Role,
    /// Address of the API.
    pub listen: SocketAddr,
    /// Address of signed uploads.
    pub storage_listen: SocketAddr,
    /// Address of the dashboard.
    pub dashboard_listen: SocketAddr,
    /// Address of health checks and metrics. Default: `listen`.
    pub health_listen: Option<SocketAddr>,
    /// Address of the Wyoming protocol, for Home Assistant. Default: none, it is not served.
    pub wyoming: Option<SocketAddr>,
    /// The email address of the account that clients of `wyoming` act for. Default: the first account, on a loopback address.
    pub wyoming_account: Option<String>,
    /// Announce `wyoming` in the local network, by multicast DNS.
    pub wyoming_zeroconf: bool,
    /// The API's URL as clients see it. Default: `http://` and `listen`.
    #[serde(deserialize_with = "url_text")]
    pub public_url: Option<Url>,
    /// The same for `storage_listen`.
    #[serde(deserialize_with = "url_text")]
    pub storage_public_url: Option<Url>,
    /// The same for `dashboard_listen`.
    #[serde(deserialize_with = "url_text")]
    pub dashboard_public_url: Option<Url>,
    /// `postgres://...`. Default: SQLite in the data folder.
    pub database_url: Option<String>,
    /// Wait for the disk at each commit of SQLite and at the end of each upload.
    pub fsync: bool,
    /// `s3://BUCKET/PREFIX`. Default: a folder in the data folder.
    #[serde(deserialize_with = "url_text")]
    pub storage_url: Option<Url>,
    /// Endpoint of an S3-compatible store other than AWS.
    #[serde(deserialize_with = "url_text")]
    pub s3_endpoint: Option<Url>,
    /// Its region. Default: that of the environment of AWS, else `us-east-1`.
    pub s3_region: Option<String>,
    /// The id of its key. Default: the credentials of the environment of AWS.
    pub s3_access_key_id: Option<String>,
    /// The key.
    pub s3_secret_access_key: Option<String>,
    /// Connections of each listener at a time. Further connections wait.
    pub max_connections: usize,
    /// Connections of one address and listener at a time. Further connections are closed.
    pub max_connections_per_address: usize,
    /// Addresses and networks of reverse proxies, whose `X-Forwarded-For` is believed.
    #[serde(deserialize_with = "networks", serialize_with = "as_texts")]
    pub trusted_proxies: Vec<IpNet>,
    /// From a connection to the end of its first request's head.
    pub head_timeout_seconds: u32,
    /// A connection without a request for this time is closed.
    pub idle_timeout_seconds: u32,
    /// The longest pause within a body, and the time that a body may take beyond `min_bytes_per_second`.
    pub stall_timeout_seconds: u32,
    /// The least rate of request and response bodies.
    pub min_bytes_per_second: u32,
    /// Requests per five minutes and account.
    pub request_limit: u32,
    /// Jobs of an account that run at a time, without a subscription.
    pub parallel_jobs: u32,
    /// The same with one.
    pub parallel_jobs_subscribed: u32,
    /// Jobs that this process runs at a time.
    pub job_workers: usize,
    /// Files that this process fetches from `audio_url` at a time.
    pub job_downloads: usize,
    /// Live sessions at a time.
    pub max_live_sessions: usize,
    /// Answers of language models at a time; as many as live sessions where it is not set.
    pub max_chats: Option<usize>,
    /// Streams of speech at a time; as many as live sessions where it is not set.
    pub max_speech_streams: Option<usize>,
    /// Memory for the keys and values of one language model's answers.
    pub language_cache_bytes: usize,
    /// The longest duration of a live session.
    pub live_session_seconds: u32,
    /// A live session without audio for this time is ended.
    pub live_idle_seconds: u32,
    /// Address of the UDP sockets of calls over WebRTC. Default: all addresses of the machine.
    #[cfg_attr(not(feature = "webrtc"), allow(dead_code))]
    pub webrtc_listen: Option<IpAddr>,
    /// The first and the last port of these sockets, of which each call has one. Default: any that is free.
    pub webrtc_ports: Option<[u16; 2]>,
    /// The address by which clients reach these sockets, where a router or a container translates it. Default: the machine's own towards
    /// the client.
    pub webrtc_public_ip: Option<IpAddr>,
    /// Silence that ends a turn.
    pub turn_silence_ms: u32,
    /// Silence that ends a turn whose speaker has finished, as the turn detector hears it. Default: `turn_silence_ms`.
    pub turn_finished_silence_ms: Option<u32>,
    /// Use the starter's language model in live sessions.
    pub live_language_model: bool,
    /// The offline model that reads the turns of live sessions again: `auto`, `off`, or a checkpoint folder.
    pub live_second_pass: String,
    /// Poll interval of workers, for jobs and webhooks without a notification: due retries, and work of crashed nodes.
    pub poll_seconds: u32,
    /// A worker without a heartbeat for this time is dead.
    pub job_lease_seconds: u32,
    /// Delays between the attempts to deliver a webhook.
    pub webhook_retry_seconds: Vec<u32>,
    /// Timeout of a webhook's receiver.
    pub webhook_timeout_seconds: u32,
    /// Private hosts, by name or address, that `audio_url` and `webhook_url` may name.
    pub allow_private_hosts: Vec<String>,
    /// The largest file that is fetched from `audio_url`.
    pub fetch_max_bytes: u64,
    /// Timeout of fetching it.
    pub fetch_timeout_seconds: u32,
    /// The largest upload.
    pub max_upload_bytes: u64,
    /// Bytes of an account's uploads without a transcript.
    pub max_unused_upload_bytes: u64,
    /// Transcripts of an account that may wait at a time.
    pub max_queued_transcripts: u32,
    /// Days after which a finished transcript is deleted. 0 keeps transcripts.
    pub transcript_retention_days: u32,
    /// Lifetime of a signed upload URL.
    pub upload_url_seconds: u32,
    /// Lifetime of an upload that is never completed.
    pub stale_upload_hours: u32,
    /// Lifetime of an upload without a transcript.
    pub unused_upload_days: u32,
    /// Free credit of a new account.
    pub free_credit_cents: u32,
    /// The key that profiles of voices are encrypted with. Default: the service's own, which is in the database.
    pub speaker_key: Option<String>,
    /// Accounts may make voices of recordings, and speak with them.
    pub voice_cloning: bool,
    /// People who reach the dashboard may create accounts. Default: the first one alone.
    pub sign_up: Option<bool>,
    /// The issuer of a provider of OpenID Connect, which signs people in to the dashboard, too.
    pub openid_issuer: Option<String>,
    /// The id of the dashboard there.
    pub openid_client_id: Option<String>,
    /// Its secret. Default: none, for a public client.
    pub openid_client_secret: Option<String>,
    /// The provider's name on the pages. Default: the issuer's host.
    pub openid_name: Option<String>,
    /// Addresses count as verified unless the provider says that they are not.
    pub openid_trust_addresses: bool,
    /// Email addresses of the people who see the operator's page of the dashboard.
    #[serde(deserialize_with = "addresses")]
    pub operators: Vec<String>,
    /// The SMTP server for mail: invitations, links, alarms. Without one no mail is sent.
    pub mail_host: Option<String>,
    /// Default: 587 with `starttls`, 465 with `implicit`, 25 with `off`.
    pub mail_port: Option<u16>,
    /// `starttls`, `implicit` or `off`.
    pub mail_tls: MailTls,
    /// The name at the mail server. Default: mail is sent without one.
    pub mail_user: Option<String>,
    /// Its password.
    pub mail_password: Option<String>,
    /// The sender's address, needed with `mail_host`.
    pub mail_from: Option<String>,
    /// Delays between the attempts to send a letter. The last one repeats.
    pub mail_retry_seconds: Vec<u32>,
    /// A server of OpenAI's chat shape, such as `http://host/v1`, which answers for the language model.
    #[serde(deserialize_with = "url_text")]
    pub language_upstream: Option<Url>,
    /// The name of its model. It is the model's id here, too.
    pub language_model: Option<String>,
    /// The key that it wants.
    pub language_key: Option<String>,
    /// The language model that answers where a request names none: its id, a GGUF file or a folder. Default: the upstream's, else the first
    /// of the catalog that is here.
    pub default_language_model: Option<String>,
    /// The longest conversation with its answer, in tokens.
    pub language_context_tokens: u32,
    /// The longest wait for the next piece of its answer.
    pub language_timeout_seconds: u32,
    /// `local` or `stripe`.
    pub billing_provider: BillingProvider,
    /// URL of Stripe's API. Default: Stripe's own.
    #[serde(deserialize_with = "url_text")]
    pub stripe_api_url: Option<Url>,
    /// The key of Stripe's API.
    pub stripe_secret_key: Option<String>,
    /// The price of the metered subscription.
    pub stripe_price_id: Option<String>,
    /// The meter's event name; its unit is a cent.
    pub stripe_meter_event: String,
    /// The secret that signs Stripe's events.
    pub stripe_webhook_secret: Option<String>,
    /// The longest time that a stopping service waits for running work.
    pub drain_seconds: u32,
    /// `text` or `json`.
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// API and transcription
    All,
    /// The API alone
    Api,
    /// Transcription alone
    Worker,
}

/// The encryption of the way to the mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// It begins on request, and there is no mail without it.
    Starttls,
    /// From the first byte.
    Implicit,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BillingProvider {
    Local,
    Stripe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        let local = |port| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port);
        Self {
            data: "auricle-data".into(),
            models: starter_models::default_folder(),
            device: "auto".into(),
            precision: "auto".into(),
            model_memory_bytes: None,
            tagger: None,
            turn_detector: None,
            role: Role::All,
            listen: local(8080),
            storage_listen: local(8081),
            dashboard_listen: local(8082),
            health_listen: None,
            wyoming: None,
            wyoming_account: None,
            wyoming_zeroconf: false,
            public_url: None,
            storage_public_url: None,
            dashboard_public_url: None,
            database_url: None,
            fsync: true,
            storage_url: None,
            s3_endpoint: None,
            s3_region: None,
            s3_access_key_id: None,
            s3_secret_access_key: None,
            max_connections: 4096,
            max_connections_per_address: 1024,
            trusted_proxies: Vec::new(),
            head_timeout_seconds: 15,
            idle_timeout_seconds: 75,
            stall_timeout_seconds: 30,
            min_bytes_per_second: 4096,
            request_limit: 20_000,
            parallel_jobs: 5,
            parallel_jobs_subscribed: 200,
            job_workers: 2,
            job_downloads: 64,
            max_live_sessions: 256,
            max_chats: None,
            max_speech_streams: None,
            language_cache_bytes: 1 << 30,
            live_session_seconds: 3300,
            live_idle_seconds: 60,
            webrtc_listen: None,
            webrtc_ports: None,
            webrtc_public_ip: None,
            turn_silence_ms: 700,
            turn_finished_silence_ms: None,
            live_language_model: true,
            live_second_pass: "auto".into(),
            poll_seconds: 1,
            job_lease_seconds: 30,
            webhook_retry_seconds: vec![10, 30, 60, 120, 300, 600, 1800, 3600, 7200],
            webhook_timeout_seconds: 10,
            allow_private_hosts: Vec::new(),
            fetch_max_bytes: 5 << 30,
            fetch_timeout_seconds: 3600,
            max_upload_bytes: 5 << 30,
            max_unused_upload_bytes: 100 << 30,
            max_queued_transcripts: 10_000,
            transcript_retention_days: 0,
            upload_url_seconds: 3600,
            stale_upload_hours: 24,
            unused_upload_days: 30,
            free_credit_cents: 1000,
            speaker_key: None,
            voice_cloning: false,
            sign_up: None,
            openid_issuer: None,
            openid_client_id: None,
            openid_client_secret: None,
            openid_name: None,
            openid_trust_addresses: false,
            operators: Vec::new(),
            mail_host: None,
            mail_port: None,
            mail_tls: MailTls::Starttls,
            mail_user: None,
            mail_password: None,
            mail_from: None,
            mail_retry_seconds: vec![10, 30, 60, 120, 300, 600, 1800, 3600],
            language_upstream: None,
            language_model: None,
            language_key: None,
            default_language_model: None,
            language_context_tokens: 8192,
            language_timeout_seconds: 120,
            billing_provider: BillingProvider::Local,
            stripe_api_url: None,
            stripe_secret_key: None,
            stripe_price_id: None,
            stripe_meter_event: "auricle_usage_cents".into(),
            stripe_webhook_secret: None,
            drain_seconds: 30,
            log_format: LogFormat::Text,
        }
    }
}

fn url_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Url>, D::Error> {
    let text = String::deserialize(from)?;
    Url::parse(&text).map(Some).map_err(|error| D::Error::custom(format!("{text:?} is no URL: {error}")))
}

/// Networks as they are read.
fn as_texts<S: Serializer>(networks: &[IpNet], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(networks.iter().map(ToString::to_string))
}

/// Networks, `10.0.0.0/8`, or single addresses.
fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let network = |text: String| {
        let address = |_| text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical()));
        let parsed = text.parse().or_else(address);
        parsed.map_err(|_| D::Error::custom(format!("trusted_proxies: {text:?} is no address and no network")))
    };
    Vec::<String>::deserialize(from)?.into_iter().map(network).collect()
}

/// Email addresses, in the form in which people sign in.
fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let address = |text: String| {
        let address = text.trim().to_lowercase();
        let is_address = address.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
        is_address
            .then_some(address)
            .ok_or_else(|| D::Error::custom(format!("operators: {text:?} is no email address")))
    };
    Vec::<String>::deserialize(from)?.into_iter().map(address).collect()
}

/// The keys that the environment may set. Other variables with the prefix belong to other programs.
pub const KEYS: [&str; 95] = [
    "data",
    "models",
    "device",
    "precision",
    "model_memory_bytes",
    "tagger",
    "turn_detector",
    "role",
    "listen",
    "storage_listen",
    "dashboard_listen",
    "health_listen",
    "wyoming",
    "wyoming_account",
    "wyoming_zeroconf",
    "public_url",
    "storage_public_url",
    "dashboard_public_url",
    "database_url",
    "fsync",
    "storage_url",
    "s3_endpoint",
    "s3_region",
    "s3_access_key_id",
    "s3_secret_access_key",
    "max_connections",
    "max_connections_per_address",
    "trusted_proxies",
    "head_timeout_seconds",
    "idle_timeout_seconds",
    "stall_timeout_seconds",
    "min_bytes_per_second",
    "request_limit",
    "parallel_jobs",
    "parallel_jobs_subscribed",
    "job_workers",
    "job_downloads",
    "max_live_sessions",
    "max_chats",
    "max_speech_streams",
    "language_cache_bytes",
    "live_session_seconds",
    "live_idle_seconds",
    "webrtc_listen",
    "webrtc_ports",
    "webrtc_public_ip",
    "turn_silence_ms",
    "turn_finished_silence_ms",
    "live_language_model",
    "live_second_pass",
    "poll_seconds",
    "job_lease_seconds",
    "webhook_retry_seconds",
    "webhook_timeout_seconds",
    "allow_private_hosts",
    "fetch_max_bytes",
    "fetch_timeout_seconds",
    "max_upload_bytes",
    "max_unused_upload_bytes",
    "max_queued_transcripts",
    "transcript_retention_days",
    "upload_url_seconds",
    "stale_upload_hours",
    "unused_upload_days",
    "free_credit_cents",
    "speaker_key",
    "voice_cloning",
    "sign_up",
    "openid_issuer",
    "openid_client_id",
    "openid_client_secret",
    "openid_name",
    "openid_trust_addresses",
    "operators",
    "mail_host",
    "mail_port",
    "mail_tls",
    "mail_user",
    "mail_password",
    "mail_from",
    "mail_retry_seconds",
    "language_upstream",
    "language_model",
    "language_key",
    "default_language_model",
    "language_context_tokens",
    "language_timeout_seconds",
    "billing_provider",
    "stripe_api_url",
    "stripe_secret_key",
    "stripe_price_id",
    "stripe_meter_event",
    "stripe_webhook_secret",
    "drain_seconds",
    "log_format",
];

/// The keys whose values are never shown.
pub const SECRETS: [&str; 7] = [
    "s3_secret_access_key",
    "speaker_key",
    "openid_client_secret",
    "mail_password",
    "language_key",
    "stripe_secret_key",
    "stripe_webhook_secret",
];

/// The place that a setting comes from, by its key; of those that are not there the default.
pub type Origins = BTreeMap<String, Origin>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    File,
    Environment,
    Flag,
}

/// Appends a path to a URL that may have a path of its own.
pub fn url_below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// From this likeness on, 0 to 1, the name of a variable is a misspelled setting.
const MISSPELLED: f64 = 0.74;

impl Config {
    /// The folder of temporary files.
    pub fn scratch(&self) -> PathBuf {
        self.data.join("scratch")
    }

    /// The language model of live sessions.
    pub fn live_language_model_choice(&self) -> LanguageModelChoice {
        if self.live_language_model { LanguageModelChoice::Shipped } else { LanguageModelChoice::Off }
    }

    /// The offline model that reads the turns of live sessions again.
    pub fn live_second_pass_choice(&self) -> SecondPass {
        // Every text is a choice.
        self.live_second_pass.parse().unwrap_or_default()
    }

    /// The precision of the weights; none for the engine's choice.
    ///
    /// # Errors
    /// A line that names the precisions.
    pub fn precision_choice(&self) -> Result<Option<Precision>, String> {
        precision_choice(&self.precision).map_err(|error| format!("settings: precision: {error}"))
    }

    /// The ports of calls.
    #[cfg(feature = "webrtc")]
    pub fn webrtc_port_range(&self) -> RangeInclusive<u16> {
        self.webrtc_ports.map_or(0..=0, |[first, last]| first..=last)
    }

    /// The tagger of personal words.
    pub fn tagger_choice(&self) -> TaggerChoice {
        // Every text is a choice.
        self.tagger.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The network that detects whether a speaker has finished.
    pub fn turn_detector_choice(&self) -> TurnDetectorChoice {
        // Every text is a choice.
        self.turn_detector.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Variables of the environment whose names are nearly those of settings, and those names.
    pub fn misspelled(names: impl Iterator<Item = String>) -> Vec<(String, String)> {
        let meant = |name: &str| {
            let key = name.strip_prefix("AURICLE_")?.to_lowercase();
            let likeness = |known: &str| strsim::normalized_damerau_levenshtein(&key, known);
            let (nearest, alike) =
                KEYS.iter().map(|known| (known, likeness(known))).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
            (alike < 1.0 && alike > MISSPELLED).then(|| format!("AURICLE_{}", nearest.to_uppercase()))
        };
        names.filter_map(|name| meant(&name).map(|meant| (name, meant))).collect()
    }

    /// Reads the file, then the environment, then the flags; later values win.
    ///
    /// # Errors
    /// One line that names the key at fault.
    pub fn read(file: Option<&Path>, flags: Table) -> Result<Self, String> {
        Self::read_with_origins(file, flags).map(|(config, _)| config)
    }

    /// The same, with the place that each setting comes from.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn read_with_origins(file: Option<&Path>, flags: Table) -> Result<(Self, Origins), String> {
        let mut table = match file {
            None => Table::new(),
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?
                .parse::<Table>()
                .map_err(|error| format!("{}: {}", path.display(), one_line(&error)))?,
        };
        let mut origins: Origins = table.keys().map(|key| (key.clone(), Origin::File)).collect();
        for (name, text) in std::env::vars() {
            let key = name.strip_prefix("AURICLE_").map(str::to_lowercase);
            if let Some(key) = key.filter(|key| KEYS.contains(&key.as_str())) {
                origins.insert(key.clone(), Origin::Environment);
                table.insert(key, scalar(&text));
            }
        }
        origins.extend(flags.keys().map(|key| (key.clone(), Origin::Flag)));
        table.extend(flags);
        let config: Self =
            table.try_into().map_err(|error: toml::de::Error| format!("settings: {}", one_line(&error)))?;
        config.check()?;
        Ok((config, origins))
    }

    fn check(&self) -> Result<(), String> {
        DeviceChoice::list(&self.device).map_err(|error| format!("settings: device: {error}"))?;
        self.precision_choice()?;
        let at_least_one = [
            ("model_memory_bytes", self.model_memory_bytes.unwrap_or(1)),
            ("max_connections", self.max_connections as u64),
            ("max_connections_per_address", self.max_connections_per_address as u64),
            ("head_timeout_seconds", self.head_timeout_seconds.into()),
            ("idle_timeout_seconds", self.idle_timeout_seconds.into()),
            ("stall_timeout_seconds", self.stall_timeout_seconds.into()),
            ("min_bytes_per_second", self.min_bytes_per_second.into()),
            ("request_limit", self.request_limit.into()),
            ("parallel_jobs", self.parallel_jobs.into()),
            ("parallel_jobs_subscribed", self.parallel_jobs_subscribed.into()),
            ("job_workers", self.job_workers as u64),
            ("job_downloads", self.job_downloads as u64),
            ("max_live_sessions", self.max_live_sessions as u64),
            ("max_chats", self.max_chats.unwrap_or(1) as u64),
            ("max_speech_streams", self.max_speech_streams.unwrap_or(1) as u64),
            ("language_cache_bytes", self.language_cache_bytes as u64),
            ("live_session_seconds", self.live_session_seconds.into()),
            ("live_idle_seconds", self.live_idle_seconds.into()),
            ("poll_seconds", self.poll_seconds.into()),
            ("job_lease_seconds", self.job_lease_seconds.into()),
            ("webhook_timeout_seconds", self.webhook_timeout_seconds.into()),
            ("fetch_timeout_seconds", self.fetch_timeout_seconds.into()),
            ("max_unused_upload_bytes", self.max_unused_upload_bytes),
            ("max_queued_transcripts", self.max_queued_transcripts.into()),
            ("upload_url_seconds", self.upload_url_seconds.into()),
            ("language_timeout_seconds", self.language_timeout_seconds.into()),
        ];
        if let Some((key, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(format!("settings: {key} must be at least 1"));
        }
        if !(100..=10_000).contains(&self.turn_silence_ms) {
            return Err("settings: turn_silence_ms must be 100 to 10000".into());
        }
        if self.turn_finished_silence_ms.is_some_and(|ms| !(200..=self.turn_silence_ms).contains(&ms)) {
            return Err("settings: turn_finished_silence_ms must be 200 to turn_silence_ms".into());
        }
        if self.webrtc_ports.is_some_and(|[first, last]| first == 0 || first > last) {
            return Err("settings: webrtc_ports must be the first and the last port, such as [50000, 50199]".into());
        }
        if self.webrtc_public_ip.is_some_and(|address| address.is_unspecified()) {
            return Err("settings: webrtc_public_ip must be the address that clients send to".into());
        }
        if let Some(address) = self.wyoming.filter(|address| !address.ip().is_loopback())
            && self.wyoming_account.is_none()
        {
            return Err(format!(
                "settings: wyoming = \"{address}\" needs wyoming_account, the email address of the account that pays: the \
                 protocol has no keys, so all who reach this address act for it"
            ));
        }
        if self.wyoming_zeroconf && self.wyoming.is_none_or(|address| address.ip().is_loopback()) {
            return Err("settings: wyoming_zeroconf needs wyoming, an address that other machines reach".into());
        }
        if self.speaker_key.as_ref().is_some_and(|key| key.trim().len() < 32) {
            return Err("settings: speaker_key must have at least 32 characters".into());
        }
        if let Some(url) = self.storage_url.as_ref().filter(|url| url.scheme() != "s3") {
            return Err(format!("settings: storage_url must be s3://BUCKET/PREFIX, not {url}"));
        }
        if self.language_context_tokens < 1024 {
            return Err("settings: language_context_tokens must be at least 1024".into());
        }
        if let Some(url) = &self.language_upstream {
            if !matches!(url.scheme(), "http" | "https") {
                return Err(format!("settings: language_upstream must be an http or https URL, not {url}"));
            }
            if self.language_model.as_deref().is_none_or(|model| model.trim().is_empty() || model == "extractive") {
                return Err("settings: language_upstream needs language_model, the name of its model".into());
            }
        }
        if let Some(issuer) = &self.openid_issuer {
            let is_web = Url::parse(issuer).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !is_web {
                return Err(format!("settings: openid_issuer must be an http or https URL, not {issuer:?}"));
            }
            if self.openid_client_id.as_deref().is_none_or(|id| id.trim().is_empty()) {
                return Err("settings: openid_issuer needs openid_client_id, which the provider has given".into());
            }
        }
        if let Some(host) = &self.mail_host {
            if self.mail_from.is_none() {
                return Err("settings: mail_host needs mail_from, the sender's address".into());
            }
            if self.mail_user.is_some() != self.mail_password.is_some() {
                return Err("settings: mail_user and mail_password go together".into());
            }
            let is_near = matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1");
            if self.mail_password.is_some() && self.mail_tls == MailTls::Off && !is_near {
                return Err("settings: mail_tls = \"off\" would send mail_password as plain text; take starttls".into());
            }
        }
        if self.billing_provider == BillingProvider::Stripe {
            let needed = [
                ("stripe_secret_key", &self.stripe_secret_key),
                ("stripe_price_id", &self.stripe_price_id),
                ("stripe_webhook_secret", &self.stripe_webhook_secret),
            ];
            if let Some((key, _)) =
                needed.iter().find(|(_, value)| value.as_deref().is_none_or(|value| value.trim().is_empty()))
            {
                // An empty secret would sign anything.
                return Err(format!("settings: billing_provider = \"stripe\" needs {key}"));
            }
        }
        Ok(())
    }
}

/// A value of the environment: a TOML value if it parses as one, else text.
fn scalar(text: &str) -> Value {
    match format!("value = {text}").parse::<Table>() {
        // No setting is a date or a table.
        Ok(mut table) => match table.remove("value") {
            Some(value @ (Value::Integer(_) | Value::Boolean(_) | Value::Array(_) | Value::String(_))) => value,
            _ => Value::String(text.into()),
        },
        Err(_) => Value::String(text.into()),
    }
}

/// An error of TOML on one line, with the form of a list where one is missing.
fn one_line(error: &impl ToString) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    lines.replace("expected a sequence", "expected a list, such as [\"a\", \"b\"],")
}

/// A precision by its name; none for `auto`, the engine's choice.
///
/// # Errors
/// A line that names the precisions.
pub fn precision_choice(text: &str) -> Result<Option<Precision>, String> {
    if text == "auto" { Ok(None) } else { text.parse().map(Some).map_err(|error| format!("{error}, or auto")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(toml: &str) -> Result<Config, String> {
        Config::read(None, toml.parse().unwrap())
    }

    #[test]
    fn a_base_path_is_kept() {
        let at = |base: &str| url_below(&Url::parse(base).unwrap(), "/uploads/1").to_string();
        assert_eq!(at("https://example.com"), "https://example.com/uploads/1");
        assert_eq!(at("https://example.com/files"), "https://example.com/files/uploads/1");
        assert_eq!(at("https://example.com/a/b/"), "https://example.com/a/b/uploads/1");
    }

    #[test]
    fn defaults_are_valid() {
        let config = from("").unwrap();
        assert_eq!((config.listen.port(), config.free_credit_cents), (8080, 1000));
    }

    #[test]
    fn every_precision_is_accepted() {
        for precision in ["auto", "full", "half", "int8", "int4"] {
            assert_eq!(from(&format!("precision = {precision:?}")).unwrap().precision, precision);
        }
    }

    #[test]
    fn errors_name_the_key_at_fault() {
        for (toml, key) in [
            ("lisen = 1", "lisen"),
            ("listen = \"nowhere\"", "socket address"),
            ("device = \"tpu\"", "device"),
            ("precision = \"quarter\"", "precision"),
            ("trusted_proxies = [\"proxy\"]", "trusted_proxies"),
            ("webrtc_ports = [50199, 50000]", "webrtc_ports"),
            ("webrtc_ports = [0, 0]", "webrtc_ports"),
            ("webrtc_ports = 50000", "webrtc_ports"),
            ("webrtc_public_ip = \"0.0.0.0\"", "webrtc_public_ip"),
            ("webrtc_listen = \"here\"", "webrtc_listen"),
            ("operators = [\"ops\"]", "operators"),
            ("operators = \"ops@example.com\"", "expected a list, such as [\"a\", \"b\"], in `operators`"),
            ("job_workers = 0", "job_workers"),
            ("storage_url = \"http://x\"", "storage_url"),
            ("language_upstream = \"http://x/v1\"", "language_model"),
            ("language_upstream = \"ftp://x/v1\"\nlanguage_model = \"m\"", "language_upstream"),
            ("language_context_tokens = 5", "language_context_tokens"),
            ("openid_issuer = \"id.example.com\"", "openid_issuer"),
            ("openid_issuer = \"https://id.example.com\"", "openid_client_id"),
            ("mail_host = \"mail.example.com\"", "mail_from"),
            ("mail_host = \"a\"\nmail_from = \"b@c.d\"\nmail_user = \"e\"", "mail_password"),
            (
                "mail_host = \"a\"\nmail_from = \"b@c.d\"\nmail_user = \"e\"\nmail_password = \"f\"\nmail_tls = \"off\"",
                "mail_tls",
            ),
            ("billing_provider = \"stripe\"", "stripe_secret_key"),
            ("speaker_key = \"short\"", "speaker_key"),
            ("wyoming = \"0.0.0.0:10300\"", "wyoming_account"),
            ("wyoming_zeroconf = true\nwyoming = \"127.0.0.1:10300\"", "other machines"),
            (
                "billing_provider = \"stripe\"\nstripe_secret_key = \"a\"\nstripe_price_id = \"b\"\nstripe_webhook_secret = \" \"",
                "stripe_webhook_secret",
            ),
        ] {
            let error = from(toml).unwrap_err();
            assert!(error.contains(key) && !error.contains('\n'), "{toml}: {error}");
        }
    }

    #[test]
    fn every_key_is_known_to_the_environment() {
        // The error names all keys there are.
        let error = from("nothing_of_this_name = 1").unwrap_err();
        let listed = error.split("expected one of ").nth(1).unwrap().replace('`', "");
        assert_eq!(listed.split(", ").collect::<Vec<_>>(), KEYS);
    }

    #[test]
    fn variables_that_are_nearly_settings_are_found() {
        let names =
            ["AURICLE_MAX_CHAT", "AURICLE_MODLES", "AURICLE_MODELS", "AURICLE_LOG", "AURICLE_TESTS", "MAX_CHAT"];
        let found = Config::misspelled(names.map(String::from).into_iter());
        let meant = [("AURICLE_MAX_CHAT", "AURICLE_MAX_CHATS"), ("AURICLE_MODLES", "AURICLE_MODELS")];
        assert_eq!(found, meant.map(|(name, meant)| (name.to_owned(), meant.to_owned())));
    }

    #[test]
    fn values_of_the_environment_are_toml_or_text() {
        assert_eq!(scalar("7"), Value::Integer(7));
        assert_eq!(scalar("127.0.0.1:80"), Value::String("127.0.0.1:80".into()));
        assert_eq!(scalar("[\"a\"]"), Value::Array(vec![Value::String("a".into())]));
    }
}
