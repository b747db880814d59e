//! Webhook events of Stripe.

use std::sync::Arc;

use serde_json::{Value, json};

use super::DashboardState;
use crate::billing::PaymentProvider;
use crate::clock;
use crate::context::RequestContext;
use crate::http::body;
use crate::http::response::{ApiError, Response, Result, json};
use crate::store::{PaymentEvent, Subscriber};

/// The size limit of an event, which may be larger than a request of the API.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// `POST /billing/stripe`
pub async fn receive(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let PaymentProvider::Stripe(stripe) = &*state.payments else {
        return Err(ApiError::not_found("Stripe is not the payment provider here."));
    };
    let signature = request.headers().get("stripe-signature").and_then(|value| value.to_str().ok());
    let signature = signature.unwrap_or_default().to_owned();
    let bytes = body::read(request.into_request(), MAX_EVENT_BYTES).await?;
    if !stripe.is_genuine(&signature, &bytes, clock::now_ms()) {
        return Err(ApiError::invalid("The signature is not Stripe's, or too old."));
    }
    let event: Value = serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::invalid(format!("The notice is not JSON: {error}.")))?;
    let id = event["id"].as_str().ok_or_else(|| ApiError::invalid("The notice has no id."))?;
    let created_at = event["created"].as_i64().map_or_else(clock::now_ms, |seconds| seconds.saturating_mul(1000));
    let payment_event = PaymentEvent { id, created_at };
    let object = &event["data"]["object"];
    let (customer, object_id) = (object["customer"].as_str(), object["id"].as_str().unwrap_or_default());
    match event["type"].as_str().unwrap_or_default() {
        "checkout.session.completed" => {
            let subscriber = Subscriber::Account(object["client_reference_id"].as_str().unwrap_or_default());
            let subscription = object["subscription"].as_str();
            state.store.set_subscription(payment_event, subscriber, true, customer, subscription).await?;
            state.notifiers.jobs.notify_one();
        }
        // The first payment is pending. A later event, which may have the same time, brings the result.
        "customer.subscription.updated" if object["status"] == "incomplete" => {}
        event_type @ ("customer.subscription.updated" | "customer.subscription.deleted") => {
            let active = event_type == "customer.subscription.updated"
                && matches!(object["status"].as_str(), Some("active" | "trialing" | "past_due"));
            let subscriber = Subscriber::Subscription {
                subscription: object_id,
                account: object["metadata"]["account"].as_str().unwrap_or_default(),
            };
            state.store.set_subscription(payment_event, subscriber, active, customer, Some(object_id)).await?;
        }
        event_type => tracing::debug!(event_type, "ignored an event of Stripe"),
    }
    Ok(json(&json!({ "received": true })))
}
