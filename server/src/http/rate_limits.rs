//! Requests per account: so many in five minutes, counted in fixed windows, in this process. Whoever has no key is counted
//! by address, and whoever has something that an account had us sign, apart from that account's own requests.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::ids::AccountId;

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(300);

/// Windows that are kept before those that have ended are dropped, which is looked for once in [`SWEEP`].
const KEPT: usize = 10_000;
const SWEEP: Duration = Duration::from_secs(1);

/// With so many windows of addresses open, whichever is new shares one.
const MOST: usize = 200_000;

/// Who is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Sent its key.
    Account(AccountId),
    /// Gave something that we signed for the account to others: a URL, a token.
    Signed(AccountId),
    /// Nobody knows who. One client has a whole /64 of IPv6.
    Address(IpAddr),
    /// Addresses that there was no room for.
    Rest,
}

impl Caller {
    /// Before it is known who asks.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

/// The count of every caller.
pub struct RateLimits {
    limit: u32,
    /// There are so many as there are accounts.
    accounts: Mutex<Open>,
    /// There are so many as anybody likes.
    addresses: Mutex<Open>,
}

struct Open {
    windows: HashMap<Caller, Window>,
    swept: Instant,
    most: usize,
}

#[derive(Clone, Copy)]
struct Window {
    began: Instant,
    count: u32,
}

/// Where a caller stands, this request counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub limit: u32,
    pub remaining: u32,
    /// Seconds until the count starts anew.
    pub reset_s: u64,
    pub exceeded: bool,
}

impl RateLimits {
    pub fn new(limit: u32) -> Self {
        let open = |most| Mutex::new(Open { windows: HashMap::new(), swept: Instant::now(), most });
        Self { limit, accounts: open(usize::MAX), addresses: open(MOST) }
    }

    /// Counts a request.
    pub fn count(&self, caller: &Caller) -> Standing {
        self.count_at(caller, Instant::now())
    }

    /// Where a caller stands whose request is not counted.
    pub fn look(&self, caller: &Caller) -> Standing {
        let now = Instant::now();
        let window = self.open(caller).windows.get(caller).filter(|window| window.is_open(now)).copied();
        self.standing(window.unwrap_or(Window { began: now, count: 0 }), now)
    }

    fn open(&self, caller: &Caller) -> MutexGuard<'_, Open> {
        let open = match caller {
            Caller::Account(_) | Caller::Signed(_) => &self.accounts,
            Caller::Address(_) | Caller::Rest => &self.addresses,
        };
        open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_at(&self, caller: &Caller, now: Instant) -> Standing {
        let mut open = self.open(caller);
        if open.windows.len() > KEPT && now.saturating_duration_since(open.swept) >= SWEEP {
            open.windows.retain(|_, window| window.is_open(now));
            open.swept = now;
        }
        let there_is_room = open.windows.len() < open.most || open.windows.contains_key(caller);
        let caller = if there_is_room { caller } else { &Caller::Rest };
        let fresh = Window { began: now, count: 0 };
        let window = open.windows.entry(caller.clone()).or_insert(fresh);
        if !window.is_open(now) {
            *window = fresh;
        }
        let exceeded = window.count >= self.limit;
        window.count = (window.count + 1).min(self.limit);
        Standing { exceeded, ..self.standing(*window, now) }
    }

    fn standing(&self, window: Window, now: Instant) -> Standing {
        let left = WINDOW.saturating_sub(now.saturating_duration_since(window.began));
        Standing {
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

impl Standing {
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

    fn account(id: &str) -> Caller {
        Caller::Account(id.to_owned().into())
    }

    fn address(at: usize) -> Caller {
        Caller::at(IpAddr::V4((at as u32).into()))
    }

    #[test]
    fn the_count_ends_with_its_window_and_is_each_callers_own() {
        let limits = RateLimits::new(2);
        let start = Instant::now();
        let (a, b) = (account("a"), account("b"));
        let first = limits.count_at(&a, start);
        assert_eq!((first.remaining, first.reset_s, first.exceeded), (1, 300, false));
        assert!(!limits.count_at(&a, start).exceeded);
        let third = limits.count_at(&a, start + Duration::from_secs(100));
        assert_eq!((third.remaining, third.reset_s, third.exceeded), (0, 200, true));
        assert!(!limits.count_at(&b, start).exceeded);
        assert!(!limits.count_at(&Caller::Signed("a".to_owned().into()), start).exceeded);
        assert!(!limits.count_at(&a, start + WINDOW).exceeded);
    }

    #[test]
    fn looking_counts_nothing() {
        let (limits, a) = (RateLimits::new(2), address(1));
        assert_eq!((limits.look(&a).remaining, limits.count(&a).remaining, limits.look(&a).remaining), (2, 1, 1));
    }

    #[test]
    fn a_client_of_ipv6_has_one_count_and_one_of_ipv4_its_own() {
        let caller = |address: &str| Caller::at(address.parse().unwrap());
        assert_eq!(caller("2001:db8:1:2:3:4:5:6"), caller("2001:db8:1:2::1"));
        assert_ne!(caller("2001:db8:1:2::1"), caller("2001:db8:1:3::1"));
        assert_eq!(caller("::ffff:192.0.2.1"), caller("192.0.2.1"));
        assert_ne!(caller("192.0.2.2"), caller("192.0.2.1"));
    }

    #[test]
    fn however_many_addresses_there_are_their_windows_are_bounded_and_accounts_have_theirs() {
        let limits = RateLimits::new(3);
        let start = Instant::now();
        for at in 0..MOST + 5 {
            limits.count_at(&address(at), start);
        }
        let open = || limits.addresses.lock().unwrap().windows.len();
        assert_eq!(open(), MOST + 1);
        let new = address(MOST + 10);
        assert!(limits.count_at(&new, start).exceeded && !limits.count_at(&address(0), start).exceeded);
        assert!(!limits.count_at(&account("a"), start).exceeded);
        assert!(!limits.count_at(&new, start + WINDOW).exceeded);
        assert_eq!(open(), 1);
    }
}
