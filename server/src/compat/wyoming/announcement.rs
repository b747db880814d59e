//! The announcement of the service in the local network, by multicast DNS: Home Assistant offers to add what it finds.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use mdns_sd::{ServiceDaemon, ServiceInfo};

const SERVICE: &str = "_wyoming._tcp.local.";

/// The longest wait for the end of an announcement to be sent.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// An announcement that stands.
pub struct Announcement(ServiceDaemon);

impl Announcement {
    /// Announces a listener by the name of this installation: at its address, or at those of all interfaces.
    ///
    /// # Errors
    /// If the system has no socket for it.
    pub fn begin(name: &str, address: SocketAddr) -> mdns_sd::Result<Self> {
        let ip = if address.ip().is_unspecified() { String::new() } else { address.ip().to_string() };
        let host = format!("{name}.local.");
        let properties: Option<HashMap<String, String>> = None;
        let mut service = ServiceInfo::new(SERVICE, name, &host, ip.as_str(), address.port(), properties)?;
        if ip.is_empty() {
            service = service.enable_addr_auto();
        }
        let daemon = ServiceDaemon::new()?;
        daemon.register(service)?;
        Ok(Self(daemon))
    }

    /// Takes the announcement back. Blocks for a short time.
    pub fn end(self) {
        if let Ok(ended) = self.0.shutdown() {
            let _ = ended.recv_timeout(LEAVE_TIMEOUT);
        }
    }
}
