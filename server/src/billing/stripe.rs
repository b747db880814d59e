//! Stripe: a hosted checkout in subscription mode, signed webhook events, and a meter whose unit is a cent.
//!
//! Follows Stripe's public API: `POST /v1/checkout/sessions`, `POST /v1/billing/meter_events`, the `Stripe-Signature`
//! header of webhooks.

use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Client;
use serde_json::Value;
use sha2::Sha256;
use url::{Url, form_urlencoded};

use crate::clock;
use crate::config::Config;
use crate::store::{Account, UnreportedUsage};

/// The maximum age of a signed event.
const MAX_EVENT_AGE_MS: i64 = 5 * 60_000;

/// The maximum age of reported usage. Stripe accepts usage of the past 35 days.
const MAX_USAGE_AGE_MS: i64 = 34 * 24 * 3_600_000;

/// An error of a request to Stripe.
#[derive(Debug, Default)]
struct StripeError {
    /// Stripe's error code, if the response has one.
    code: String,
    message: String,
}

impl StripeError {
    fn transport(message: String) -> Self {
        Self { message, ..Self::default() }
    }

    /// True if Stripe has already counted the meter event.
    fn is_duplicate(&self) -> bool {
        self.code == "duplicate_meter_event" || self.message.contains("already exists with identifier")
    }
}

pub struct Stripe {
    client: Client,
    api: Url,
    secret_key: String,
    price: String,
    meter_event: String,
    webhook_secret: String,
    /// The page that a finished or canceled checkout leads to.
    return_url: Url,
}

impl Stripe {
    pub(super) fn new(config: &Config, dashboard: &Url) -> Result<Self, String> {
        let client = Client::builder().timeout(Duration::from_secs(30)).build().map_err(|error| error.to_string())?;
        let default = || Url::parse("https://api.stripe.com").map_err(|error| error.to_string());
        let api = config.stripe_api_url.clone().map_or_else(default, Ok)?;
        Ok(Self {
            client,
            api,
            secret_key: config.stripe_secret_key.clone().unwrap_or_default(),
            price: config.stripe_price_id.clone().unwrap_or_default(),
            meter_event: config.stripe_meter_event.clone(),
            webhook_secret: config.stripe_webhook_secret.clone().unwrap_or_default(),
            return_url: dashboard.clone(),
        })
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Result<Value, StripeError> {
        let mut url = self.api.clone();
        url.set_path(path);
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self
            .client
            .post(url)
            .bearer_auth(&self.secret_key)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let response = request
            .send()
            .await
            .map_err(|error| StripeError::transport(format!("Stripe cannot be reached: {error}")))?;
        let status = response.status();
        let interrupted = |error| StripeError::transport(format!("Stripe's response broke off: {error}"));
        let bytes = response.bytes().await.map_err(interrupted)?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let (code, message) = (&value["error"]["code"], &value["error"]["message"]);
        Err(StripeError {
            code: code.as_str().unwrap_or_default().to_owned(),
            message: format!("Stripe answered {status}: {}", message.as_str().unwrap_or("no reason given")),
        })
    }

    pub(super) async fn checkout(&self, account: &Account) -> Result<Url, String> {
        let return_url = self.return_url.as_str();
        let mut fields = vec![
            ("mode", "subscription"),
            ("line_items[0][price]", &self.price),
            ("client_reference_id", account.id.as_str()),
            ("subscription_data[metadata][account]", account.id.as_str()),
            ("success_url", return_url),
            ("cancel_url", return_url),
        ];
        match &account.customer {
            Some(customer) => fields.push(("customer", customer)),
            None => fields.push(("customer_email", &account.email)),
        }
        let session = self.post("/v1/checkout/sessions", &fields).await.map_err(|error| error.message)?;
        let url = session["url"].as_str().ok_or("Stripe's checkout session has no url")?;
        Url::parse(url).map_err(|error| format!("Stripe's checkout address {url:?}: {error}"))
    }

    /// Reports usage to the meter. The usage id is the event's identifier: Stripe refuses a duplicate, so a repeated report
    /// does not count twice. An idempotency key would make Stripe repeat its first response for a day, even an error.
    ///
    /// # Errors
    /// Stripe's message.
    pub async fn report(&self, usage: &UnreportedUsage) -> Result<(), String> {
        let now = clock::now_ms();
        // Stripe refuses older usage, whose period is invoiced already: it is billed in the current period.
        let at = if usage.created_at < now - MAX_USAGE_AGE_MS { now } else { usage.created_at };
        let (value, seconds) = (usage.cents.to_string(), (at / 1000).to_string());
        let fields = [
            ("event_name", self.meter_event.as_str()),
            ("identifier", usage.id.as_str()),
            ("timestamp", &seconds),
            ("payload[stripe_customer_id]", &usage.customer),
            ("payload[value]", &value),
        ];
        match self.post("/v1/billing/meter_events", &fields).await {
            Err(error) if !error.is_duplicate() => Err(error.message),
            _ => Ok(()),
        }
    }

    /// Verifies the signature and the age of an event. The header is `t=SECONDS,v1=HMAC of "SECONDS.BODY"`, with one or more
    /// signatures.
    pub fn is_genuine(&self, header: &str, body: &[u8], now_ms: i64) -> bool {
        let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
        let Some(seconds) = parts().find(|(key, _)| *key == "t").and_then(|(_, value)| value.parse::<i64>().ok())
        else {
            return false;
        };
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(self.webhook_secret.as_bytes()) else { return false };
        let signed = mac.chain_update(format!("{seconds}.")).chain_update(body);
        let fresh = (now_ms - seconds.saturating_mul(1000)).abs() <= MAX_EVENT_AGE_MS;
        fresh
            && parts().filter(|(key, _)| *key == "v1").any(|(_, value)| {
                let value = HEXLOWER.decode(value.as_bytes()).unwrap_or_default();
                signed.clone().verify_slice(&value).is_ok()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signed_and_recent_events_are_genuine() {
        crate::outbound::install_tls_provider();
        let stripe = Stripe {
            client: Client::new(),
            api: Url::parse("http://127.0.0.1").unwrap(),
            secret_key: String::new(),
            price: String::new(),
            meter_event: String::new(),
            webhook_secret: "whsec_test".into(),
            return_url: Url::parse("http://127.0.0.1").unwrap(),
        };
        // echo -n '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test
        let good = "c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925";
        let body = b"{\"id\":\"evt_1\"}";
        let at = 1_700_000_010_000;
        let header = |seconds: i64, hash: &str| format!("t={seconds},v1=00,v1={hash},v0=11");
        assert!(stripe.is_genuine(&header(1_700_000_000, good), body, at));
        assert!(!stripe.is_genuine(&header(1_700_000_000, good), b"{}", at));
        assert!(!stripe.is_genuine(&header(1_700_000_001, good), body, at));
        assert!(!stripe.is_genuine(&header(1_700_000_000, good), body, at + 600_000));
        assert!(!stripe.is_genuine("", body, at));
    }
}
