//! Links that show a transcript without a sign-in, one a transcript. The secret of a link is hashed.

use sqlx::Row as _;

use super::{Result, Store};
use crate::ids::{AccountId, TranscriptId};

impl Store {
    /// Gives a completed transcript of an account a link, in the place of the one that it had. False if there is no such transcript.
    pub async fn share_transcript(
        &self,
        account: &AccountId,
        transcript: &TranscriptId,
        secret_hash: &str,
        created_at: i64,
        expires_at: i64,
    ) -> Result<bool> {
        let made = sqlx::query(
            "INSERT INTO share_links (transcript_id, account_id, secret_hash, created_at, expires_at)
             SELECT id, account_id, $3, $4, $5 FROM transcripts
             WHERE id = $1 AND account_id = $2 AND status = 'completed'
             ON CONFLICT (transcript_id) DO UPDATE SET secret_hash = excluded.secret_hash,
                 created_at = excluded.created_at, expires_at = excluded.expires_at",
        )
        .bind(transcript.as_str())
        .bind(account.as_str())
        .bind(secret_hash)
        .bind(created_at)
        .bind(expires_at)
        .execute(&self.write)
        .await?;
        Ok(made.rows_affected() > 0)
    }

    /// Revokes the link of an account's transcript. False if there is none.
    pub async fn revoke_share_link(&self, account: &AccountId, transcript: &TranscriptId) -> Result<bool> {
        let done = sqlx::query("DELETE FROM share_links WHERE transcript_id = $1 AND account_id = $2")
            .bind(transcript.as_str())
            .bind(account.as_str())
            .execute(&self.write)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// The end of the link of a transcript, if it has one at this time.
    pub async fn share_link_end(&self, transcript: &TranscriptId, now: i64) -> Result<Option<i64>> {
        sqlx::query_scalar("SELECT expires_at FROM share_links WHERE transcript_id = $1 AND expires_at > $2")
            .bind(transcript.as_str())
            .bind(now)
            .fetch_optional(&self.read)
            .await
    }

    /// The transcript that a link shows at this time, with its account and the end of the link.
    pub async fn shared_transcript(
        &self,
        secret_hash: &str,
        now: i64,
    ) -> Result<Option<(AccountId, TranscriptId, i64)>> {
        let sql =
            "SELECT account_id, transcript_id, expires_at FROM share_links WHERE secret_hash = $1 AND expires_at > $2";
        let row = sqlx::query(sql).bind(secret_hash).bind(now).fetch_optional(&self.read).await?;
        let read = |row: sqlx::any::AnyRow| {
            let (account, transcript): (String, String) = (row.try_get("account_id")?, row.try_get("transcript_id")?);
            Ok((account.into(), transcript.into(), row.try_get("expires_at")?))
        };
        row.map(read).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Durability, NewTranscript};

    #[tokio::test]
    async fn a_link_ends_by_its_date_with_the_next_one_and_with_its_transcript() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let other = store.account_of("b@example.com", 100).await.unwrap().id;
        let new = NewTranscript::of_url(&account);
        store.create_transcript(&new, None).await.unwrap();
        let share = async |account: &AccountId, hash: &str| {
            store.share_transcript(account, &new.id, hash, 0, 1000).await.unwrap()
        };
        assert!(!share(&account, "one").await, "it is not completed");
        sqlx::query("UPDATE transcripts SET status = 'completed'").execute(&store.write).await.unwrap();
        assert!(!share(&other, "one").await && share(&account, "one").await);
        let shown = async |hash: &str, now: i64| store.shared_transcript(hash, now).await.unwrap().is_some();
        assert!(shown("one", 999).await && !shown("one", 1000).await && !shown("two", 0).await);
        assert!(share(&account, "two").await);
        assert!(shown("two", 0).await && !shown("one", 0).await);
        assert!(!store.revoke_share_link(&other, &new.id).await.unwrap());
        assert!(store.revoke_share_link(&account, &new.id).await.unwrap());
        assert!(!shown("two", 0).await && store.share_link_end(&new.id, 0).await.unwrap().is_none());
        assert!(share(&account, "three").await);
        assert_eq!(store.share_link_end(&new.id, 0).await.unwrap(), Some(1000));
        store.delete_transcript(&account, &new.id).await.unwrap();
        assert!(!shown("three", 0).await);
    }
}
