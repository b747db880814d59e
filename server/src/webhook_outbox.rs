//! Delivery of webhooks, and of usage to the payment provider, from what the store has written down.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::billing::Provider;
use crate::ids::random;
use crate::outbound::OutboundError;
use crate::state::AppState;
use crate::store::Delivery;

/// Reports that are refused are sent again after 1 s, 2 s and so on, to 2^12 s, a little over an hour.
const LONGEST_DOUBLING: i64 = 12;

/// Deliveries at a time.
const AT_ONCE: usize = 16;

/// Delivers until `stopping`; what is under way then is finished.
pub async fn run(app: Arc<AppState>, stopping: CancellationToken) {
    let timeout = Duration::from_secs(app.config.webhook_timeout_seconds.into());
    // Retries that have come due ring no bell.
    let poll = Duration::from_secs(app.config.poll_seconds.into());
    // If this process dies in the middle of one, it is tried again so much later.
    let hold_ms = timeout.as_millis() as i64 + 10_000;
    let mut running = JoinSet::new();
    while !stopping.is_cancelled() {
        while running.try_join_next().is_some() {}
        if running.len() >= AT_ONCE {
            running.join_next().await;
            continue;
        }
        let claimed = match app.store.has_due_deliveries().await {
            Ok(true) => app.store.claim_delivery(hold_ms).await,
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        match claimed {
            Ok(Some(delivery)) => {
                running.spawn(deliver(app.clone(), delivery, timeout));
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "no webhook could be claimed"),
        }
        tokio::select! {
            () = app.webhook_notify.notified() => {}
            () = tokio::time::sleep(poll) => {}
            () = stopping.cancelled() => {}
        }
    }
    while running.join_next().await.is_some() {}
}

async fn deliver(app: Arc<AppState>, delivery: Delivery, timeout: Duration) {
    let status = delivery.event.strip_prefix("transcript.").unwrap_or_default();
    let body =
        json!({ "event": delivery.event, "transcript_id": delivery.transcript_id, "status": status }).to_string();
    let attempt_id = format!("{}-{}", delivery.id, delivery.attempt);
    let sent = app.outbound.post_json(&delivery.url, body, ("x-svc-delivery", attempt_id), timeout).await;
    // None: accepted. Some(true): may be accepted later.
    let (again, error) = match sent {
        Ok(status) if status.is_success() => (None, String::new()),
        Ok(status) => (Some(status.is_server_error()), format!("the receiver answered {status}")),
        Err(error @ (OutboundError::Private(_) | OutboundError::Url(_))) => (Some(false), error.to_string()),
        Err(error) => (Some(true), error.to_string()),
    };
    let delay = usize::try_from(delivery.attempt - 1).ok().and_then(|at| app.config.webhook_retry_seconds.get(at));
    let written = match (again, delay) {
        (None, _) => app.store.close_delivery(&delivery, None).await,
        (Some(true), Some(seconds)) => app.store.postpone_delivery(&delivery, jittered_ms(*seconds), &error).await,
        (Some(_), _) => {
            tracing::warn!(transcript = delivery.transcript_id, attempt = delivery.attempt, error, "webhook given up");
            app.store.close_delivery(&delivery, Some(&error)).await
        }
    };
    if let Err(error) = written {
        // It stays claimed for a while, then it is delivered once more.
        tracing::error!(%error, "the outcome of a webhook could not be written");
    }
    let outcome = if again.is_none() { "accepted" } else { "failed" };
    metrics::counter!("auricle_webhooks_total", "outcome" => outcome).increment(1);
}

/// A tenth more or less, so that what failed together is not tried together.
fn jittered_ms(seconds: u32) -> i64 {
    let ms = i64::from(seconds) * 1000;
    let [byte] = random::<1>();
    ms - ms / 10 + ms * i64::from(byte) / 1275
}

/// Tells the payment provider of usage until `stopping`: beside the deliveries, which must not wait for it.
pub async fn report(app: Arc<AppState>, stopping: CancellationToken) {
    let poll = Duration::from_secs(app.config.poll_seconds.into());
    while !stopping.is_cancelled() {
        report_usage(&app).await;
        tokio::select! {
            () = tokio::time::sleep(poll) => {}
            () = stopping.cancelled() => {}
        }
    }
}

async fn report_usage(app: &AppState) {
    let Provider::Stripe(stripe) = &app.billing else { return };
    let usage = match app.store.unreported_usage().await {
        Ok(usage) => usage,
        Err(error) => return tracing::error!(%error, "usage could not be read"),
    };
    for event in usage {
        if let Err(error) = stripe.report(&event).await {
            // One that is refused keeps no other from being told.
            let seconds = 1 << event.refused.clamp(0, LONGEST_DOUBLING);
            tracing::warn!(usage = %event.id, error, seconds, "usage was not reported; trying again later");
            if let Err(error) = app.store.postpone_report(&event.id, jittered_ms(seconds)).await {
                return tracing::error!(usage = %event.id, %error, "a refusal could not be written down");
            }
            continue;
        }
        if let Err(error) = app.store.usage_reported(&event.id).await {
            return tracing::error!(usage = %event.id, %error, "a report could not be written down; it is sent again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::jittered_ms;

    #[test]
    fn waits_vary_by_a_tenth() {
        for _ in 0..200 {
            assert!((9_000..=11_000).contains(&jittered_ms(10)));
        }
        assert_eq!(jittered_ms(0), 0);
    }
}
