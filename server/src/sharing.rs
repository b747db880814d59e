//! Shares of accounts: how many places of a limited number an account may hold, and whose turn it is.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::ids::AccountId;

/// An account may hold as many times the places that would remain free, besides the last one.
const SHARE: usize = 8;

/// A limited number of places. An account alone gets eight ninths of many places. The more others hold, the fewer an account
/// may take, and the last free place is for an account that holds none. So no account can take all of them.
#[derive(Clone, Debug)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    held: Mutex<Held>,
    freed: Notify,
}

#[derive(Debug)]
struct Held {
    free: usize,
    by_account: HashMap<AccountId, usize>,
}

impl Held {
    fn has_room_for(&self, held: usize) -> bool {
        match held {
            0 => self.free > 0,
            held => held < SHARE * self.free.saturating_sub(1),
        }
    }
}

impl Places {
    pub fn new(number: usize) -> Self {
        let held = Mutex::new(Held { free: number, by_account: HashMap::new() });
        Self(Arc::new(Shared { held, freed: Notify::new() }))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place. None if all are taken, or the account has its share.
    pub fn try_take(&self, account: &AccountId) -> Option<Place> {
        let mut held = self.held();
        if !held.has_room_for(held.by_account.get(account).copied().unwrap_or_default()) {
            return None;
        }
        held.free -= 1;
        *held.by_account.entry(account.clone()).or_default() += 1;
        Some(Place { places: self.clone(), account: account.clone() })
    }

    /// Takes a place, and waits for it.
    pub async fn take(&self, account: &AccountId) -> Place {
        loop {
            let freed = self.0.freed.notified();
            if let Some(place) = self.try_take(account) {
                return place;
            }
            freed.await;
        }
    }

    /// Tells if an account without a place may take one.
    pub fn has_free(&self) -> bool {
        self.held().free > 0
    }

    /// The accounts that hold their share.
    pub fn satisfied(&self) -> HashSet<AccountId> {
        let held = self.held();
        let has_share = |(_, count): &(&AccountId, &usize)| !held.has_room_for(**count);
        held.by_account.iter().filter(has_share).map(|(account, _)| account.clone()).collect()
    }
}

/// A taken place. It is free again when this value is dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    account: AccountId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held();
        held.free += 1;
        if let Some(count) = held.by_account.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                held.by_account.remove(&self.account);
            }
        }
        drop(held);
        self.places.0.freed.notify_waiters();
    }
}

/// Accounts that had their turn in this round.
#[derive(Debug, Default)]
pub struct Round(HashSet<AccountId>);

impl Round {
    /// Records the turn of an account.
    pub fn record(&mut self, account: &AccountId) {
        self.0.insert(account.clone());
    }

    /// Begins a round. False if no account had its turn since the last one.
    pub fn begin(&mut self) -> bool {
        let any = !self.0.is_empty();
        self.0.clear();
        any
    }

    /// The accounts that had their turn.
    pub fn served(&self) -> &HashSet<AccountId> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(places: &Places, account: &AccountId) -> Vec<Place> {
        std::iter::from_fn(|| places.try_take(account)).collect()
    }

    #[test]
    fn an_account_leaves_room_for_others() {
        for (number, alone) in [(1, 1), (2, 1), (4, 3), (9, 8), (64, 56), (256, 227)] {
            let places = Places::new(number);
            let (first, second) = (AccountId::new(), AccountId::new());
            let held = take_all(&places, &first);
            assert_eq!(held.len(), alone, "of {number}");
            assert!(places.satisfied().contains(&first));
            assert_eq!(take_all(&places, &second).is_empty(), number == 1, "of {number}");
            drop(held);
            assert_eq!(take_all(&places, &second).len(), alone, "of {number}");
        }
    }

    #[test]
    fn greedy_accounts_share_alike() {
        let places = Places::new(100);
        let accounts = [AccountId::new(), AccountId::new(), AccountId::new()];
        let mut held: [Vec<Place>; 3] = Default::default();
        for _ in 0..100 {
            for (account, held) in accounts.iter().zip(&mut held) {
                held.extend(places.try_take(account));
            }
        }
        assert!(held.iter().all(|held| (31..=34).contains(&held.len())), "{:?}", held.map(|held| held.len()));
        assert!(places.has_free());
    }

    #[tokio::test]
    async fn a_waiting_account_gets_the_next_free_place() {
        let (places, account) = (Places::new(2), AccountId::new());
        let held = take_all(&places, &account);
        let waiting = places.take(&account);
        tokio::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(held);
        waiting.await;
    }

    #[test]
    fn a_round_ends_when_all_had_their_turn() {
        let (mut round, account) = (Round::default(), AccountId::new());
        assert!(!round.begin());
        round.record(&account);
        assert!(round.served().contains(&account));
        assert!(round.begin() && round.served().is_empty());
    }
}
