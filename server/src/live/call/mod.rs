//! Calls: sessions over WebRTC. `peer` is the connection with the client, and `track` its audio; the session has them as a socket.

pub mod peer;
mod track;

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::ids::{self, AccountId};

/// The way on which calls reach this process.
#[derive(Clone, Debug)]
pub struct CallSettings {
    /// The address that is bound; by default all.
    pub listen: Option<IpAddr>,
    pub ports: RangeInclusive<u16>,
    /// The address by which clients reach it, where a network translates it.
    pub public_ip: Option<IpAddr>,
}

/// The calls of this process.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<HashMap<String, (AccountId, CancellationToken)>>>);

impl Calls {
    pub fn add(&self, account: AccountId) -> Call {
        let (id, hung_up) = (ids::fresh("rtc"), CancellationToken::new());
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.insert(id.clone(), (account, hung_up.clone()));
        Call { id, hung_up, calls: self.clone() }
    }

    /// Ends a call. False if the account has no such call.
    pub fn hang_up(&self, account: &AccountId, id: &str) -> bool {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = calls.get(id).filter(|(owner, _)| owner == account);
        found.map(|(_, hung_up)| hung_up.cancel()).is_some()
    }
}

/// A call that can be hung up, until this value is dropped.
#[derive(Debug)]
pub struct Call {
    pub id: String,
    pub hung_up: CancellationToken,
    calls: Calls,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
