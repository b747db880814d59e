//! Health checks, metrics and the OpenAPI document.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde_json::json;
use tokio::sync::Mutex;

use crate::context::RequestContext;
use crate::http::response::{Response, Result, json, json_text, text};
use crate::prometheus::Metrics;
use crate::store::Store;

/// The time for which a check of the database is valid: anybody may ask, and a check may write.
const CHECK_VALID: Duration = Duration::from_secs(1);

/// The same for the data folder, whose check writes a file.
const FOLDER_CHECK_VALID: Duration = Duration::from_secs(5);

/// The least free space of the data folder. With less, uploads and soon the database fail.
pub const LEAST_FREE_BYTES: u64 = 64 << 20;

/// The time of a check, and the fault that it found.
pub type Checked = Option<(Instant, Option<String>)>;

/// The state of these routes.
pub struct HealthState {
    pub store: Store,
    /// The data folder.
    pub data: PathBuf,
    /// The last checks: of the database, and of the data folder.
    pub last_checks: Mutex<(Checked, Checked)>,
    pub metrics: Metrics,
    /// The OpenAPI and AsyncAPI documents, as JSON.
    pub openapi: String,
    pub asyncapi: &'static str,
}

/// `GET /health/live`
pub async fn live(_: RequestContext) -> Result<Response> {
    Ok(json(&json!({ "status": "ok" })))
}

/// `GET /health/ready`: the database answers and takes writes, and the data folder takes files. Models are loaded before the service
/// listens.
pub async fn ready(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    let mut last_checks = state.last_checks.lock().await;
    let (database, folder) = &mut *last_checks;
    if !is_valid(database, CHECK_VALID) {
        let fault = state.store.ping().await.err().map(|error| format!("the database: {error}"));
        *database = Some((Instant::now(), fault));
    }
    if !is_valid(folder, FOLDER_CHECK_VALID) {
        let data = state.data.clone();
        let checked = tokio::task::spawn_blocking(move || check_folder(&data)).await;
        let fault = checked.unwrap_or_else(|panic| Err(io::Error::other(panic))).err();
        *folder = Some((Instant::now(), fault.map(|error| format!("the data folder: {error}"))));
    }
    let faults = [database, folder].map(|check| check.as_ref().and_then(|(_, fault)| fault.clone()));
    match faults.into_iter().flatten().next() {
        None => Ok(json(&json!({ "status": "ok" }))),
        Some(fault) => {
            let mut response = json(&json!({ "status": "unavailable", "reason": fault }));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            Ok(response)
        }
    }
}

fn is_valid(check: &Checked, time: Duration) -> bool {
    check.as_ref().is_some_and(|(at, _)| at.elapsed() < time)
}

/// Checks that a folder takes files and has room for more.
fn check_folder(folder: &Path) -> io::Result<()> {
    tempfile::tempfile_in(folder)?.write_all(b"a check")?;
    match free_bytes(folder)? {
        Some(free) if free < LEAST_FREE_BYTES => {
            let (free, least) = (free >> 20, LEAST_FREE_BYTES >> 20);
            Err(io::Error::other(format!("its disk has {free} MiB left, and the service needs {least}")))
        }
        _ => Ok(()),
    }
}

/// The free space of a folder's disk, where the system reports it.
///
/// # Errors
/// If there is no such folder.
#[cfg(unix)]
pub fn free_bytes(folder: &Path) -> io::Result<Option<u64>> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(Some(disk.f_bavail.saturating_mul(disk.f_frsize)))
}

#[cfg(not(unix))]
pub fn free_bytes(_: &Path) -> io::Result<Option<u64>> {
    Ok(None)
}

/// `GET /metrics`
pub async fn metrics(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    if let Ok((queued, processing)) = state.store.queue_depth().await {
        metrics::gauge!("auricle_jobs", "status" => "queued").set(queued as f64);
        metrics::gauge!("auricle_jobs", "status" => "processing").set(processing as f64);
    }
    Ok(text("text/plain; version=0.0.4; charset=utf-8", state.metrics.render()))
}

/// `GET /asyncapi.json`
pub async fn asyncapi(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    Ok(json_text(state.asyncapi.to_owned()))
}

/// `GET /openapi.json`
pub async fn openapi(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    Ok(json_text(state.openapi.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_must_take_files() {
        let folder = tempfile::tempdir().unwrap();
        check_folder(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a check leaves nothing");
        assert!(check_folder(&folder.path().join("none")).is_err());
    }
}
