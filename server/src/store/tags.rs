//! Tags of transcripts.

use sqlx::Row as _;

use super::{Result, Store, Tx};
use crate::ids::{AccountId, TranscriptId};

/// Tags of a transcript.
pub const MAX_TAGS: usize = 20;

/// Different tags of an account that are listed.
const MAX_LISTED: i64 = 500;

/// The form in which tags are compared.
pub(super) fn key(tag: &str) -> String {
    tag.to_lowercase()
}

/// Tags as a query joins them. No tag has a comma.
pub(super) fn split(joined: Option<String>) -> Vec<String> {
    let mut tags: Vec<String> = joined.unwrap_or_default().split(',').map(str::to_owned).collect();
    tags.retain(|tag| !tag.is_empty());
    tags.sort_by_key(|tag| key(tag));
    tags
}

/// A change of the tags of several transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagChange {
    Add,
    Remove,
}

impl Store {
    /// The tags of a transcript, in order of the alphabet. None if the account has no such transcript.
    pub async fn tags(&self, account: &AccountId, id: &TranscriptId) -> Result<Option<Vec<String>>> {
        let sql = "SELECT (SELECT string_agg(g.tag, ',') FROM transcript_tags g WHERE g.transcript_id = transcripts.id) AS tags
                   FROM transcripts WHERE id = $1 AND account_id = $2";
        let tags: Option<Option<String>> =
            sqlx::query_scalar(sql).bind(id.as_str()).bind(account.as_str()).fetch_optional(&self.read).await?;
        Ok(tags.map(split))
    }

    /// Gives a transcript these tags and no others. False if the account has no such transcript.
    pub async fn set_tags(&self, account: &AccountId, id: &TranscriptId, tags: &[String]) -> Result<bool> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM transcript_tags WHERE transcript_id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .execute(&mut *tx)
            .await?;
        let known = sqlx::query("SELECT 1 AS one FROM transcripts WHERE id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        for tag in tags {
            add(&mut tx, account, id, tag).await?;
        }
        tx.commit().await?;
        Ok(known.is_some())
    }

    /// Adds a tag to transcripts, or removes it. Those that have the most tags already are left as they are. Returns how many were
    /// changed.
    pub async fn change_tag(
        &self,
        account: &AccountId,
        ids: &[TranscriptId],
        change: TagChange,
        tag: &str,
    ) -> Result<u64> {
        let (mut tx, mut changed) = (self.begin().await?, 0);
        for id in ids {
            changed += match change {
                TagChange::Add => add(&mut tx, account, id, tag).await?,
                TagChange::Remove => {
                    let sql =
                        "DELETE FROM transcript_tags WHERE transcript_id = $1 AND account_id = $2 AND tag_key = $3";
                    let query = sqlx::query(sql).bind(id.as_str()).bind(account.as_str()).bind(key(tag));
                    query.execute(&mut *tx).await?.rows_affected()
                }
            };
        }
        tx.commit().await?;
        Ok(changed)
    }

    /// The tags of an account, each with the number of its transcripts, in order of the alphabet.
    pub async fn account_tags(&self, account: &AccountId) -> Result<Vec<(String, i64)>> {
        let rows = sqlx::query(
            "SELECT MIN(tag) AS tag, COUNT(*) AS transcripts FROM transcript_tags WHERE account_id = $1
             GROUP BY tag_key ORDER BY tag_key LIMIT $2",
        )
        .bind(account.as_str())
        .bind(MAX_LISTED)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(|row| Ok((row.try_get("tag")?, row.try_get("transcripts")?))).collect()
    }
}

/// 1 if the transcript is the account's, lacks the tag and has a place for it.
async fn add(tx: &mut Tx, account: &AccountId, id: &TranscriptId, tag: &str) -> Result<u64> {
    let added = sqlx::query(
        "INSERT INTO transcript_tags (transcript_id, tag_key, tag, account_id)
         SELECT id, $3, $4, account_id FROM transcripts WHERE id = $1 AND account_id = $2
           AND (SELECT COUNT(*) FROM transcript_tags WHERE transcript_id = $1) < $5
         ON CONFLICT (transcript_id, tag_key) DO NOTHING",
    )
    .bind(id.as_str())
    .bind(account.as_str())
    .bind(key(tag))
    .bind(tag)
    .bind(MAX_TAGS as i64)
    .execute(&mut **tx)
    .await?;
    Ok(added.rows_affected())
}
