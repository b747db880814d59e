//! The service, put together: store, storage, engine, listeners, workers; and taken apart again when it is to stop.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auricle_engine::{Catalog, Engine, EngineOptions, ListenOptions, TranscribeOptions};
use data_encoding::HEXLOWER;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::billing::{Kind, PRICES, Provider};
use crate::clock;
use crate::config::{Config, Role};
use crate::http::rate_limits::RateLimits;
use crate::http::{Surface, connection_permits, serve};
use crate::ids::{NodeId, random};
use crate::metering::{self, UnbilledSessions};
use crate::outbound::Outbound;
use crate::state::AppState;
use crate::storage::Storage;
use crate::store::{Stale, Store, Topic};
use crate::{jobs, webhook_outbox};

/// The account of the first start.
pub const FIRST_ACCOUNT: &str = "admin@localhost";

/// How often what nobody needs any more is removed.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// How often the whole store is looked through for what broken uploads left.
const SWEEP: Duration = Duration::from_secs(3600);

/// How long to wait before listening to other nodes again, once that failed.
const LOST: Duration = Duration::from_secs(5);

/// Step times of requests and jobs, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Runs the service until it is told to stop. `hint` is a line about the model at work, for the end of the first output.
///
/// # Errors
/// One line, if it cannot start.
pub async fn run(config: Config, hint: Option<String>) -> Result<(), String> {
    // Two processes on one data folder would each take the other's jobs for those of the dead.
    let data = &config.data;
    std::fs::create_dir_all(data)
        .map_err(|error| format!("cannot make the data folder {}: {error}", data.display()))?;
    let _alone = only_one(&config)?;

    let database = config.database_url.clone().unwrap_or_else(|| Store::url_in(data));
    let store = Store::open(&database).await.map_err(|error| format!("the database cannot be opened: {error}"))?;
    let told = |error: crate::store::Error| format!("the database: {error}");
    let secret = store.secret("url-signing", &HEXLOWER.encode(&random::<32>())).await.map_err(told)?;
    store.release_all_jobs().await.map_err(told)?;

    let scratch = scratch(&config);
    if !store.is_shared() {
        // What a process left that was killed.
        let _ = std::fs::remove_dir_all(&scratch);
    }
    std::fs::create_dir_all(&scratch).map_err(|error| format!("cannot make {}: {error}", scratch.display()))?;
    if store.is_shared() {
        forget_old_files(&scratch);
    }

    let (catalog, engine) = open_models(&config).await?;

    let serves_api = config.role != Role::Worker;
    let api = listen(config.listen).await?;
    let storage_listener = listen(config.storage_listen).await?;
    let dashboard = listen(config.dashboard_listen).await?;
    let public_url = public(&config.public_url, &api)?;
    let storage_url = public(&config.storage_public_url, &storage_listener)?;
    let dashboard_url = public(&config.dashboard_public_url, &dashboard)?;

    let urls = Urls { api: public_url, storage: storage_url, dashboard: dashboard_url };
    let app = Arc::new(assemble(config, store, secret, catalog, engine, &urls)?);
    // Last of what can go wrong: the key is shown once, and a start that fails shows nothing.
    let first_key = first_key(&app.store, app.config.free_credit_cents).await.map_err(told)?;

    let (stopping, give_up) = (app.stopping.clone(), CancellationToken::new());
    let drain = Duration::from_secs(app.config.drain_seconds.into());
    let mut parts = JoinSet::new();
    if serves_api {
        for (surface, listener) in
            [(Surface::Api, api), (Surface::Storage, storage_listener), (Surface::Dashboard, dashboard)]
        {
            parts.spawn(serve(app.clone(), surface, listener, stopping.clone(), drain));
        }
    } else {
        // A worker is watched like the rest, and asked for nothing else.
        parts.spawn(serve(app.clone(), Surface::Api, api, stopping.clone(), drain));
    }
    if let Some(engine) = app.engine.clone() {
        parts.spawn(jobs::run(app.clone(), engine, stopping.clone(), give_up.clone()));
        parts.spawn(webhook_outbox::run(app.clone(), stopping.clone()));
        parts.spawn(webhook_outbox::report(app.clone(), stopping.clone()));
        parts.spawn(other_nodes(app.clone(), stopping.clone()));
    }
    parts.spawn(housekeeping(app.clone(), stopping.clone()));
    parts.spawn(live_sessions(app.clone(), stopping.clone()));
    announce(&urls, first_key.as_deref(), hint.as_deref());

    stop_signal().await;
    tracing::info!("stopping: no new work, what is in flight ends");
    stopping.cancel();
    let finished = async { while parts.join_next().await.is_some() {} };
    tokio::pin!(finished);
    if tokio::time::timeout(drain, &mut finished).await.is_err() {
        // Jobs that are still at work are given back, and begun again by whoever comes next.
        give_up.cancel();
        let _ = tokio::time::timeout(Duration::from_secs(10), finished).await;
    }
    app.store.close().await;
    Ok(())
}

