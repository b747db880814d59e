//! Delivers webhooks from the outbox of the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Response;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backoff::jittered_ms;
use crate::clock;
use crate::notify::Notifiers;
use crate::outbound::{self, Outbound, OutboundError};
use crate::sharing::{Places, Round};
use crate::store::{Result, Store, WebhookAttempt, WebhookDelivery};
use crate::webhook_secrets::WebhookSecrets;

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
    pub secrets: Arc<WebhookSecrets>,
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
        let (attempt, delivered) = self.attempt(&delivery).await;
        let retries = delivery.attempt - delivery.attempts_before - 1;
        let delay = usize::try_from(retries).ok().and_then(|index| self.retry_seconds.get(index));
        let outcome = if matches!(delivered, Delivered::Accepted) { "accepted" } else { "failed" };
        let recorded = match (delivered, delay) {
            (Delivered::Accepted, _) => self.store.close_webhook(&delivery, &attempt, None).await,
            (Delivered::Retryable(error), Some(seconds)) => {
                self.store.postpone_webhook(&delivery, &attempt, jittered_ms(*seconds), &error).await
            }
            (Delivered::Retryable(error) | Delivered::Rejected(error), _) => {
                let (transcript, attempts) = (&delivery.transcript_id, delivery.attempt);
                tracing::warn!(transcript, attempts, error, "a webhook failed for good");
                self.store.close_webhook(&delivery, &attempt, Some(&error)).await
            }
        };
        if let Err(error) = recorded {
            // The claim runs out, and the webhook is delivered once more.
            tracing::error!(%error, "recording the outcome of a webhook failed");
        }
        metrics::counter!("auricle_webhooks_total", "outcome" => outcome).increment(1);
        metrics::histogram!("auricle_webhook_seconds").record(attempt.took_ms as f64 / 1000.0);
    }

    async fn attempt(&self, delivery: &WebhookDelivery) -> (WebhookAttempt, Delivered) {
        let (began_at, began) = (clock::now_ms(), Instant::now());
        let posted = self.post(delivery, began_at).await;
        let mut attempt = WebhookAttempt {
            number: delivery.attempt,
            began_at,
            took_ms: began.elapsed().as_millis() as i64,
            status: None,
            answer: String::new(),
            error: None,
        };
        let delivered = match posted {
            Ok(response) => {
                let status = response.status();
                attempt.status = Some(status.as_u16());
                attempt.answer = outbound::beginning_of(response).await;
                match status {
                    status if status.is_success() => Delivered::Accepted,
                    status if status.is_server_error() => {
                        Delivered::Retryable(format!("the receiver answered {status}"))
                    }
                    status => Delivered::Rejected(format!("the receiver answered {status}")),
                }
            }
            Err(error) => {
                attempt.error = Some(error.to_string());
                match error {
                    OutboundError::Private(_) | OutboundError::Url(_) => Delivered::Rejected(error.to_string()),
                    error => Delivered::Retryable(error.to_string()),
                }
            }
        };
        (attempt, delivered)
    }

    /// Sends a webhook, signed if its account has a secret.
    async fn post(&self, delivery: &WebhookDelivery, now_ms: i64) -> std::result::Result<Response, OutboundError> {
        let body = body_of(&delivery.event, &delivery.transcript_id);
        let signer = self.secrets.signer(&delivery.account).await.map_err(|error| {
            tracing::error!(%error, "reading the secret of a webhook failed");
            OutboundError::Failed("the webhook secret cannot be read; rotate it if this stays".into())
        })?;
        let signature = signer.map(|signer| signer.headers(&delivery.id, now_ms, &body));
        let mut headers = vec![("x-svc-delivery", format!("{}-{}", delivery.id, delivery.attempt))];
        headers.extend(signature.into_iter().flatten());
        self.outbound.post_json(&delivery.url, body, &headers, self.timeout).await
    }
}

/// What is sent: the event and its transcript, without a word of it.
pub fn body_of(event: &str, transcript: &str) -> String {
    let status = event.strip_prefix("transcript.").unwrap_or_default();
    json!({ "event": event, "transcript_id": transcript, "status": status }).to_string()
}
