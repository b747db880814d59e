//! Edits of transcripts: each makes a version. What was recognised is kept beside the first one.

use sqlx::Row as _;

use super::transcript_list::title_key;
use super::transcripts::{Edition, StoredWords};
use super::{Result, Store, Transcript};
use crate::ids::{AccountId, TranscriptId};

/// Another title; none takes it away.
#[derive(Clone, Debug)]
pub struct NewTitle(pub Option<String>);

/// The edited text.
#[derive(Clone, Debug)]
pub struct EditedText {
    pub text: String,
    /// A JSON array of word objects.
    pub words: String,
    /// A JSON array of utterances, where there are speakers.
    pub utterances: Option<String>,
}

/// The result of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// As this version.
    Version(i64),
    /// The transcript has another version by now.
    Conflict(i64),
    /// There is no such transcript.
    Gone,
}

impl Store {
    /// Keeps an edit of a version of an account's transcript.
    pub async fn save_edit(
        &self,
        account: &AccountId,
        id: &TranscriptId,
        version: i64,
        title: Option<&NewTitle>,
        text: Option<&EditedText>,
    ) -> Result<Saved> {
        let mut tx = self.begin().await?;
        if text.is_some() {
            sqlx::query(
                "INSERT INTO originals (transcript_id, text, words, utterances)
                 SELECT id, text, words, utterances FROM transcripts WHERE id = $1 AND account_id = $2 AND version = $3
                 ON CONFLICT (transcript_id) DO NOTHING",
            )
            .bind(id.as_str())
            .bind(account.as_str())
            .bind(version)
            .execute(&mut *tx)
            .await?;
        }
        let new_title = title.and_then(|title| title.0.as_deref());
        let saved = sqlx::query(
            "UPDATE transcripts SET version = version + 1,
                    title = CASE WHEN $4 = 1 THEN $5 ELSE title END,
                    title_key = CASE WHEN $4 = 1 THEN $6 ELSE title_key END,
                    text = COALESCE($7, text), words = COALESCE($8, words), utterances = COALESCE($9, utterances)
             WHERE id = $1 AND account_id = $2 AND version = $3",
        )
        .bind(id.as_str())
        .bind(account.as_str())
        .bind(version)
        .bind(super::flag(title.is_some()))
        .bind(new_title)
        .bind(new_title.map(title_key))
        .bind(text.map(|text| text.text.as_str()))
        .bind(text.map(|text| text.words.as_str()))
        .bind(text.and_then(|text| text.utterances.as_deref()))
        .execute(&mut *tx)
        .await?;
        if saved.rows_affected() > 0 {
            tx.commit().await?;
            return Ok(Saved::Version(version + 1));
        }
        let now: Option<i64> = sqlx::query_scalar("SELECT version FROM transcripts WHERE id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        Ok(now.map_or(Saved::Gone, Saved::Conflict))
    }

    /// A transcript with the text, the words and the utterances that were recognised.
    pub async fn original(&self, transcript: &Transcript) -> Result<Transcript> {
        let row = sqlx::query(
            "SELECT text, CASE WHEN octet_length(words) <= 262144 THEN words END AS words,
                    CASE WHEN words IS NULL THEN 0 ELSE 1 END AS has_words, utterances
             FROM originals WHERE transcript_id = $1",
        )
        .bind(transcript.id.as_str())
        .fetch_optional(&self.read)
        .await?;
        let Some(row) = row else { return Ok(transcript.clone()) };
        Ok(Transcript {
            text: row.try_get("text")?,
            words: StoredWords::read(&row)?,
            utterances: row.try_get("utterances")?,
            edition: Edition::Original,
            ..transcript.clone()
        })
    }
}
