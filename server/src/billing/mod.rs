//! Prices and payment providers.

#[cfg(test)]
mod store_tests;
pub mod stripe;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;
use url::Url;

use crate::clock;
use crate::config::{BillingProvider, Config, url_below};
use crate::ids::AccountId;
use crate::store::Account;
use stripe::Stripe;

/// The use that a model is sold for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProductKind {
    Prerecorded,
    Realtime,
    Agent,
    /// Answers to requests, which cost nothing.
    Language,
}

/// A line of the price list.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    pub model: &'static str,
    pub kind: ProductKind,
    pub unit_type: &'static str,
    /// The rate in thousandths of a cent per hour.
    pub millicents_per_hour: u64,
    /// True for the model that is used if a request names none.
    pub default: bool,
}

const fn price(
    model: &'static str,
    kind: ProductKind,
    unit_type: &'static str,
    millicents_per_hour: u64,
    default: bool,
) -> Price {
    Price { model, kind, unit_type, millicents_per_hour, default }
}

/// The price list.
pub const PRICES: [Price; 5] = [
    price("svc-best", ProductKind::Prerecorded, "audio_hour", 25_200, true),
    price("svc-fast", ProductKind::Prerecorded, "audio_hour", 18_000, false),
    price("svc-realtime-pro", ProductKind::Realtime, "session_hour", 54_000, true),
    price("svc-realtime", ProductKind::Realtime, "session_hour", 18_000, false),
    price("svc-agent", ProductKind::Agent, "session_hour", 540_000, true),
];

impl Price {
    /// The price of a model of this kind.
    pub fn of(model: &str, kind: ProductKind) -> Option<&'static Self> {
        PRICES.iter().find(|price| price.model == model && price.kind == kind)
    }

    /// The price of a model of sessions, which are sold by their time.
    pub fn of_session(model: &str) -> Option<&'static Self> {
        [ProductKind::Realtime, ProductKind::Agent].into_iter().find_map(|kind| Self::of(model, kind))
    }

    /// The price of the default model of a kind.
    pub fn default_of(kind: ProductKind) -> &'static Self {
        PRICES.iter().find(|price| price.kind == kind && price.default).unwrap_or(&PRICES[0])
    }

    /// Dollars per hour.
    pub fn rate_usd(&self) -> f64 {
        self.millicents_per_hour as f64 / 1e5
    }

    /// The cost of a duration, rounded up to the next cent and at least one cent.
    pub fn cents(&self, quantity_ms: i64) -> i64 {
        let millicent_hours = quantity_ms.max(0) as u128 * u128::from(self.millicents_per_hour);
        i64::try_from(millicent_hours.div_ceil(3_600_000 * 1000)).unwrap_or(i64::MAX).max(1)
    }
}

/// The remedy for a credit that is used up.
pub fn way_out(provider: BillingProvider) -> &'static str {
    match provider {
        BillingProvider::Local => {
            "An operator lifts the limit with a click on the dashboard's page Operator, or with `auricle accounts unlimited EMAIL`."
        }
        BillingProvider::Stripe => "Add a payment method: POST /v2/billing/checkout gives the address.",
    }
}

/// The payment provider, which collects billable usage.
pub enum PaymentProvider {
    /// No payments are collected; the service shows its own checkout page.
    Local(LocalCheckout),
    Stripe(Stripe),
}

/// Checkout pages with signed addresses, which every node can verify.
pub struct LocalCheckout {
    page: Url,
    secret: Vec<u8>,
}

/// Lifetime of a checkout page.
const CHECKOUT_MS: i64 = 24 * 3_600_000;

impl PaymentProvider {
    /// `dashboard` is the dashboard's public URL; `secret` signs the addresses of local checkout pages.
    ///
    /// # Errors
    /// If the HTTP client cannot be set up.
    pub fn new(config: &Config, dashboard: &Url, secret: &str) -> Result<Self, String> {
        Ok(match config.billing_provider {
            BillingProvider::Local => {
                let page = url_below(dashboard, "/billing/checkout");
                Self::Local(LocalCheckout { page, secret: secret.as_bytes().to_vec() })
            }
            BillingProvider::Stripe => Self::Stripe(Stripe::new(config, dashboard)?),
        })
    }

