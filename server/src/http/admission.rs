//! Admission of connections: so many at a time on a listener, and so many of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::proxies::TrustedProxies;
use super::rate_limits::Client;

/// The places of one listener.
#[derive(Clone)]
pub struct Places {
    name: &'static str,
    permits: Arc<Semaphore>,
    per_address: usize,
    proxies: TrustedProxies,
    addresses: Arc<Mutex<HashMap<Client, usize>>>,
}

impl Places {
    /// Places for `total` connections, and for `per_address` of one address that is no trusted proxy's. `name` is the
    /// listener's in the metrics.
    pub fn new(name: &'static str, total: usize, per_address: usize, proxies: TrustedProxies) -> Self {
        let permits = Arc::new(Semaphore::new(total.min(Semaphore::MAX_PERMITS)));
        Self { name, permits, per_address, proxies, addresses: Arc::default() }
    }

    /// Counts a connection for its address. None if the address has its share already.
    pub fn of_address(&self, address: IpAddr) -> Option<AddressPlace> {
        let client = Client::at(address);
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = addresses.entry(client.clone()).or_default();
        if *count >= self.per_address && !self.proxies.contains(address) {
            metrics::counter!("auricle_connections_refused_total", "listener" => self.name).increment(1);
            return None;
        }
        *count += 1;
        Some(AddressPlace { client, addresses: self.addresses.clone() })
    }

    /// Waits for a place on the listener. None if it is closed.
    pub async fn place(&self, address: AddressPlace) -> Option<Place> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        metrics::gauge!("auricle_connections", "listener" => self.name).increment(1);
        let held = Held { name: self.name, _permit: permit, _address: address };
        Some(Place { _held: Arc::new(held) })
    }
}

/// A connection that counts for its address.
pub struct AddressPlace {
    client: Client,
    addresses: Arc<Mutex<HashMap<Client, usize>>>,
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.client);
            }
        }
    }
}

/// The place of a connection, held until the last copy is dropped. Requests carry a copy, for connections that are
/// upgraded.
#[derive(Clone)]
pub struct Place {
    _held: Arc<Held>,
}

struct Held {
    name: &'static str,
    _permit: OwnedSemaphorePermit,
    _address: AddressPlace,
}

impl Drop for Held {
    fn drop(&mut self) {
        metrics::gauge!("auricle_connections", "listener" => self.name).decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn an_address_has_its_share_and_leaves_the_rest() {
        let places = Places::new("api", 3, 2, TrustedProxies::default());
        let at = |last: u8| places.of_address(Ipv4Addr::new(192, 0, 2, last).into());
        let (first, second) = (at(1).unwrap(), at(1).unwrap());
        assert!(at(1).is_none());
        let other = places.place(at(2).unwrap()).await.unwrap();
        let first = places.place(first).await.unwrap();
        drop(second);
        assert!(at(1).is_some());
        let copy = first.clone();
        drop(first);
        let third = at(1).unwrap();
        assert!(at(1).is_none(), "a copy holds the place");
        drop((copy, third, other));
        assert!(places.addresses.lock().unwrap().is_empty());
        assert_eq!(places.permits.available_permits(), 3);
    }
}
