//! Credit and subscription.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::frame::{Frame, Section, page};
use super::shown::dollars;
use super::words::EN;
use crate::billing::{PRICES, PaymentProvider, ProductKind};
use crate::context::RequestContext;
use crate::http::response::{Response, Result};

#[derive(Template)]
#[template(path = "billing.html")]
struct BillingPage {
    frame: Frame,
    balance: String,
    granted: String,
    /// Of the free credit, in hundredths.
    left_percent: i64,
    month: String,
    lifetime: String,
    subscribed: bool,
    /// No payments are collected here.
    is_local: bool,
    rates: Vec<Rate>,
}

struct Rate {
    model: &'static str,
    kind: &'static str,
    rate: String,
}

/// `GET /billing`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.owned_account()?;
    let frame = Frame::new(&state, &request, Section::Billing, EN.billing).await?;
    let credit = state.store.credit(&account.id).await?;
    let rates = PRICES.iter().map(|price| Rate {
        model: price.model,
        kind: match price.kind {
            ProductKind::Prerecorded => EN.kind_prerecorded,
            ProductKind::Realtime => EN.kind_realtime,
            ProductKind::Agent => EN.kind_agent,
            ProductKind::Language => EN.kind_language,
        },
        rate: format!("${:.3}", price.rate_usd()),
    });
    page(&BillingPage {
        frame,
        balance: dollars(credit.balance),
        granted: dollars(credit.granted),
        left_percent: (credit.balance * 100).checked_div(credit.granted).unwrap_or(0).clamp(0, 100),
        month: dollars(credit.period_billable),
        lifetime: dollars(credit.lifetime_billable),
        subscribed: credit.subscribed,
        is_local: matches!(&*state.payments, PaymentProvider::Local(_)),
        rates: rates.collect(),
    })
}
