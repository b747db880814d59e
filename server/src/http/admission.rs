//! Admission of connections: so many at a time on a listener, and so many of one address. The last places are for addresses that hold
//! few, and where none is left the oldest connection that has sent no request makes room.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::proxies::TrustedProxies;
use super::rate_limits::Client;

/// The part of the places that is for addresses that hold few.
const RESERVED_PART: usize = 8;

/// An address with fewer connections holds few. A browser opens six to a host.
const FEW: usize = 8;

/// The places of one listener.
#[derive(Clone)]
pub struct Places {
    name: &'static str,
    permits: Arc<Semaphore>,
    total: usize,
    per_address: usize,
    proxies: TrustedProxies,
    book: Arc<Mutex<Book>>,
}

/// The connections of a listener, with those that wait for a place.
#[derive(Default)]
struct Book {
    count: usize,
    addresses: HashMap<Client, usize>,
    /// Connections that have sent no request, the oldest first, each with what closes it.
    silent: BTreeMap<u64, CancellationToken>,
    next_id: u64,
}

fn locked(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Places for `total` connections, and for `per_address` of one address that is no trusted proxy's. `name` is the
    /// listener's in the metrics.
    pub fn new(name: &'static str, total: usize, per_address: usize, proxies: TrustedProxies) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS);
        Self { name, permits: Arc::new(Semaphore::new(total)), total, per_address, proxies, book: Arc::default() }
    }

    /// Counts a connection for its address. None if the address has its share already, or if the places that are left are for
    /// addresses that hold few. Where none is left, closes the oldest connection that has sent no request.
    pub fn of_address(&self, address: IpAddr) -> Option<AddressPlace> {
        let client = Client::at(address);
        let mut book = locked(&self.book);
        let count = book.addresses.get(&client).copied().unwrap_or_default();
        let is_reserved = book.count >= self.total - self.total / RESERVED_PART;
        let has_share = count >= self.per_address || (is_reserved && count >= FEW);
        if has_share && !self.proxies.contains(address) {
            metrics::counter!("auricle_connections_refused_total", "listener" => self.name).increment(1);
            return None;
        }
        if book.count >= self.total
            && let Some((_, silent)) = book.silent.pop_first()
        {
            metrics::counter!("auricle_connections_displaced_total", "listener" => self.name).increment(1);
            silent.cancel();
        }
        *book.addresses.entry(client.clone()).or_default() += 1;
        book.count += 1;
        Some(AddressPlace { client, book: self.book.clone() })
    }

    /// Waits for a place on the listener. None if it is closed.
    pub async fn place(&self, address: AddressPlace) -> Option<Place> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        metrics::gauge!("auricle_connections", "listener" => self.name).increment(1);
        let displaced = CancellationToken::new();
        let id = {
            let mut book = locked(&self.book);
            book.next_id += 1;
            let id = book.next_id;
            book.silent.insert(id, displaced.clone());
            id
        };
        let is_silent = AtomicBool::new(true);
        let held = Held { name: self.name, id, is_silent, displaced, _permit: permit, address };
        Some(Place { held: Arc::new(held) })
    }
}

/// A connection that counts for its address.
pub struct AddressPlace {
    client: Client,
    book: Arc<Mutex<Book>>,
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut book = locked(&self.book);
        book.count -= 1;
        if let Some(count) = book.addresses.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                book.addresses.remove(&self.client);
            }
        }
    }
}

/// The place of a connection, held until the last copy is dropped. Requests carry a copy, for connections that are
/// upgraded.
#[derive(Clone)]
pub struct Place {
    held: Arc<Held>,
}

impl Place {
    /// Notes that the connection has sent a request. From then on it makes room for no other.
    pub fn has_request(&self) {
        if self.held.is_silent.swap(false, Ordering::Relaxed) {
            locked(&self.held.address.book).silent.remove(&self.held.id);
        }
    }

    /// Is cancelled when the connection has to make room for another.
    pub fn displaced(&self) -> CancellationToken {
        self.held.displaced.clone()
    }
}

struct Held {
    name: &'static str,
    id: u64,
    is_silent: AtomicBool,
    displaced: CancellationToken,
    _permit: OwnedSemaphorePermit,
    address: AddressPlace,
}

impl Drop for Held {
    fn drop(&mut self) {
        locked(&self.address.book).silent.remove(&self.id);
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
        let book = locked(&places.book);
        assert!(book.addresses.is_empty() && book.silent.is_empty() && book.count == 0);
        assert_eq!(places.permits.available_permits(), 3);
    }

    /// A connection of an address.
    async fn connect(places: &Places, last: u8) -> Option<Place> {
        places.place(places.of_address(Ipv4Addr::new(192, 0, 2, last).into())?).await
    }

    #[tokio::test]
    async fn the_last_places_are_for_addresses_that_hold_few() {
        let places = Places::new("api", 24, 1000, TrustedProxies::default());
        let mut held = Vec::new();
        while let Some(place) = connect(&places, 1).await {
            held.push(place);
        }
        assert_eq!(held.len(), 21, "an eighth is left");
        for _ in 0..3 {
            held.push(connect(&places, 2).await.unwrap());
        }
        assert!(held.iter().all(|place| !place.displaced().is_cancelled()));
        assert!(connect(&places, 1).await.is_none());
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_makes_room_for_an_address_that_holds_few() {
        let places = Places::new("api", 10, 1000, TrustedProxies::default());
        let mut held = Vec::new();
        for last in [1, 1, 1, 1, 1, 1, 1, 1, 1, 2] {
            held.push(connect(&places, last).await.unwrap());
        }
        held[0].has_request();
        let displaced = |held: &[Place]| {
            let each = held.iter().enumerate().filter(|(_, place)| place.displaced().is_cancelled());
            each.map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert!(connect(&places, 1).await.is_none(), "it holds many");
        assert_eq!(displaced(&held), Vec::<usize>::new());
        let newcomer = places.of_address(Ipv4Addr::new(192, 0, 2, 3).into()).unwrap();
        assert_eq!(displaced(&held), [1], "the first has sent a request");
        drop(held.remove(1));
        let newcomer = places.place(newcomer).await.unwrap();
        let mut more = places.of_address(Ipv4Addr::new(192, 0, 2, 4).into());
        assert_eq!(displaced(&held), [1]);
        // Who has sent a request keeps the place, and the next one waits.
        held.iter().chain([&newcomer]).for_each(Place::has_request);
        drop(held.remove(1));
        let kept = places.place(more.take().unwrap()).await.unwrap();
        kept.has_request();
        let waiting = places.of_address(Ipv4Addr::new(192, 0, 2, 5).into()).unwrap();
        assert!(displaced(&held).is_empty() && !newcomer.displaced().is_cancelled());
        drop(waiting);
    }

    #[tokio::test]
    async fn a_trusted_proxy_may_hold_every_place() {
        let proxies = TrustedProxies::new(&["192.0.2.1/32".parse().unwrap()]);
        let places = Places::new("api", 16, 2, proxies);
        let mut held = Vec::new();
        for _ in 0..16 {
            held.push(connect(&places, 1).await.unwrap());
        }
        assert!(held.iter().all(|place| !place.displaced().is_cancelled()));
    }
}
