//! Stripe: a hosted checkout in subscription mode, its signed notices, and one meter whose unit is a cent.
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

use super::Provider;
use crate::clock;
use crate::config::Config;
use crate::http::response::{ApiError, Response, Result, json};
use crate::http::{RequestContext, body};
use crate::store::{Account, Notice, Subscriber, Usage};

/// How old a signed notice may be.
const TOLERANCE_MS: i64 = 5 * 60_000;

/// Stripe takes usage of the past 35 days.
const OLDEST_USAGE_MS: i64 = 34 * 24 * 3_600_000;

/// Notices are larger than the API's bodies.
const NOTICE_BYTES: usize = 4 << 20;

/// Why Stripe did not do what it was asked.
#[derive(Debug, Default)]
struct Refusal {
    /// Stripe's name for the error, if it gave one.
    code: String,
    message: String,
}

impl Refusal {
    fn unheard(message: String) -> Self {
        Self { message, ..Self::default() }
    }

    /// Whether the refusal is of a meter event that Stripe has already.
    fn says_told_before(&self) -> bool {
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
    back: Url,
}

impl Stripe {
    pub(super) fn new(config: &Config, dashboard: &Url) -> std::result::Result<Self, String> {
        let client = Client::builder().timeout(Duration::from_secs(30)).build().map_err(|error| error.to_string())?;
        let own = || Url::parse("https://api.stripe.com").map_err(|error| error.to_string());
        let api = config.stripe_api_url.clone().map_or_else(own, Ok)?;
        Ok(Self {
            client,
            api,
            secret_key: config.stripe_secret_key.clone().unwrap_or_default(),
            price: config.stripe_price_id.clone().unwrap_or_default(),
            meter_event: config.stripe_meter_event.clone(),
            webhook_secret: config.stripe_webhook_secret.clone().unwrap_or_default(),
            back: dashboard.clone(),
        })
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> std::result::Result<Value, Refusal> {
        let mut url = self.api.clone();
        url.set_path(path);
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self
            .client
            .post(url)
            .bearer_auth(&self.secret_key)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let response =
            request.send().await.map_err(|error| Refusal::unheard(format!("Stripe cannot be reached: {error}")))?;
        let status = response.status();
        let broke_off = |error| Refusal::unheard(format!("Stripe's answer broke off: {error}"));
        let bytes = response.bytes().await.map_err(broke_off)?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let (code, message) = (&value["error"]["code"], &value["error"]["message"]);
        Err(Refusal {
            code: code.as_str().unwrap_or_default().to_owned(),
            message: format!("Stripe answered {status}: {}", message.as_str().unwrap_or("no reason given")),
        })
    }

    pub(super) async fn checkout(&self, account: &Account) -> std::result::Result<Url, String> {
        let back = self.back.as_str();
        let mut fields = vec![
            ("mode", "subscription"),
            ("line_items[0][price]", &self.price),
            ("client_reference_id", account.id.as_str()),
            ("subscription_data[metadata][account]", account.id.as_str()),
            ("success_url", back),
            ("cancel_url", back),
        ];
        match &account.customer {
            Some(customer) => fields.push(("customer", customer)),
            None => fields.push(("customer_email", &account.email)),
        }
        let session = self.post("/v1/checkout/sessions", &fields).await.map_err(|refusal| refusal.message)?;
        let url = session["url"].as_str().ok_or("Stripe's checkout session has no url")?;
        Url::parse(url).map_err(|error| format!("Stripe's checkout address {url:?}: {error}"))
    }

    /// Tells the meter of usage. The event's id is its identifier: Stripe refuses one that it has, so that what was told
    /// before, its answer lost on the way, is not counted twice. An idempotency key would have Stripe repeat its first
    /// answer for a day, an error as well.
    ///
    /// # Errors
    /// What Stripe answered.
    pub async fn report(&self, usage: &Usage) -> std::result::Result<(), String> {
        let now = clock::now_ms();
        // What is too old for Stripe lies in a period that was invoiced: it is billed in this one rather than never.
        let at = if usage.created_at < now - OLDEST_USAGE_MS { now } else { usage.created_at };
        let (value, seconds) = (usage.cents.to_string(), (at / 1000).to_string());
        let fields = [
            ("event_name", self.meter_event.as_str()),
            ("identifier", usage.id.as_str()),
            ("timestamp", &seconds),
            ("payload[stripe_customer_id]", &usage.customer),
            ("payload[value]", &value),
        ];
        match self.post("/v1/billing/meter_events", &fields).await {
            Err(refusal) if !refusal.says_told_before() => Err(refusal.message),
            _ => Ok(()),
        }
    }

    /// Whether a notice is Stripe's, and new: `t=SECONDS,v1=HMAC of "SECONDS.BODY"`, of which there may be several.
    fn is_genuine(&self, header: &str, body: &[u8], now_ms: i64) -> bool {
        let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
        let Some(seconds) = parts().find(|(key, _)| *key == "t").and_then(|(_, value)| value.parse::<i64>().ok())
        else {
            return false;
        };
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(self.webhook_secret.as_bytes()) else { return false };
        let signed = mac.chain_update(format!("{seconds}.")).chain_update(body);
        let fresh = (now_ms - seconds.saturating_mul(1000)).abs() <= TOLERANCE_MS;
        fresh
            && parts().filter(|(key, _)| *key == "v1").any(|(_, value)| {
                let value = HEXLOWER.decode(value.as_bytes()).unwrap_or_default();
                signed.clone().verify_slice(&value).is_ok()
            })
    }
}

/// `POST /billing/stripe`: a notice of Stripe's.
pub async fn notice(call: RequestContext) -> Result<Response> {
    let app = call.app.clone();
    let Provider::Stripe(stripe) = &app.billing else {
        return Err(ApiError::not_found("Stripe is not the payment provider here."));
    };
    let signature = call.headers().get("stripe-signature").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signature = signature.to_owned();
    let bytes = body::read(call.into_request(), NOTICE_BYTES).await?;
    if !stripe.is_genuine(&signature, &bytes, clock::now_ms()) {
        return Err(ApiError::invalid("The signature is not Stripe's, or too old."));
    }
    let event: Value = serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::invalid(format!("The notice is not JSON: {error}.")))?;
    let id = event["id"].as_str().ok_or_else(|| ApiError::invalid("The notice has no id."))?;
    let written_at = event["created"].as_i64().map_or_else(clock::now_ms, |seconds| seconds.saturating_mul(1000));
    let notice = Notice { id, written_at };
    let object = &event["data"]["object"];
    let (customer, object_id) = (object["customer"].as_str(), object["id"].as_str().unwrap_or_default());
    match event["type"].as_str().unwrap_or_default() {
        "checkout.session.completed" => {
            let account = object["client_reference_id"].as_str().unwrap_or_default();
            let subscription = object["subscription"].as_str();
            app.store.set_subscription(notice, Subscriber::Account(account), true, customer, subscription).await?;
            app.job_notify.notify_one();
        }
        // Not paid for yet: what it becomes is told of again, perhaps with the same time.
        "customer.subscription.updated" if object["status"] == "incomplete" => {}
        kind @ ("customer.subscription.updated" | "customer.subscription.deleted") => {
            let active = kind == "customer.subscription.updated"
                && matches!(object["status"].as_str(), Some("active" | "trialing" | "past_due"));
            let subscriber = Subscriber::Subscription {
                subscription: object_id,
                account: object["metadata"]["account"].as_str().unwrap_or_default(),
            };
            app.store.set_subscription(notice, subscriber, active, customer, Some(object_id)).await?;
        }
        other => tracing::debug!(other, "a notice of Stripe's that changes nothing"),
    }
    Ok(json(&serde_json::json!({ "received": true })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stripes_own_and_fresh_notices_count() {
        crate::outbound::install_tls_provider();
        let stripe = Stripe {
            client: Client::new(),
            api: Url::parse("http://127.0.0.1").unwrap(),
            secret_key: String::new(),
            price: String::new(),
            meter_event: String::new(),
            webhook_secret: "whsec_test".into(),
            back: Url::parse("http://127.0.0.1").unwrap(),
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
