//! Requests per account: so many in five minutes, counted in fixed windows, in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(300);

/// Windows that are kept before the ones that have ended are dropped.
const KEPT: usize = 10_000;

/// The count of every account (or, before it is known who asks, every address).
pub struct RateLimits {
    limit: u32,
    windows: Mutex<HashMap<String, Window>>,
}

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
        Self { limit, windows: Mutex::default() }
    }

    /// Counts a request.
    pub fn count(&self, caller: &str) -> Standing {
        self.count_at(caller, Instant::now())
    }

    fn count_at(&self, caller: &str, now: Instant) -> Standing {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() > KEPT {
            windows.retain(|_, window| now.saturating_duration_since(window.began) < WINDOW);
        }
        if !windows.contains_key(caller) {
            windows.insert(caller.to_owned(), Window { began: now, count: 0 });
        }
        let Some(window) = windows.get_mut(caller) else {
            return Standing { limit: self.limit, remaining: self.limit, reset_s: 0, exceeded: false };
        };
        if now.saturating_duration_since(window.began) >= WINDOW {
            *window = Window { began: now, count: 0 };
        }
        let exceeded = window.count >= self.limit;
        window.count = (window.count + 1).min(self.limit);
        let left = WINDOW.saturating_sub(now.saturating_duration_since(window.began));
        Standing {
            limit: self.limit,
            remaining: self.limit - window.count,
            reset_s: left.as_secs() + u64::from(left.subsec_nanos() > 0),
            exceeded,
        }
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

    #[test]
    fn the_count_ends_with_its_window_and_is_each_callers_own() {
        let limits = RateLimits::new(2);
        let start = Instant::now();
        let first = limits.count_at("a", start);
        assert_eq!((first.remaining, first.reset_s, first.exceeded), (1, 300, false));
        assert!(!limits.count_at("a", start).exceeded);
        let third = limits.count_at("a", start + Duration::from_secs(100));
        assert_eq!((third.remaining, third.reset_s, third.exceeded), (0, 200, true));
        assert!(!limits.count_at("b", start).exceeded);
        assert!(!limits.count_at("a", start + WINDOW).exceeded);
    }
}
