//! Starts the service: database, engine, listeners and background tasks; and stops it again.

mod assembly;
pub mod data_folder;
mod housekeeping;
mod indexing;
pub mod open_files;
mod presence;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{Catalog, DeviceChoice, Engine, EngineOptions, ListenOptions, TranscribeOptions, blocking};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::billing::{PRICES, ProductKind, dollars};
use crate::clock;
use crate::compat::wyoming::{self, Wyoming};
use crate::config::{BillingProvider, Config, Role, url_below};
use crate::dashboard::OneTimeLink;
use crate::dispatch::Dispatcher;
use crate::http::admission::Places;
use crate::http::listener;
use crate::ids::AccountId;
use crate::live::LiveState;
use crate::metering::Metering;
use crate::notify::Notifiers;
use crate::routes::Surface;
use crate::speakers::service_secret;
use crate::starter_models;
use crate::store::{Durability, PasswordLink, Store, Topic, email_address};
pub use assembly::{Opened, PublicUrls, Service, transfer_limits};

/// The email address of the first account.
pub const FIRST_ACCOUNT: &str = "admin@localhost";

/// Connections of a listener that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Delay before listening to other nodes again after a failure.
const LISTEN_RETRY: Duration = Duration::from_secs(5);

/// Time for the release of jobs after the drain time.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// The age of temporary files that no process can still use.
const SCRATCH_MAX_AGE: Duration = Duration::from_hours(48);

/// Runs the service until it receives a stop signal. `hint` is a line about the model, for the end of the first output; `ready` is called
/// before that.
///
/// # Errors
/// One line, if it cannot start.
pub async fn run(config: Config, hint: Option<String>, ready: impl FnOnce()) -> Result<(), String> {
    let data = &config.data;
    data_folder::prepare(data)?;
    // Two processes on one data folder would each treat the other's jobs as those of a dead worker.
    let _lock = lock_data_folder(&config)?;

    let database = config.database_url.clone().unwrap_or_else(|| Store::url_in(data));
    let durability = if config.fsync { Durability::PowerCut } else { Durability::Crash };
    let store =
        Store::open(&database, durability).await.map_err(|error| format!("the database cannot be opened: {error}"))?;
    let database_error = |error: crate::store::Error| format!("the database: {error}");
    let secret = service_secret(&store).await.map_err(database_error)?;
    store.expire_all_leases().await.map_err(database_error)?;
    prepare_scratch(&config.scratch(), store.is_shared())?;
    let (catalog, engine) = open_models(&config).await?;

    let api = listen(config.listen)?;
    let storage = listen(config.storage_listen)?;
    let dashboard = listen(config.dashboard_listen)?;
    let health = config.health_listen.map(listen).transpose()?;
    let wyoming = config.wyoming.filter(|_| config.role != Role::Worker).map(listen).transpose()?;
    let urls = PublicUrls {
        api: public_url(&config.public_url, &api)?,
        storage: public_url(&config.storage_public_url, &storage)?,
        dashboard: public_url(&config.dashboard_public_url, &dashboard)?,
        health: health.as_ref().map(|health| public_url(&None, health)).transpose()?,
    };
    let address = api.local_addr().map(|address| address.to_string()).unwrap_or_default();
    let node_device = engine.as_ref().map(|engine| engine.device_names()).unwrap_or_default();
    let announced_as = config.wyoming_zeroconf.then(|| installation(&secret));
    let opened = Opened { config: &config, store, secret, catalog, engine, urls: &urls };
    let service = Service::assemble(opened)?;
    let Service { state, store, notifiers, metering, housekeeping, mail, workers, stopping } = service;
    let mut listeners: Vec<(&str, &'static [Surface], TcpListener)> = match health {
        Some(health) => vec![("api", &[Surface::Api], api), ("health", &[Surface::Health], health)],
        None => vec![("api", &[Surface::Api, Surface::Health], api)],
    };
    // A worker serves health and metrics alone.
    if config.role != Role::Worker {
        listeners.push(("storage", &[Surface::Storage], storage));
        listeners.push(("dashboard", &[Surface::Dashboard], dashboard));
    }
    // Each listener has places of its own, so that clients of one cannot stop another.
    let connections = open_files::reserve(listeners.len() + usize::from(wyoming.is_some()), config.max_connections)?;
    wyoming_account(&store, &config).await?;
    // The key is shown once, so it is created after everything else that can fail.
    let first_key = first_key(&store, config.free_credit_cents).await.map_err(database_error)?;
    let first_link = match config.role {
        Role::Worker => None,
        Role::All | Role::Api => first_link(&store, &urls.dashboard).await.map_err(database_error)?,
    };

    let give_up = CancellationToken::new();
    let drain = Duration::from_secs(config.drain_seconds.into());
    let mut tasks = JoinSet::new();
    let places = |name, connections| {
        Places::new(name, connections, config.max_connections_per_address, state.trusted_proxies.clone())
    };
    for (name, surfaces, socket) in listeners {
        let dispatcher = Dispatcher::new(state.clone(), surfaces);
        let limits = transfer_limits(&config);
        tasks.spawn(listener::serve(dispatcher, socket, places(name, connections), limits, stopping.clone(), drain));
    }
    let wyoming_address = wyoming.as_ref().and_then(|socket| socket.local_addr().ok());
    if let Some(socket) = wyoming {
        let shared = Wyoming {
            transcripts: state.transcripts.clone(),
            speech: state.speech.clone(),
            rate_limits: state.rate_limits.clone(),
            account: wyoming_account(&store, &config).await?.ok_or("wyoming: there is no account")?,
            url: urls.api.clone(),
            limits: transfer_limits(&config),
            longest: Duration::from_secs(config.live_session_seconds.into()),
            announced_as,
        };
        let places = places("wyoming", connections.min(wyoming::MAX_CONNECTIONS));
        tasks.spawn(wyoming::serve(Arc::new(shared), socket, places, stopping.clone(), drain));
    }
    if let Some(workers) = workers {
        tasks.spawn(workers.jobs.run(stopping.clone(), give_up.clone()));
        tasks.spawn(workers.webhooks.run(stopping.clone()));
        tasks.spawn(workers.usage_reports.run(stopping.clone()));
        tasks.spawn(forward_notifications(store.clone(), notifiers, stopping.clone()));
    }
    if let Some(mail) = mail {
        tasks.spawn(mail.run(stopping.clone()));
    }
    tasks.spawn(housekeeping.run(stopping.clone()));
    tasks.spawn(indexing::run(store.clone(), stopping.clone()));
    let node = presence::node(metering.node(), &config, address, node_device);
    tasks.spawn(presence::run(store.clone(), node, stopping.clone()));
    tasks.spawn(run_metering(metering, state.realtime.clone()));
    let has_limit = config.billing_provider == BillingProvider::Local && first_key.is_some();
    let limit = has_limit.then(|| limit_of_first_account(&config));
    ready();
    print_addresses(
        &urls,
        wyoming_address,
        &config.models,
        first_key.as_deref(),
        first_link.as_ref(),
        limit.as_deref(),
        hint.as_deref(),
    );

    stop_signal().await;
    tracing::info!("stopping: no new work is accepted");
    stopping.cancel();
    let finished = async { while tasks.join_next().await.is_some() {} };
    tokio::pin!(finished);
    if tokio::time::timeout(drain, &mut finished).await.is_err() {
        // Running jobs are released and start again on another worker.
        give_up.cancel();
        let _ = tokio::time::timeout(GIVE_UP_TIMEOUT, finished).await;
    }
    store.close().await;
    Ok(())
}