/// Where clients find the listeners.
pub struct Urls {
    pub api: Url,
    pub storage: Url,
    pub dashboard: Url,
}

/// What the parts of the service share, over what was opened. Once a process: it takes in the figures.
///
/// # Errors
/// One line, for a setting that cannot be.
pub fn assemble(
    config: Config,
    store: Store,
    secret: String,
    catalog: Catalog,
    engine: Option<Arc<Engine>>,
    urls: &Urls,
) -> Result<AppState, String> {
    let figures = PrometheusBuilder::new()
        .set_buckets(&BUCKETS)
        .and_then(|builder| builder.install_recorder())
        .map_err(|error| format!("figures: {error}"))?;
    let storage = Storage::open(&config, urls.storage.clone(), &secret).map_err(|error| format!("storage: {error}"))?;
    let outbound = Outbound::new(&config.allow_private_hosts).map_err(|error| format!("outbound client: {error}"))?;
    let billing = Provider::new(&config, &urls.dashboard, &secret)?;
    Ok(AppState {
        store,
        storage,
        outbound,
        billing,
        catalog,
        engine,
        limits: RateLimits::new(config.request_limit),
        connections: connection_permits(config.max_connections),
        figures,
        live: TaskTracker::new(),
        live_permits: Arc::new(Semaphore::new(config.max_live_sessions)),
        unbilled: UnbilledSessions::default(),
        stopping: CancellationToken::new(),
        node: NodeId::new(),
        secret,
        job_notify: Notify::new(),
        webhook_notify: Notify::new(),
        deletion_notify: Notify::new(),
        public_url: urls.api.clone(),
        scratch: scratch(&config),
        config,
    })
}

/// Where files lie that are being worked on.
fn scratch(config: &Config) -> PathBuf {
    config.data.join("scratch")
}

/// How old a file has to be that no process works on any more.
const LEFT_BEHIND: Duration = Duration::from_hours(48);

