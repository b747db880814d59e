//! Rate limits: requests per client in fixed windows of five minutes, counted in this process. Requests without a key count
//! for their address; requests with a signed URL or token count for the account, separately from those with its key.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::ids::AccountId;

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(300);

/// Above this number of windows, ended ones are removed, at most once per [`SWEEP_INTERVAL`].
const SWEEP_ABOVE: usize = 10_000;
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// With this number of address windows, all further addresses share one.
const MAX_ADDRESSES: usize = 200_000;

/// The client that a request counts for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// The request has the account's API key.
    Account(AccountId),
    /// The request has a URL or token that was signed for the account.
    Signed(AccountId),
    /// The request has no credential. A /64 network of IPv6 counts as one address.
    Address(IpAddr),
    /// All addresses above the limit.
    OtherAddresses,
}

impl Client {
    /// The client of an address.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

/// The windows of all clients.
pub struct RateLimits {
    limit: u32,
    /// Bounded by the number of accounts.
    accounts: Mutex<Windows>,
    /// Bounded by [`MAX_ADDRESSES`].
    addresses: Mutex<Windows>,
}

struct Windows {
    by_client: HashMap<Client, Window>,
    swept: Instant,
    limit: usize,
}

#[derive(Clone, Copy)]
struct Window {
    began: Instant,
    count: u32,
}

/// A client's state in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitStatus {
    pub limit: u32,
    pub remaining: u32,
    /// Seconds to the end of the window.
    pub reset_s: u64,
    pub exceeded: bool,
}

impl RateLimits {
    pub fn new(limit: u32) -> Self {
        let windows = |limit| Mutex::new(Windows { by_client: HashMap::new(), swept: Instant::now(), limit });
        Self { limit, accounts: windows(usize::MAX), addresses: windows(MAX_ADDRESSES) }
    }

    /// Counts a request.
    pub fn count(&self, client: &Client) -> RateLimitStatus {
        self.count_at(client, Instant::now())
    }

    /// A client's state, without counting a request.
    pub fn peek(&self, client: &Client) -> RateLimitStatus {
        let now = Instant::now();
        let window = self.windows(client).by_client.get(client).filter(|window| window.is_open(now)).copied();
        self.status(window.unwrap_or(Window { began: now, count: 0 }), now)
    }

    fn windows(&self, client: &Client) -> MutexGuard<'_, Windows> {
        let windows = match client {
            Client::Account(_) | Client::Signed(_) => &self.accounts,
            Client::Address(_) | Client::OtherAddresses => &self.addresses,
        };
        windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_at(&self, client: &Client, now: Instant) -> RateLimitStatus {
        let mut windows = self.windows(client);
        if windows.by_client.len() > SWEEP_ABOVE && now.saturating_duration_since(windows.swept) >= SWEEP_INTERVAL {
            windows.by_client.retain(|_, window| window.is_open(now));
            windows.swept = now;
        }
        let has_room = windows.by_client.len() < windows.limit || windows.by_client.contains_key(client);
        let client = if has_room { client } else { &Client::OtherAddresses };
        let fresh = Window { began: now, count: 0 };
        let window = windows.by_client.entry(client.clone()).or_insert(fresh);
        if !window.is_open(now) {
            *window = fresh;
        }
        let exceeded = window.count >= self.limit;
        window.count = (window.count + 1).min(self.limit);
        RateLimitStatus { exceeded, ..self.status(*window, now) }
    }

    fn status(&self, window: Window, now: Instant) -> RateLimitStatus {
        let left = WINDOW.saturating_sub(now.saturating_duration_since(window.began));
        RateLimitStatus {
            limit: self.limit,
            remaining: self.limit - window.count,
            reset_s: left.as_secs() + u64::from(left.subsec_nanos() > 0),
            exceeded: false,
        }
    }
}

impl Window {
    fn is_open(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < WINDOW
    }
}

impl RateLimitStatus {
    /// Adds the rate limit headers.
    pub fn write(self, headers: &mut HeaderMap) {
        let values = [
            ("x-ratelimit-limit", u64::from(self.limit)),
            ("x-ratelimit-remaining", u64::from(self.remaining)),
            ("x-ratelimit-reset", self.reset_s),
        ];
        for (name, value) in values {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(id: &str) -> Client {
        Client::Account(id.to_owned().into())
    }

    fn address(at: usize) -> Client {
        Client::at(IpAddr::V4((at as u32).into()))
    }

    #[test]
    fn counts_end_with_their_window_and_are_separate_per_client() {
        let limits = RateLimits::new(2);
        let start = Instant::now();
        let (a, b) = (account("a"), account("b"));
        let first = limits.count_at(&a, start);
        assert_eq!((first.remaining, first.reset_s, first.exceeded), (1, 300, false));
        assert!(!limits.count_at(&a, start).exceeded);
        let third = limits.count_at(&a, start + Duration::from_secs(100));
        assert_eq!((third.remaining, third.reset_s, third.exceeded), (0, 200, true));
        assert!(!limits.count_at(&b, start).exceeded);
        assert!(!limits.count_at(&Client::Signed("a".to_owned().into()), start).exceeded);
        assert!(!limits.count_at(&a, start + WINDOW).exceeded);
    }

    #[test]
    fn peeking_does_not_count() {
        let (limits, a) = (RateLimits::new(2), address(1));
        assert_eq!((limits.peek(&a).remaining, limits.count(&a).remaining, limits.peek(&a).remaining), (2, 1, 1));
    }

    #[test]
    fn an_ipv6_network_has_one_count_and_an_ipv4_address_its_own() {
        let client = |address: &str| Client::at(address.parse().unwrap());
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), client("2001:db8:1:2::1"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.2"), client("192.0.2.1"));
    }

    #[test]
    fn the_windows_of_addresses_are_bounded_and_separate_from_those_of_accounts() {
        let limits = RateLimits::new(3);
        let start = Instant::now();
        for at in 0..MAX_ADDRESSES + 5 {
            limits.count_at(&address(at), start);
        }
        let open = || limits.addresses.lock().unwrap().by_client.len();
        assert_eq!(open(), MAX_ADDRESSES + 1);
        let new = address(MAX_ADDRESSES + 10);
        assert!(limits.count_at(&new, start).exceeded && !limits.count_at(&address(0), start).exceeded);
        assert!(!limits.count_at(&account("a"), start).exceeded);
        assert!(!limits.count_at(&new, start + WINDOW).exceeded);
        assert_eq!(open(), 1);
    }
}
