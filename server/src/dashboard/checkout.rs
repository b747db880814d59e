//! The checkout page of the local provider: no payment method is asked for, the subscription begins with the form.

use hyper::StatusCode;

use crate::billing::Provider;
use crate::clock;
use crate::http::RequestContext;
use crate::http::response::{ApiError, Response, Result, typed};
use crate::ids::AccountId;
use crate::store::{Notice, Subscriber};

/// The checkout that the URL names, and whose it is.
pub fn signed(call: &RequestContext) -> Result<(String, AccountId)> {
    let Provider::Local(local) = &call.app.billing else {
        return Err(ApiError::not_found("The payment provider serves this page."));
    };
    let session = call.query("session").unwrap_or_default();
    match local.account(&session) {
        Some(account) => Ok((session, account)),
        None => Err(ApiError::not_found("This checkout is unknown or has expired; ask for a new one.")),
    }
}

/// `GET /billing/checkout?session=`
pub async fn page(call: RequestContext) -> Result<Response> {
    signed(&call)?;
    Ok(html(
        "Add a payment method",
        "<p>This service collects no payments: usage beyond the free credit is recorded, and nobody is charged.</p>
         <form method=\"post\"><button>Start the metered subscription</button></form>",
    ))
}

/// `POST /billing/checkout?session=`
pub async fn confirm(call: RequestContext) -> Result<Response> {
    let (session, account) = signed(&call)?;
    let id = format!("local:{session}");
    let notice = Notice { id: &id, written_at: clock::now_ms() };
    call.app.store.set_subscription(notice, Subscriber::Account(account.as_str()), true, None, Some(&session)).await?;
    call.app.job_notify.notify_one();
    Ok(html("Subscribed", "<p>The metered subscription is active. You can close this page.</p>"))
}

fn html(title: &str, body: &str) -> Response {
    let mut reply = typed(
        "text/html; charset=utf-8",
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">
<title>{title} - Auricle</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;padding:0 1rem;color:#1b1f24}}
button{{font:inherit;padding:.6rem 1.2rem;border:0;border-radius:.4rem;background:#1b1f24;color:#fff;cursor:pointer}}</style>
<h1>{title}</h1>{body}</html>"
        ),
    );
    *reply.status_mut() = StatusCode::OK;
    reply
}