/// Removes what processes left that were killed, where others may be at work in the same folder.
fn forget_old_files(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = entry.metadata().ok().and_then(|facts| facts.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > LEFT_BEHIND) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Wakes this node's workers when another node has something for them.
async fn other_nodes(app: Arc<AppState>, stopping: CancellationToken) {
    let hear = async || {
        let Some(mut listener) = app.store.notify_listener().await? else { return Ok(()) };
        loop {
            let topic = listener.next().await?;
            if topic != Some(Topic::Webhooks) {
                app.job_notify.notify_one();
            }
            if topic != Some(Topic::Jobs) {
                app.webhook_notify.notify_one();
            }
        }
    };
    let listen = async {
        loop {
            match hear().await {
                Ok(()) => return,
                Err::<(), crate::store::Error>(error) => tracing::warn!(%error, "other nodes cannot be heard"),
            }
            tokio::time::sleep(LOST).await;
        }
    };
    tokio::select! {
        () = listen => {}
        () = stopping.cancelled() => {}
    }
}

/// Keeps the books of live sessions for as long as there are any.
async fn live_sessions(app: Arc<AppState>, stopping: CancellationToken) {
    let over = CancellationToken::new();
    let books = tokio::spawn(metering::run(app.clone(), over.clone()));
    stopping.cancelled().await;
    app.live.close();
    app.live.wait().await;
    over.cancel();
    let _ = books.await;
}

/// Holds the data folder for this process, unless the database is a shared one.
fn only_one(config: &Config) -> Result<Option<std::fs::File>, String> {
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

/// A key for the first account of an empty database.
async fn first_key(store: &Store, free_credit_cents: u32) -> crate::store::Result<Option<String>> {
    if store.first_account().await?.is_some() {
        return Ok(None);
    }
    let account = store.account_of(FIRST_ACCOUNT, free_credit_cents.into()).await?;
    Ok(Some(store.create_key(&account.id, "first").await?.secret))
}

/// Opens the models, and loads those that transcribe, so that no request waits for them.
async fn open_models(config: &Config) -> Result<(Catalog, Option<Arc<Engine>>), String> {
    let options = EngineOptions {
        models: config.models.clone(),
        device: config.device.parse().map_err(|error| format!("settings: device: {error}"))?,
        precision: config.precision.parse().map_err(|error| format!("settings: precision: {error}"))?,
        // Beside those at work, one each whose end the engine has not seen yet.
        live_streams: config.max_live_sessions.saturating_mul(2),
        recordings: config.job_workers.saturating_mul(2),
    };
    if config.role == Role::Api {
        return Ok((Catalog::read(&config.models).map_err(|error| error.to_string())?, None));
    }
    let live_search = config.live_search();
    let opened = tokio::task::spawn_blocking(move || {
        let engine = Engine::open(options)?;
        for price in PRICES.iter().filter(|price| engine.catalog().choose(price.model).is_ok()) {
            match price.kind {
                Kind::Prerecorded => {
                    engine.load(&TranscribeOptions { model: price.model.into(), ..TranscribeOptions::default() })?;
                }
                Kind::Realtime => {
                    let (model, language_model) = (price.model.into(), live_search.clone());
                    engine.load_live(&ListenOptions { model, language_model, ..ListenOptions::default() })?;
                }
                Kind::Agent => {}
            }
        }
        Ok::<_, auricle_engine::Error>(engine)
    });
    let engine = match opened.await {
        Ok(engine) => engine.map_err(|error| error.to_string())?,
        Err(panic) => return Err(format!("the engine could not be opened: {panic}")),
    };
    for warning in engine.warnings() {
        tracing::warn!(warning, "engine");
    }
    tracing::info!(device = engine.device().name, "models are loaded");
    Ok((engine.catalog().clone(), Some(Arc::new(engine))))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; name another with --listen and its like"))
}

fn public(configured: &Option<Url>, listener: &TcpListener) -> Result<Url, String> {
    match configured {
        Some(url) => Ok(url.clone()),
        None => {
            let address = listener.local_addr().map_err(|error| error.to_string())?;
            Url::parse(&format!("http://{address}")).map_err(|error| error.to_string())
        }
    }
}

/// Tells whoever started it where everything is, and how to try it.
fn announce(urls: &Urls, first_key: Option<&str>, hint: Option<&str>) {
    let show = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
    let (api, storage, dashboard) = (show(&urls.api), show(&urls.storage), show(&urls.dashboard));
    let mut text = format!("api        {api}\nstorage    {storage}\ndashboard  {dashboard}\n");
    match first_key {
        Some(key) => {
            text += &format!(
                "key        {key}\n\nThe key is shown this once. Try it:\n\n\
                 curl -H 'Authorization: Bearer {key}' {api}/v2/models\n"
            );
        }
        None => {
            text += &format!(
                "\nTry it (`auricle keys create` makes a key):\n\n\
                 curl -H \"Authorization: Bearer $AURICLE_KEY\" {api}/v2/models\n"
            );
        }
    }
    if let Some(hint) = hint {
        text += &format!("\n{hint}\n");
    }
    // Nobody may be reading.
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

/// Removes what nobody needs any more: uploads that were never completed, objects that were let go of.
async fn housekeeping(app: Arc<AppState>, stopping: CancellationToken) {
    let unfinished_ms = i64::from(app.config.stale_upload_hours) * 3_600_000;
    let unused_ms = i64::from(app.config.unused_upload_days) * 24 * 3_600_000;
    let mut swept: Option<Instant> = None;
    loop {
        let now = clock::now_ms();
        // Those that nobody uses are searched for among all that are used.
        let unused = swept.is_none_or(|at| at.elapsed() > SWEEP).then_some((Stale::Unused, now - unused_ms));
        for (stale, before) in [(Stale::Unfinished, now - unfinished_ms)].into_iter().chain(unused) {
            if let Err(error) = app.store.drop_stale_uploads(stale, before).await {
                tracing::error!(%error, "stale uploads could not be dropped");
            }
        }
        match app.store.orphans().await {
            Err(error) => tracing::error!(%error, "objects to be deleted could not be read"),
            Ok(orphans) => {
                for object_key in orphans {
                    match app.storage.delete(&object_key).await {
                        Ok(()) => {
                            if let Err(error) = app.store.orphan_gone(&object_key).await {
                                tracing::error!(%error, "a deletion could not be written down");
                            }
                        }
                        Err(error) => {
                            tracing::warn!(object_key, %error, "an object could not be deleted; trying again")
                        }
                    }
                }
            }
        }
        if swept.is_none_or(|at| at.elapsed() > SWEEP) {
            let storage = app.storage.clone();
            let unfinished = Duration::from_secs(24 * 3600);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || storage.sweep(unfinished)).await {
                tracing::warn!(%error, "unfinished uploads could not be looked at");
            }
            if let Err(error) = app.store.forget_old().await {
                tracing::warn!(%error, "what is too old to matter could not be forgotten");
            }
            swept = Some(Instant::now());
        }
        tokio::select! {
            () = tokio::time::sleep(HOUSEKEEPING) => {}
            () = app.deletion_notify.notified() => {}
            () = stopping.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_nobody_works_on_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let aged = |name: &str, age: Duration| {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        };
        aged("old", LEFT_BEHIND + Duration::from_secs(60));
        aged("at work", LEFT_BEHIND - Duration::from_secs(60));
        aged("new", Duration::ZERO);
        forget_old_files(folder.path());
        assert!(!folder.path().join("old").exists());
        assert!(folder.path().join("at work").exists() && folder.path().join("new").exists());
        forget_old_files(&folder.path().join("none"));
    }
}
