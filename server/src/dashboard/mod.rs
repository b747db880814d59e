//! The dashboard surface: the local checkout page and the events of Stripe.

pub mod checkout;
pub mod stripe_events;

use std::sync::Arc;

use crate::billing::PaymentProvider;
use crate::notify::Notifiers;
use crate::store::Store;

/// The state of these pages.
pub struct DashboardState {
    pub store: Store,
    pub payments: Arc<PaymentProvider>,
    pub notifiers: Arc<Notifiers>,
}