/// Creates the folder of temporary files and removes old ones.
fn prepare_scratch(scratch: &Path, is_shared: bool) -> Result<(), String> {
    if !is_shared {
        // No other process uses the folder.
        let _ = std::fs::remove_dir_all(scratch);
    }
    std::fs::create_dir_all(scratch).map_err(|error| format!("cannot make {}: {error}", scratch.display()))?;
    if is_shared {
        remove_old_files(scratch);
    }
    Ok(())
}

/// Removes files of dead processes from a folder that other processes may use.
fn remove_old_files(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = entry.metadata().ok().and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > SCRATCH_MAX_AGE) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Passes notifications of other nodes on to this process's tasks.
async fn forward_notifications(store: Store, notifiers: Arc<Notifiers>, stopping: CancellationToken) {
    let receive = async || {
        let Some(mut listener) = store.notify_listener().await? else { return Ok(()) };
        loop {
            let topic = listener.next().await?;
            if topic != Some(Topic::Webhooks) {
                notifiers.jobs.notify_one();
            }
            if topic != Some(Topic::Jobs) {
                notifiers.webhooks.notify_one();
            }
        }
    };
    let forward = async {
        loop {
            match receive().await {
                Ok(()) => return,
                Err::<(), crate::store::Error>(error) => {
                    tracing::warn!(%error, "receiving notifications of other nodes failed");
                }
            }
            tokio::time::sleep(LISTEN_RETRY).await;
        }
    };
    tokio::select! {
        () = forward => {}
        () = stopping.cancelled() => {}
    }
}

/// Runs the metering until the service stops and its last session has ended.
async fn run_metering(metering: Arc<Metering>, realtime: Arc<LiveState>) {
    let ended = CancellationToken::new();
    tokio::spawn(metering.clone().watch_keys(ended.clone()));
    let running = tokio::spawn(metering.run(ended.clone()));
    realtime.stopping.cancelled().await;
    realtime.connections.close();
    realtime.connections.wait().await;
    ended.cancel();
    let _ = running.await;
}

