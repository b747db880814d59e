//! What things cost, and who collects it.

pub mod checkout;
pub mod stripe;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use url::Url;

use crate::clock;
use crate::config::{Config, ProviderName};
use crate::ids::{AccountId, CheckoutId};
use crate::store::Account;
use stripe::Stripe;

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Prerecorded,
    Realtime,
    Agent,
}

/// A line of the price list.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    pub model: &'static str,
    pub kind: Kind,
    pub unit_type: &'static str,
    /// Thousandths of a cent an hour: every rate of the list is a whole number of them.
    pub millicents_an_hour: u64,
    /// Whether it is taken where none is named.
    pub default: bool,
}

const fn price(
    model: &'static str,
    kind: Kind,
    unit_type: &'static str,
    millicents_an_hour: u64,
    default: bool,
) -> Price {
    Price { model, kind, unit_type, millicents_an_hour, default }
}

/// The price list.
pub const PRICES: [Price; 5] = [
    price("svc-best", Kind::Prerecorded, "audio_hour", 25_200, true),
    price("svc-fast", Kind::Prerecorded, "audio_hour", 18_000, false),
    price("svc-realtime-pro", Kind::Realtime, "session_hour", 54_000, true),
    price("svc-realtime", Kind::Realtime, "session_hour", 18_000, false),
    price("svc-agent", Kind::Agent, "session_hour", 540_000, true),
];

impl Price {
    /// The price of this model, if it is of this kind.
    pub fn of(model: &str, kind: Kind) -> Option<&'static Self> {
        PRICES.iter().find(|price| price.model == model && price.kind == kind)
    }

    /// Dollars an hour.
    pub fn rate_usd(&self) -> f64 {
        self.millicents_an_hour as f64 / 1e5
    }

    /// What so many milliseconds cost: rounded up to the next cent, and at least one.
    pub fn cents(&self, quantity_ms: i64) -> i64 {
        let millicent_hours = quantity_ms.max(0) as u128 * u128::from(self.millicents_an_hour);
        i64::try_from(millicent_hours.div_ceil(3_600_000 * 1000)).unwrap_or(i64::MAX).max(1)
    }
}

/// Who collects what is billable.
pub enum Provider {
    /// Nobody: the page that stands for a checkout is ours.
    Local(Local),
    Stripe(Stripe),
}

/// Checkouts that wait to be confirmed.
pub struct Local {
    page: Url,
    open: Mutex<HashMap<String, (AccountId, i64)>>,
}

/// How long a checkout page is good for.
const CHECKOUT_MS: i64 = 24 * 3_600_000;

impl Provider {
    /// `dashboard` is the address of the pages for people.
    ///
    /// # Errors
    /// If a client cannot be set up.
    pub fn new(config: &Config, dashboard: &Url) -> Result<Self, String> {
        Ok(match config.billing_provider {
            ProviderName::Local => {
                let mut page = dashboard.clone();
                page.set_path("/billing/checkout");
                Self::Local(Local { page, open: Mutex::default() })
            }
            ProviderName::Stripe => Self::Stripe(Stripe::new(config, dashboard)?),
        })
    }

    /// The address of a page on which this account adds a payment method.
    ///
    /// # Errors
    /// What the payment provider answered.
    pub async fn checkout(&self, account: &Account) -> Result<Url, String> {
        match self {
            Self::Local(local) => Ok(local.begin(&account.id)),
            Self::Stripe(stripe) => stripe.checkout(account).await,
        }
    }
}

impl Local {
    fn begin(&self, account: &AccountId) -> Url {
        let id = CheckoutId::new().to_string();
        let now = clock::now_ms();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, (_, began)| now - *began < CHECKOUT_MS);
        open.insert(id.clone(), (account.clone(), now));
        let mut page = self.page.clone();
        page.query_pairs_mut().append_pair("session", &id);
        page
    }

    /// Whose checkout this is.
    fn account(&self, id: &str) -> Option<AccountId> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).filter(|(_, began)| clock::now_ms() - began < CHECKOUT_MS).map(|(account, _)| account.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_rounded_up_to_the_cent() {
        let best = Price::of("svc-best", Kind::Prerecorded).unwrap();
        assert!((best.rate_usd() - 0.252).abs() < 1e-12);
        // 0.252 $ an hour is 0.007 cents a second.
        for (ms, cents) in [(0, 1), (1, 1), (11_000, 1), (142_857, 1), (142_858, 2), (3_600_000, 26), (36_000_000, 252)]
        {
            assert_eq!(best.cents(ms), cents, "{ms} ms");
        }
        assert_eq!(Price::of("svc-agent", Kind::Agent).unwrap().cents(3_600_000), 540);
        assert!(Price::of("svc-agent", Kind::Prerecorded).is_none());
    }
}
