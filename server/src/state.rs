//! What the parts of the service share.

use std::path::PathBuf;
use std::sync::Arc;

use auricle_engine::{Catalog, Engine};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::billing::Provider;
use crate::config::Config;
use crate::http::rate_limits::RateLimits;
use crate::ids::NodeId;
use crate::metering::UnbilledSessions;
use crate::outbound::Outbound;
use crate::storage::Storage;
use crate::store::Store;

pub struct AppState {
    pub config: Config,
    pub store: Store,
    pub storage: Storage,
    pub outbound: Outbound,
    pub billing: Provider,
    pub catalog: Catalog,
    /// Where this process transcribes.
    pub engine: Option<Arc<Engine>>,
    pub limits: RateLimits,
    pub connections: Arc<Semaphore>,
    pub figures: PrometheusHandle,
    /// Rung when a job was written, or given back.
    pub job_notify: Notify,
    /// Rung when a webhook was written.
    pub webhook_notify: Notify,
    /// Rung when an object was let go of.
    pub deletion_notify: Notify,
    /// Live sessions and those that are let in or turned away, to wait for when the service stops.
    pub live: TaskTracker,
    /// One a live session.
    pub live_permits: Arc<Semaphore>,
    pub unbilled: UnbilledSessions,
    /// No new work is taken from then on.
    pub stopping: CancellationToken,
    /// This process.
    pub node: NodeId,
    /// What URLs and tokens of ours are signed with; all nodes share it.
    pub secret: String,
    /// The API's address, as clients see it.
    pub public_url: Url,
    /// Where files lie that are being worked on; emptied at start.
    pub scratch: PathBuf,
}
