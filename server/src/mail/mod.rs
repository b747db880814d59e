//! Mail: letters to people, from the outbox of the store to an SMTP server.

mod letters;
mod smtp;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::backoff::jittered_ms;
use crate::clock;
use crate::notify::Notifiers;
use crate::store::{Mail, Store};
pub use smtp::Smtp;
use smtp::Unsent;

/// The most letters that are sent at a time.
const MAX_CONCURRENT: usize = 4;

/// If this process dies while it sends a letter, the letter is due again after this time.
const HOLD_MS: i64 = smtp::TIMEOUT.as_millis() as i64 + 10_000;

/// Sends letters.
pub struct MailOutbox {
    pub store: Store,
    pub smtp: Smtp,
    /// The dashboard, where links lead.
    pub dashboard: Url,
    pub notifiers: Arc<Notifiers>,
    /// Delays between attempts. The last one repeats.
    pub retry_seconds: Vec<u32>,
    /// Retries that become due send no notification, so the outbox also polls.
    pub poll: Duration,
}

impl MailOutbox {
    /// Sends until `stopping`, then waits for the letters that are on the way.
    pub async fn run(self: Arc<Self>, stopping: CancellationToken) {
        let mut running = JoinSet::new();
        while !stopping.is_cancelled() {
            while running.try_join_next().is_some() {}
            if running.len() >= MAX_CONCURRENT {
                running.join_next().await;
                continue;
            }
            match self.store.claim_mail(HOLD_MS).await {
                Ok(Some(mail)) => {
                    running.spawn(self.clone().deliver(mail));
                    continue;
                }
                Ok(None) => {}
                Err(error) => tracing::error!(%error, "claiming a letter failed"),
            }
            tokio::select! {
                () = self.notifiers.mails.notified() => {}
                () = tokio::time::sleep(self.poll) => {}
                () = stopping.cancelled() => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    async fn deliver(self: Arc<Self>, mail: Mail) {
        let sent = match letters::write(&mail.letter, &self.dashboard) {
            _ if mail.expires_at <= clock::now_ms() => Err(Unsent::Refused("it came too late".into())),
            text => self.smtp.send(&mail.id, &mail.recipient, text).await,
        };
        let outcome = if sent.is_ok() { "sent" } else { "failed" };
        let recorded = match sent {
            Ok(()) => self.store.close_mail(&mail, None).await,
            Err(Unsent::Failed(error)) => {
                let index = usize::try_from(mail.attempt - 1).unwrap_or(usize::MAX);
                let seconds = self.retry_seconds.get(index).or(self.retry_seconds.last()).copied().unwrap_or(60);
                tracing::warn!(mail = %mail.id, attempt = mail.attempt, error, seconds, "a letter was not sent; trying again");
                self.store.postpone_mail(&mail, jittered_ms(seconds), &error).await
            }
            Err(Unsent::Refused(error)) => {
                tracing::warn!(mail = %mail.id, attempt = mail.attempt, error, "a letter was refused for good");
                self.store.close_mail(&mail, Some(&error)).await
            }
        };
        if let Err(error) = recorded {
            // The claim runs out, and the letter is sent once more.
            tracing::error!(mail = %mail.id, %error, "recording the outcome of a letter failed");
        }
        metrics::counter!("auricle_mails_total", "outcome" => outcome).increment(1);
    }
}
