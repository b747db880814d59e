//! The checkout page of the local payment provider. It asks for no payment method; the subscription starts with the form.

use std::sync::Arc;

use super::DashboardState;
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{Response, Result, text};
use crate::store::{PaymentEvent, Subscriber};

/// `GET /billing/checkout?session=`
pub async fn page(mut request: RequestContext) -> Result<Response> {
    request.checkout()?;
    Ok(html(
        "Add a payment method",
        "<p>This service collects no payments: usage beyond the free credit is recorded, and nobody is charged.</p>
         <form method=\"post\"><button>Start the metered subscription</button></form>",
    ))
}

/// `POST /billing/checkout?session=`
pub async fn confirm(state: Arc<DashboardState>, mut request: RequestContext) -> Result<Response> {
    let checkout = request.checkout()?;
    let id = format!("local:{}", checkout.session);
    let event = PaymentEvent { id: &id, created_at: clock::now_ms() };
    let subscriber = Subscriber::Account(checkout.account.as_str());
    state.store.set_subscription(event, subscriber, true, None, Some(&checkout.session)).await?;
    state.notifiers.jobs.notify_one();
    Ok(html("Subscribed", "<p>The metered subscription is active. You can close this page.</p>"))
}

fn html(title: &str, body: &str) -> Response {
    text(
        "text/html; charset=utf-8",
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">
<title>{title} - Auricle</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;padding:0 1rem;color:#1b1f24}}
button{{font:inherit;padding:.6rem 1.2rem;border:0;border-radius:.4rem;background:#1b1f24;color:#fff;cursor:pointer}}</style>
<h1>{title}</h1>{body}</html>"
        ),
    )
}
