//! Credit and subscription.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::forgot::need_mail;
use super::form::Form;
use super::frame::{Frame, Section, page, private, refused};
use super::words::EN;
use crate::billing::{PRICES, PaymentProvider, ProductKind, dollars};
use crate::context::RequestContext;
use crate::http::response::{Response, Result, see_other};
use crate::store::Account;

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
    /// The reader may lift the limit.
    is_operator: bool,
    rates: Vec<Rate>,
    /// The limit of the budget alarm in dollars; empty without one.
    budget: String,
    budget_is_reached: bool,
    budget_problem: &'static str,
    /// The address to which the alarm goes.
    email: String,
    sends_mail: bool,
}

struct Rate {
    model: &'static str,
    kind: &'static str,
    rate: String,
}

/// Cents of dollars as somebody writes them: `25` or `25.50`, up to a million. None for anything else.
fn cents(dollars: &str) -> Option<i64> {
    let (whole, part) = dollars.split_once('.').unwrap_or((dollars, "00"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.len() > 7 || part.len() > 2 {
        return None;
    }
    let cents = whole.parse::<i64>().ok()? * 100 + format!("{part:0<2}").parse::<i64>().ok()?;
    (1..=100_000_000).contains(&cents).then_some(cents)
}

/// `GET /billing`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.owned_account()?;
    let frame = Frame::new(&state, &request, Section::Billing, EN.billing).await?;
    page(&billing_page(&state, frame, account).await?)
}

/// `POST /billing/budget`
pub async fn set_budget(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.owned_account()?.clone();
    let frame = Frame::new(&state, &request, Section::Billing, EN.billing).await?;
    let form = Form::read(request).await?;
    need_mail(&state)?;
    let dollars = form.text("dollars").trim();
    let limit = if dollars.is_empty() { None } else { Some(cents(dollars)) };
    if limit == Some(None) {
        let page = billing_page(&state, frame, &account).await?;
        return refused(&BillingPage { budget: dollars.to_owned(), budget_problem: EN.budget_wrong, ..page });
    }
    state.store.set_budget(&account.id, limit.flatten()).await?;
    Ok(private(see_other("/billing")))
}

async fn billing_page(state: &DashboardState, frame: Frame, account: &Account) -> Result<BillingPage> {
    let credit = state.store.credit(&account.id).await?;
    let budget = state.store.budget(&account.id).await?;
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
    Ok(BillingPage {
        is_operator: frame.signed_in.as_ref().is_some_and(|navigation| navigation.is_operator),
        frame,
        balance: dollars(credit.balance),
        granted: dollars(credit.granted),
        left_percent: (credit.balance * 100).checked_div(credit.granted).unwrap_or(0).clamp(0, 100),
        month: dollars(credit.period_billable),
        lifetime: dollars(credit.lifetime_billable),
        subscribed: credit.subscribed,
        is_local: matches!(&*state.payments, PaymentProvider::Local(_)),
        rates: rates.collect(),
        budget: budget.cents.map(|cents| format!("{}.{:02}", cents / 100, cents % 100)).unwrap_or_default(),
        budget_is_reached: budget.is_reached,
        budget_problem: "",
        email: account.email.clone(),
        sends_mail: state.sends_mail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_to_the_cent() {
        for (text, value) in [("25", 2500), ("25.5", 2550), ("0.01", 1), ("1000000", 100_000_000), ("007.10", 710)] {
            assert_eq!(cents(text), Some(value), "{text}");
        }
        for bad in
            ["", "0", "0.00", "-1", "1e3", "1.234", "1.", ".5", "1000000.01", "99999999", "1,5", "\u{0661}", "$5"]
        {
            assert_eq!(cents(bad), None, "{bad}");
        }
    }
}
