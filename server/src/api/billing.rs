//! Credit, usage and checkout.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use crate::billing::PaymentProvider;
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json};
use crate::store::{Credit, Store};

/// The state of this resource.
pub struct BillingState {
    pub store: Store,
    pub payments: Arc<PaymentProvider>,
}

#[derive(Serialize)]
struct Credits {
    free_credit_cents: i64,
    credit_balance_cents: i64,
    lifetime_retail_cents: i64,
    lifetime_billable_cents: i64,
    period_billable_cents: i64,
    period: String,
    subscribed: bool,
}

impl From<Credit> for Credits {
    fn from(credit: Credit) -> Self {
        Self {
            free_credit_cents: credit.granted,
            credit_balance_cents: credit.balance,
            lifetime_retail_cents: credit.lifetime_retail,
            lifetime_billable_cents: credit.lifetime_billable,
            period_billable_cents: credit.period_billable,
            period: clock::period(clock::now_ms()).name,
            subscribed: credit.subscribed,
        }
    }
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

/// `GET /v2/credits`
pub async fn credits(state: Arc<BillingState>, request: RequestContext) -> Result<Response> {
    Ok(json(&Credits::from(state.store.credit(&request.account()?.id).await?)))
}

/// `GET /v2/usage`
pub async fn usage(state: Arc<BillingState>, request: RequestContext) -> Result<Response> {
    #[derive(Serialize)]
    struct Event {
        id: String,
        sku: String,
        unit_type: String,
        quantity: f64,
        retail_cost_cents: i64,
        credit_applied_cents: i64,
        billable_cents: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        transcript_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        created_at: String,
    }
    let (limit, offset) = request.page()?;
    let (events, total) = state.store.usage(&request.account()?.id, limit, offset).await?;
    let data: Vec<Event> = events
        .into_iter()
        .map(|event| Event {
            id: event.id.to_string(),
            sku: event.sku,
            unit_type: event.unit_type,
            quantity: seconds(event.quantity_ms),
            retail_cost_cents: event.retail_cost_cents,
            credit_applied_cents: event.credit_applied_cents,
            billable_cents: event.billable_cents,
            transcript_id: event.transcript_id,
            session_id: event.session_id,
            created_at: clock::iso(event.created_at),
        })
        .collect();
    Ok(json(&json!({ "object": "list", "data": data, "total": total, "limit": limit, "offset": offset })))
}

/// `GET /v2/usage/summary`
pub async fn summary(state: Arc<BillingState>, request: RequestContext) -> Result<Response> {
    #[derive(Serialize)]
    struct Summary {
        #[serde(flatten)]
        credits: Credits,
        by_model: Vec<Model>,
    }
    #[derive(Serialize)]
    struct Model {
        sku: String,
        unit_type: String,
        quantity: f64,
        events: i64,
        retail_cost_cents: i64,
        credit_applied_cents: i64,
        billable_cents: i64,
    }
    let account = &request.account()?.id;
    let credits = state.store.credit(account).await?.into();
    let rollups = state.store.usage_by_model(account).await?;
    let by_model = rollups
        .into_iter()
        .map(|rollup| Model {
            sku: rollup.sku,
            unit_type: rollup.unit_type,
            quantity: seconds(rollup.quantity_ms),
            events: rollup.events,
            retail_cost_cents: rollup.retail_cost_cents,
            credit_applied_cents: rollup.credit_applied_cents,
            billable_cents: rollup.billable_cents,
        })
        .collect();
    Ok(json(&Summary { credits, by_model }))
}

/// `POST /v2/billing/checkout`
pub async fn checkout(state: Arc<BillingState>, request: RequestContext) -> Result<Response> {
    let account = request.owned_account()?;
    if account.subscribed {
        let message = "A metered subscription is active already.";
        return Err(ApiError::new(StatusCode::CONFLICT, "already_api_subscribed", message));
    }
    let url = state.payments.checkout(account).await.map_err(|error| ApiError::internal(&error))?;
    Ok(json(&json!({ "url": url.as_str() })))
}
