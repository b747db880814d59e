//! Telephone calls: what was asked for until the call comes, and its transcript once it is over.

use super::transcript_list::title_key;
use super::transcripts::stored_warnings;
use super::{JobOptions, Result, Store, Topic, webhook_outbox};
use crate::clock;
use crate::ids::{AccountId, TranscriptId};

/// The transcript of a call.
#[derive(Clone, Debug)]
pub struct CallTranscript {
    pub id: TranscriptId,
    pub account: AccountId,
    pub model: String,
    pub title: String,
    pub language_code: Option<String>,
    pub webhook_url: Option<String>,
    pub options: JobOptions,
    pub text: String,
    /// A JSON array of word objects.
    pub words: String,
    /// A JSON array of utterances, where there are speaker labels.
    pub utterances: Option<String>,
    pub confidence: Option<f64>,
    pub duration_ms: i64,
    pub warnings: Vec<String>,
    pub began_at: i64,
}

impl Store {
    /// Expects a call until a time.
    pub async fn expect_call(&self, id: &TranscriptId, account: &AccountId, plan: &str, expires_at: i64) -> Result<()> {
        sqlx::query("INSERT INTO calls (transcript_id, account_id, plan, expires_at) VALUES ($1, $2, $3, $4)")
            .bind(id.as_str())
            .bind(account.as_str())
            .bind(plan)
            .bind(expires_at)
            .execute(&self.write)
            .await
            .map(drop)
    }

    /// The plan of a call that has come. None if it is not expected, or has come before.
    pub async fn take_call(&self, id: &TranscriptId) -> Result<Option<String>> {
        sqlx::query_scalar("DELETE FROM calls WHERE transcript_id = $1 AND expires_at > $2 RETURNING plan")
            .bind(id.as_str())
            .bind(clock::now_ms())
            .fetch_optional(&self.write)
            .await
    }

    /// Writes the transcript of a call, with its webhook.
    pub async fn save_call(&self, call: &CallTranscript) -> Result<()> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO transcripts (id, account_id, status, model, title, title_key, language_code, options, webhook_url,
                                      text, words, utterances, confidence, duration_ms, warnings, created_at, completed_at)
             VALUES ($1, $2, 'completed', $3, $4, $5, $6, $7, $8, $9, $10, $11, CAST($12 AS DOUBLE PRECISION), $13, $14, $15, $16)",
        )
        .bind(call.id.as_str())
        .bind(call.account.as_str())
        .bind(&call.model)
        .bind(&call.title)
        .bind(title_key(&call.title))
        .bind(call.language_code.as_deref())
        .bind(call.options.stored())
        .bind(call.webhook_url.as_deref())
        .bind(&call.text)
        .bind(&call.words)
        .bind(call.utterances.as_deref())
        // As for jobs, PostgreSQL gets a missing number as text.
        .bind(call.confidence.map(|confidence| confidence.to_string()))
        .bind(call.duration_ms)
        .bind(stored_warnings(call.warnings.iter()))
        .bind(call.began_at)
        .bind(now)
        .execute(&mut *tx)
        .await?;
        webhook_outbox::enqueue(&mut tx, &call.id, now).await?;
        self.notify(&mut tx, Topic::Webhooks).await?;
        tx.commit().await
    }
}
