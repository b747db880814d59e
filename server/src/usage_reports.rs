//! Reports billable usage to the payment provider.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::jittered_ms;
use crate::billing::PaymentProvider;
use crate::store::Store;

/// A refused report is sent again after 1 s, 2 s and so on, up to 2^12 s, a little over an hour.
const MAX_DOUBLINGS: i64 = 12;

/// Sends usage from the store to the payment provider.
pub struct UsageReporter {
    pub store: Store,
    pub payments: Arc<PaymentProvider>,
    pub poll: Duration,
}

impl UsageReporter {
    /// Reports until `stopping`. This task is separate from the webhooks, which must not wait for the payment provider.
    pub async fn run(self, stopping: CancellationToken) {
        while !stopping.is_cancelled() {
            self.report().await;
            tokio::select! {
                () = tokio::time::sleep(self.poll) => {}
                () = stopping.cancelled() => {}
            }
        }
    }

    async fn report(&self) {
        let PaymentProvider::Stripe(stripe) = &*self.payments else { return };
        let usage = match self.store.unreported_usage().await {
            Ok(usage) => usage,
            Err(error) => return tracing::error!(%error, "reading unreported usage failed"),
        };
        for event in usage {
            if let Err(error) = stripe.report(&event).await {
                // A refused report does not delay the others.
                let seconds = 1 << event.refusals.clamp(0, MAX_DOUBLINGS);
                tracing::warn!(usage = %event.id, error, seconds, "a usage report failed and is sent again later");
                if let Err(error) = self.store.postpone_usage_report(&event.id, jittered_ms(seconds)).await {
                    return tracing::error!(usage = %event.id, %error, "postponing a usage report failed");
                }
                continue;
            }
            if let Err(error) = self.store.mark_usage_reported(&event.id).await {
                return tracing::error!(usage = %event.id, %error, "recording a usage report failed; it is sent again");
            }
        }
    }
}
