//! What things cost, and who collects it.

pub mod stripe;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;
use url::Url;

use crate::clock;
use crate::config::{Config, ProviderName, below};
use crate::ids::AccountId;
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

    /// The price of the model that is taken where none is named.
    pub fn default_of(kind: Kind) -> &'static Self {
        PRICES.iter().find(|price| price.kind == kind && price.default).unwrap_or(&PRICES[0])
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

/// Pages of ours whose addresses are signed: any node can serve one that another gave out.
pub struct Local {
    page: Url,
    secret: Vec<u8>,
}

/// How long a checkout page is good for.
const CHECKOUT_MS: i64 = 24 * 3_600_000;

impl Provider {
    /// `dashboard` is the address of the pages for people, `secret` what addresses of our own are signed with.
    ///
    /// # Errors
    /// If a client cannot be set up.
    pub fn new(config: &Config, dashboard: &Url, secret: &str) -> Result<Self, String> {
        Ok(match config.billing_provider {
            ProviderName::Local => {
                let page = below(dashboard, "/billing/checkout");
                Self::Local(Local { page, secret: secret.as_bytes().to_vec() })
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
    /// `ACCOUNT.EXPIRES.SIGNATURE`
    fn begin(&self, account: &AccountId) -> Url {
        let expires = clock::now_ms() + CHECKOUT_MS;
        let signature = HEXLOWER.encode(&self.mac(account, expires).finalize().into_bytes());
        let mut page = self.page.clone();
        page.query_pairs_mut().append_pair("session", &format!("{account}.{expires}.{signature}"));
        page
    }

    /// Whose checkout this is, if it is one of ours and has not expired.
    pub fn account(&self, session: &str) -> Option<AccountId> {
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

    #[test]
    fn a_checkout_of_another_account_time_or_secret_is_none() {
        let local = |secret: &str| Local {
            page: Url::parse("http://127.0.0.1/billing/checkout").unwrap(),
            secret: secret.as_bytes().to_vec(),
        };
        let account = AccountId::new();
        let session = |local: &Local| local.begin(&account).query_pairs().next().unwrap().1.into_owned();
        let good = session(&local("a"));
        assert_eq!(local("a").account(&good), Some(account.clone()));
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
            assert_eq!(local("a").account(bad), None, "{bad}");
        }
    }
}
