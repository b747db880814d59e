//! Limits of attempts to sign in and to sign up, counted in this process: per address, per email address, and per both.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::http::rate_limits::Client;
use crate::http::response::{ApiError, Result};

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(15 * 60);

/// Attempts within a window. One address may try one email address so often, many addresses one email address, and one address many.
const PER_PAIR: u32 = 10;
const PER_EMAIL: u32 = 100;
const PER_ADDRESS: u32 = 50;

/// Accounts that one address may create within a window.
const SIGN_UPS: u32 = 50;

/// Letters that one client may ask for within a window, and letters to one email address.
const LETTERS: u32 = 50;
const LETTERS_TO_EMAIL: u32 = 5;

/// Links that one address may open within a window that are none.
const WRONG_LINKS: u32 = 50;

/// With this number of open windows further clients are refused.
const MAX_WINDOWS: usize = 100_000;

/// The attempts of all clients.
pub struct Attempts {
    pairs: Windows<(Client, String)>,
    emails: Windows<String>,
    addresses: Windows<Client>,
    sign_ups: Windows<Client>,
    wrong_links: Windows<Client>,
    letters: Windows<Client>,
    letters_to: Windows<String>,
}

/// Counts of one kind.
struct Windows<K> {
    limit: u32,
    open: Mutex<HashMap<K, (Instant, u32)>>,
}

impl<K: Hash + Eq + Clone> Windows<K> {
    fn new(limit: u32) -> Self {
        Self { limit, open: Mutex::default() }
    }

    /// Counts an attempt. The seconds to wait, if there were too many.
    fn count(&self, key: &K, now: Instant) -> Option<u64> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |began: &Instant| now.saturating_duration_since(*began) < WINDOW;
        if open.len() >= MAX_WINDOWS && !open.contains_key(key) {
            open.retain(|_, (began, _)| is_open(began));
            if open.len() >= MAX_WINDOWS {
                return Some(WINDOW.as_secs());
            }
        }
        let (began, count) = open.entry(key.clone()).or_insert((now, 0));
        if !is_open(began) {
            (*began, *count) = (now, 0);
        }
        if *count >= self.limit {
            return Some(WINDOW.saturating_sub(now.saturating_duration_since(*began)).as_secs() + 1);
        }
        *count += 1;
        None
    }

    fn forget(&self, key: &K) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Takes an attempt back.
    fn uncount(&self, key: &K) {
        if let Some((_, count)) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(key) {
            *count = count.saturating_sub(1);
        }
    }
}

impl Attempts {
    pub fn new() -> Self {
        Self {
            pairs: Windows::new(PER_PAIR),
            emails: Windows::new(PER_EMAIL),
            addresses: Windows::new(PER_ADDRESS),
            sign_ups: Windows::new(SIGN_UPS),
            wrong_links: Windows::new(WRONG_LINKS),
            letters: Windows::new(LETTERS),
            letters_to: Windows::new(LETTERS_TO_EMAIL),
        }
    }

    /// Counts an attempt to sign in before the password is compared, so that attempts at one time count, too.
    ///
    /// # Errors
    /// 429 after too many, whether the address is known or not.
    pub fn sign_in(&self, address: &Client, email: &str) -> Result<()> {
        self.sign_in_at(address, email, Instant::now())
    }

    fn sign_in_at(&self, address: &Client, email: &str, now: Instant) -> Result<()> {
        let pair = (address.clone(), email.to_owned());
        let wait = self.pairs.count(&pair, now).or_else(|| self.addresses.count(address, now));
        match wait.or_else(|| self.emails.count(&pair.1, now)) {
            None => Ok(()),
            Some(wait) => Err(ApiError::rate_limited(wait)),
        }
    }

    /// Takes the attempts of a client back that has signed in.
    pub fn succeeded(&self, address: &Client, email: &str) {
        self.pairs.forget(&(address.clone(), email.to_owned()));
        self.emails.uncount(&email.to_owned());
        self.addresses.uncount(address);
    }

    /// Counts an attempt to create an account.
    ///
    /// # Errors
    /// 429 after too many.
    pub fn sign_up(&self, address: &Client) -> Result<()> {
        self.sign_ups.count(address, Instant::now()).map_or(Ok(()), |wait| Err(ApiError::rate_limited(wait)))
    }

    /// Counts a letter that a client asks for.
    ///
    /// # Errors
    /// 429 after too many, whether the address is known or not.
    pub fn letter(&self, address: &Client, email: &str) -> Result<()> {
        let now = Instant::now();
        let wait = self.letters.count(address, now).or_else(|| self.letters_to.count(&email.to_owned(), now));
        wait.map_or(Ok(()), |wait| Err(ApiError::rate_limited(wait)))
    }

    /// Counts the use of a link with a secret. One that is right is taken back.
    ///
    /// # Errors
    /// 429 after too many that were wrong.
    pub fn link(&self, address: &Client) -> Result<()> {
        self.wrong_links.count(address, Instant::now()).map_or(Ok(()), |wait| Err(ApiError::rate_limited(wait)))
    }

    /// Takes the use of a link back that was right.
    pub fn right_link(&self, address: &Client) {
        self.wrong_links.uncount(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(at: u32) -> Client {
        Client::at(std::net::IpAddr::V4(at.into()))
    }

    #[test]
    fn a_client_may_try_one_address_ten_times() {
        let (attempts, start) = (Attempts::new(), Instant::now());
        let attempt = |at: u32, email: &str, now| attempts.sign_in_at(&client(at), email, now).is_ok();
        assert!((0..10).all(|_| attempt(1, "a", start)));
        assert!(!attempt(1, "a", start), "the eleventh");
        assert!(attempt(2, "a", start), "another client is free");
        assert!(attempt(1, "b", start), "another address, too");
        assert!(attempt(1, "a", start + WINDOW), "until the window has ended");
        attempts.succeeded(&client(1), "a");
        assert!((0..10).all(|_| attempt(1, "a", start + WINDOW)));
    }

    #[test]
    fn many_clients_and_many_addresses_have_limits_too() {
        let (attempts, start) = (Attempts::new(), Instant::now());
        let attempt = |at: u32, email: &str| attempts.sign_in_at(&client(at), email, start).is_ok();
        assert!((0..PER_EMAIL).all(|at| attempt(at, "a")));
        assert!(!attempt(PER_EMAIL, "a"), "one address, many clients");
        assert!((0..PER_ADDRESS).all(|at| attempt(5000, &format!("{at}@x"))));
        assert!(!attempt(5000, "more@x"), "one client, many addresses");
        assert!((0..SIGN_UPS).all(|_| attempts.sign_up(&client(1)).is_ok()));
        assert!(attempts.sign_up(&client(1)).is_err() && attempts.sign_up(&client(2)).is_ok());
        assert!((0..LETTERS_TO_EMAIL).all(|at| attempts.letter(&client(at), "a").is_ok()));
        assert!(attempts.letter(&client(9), "a").is_err() && attempts.letter(&client(9), "b").is_ok());
        assert!((0..LETTERS).all(|at| attempts.letter(&client(20), &format!("{at}@x")).is_ok()));
        assert!(attempts.letter(&client(20), "more@x").is_err());
        assert!((0..WRONG_LINKS).all(|_| attempts.link(&client(1)).is_ok()));
        attempts.right_link(&client(1));
        assert!(attempts.link(&client(1)).is_ok() && attempts.link(&client(1)).is_err());
    }
}
