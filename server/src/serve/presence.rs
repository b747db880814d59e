//! Tells the operator's page of this process.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::config::{Config, Role};
use crate::dashboard::operator::resident_bytes;
use crate::ids::NodeId;
use crate::store::{Node, Store};

/// Interval between two signs of life.
const INTERVAL: Duration = Duration::from_secs(10);

/// The row of this process.
pub fn node(id: &NodeId, config: &Config, address: String, device: String) -> Node {
    let role = match config.role {
        Role::All => "all",
        Role::Api => "api",
        Role::Worker => "worker",
    };
    Node {
        id: id.clone(),
        host: host_name(),
        address,
        role: role.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device,
        memory_bytes: None,
        started_at: clock::now_ms(),
    }
}

/// The name of this machine; empty where it cannot be read.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    name.unwrap_or_default().trim().to_owned()
}

/// Writes this process's row until `stopping`, then deletes it.
pub async fn run(store: Store, mut node: Node, stopping: CancellationToken) {
    loop {
        node.memory_bytes = resident_bytes().and_then(|bytes| i64::try_from(bytes).ok());
        if let Err(error) = store.note_node(&node).await {
            tracing::warn!(%error, "recording that this process runs failed; trying again");
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stopping.cancelled() => break,
        }
    }
    if let Err(error) = store.forget_node(&node.id).await {
        tracing::debug!(%error, "this process could not be taken off the list of nodes");
    }
}