/// Locks the data folder for this process, unless the database is shared.
fn lock_data_folder(config: &Config) -> Result<Option<std::fs::File>, String> {
    if config.database_url.as_ref().is_some_and(|url| !url.starts_with("sqlite:")) {
        return Ok(None);
    }
    let path = config.data.join("lock");
    let file = std::fs::File::create(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(_) => Err(format!(
            "another auricle serves {} already; stop it, or name another folder with --data",
            config.data.display()
        )),
    }
}

/// Creates an account and a key in an empty database.
async fn first_key(store: &Store, free_credit_cents: u32) -> crate::store::Result<Option<String>> {
    if store.first_account().await?.is_some() {
        return Ok(None);
    }
    let account = store.account_of(FIRST_ACCOUNT, free_credit_cents.into()).await?;
    Ok(Some(store.create_key(&account.id, "first", None).await?.secret))
}

/// The name of this installation in the local network, which stays when it starts again.
fn installation(secret: &str) -> String {
    format!("auricle-{}", &HEXLOWER.encode(&Sha256::digest(format!("installation\n{secret}")))[..8])
}

/// The account that clients of the Wyoming protocol act for; none if it is yet to be made, as the first one.
async fn wyoming_account(store: &Store, config: &Config) -> Result<Option<AccountId>, String> {
    let database_error = |error: crate::store::Error| format!("the database: {error}");
    let first = store.first_account().await.map_err(database_error)?;
    let Some(email) = config.wyoming_account.as_deref().filter(|_| config.wyoming.is_some()) else {
        return Ok(first.map(|account| account.id));
    };
    let email = email_address(email).unwrap_or_default();
    match store.account_named(&email).await.map_err(database_error)? {
        Some(account) => Ok(Some(account.id)),
        None if email == FIRST_ACCOUNT && first.is_none() => Ok(None),
        None => Err(format!(
            "settings: wyoming_account: there is no account {email:?}; `auricle keys create --account {email}` makes it"
        )),
    }
}

/// A one-time link that sets the password of the first account, as long as nobody can sign in to it.
async fn first_link(store: &Store, dashboard: &Url) -> crate::store::Result<Option<Url>> {
    match store.first_account().await? {
        Some(account) if !store.has_user(&account.id).await? => {
            Ok(Some(password_link(store, account.id, &account.email, dashboard).await?))
        }
        _ => Ok(None),
    }
}

/// Makes a one-time link that sets the password of an email address, which signs in to this account.
///
/// # Errors
/// If it cannot be stored.
pub async fn password_link(
    store: &Store,
    account: AccountId,
    email: &str,
    dashboard: &Url,
) -> crate::store::Result<Url> {
    let link = OneTimeLink::new(clock::now_ms());
    let of = PasswordLink { account, email: email.to_owned() };
    store.create_password_link(&of, &link.secret_hash, link.expires_at).await?;
    Ok(url_below(dashboard, &link.path))
}

/// Opens the engine and loads the models, so that no request waits for them. With the API role, reads the catalog alone.
async fn open_models(config: &Config) -> Result<(Catalog, Option<Engine>), String> {
    let mut options = EngineOptions::default()
        .models(&config.models)
        .devices(DeviceChoice::list(&config.device).map_err(|error| format!("settings: device: {error}"))?)
        .precision(config.precision_choice()?)
        // A new session may start before the engine has seen the end of an old one, so there are two slots for each.
        .live_streams(config.max_live_sessions.saturating_mul(2))
        .chats(config.max_chats.unwrap_or(config.max_live_sessions))
        .speech_streams(config.max_speech_streams.unwrap_or(config.max_live_sessions))
        .kv_memory(config.language_cache_bytes)
        .tagger(config.tagger_choice())
        .turn_detector(config.turn_detector_choice())
        .recordings(config.job_workers.saturating_mul(2));
    if let Some(bytes) = config.model_memory_bytes {
        options = options.model_memory(bytes);
    }
    starter_models::prepare(&config.models)?;
    if config.role == Role::Api {
        return Ok((Catalog::read(&config.models).map_err(|error| error.to_string())?, None));
    }
    let asks_turn_detector = config.turn_finished_silence_ms.is_some();
    let live_options = ListenOptions::default()
        .language_model(config.live_language_model_choice())
        .second_pass(config.live_second_pass_choice());
    let opened = tokio::task::spawn_blocking(move || {
        let engine = blocking::Engine::open(options)?;
        for price in PRICES.iter().filter(|price| engine.catalog().choose(price.model).is_ok()) {
            match price.kind {
                ProductKind::Prerecorded => {
                    engine.load(&TranscribeOptions::default().model(price.model))?;
                }
                ProductKind::Realtime => {
                    engine.load_live(&live_options.clone().model(price.model))?;
                }
                ProductKind::Agent | ProductKind::Language => {}
            }
        }
        if let Some(tagger) = engine.tagger()?
            && !tagger.ignored_labels().is_empty()
        {
            tracing::warn!(labels = tagger.ignored_labels().join(", "), "the tagger's labels without a meaning here");
        }
        if !engine.load_turn_detector()? && asks_turn_detector {
            tracing::warn!("turn_finished_silence_ms needs a turn detector: `auricle models pull turn`");
        }
        if engine.devices().iter().any(|device| device.is_gpu()) {
            engine.warm_up()?;
        }
        Ok::<_, auricle_engine::Error>(Engine::from(engine))
    });
    let engine = match opened.await {
        Ok(engine) => engine.map_err(|error| error.to_string())?,
        Err(panic) => return Err(format!("the engine could not be opened: {panic}")),
    };
    for warning in engine.warnings() {
        tracing::warn!(warning, "engine");
    }
    tracing::info!(device = engine.device_names(), "models are loaded");
    Ok((engine.catalog().clone(), Some(engine)))
}

fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restarted service takes the address of the one before.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|error: std::io::Error| {
        format!("cannot listen on {address}: {error}; name another with --listen and its like")
    })
}

fn public_url(configured: &Option<Url>, listener: &TcpListener) -> Result<Url, String> {
    match configured {
        Some(url) => Ok(url.clone()),
        None => {
            let address = listener.local_addr().map_err(|error| error.to_string())?;
            Url::parse(&format!("http://{address}")).map_err(|error| error.to_string())
        }
    }
}

/// The limit of the first account, and the command that lifts it.
fn limit_of_first_account(config: &Config) -> String {
    let credit = dollars(config.free_credit_cents.into());
    let data = match std::path::absolute(&config.data) {
        Ok(data) if config.data != Config::default().data => format!(" --data {}", quoted(&data.to_string_lossy())),
        _ => String::new(),
    };
    format!(
        "The account {FIRST_ACCOUNT} has {credit} of free credit. This lifts its limit:\n\n\
         auricle accounts unlimited {FIRST_ACCOUNT}{data}"
    )
}

/// A text as one word of a shell's command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The rest of a curl line that transcribes the sample of the models folder, or lists the models where it has none.
fn first_request(api: &str, models: &Path) -> String {
    let sample = models.join("samples/jfk.flac");
    match std::path::absolute(&sample) {
        Ok(sample) if sample.is_file() => {
            let file = quoted(&format!("file=@{}", sample.display()));
            format!("-F {file} -F model=whisper-1 -F response_format=text {api}/v1/audio/transcriptions")
        }
        _ => format!("{api}/v2/models"),
    }
}

/// Prints the addresses, the first key, and a curl line to try; then the limit of the first account, and the hint about the model.
fn print_addresses(
    urls: &PublicUrls,
    wyoming: Option<SocketAddr>,
    models: &Path,
    first_key: Option<&str>,
    first_link: Option<&Url>,
    limit: Option<&str>,
    hint: Option<&str>,
) {
    let show = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
    let (api, storage, dashboard) = (show(&urls.api), show(&urls.storage), show(&urls.dashboard));
    let mut text = format!("api        {api}\nstorage    {storage}\ndashboard  {dashboard}\n");
    if let Some(health) = &urls.health {
        text += &format!("health     {}\n", show(health));
    }
    if let Some(address) = wyoming {
        text += &format!("wyoming    tcp://{address}\n");
    }
    if let Some(link) = first_link {
        text += &format!("sign-in    {link}\n");
    }
    let request = first_request(&api, models);
    match first_key {
        Some(key) => {
            text += &format!(
                "key        {key}\n\nThe key is shown this once. The sign-in link sets your password, once. Try it:\n\n\
                 curl -H 'Authorization: Bearer {key}' {request}\n"
            );
        }
        None => {
            text += &format!(
                "\nTry it (`auricle keys create` makes a key):\n\n\
                 curl -H \"Authorization: Bearer $AURICLE_KEY\" {request}\n"
            );
        }
    }
    for more in [limit, hint].into_iter().flatten() {
        text += &format!("\n{more}\n");
    }
    // Standard output may be closed.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminated) = signal(SignalKind::terminate()) else {
            let _ = tokio::signal::ctrl_c().await;
            return;
        };
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let aged = |name: &str, age: Duration| {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        };
        aged("old", SCRATCH_MAX_AGE + Duration::from_secs(60));
        aged("recent", SCRATCH_MAX_AGE - Duration::from_secs(60));
        aged("new", Duration::ZERO);
        remove_old_files(folder.path());
        assert!(!folder.path().join("old").exists());
        assert!(folder.path().join("recent").exists() && folder.path().join("new").exists());
        remove_old_files(&folder.path().join("none"));
    }
}