    /// The address of a checkout page for an account.
    ///
    /// # Errors
    /// The payment provider's message.
    pub async fn checkout(&self, account: &Account) -> Result<Url, String> {
        match self {
            Self::Local(local) => Ok(local.sign(&account.id)),
            Self::Stripe(stripe) => stripe.checkout(account).await,
        }
    }
}

impl LocalCheckout {
    /// The page's address, whose `session` is `ACCOUNT.EXPIRES.SIGNATURE`.
    fn sign(&self, account: &AccountId) -> Url {
        let expires = clock::now_ms() + CHECKOUT_MS;
        let signature = HEXLOWER.encode(&self.mac(account, expires).finalize().into_bytes());
        let mut page = self.page.clone();
        page.query_pairs_mut().append_pair("session", &format!("{account}.{expires}.{signature}"));
        page
    }

    /// The account of a checkout; none if the signature is wrong or it has expired.
    pub fn verify(&self, session: &str) -> Option<AccountId> {
        let mut parts = session.splitn(3, '.');
        let account = AccountId::from(parts.next()?.to_owned());
        let expires = parts.next()?.parse().ok()?;
        let signature = HEXLOWER.decode(parts.next()?.as_bytes()).ok()?;
        self.mac(&account, expires).verify_slice(&signature).ok()?;
        (clock::now_ms() < expires).then_some(account)
    }

    fn mac(&self, account: &AccountId, expires: i64) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.secret).unwrap_or_else(|_| unreachable!("keys have any length"));
        mac.chain_update(format!("checkout\n{account}\n{expires}"))
    }
}

/// Cents as dollars: `$1,234.05`.
pub fn dollars(cents: i64) -> String {
    let whole = (cents.unsigned_abs() / 100).to_string();
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{}${grouped}.{:02}", if cents < 0 { "-" } else { "" }, cents.unsigned_abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cents_are_written_as_dollars() {
        for (cents, text) in [(0, "$0.00"), (5, "$0.05"), (123_405, "$1,234.05"), (-7, "-$0.07"), (100, "$1.00")] {
            assert_eq!(dollars(cents), text);
        }
    }

    #[test]
    fn costs_are_rounded_up_to_the_cent() {
        let best = Price::of("svc-best", ProductKind::Prerecorded).unwrap();
        assert!((best.rate_usd() - 0.252).abs() < 1e-12);
        // 0.252 $ an hour is 0.007 cents a second.
        for (ms, cents) in [(0, 1), (1, 1), (11_000, 1), (142_857, 1), (142_858, 2), (3_600_000, 26), (36_000_000, 252)]
        {
            assert_eq!(best.cents(ms), cents, "{ms} ms");
        }
        assert_eq!(Price::of("svc-agent", ProductKind::Agent).unwrap().cents(3_600_000), 540);
        assert!(Price::of("svc-agent", ProductKind::Prerecorded).is_none());
    }

    #[test]
    fn a_checkout_of_another_account_time_or_secret_is_invalid() {
        let local = |secret: &str| LocalCheckout {
            page: Url::parse("http://127.0.0.1/billing/checkout").unwrap(),
            secret: secret.as_bytes().to_vec(),
        };
        let account = AccountId::new();
        let session = |local: &LocalCheckout| local.sign(&account).query_pairs().next().unwrap().1.into_owned();
        let good = session(&local("a"));
        assert_eq!(local("a").verify(&good), Some(account.clone()));
        let (_, rest) = good.split_once('.').unwrap();
        let (expires, signature) = rest.split_once('.').unwrap();
        let later = expires.parse::<i64>().unwrap() + 1;
        for bad in [
            "",
            "..",
            &session(&local("b")),
            &format!("{}.{rest}", AccountId::new()),
            &format!("{account}.{later}.{signature}"),
            &format!("{account}.{expires}."),
        ] {
            assert_eq!(local("a").verify(bad), None, "{bad}");
        }
    }
}
