//! The checkout page of the local payment provider. It asks for no payment method; the subscription starts with the form.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::frame::{Frame, page as respond};
use super::words::EN;
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{Response, Result};
use crate::store::{PaymentEvent, Subscriber};

#[derive(Template)]
#[template(path = "checkout.html")]
struct CheckoutPage {
    frame: Frame,
    done: bool,
}

/// `GET /billing/checkout?session=`
pub async fn page(mut request: RequestContext) -> Result<Response> {
    request.checkout()?;
    respond(&CheckoutPage { frame: Frame::plain(EN.checkout, ""), done: false })
}

/// `POST /billing/checkout?session=`. The signed address stands for the token of other forms.
pub async fn confirm(state: Arc<DashboardState>, mut request: RequestContext) -> Result<Response> {
    let checkout = request.checkout()?;
    let id = format!("local:{}", checkout.session);
    let event = PaymentEvent { id: &id, created_at: clock::now_ms() };
    let subscriber = Subscriber::Account(checkout.account.as_str());
    state.store.set_subscription(event, subscriber, true, None, Some(&checkout.session)).await?;
    state.notifiers.jobs.notify_one();
    respond(&CheckoutPage { frame: Frame::plain(EN.checkout_subscribed, ""), done: true })
}
