//! Delivers webhooks from the outbox of the store.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backoff::jittered_ms;
use crate::notify::Notifiers;
use crate::outbound::{Outbound, OutboundError};
use crate::sharing::{Places, Round};
use crate::store::{Result, Store, WebhookDelivery};

/// The most deliveries at a time. They wait for the receivers for the most part.
const MAX_CONCURRENT: usize = 64;

/// The result of one attempt.
enum Delivered {
    Accepted,
    /// A later attempt may succeed.
    Retryable(String),
    /// No attempt can succeed.
    Rejected(String),
}

/// Sends webhooks to their receivers.
pub struct WebhookOutbox {
    pub store: Store,
    pub outbound: Outbound,
    pub notifiers: Arc<Notifiers>,
    /// Timeout of one attempt.
    pub timeout: Duration,
    /// Delays between attempts.
    pub retry_seconds: Vec<u32>,
    /// Retries that become due send no notification, so the outbox also polls.
    pub poll: Duration,
}

impl WebhookOutbox {
    /// Delivers until `stopping`, then waits for the attempts in progress.
    pub async fn run(self: Arc<Self>, stopping: CancellationToken) {
        // If this process dies during an attempt, the webhook is due again after this time.
        let hold_ms = self.timeout.as_millis() as i64 + 10_000;
        let places = Places::new(MAX_CONCURRENT);
        let mut round = Round::default();
        let mut running = JoinSet::new();
        while !stopping.is_cancelled() {
            while running.try_join_next().is_some() {}
            if !places.has_free() {
                running.join_next().await;
                continue;
            }
            let claimed = match self.store.has_due_webhooks().await {
                Ok(true) => self.claim(hold_ms, &places, &mut round).await,
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            match claimed {
                Ok(Some(delivery)) => {
                    round.record(&delivery.account);
                    let place = places.try_take(&delivery.account);
                    let outbox = self.clone();
                    running.spawn(async move {
                        outbox.deliver(delivery).await;
                        drop(place);
                    });
                    continue;
                }
                Ok(None) => {}
                Err(error) => tracing::error!(%error, "claiming a webhook failed"),
            }
            tokio::select! {
                () = self.notifiers.webhooks.notified() => {}
                () = tokio::time::sleep(self.poll) => {}
                // Its account may have had its share.
                _ = running.join_next(), if !running.is_empty() => {}
                () = stopping.cancelled() => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Claims a webhook of an account below its share, in turn.
    async fn claim(&self, hold_ms: i64, places: &Places, round: &mut Round) -> Result<Option<WebhookDelivery>> {
        let mut skip = places.satisfied();
        skip.extend(round.served().iter().cloned());
        match self.store.claim_webhook(hold_ms, &skip).await? {
            None if round.begin() => self.store.claim_webhook(hold_ms, &places.satisfied()).await,
            claimed => Ok(claimed),
        }
    }

    async fn deliver(self: Arc<Self>, delivery: WebhookDelivery) {
        let delivered = self.attempt(&delivery).await;
        let delay = usize::try_from(delivery.attempt - 1).ok().and_then(|index| self.retry_seconds.get(index));
        let outcome = if matches!(delivered, Delivered::Accepted) { "accepted" } else { "failed" };
        let recorded = match (delivered, delay) {
            (Delivered::Accepted, _) => self.store.close_webhook(&delivery, None).await,
            (Delivered::Retryable(error), Some(seconds)) => {
                self.store.postpone_webhook(&delivery, jittered_ms(*seconds), &error).await
            }
            (Delivered::Retryable(error) | Delivered::Rejected(error), _) => {
                let (transcript, attempt) = (&delivery.transcript_id, delivery.attempt);
                tracing::warn!(transcript, attempt, error, "a webhook failed for good");
                self.store.close_webhook(&delivery, Some(&error)).await
            }
        };
        if let Err(error) = recorded {
            // The claim runs out, and the webhook is delivered once more.
            tracing::error!(%error, "recording the outcome of a webhook failed");
        }
        metrics::counter!("auricle_webhooks_total", "outcome" => outcome).increment(1);
    }

    async fn attempt(&self, delivery: &WebhookDelivery) -> Delivered {
        let status = delivery.event.strip_prefix("transcript.").unwrap_or_default();
        let body =
            json!({ "event": delivery.event, "transcript_id": delivery.transcript_id, "status": status }).to_string();
        let attempt_id = format!("{}-{}", delivery.id, delivery.attempt);
        let header = ("x-svc-delivery", attempt_id);
        match self.outbound.post_json(&delivery.url, body, header, self.timeout).await {
            Ok(status) if status.is_success() => Delivered::Accepted,
            Ok(status) if status.is_server_error() => Delivered::Retryable(format!("the receiver answered {status}")),
            Ok(status) => Delivered::Rejected(format!("the receiver answered {status}")),
            Err(error @ (OutboundError::Private(_) | OutboundError::Url(_))) => Delivered::Rejected(error.to_string()),
            Err(error) => Delivered::Retryable(error.to_string()),
        }
    }
}
