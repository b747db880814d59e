//! People whom an account's transcripts may name.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::names::{self, NameRefusal};
use super::uploads::StaleUpload;
use super::{Result, Store, Tx};
use crate::ids::{AccountId, SpeakerId, UploadId};

/// A person with the encrypted profile of the voice.
#[derive(Clone)]
pub struct Speaker {
    pub id: SpeakerId,
    pub name: String,
    /// The embedding that made the profile.
    pub model: String,
    pub speech_ms: i64,
    /// The encrypted profile.
    pub sealed: String,
    pub created_at: i64,
}

fn speaker(row: &AnyRow) -> Result<Speaker> {
    Ok(Speaker {
        id: row.try_get::<String, _>("id")?.into(),
        name: row.try_get("name")?,
        model: row.try_get("model")?,
        speech_ms: row.try_get("speech_ms")?,
        sealed: row.try_get("sealed")?,
        created_at: row.try_get("created_at")?,
    })
}

/// The query of the columns that `speaker` reads. `$which` selects the rows.
macro_rules! select {
    ($which:literal) => {
        concat!("SELECT id, name, model, speech_ms, sealed, created_at FROM speakers WHERE account_id = $1 ", $which)
    };
}

impl Store {
    /// Why an account that may have `most` people cannot add one of this name; none if it can.
    pub async fn speaker_refusal(&self, account: &AccountId, name: &str, most: i64) -> Result<Option<NameRefusal>> {
        self.name_refusal(names::counts!("speakers"), account, name, most).await
    }

    /// Adds a person, and deletes the upload that the profile was made of unless a transcript uses it. False if the name was taken
    /// meanwhile.
    pub async fn create_speaker(&self, account: &AccountId, new: &Speaker, upload: Option<&UploadId>) -> Result<bool> {
        let mut tx = self.begin().await?;
        if !insert(&mut tx, account, new).await? {
            return Ok(false);
        }
        if let Some(upload) = upload {
            self.delete_if_stale(&mut tx, upload, StaleUpload::Unused).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// A person of an account.
    pub async fn speaker(&self, account: &AccountId, id: &SpeakerId) -> Result<Option<Speaker>> {
        let row = sqlx::query(select!("AND id = $2"))
            .bind(account.as_str())
            .bind(id.as_str())
            .fetch_optional(&self.read)
            .await?;
        row.as_ref().map(speaker).transpose()
    }

    /// A page of an account's people, newest first, and their total number.
    pub async fn speakers(&self, account: &AccountId, limit: i64, offset: i64) -> Result<(Vec<Speaker>, i64)> {
        let rows = sqlx::query(select!("ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3"))
            .bind(account.as_str())
            .bind(limit)
            .bind(offset)
            .fetch_all(&self.read)
            .await?;
        let total = sqlx::query_scalar("SELECT COUNT(*) FROM speakers WHERE account_id = $1")
            .bind(account.as_str())
            .fetch_one(&self.read)
            .await?;
        Ok((rows.iter().map(speaker).collect::<Result<_>>()?, total))
    }

    /// All people of an account, the first first.
    pub async fn all_speakers(&self, account: &AccountId) -> Result<Vec<Speaker>> {
        let rows = sqlx::query(select!("ORDER BY created_at, id")).bind(account.as_str()).fetch_all(&self.read).await?;
        rows.iter().map(speaker).collect()
    }

    /// Deletes a person. False if the account has none of this id.
    pub async fn delete_speaker(&self, account: &AccountId, id: &SpeakerId) -> Result<bool> {
        let done = sqlx::query("DELETE FROM speakers WHERE id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .execute(&self.write)
            .await?;
        Ok(done.rows_affected() > 0)
    }
}

async fn insert(tx: &mut Tx, account: &AccountId, new: &Speaker) -> Result<bool> {
    let done = sqlx::query(
        "INSERT INTO speakers (id, account_id, name, name_key, model, speech_ms, sealed, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (account_id, name_key) DO NOTHING",
    )
    .bind(new.id.as_str())
    .bind(account.as_str())
    .bind(&new.name)
    .bind(names::key(&new.name))
    .bind(&new.model)
    .bind(new.speech_ms)
    .bind(&new.sealed)
    .bind(new.created_at)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::store::{Durability, Upload, UploadStatus};

    fn person(name: &str) -> Speaker {
        Speaker {
            id: SpeakerId::new(),
            name: name.into(),
            model: "m".into(),
            speech_ms: 9000,
            sealed: "c2VhbGVk".into(),
            created_at: clock::now_ms(),
        }
    }

    #[tokio::test]
    async fn people_are_the_accounts_own_and_go_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let other = store.account_of("b@example.com", 100).await.unwrap().id;
        let (ada, bob) = (person("Ada"), person("Bob"));
        assert!(store.create_speaker(&account, &ada, None).await.unwrap());
        assert!(store.create_speaker(&account, &bob, None).await.unwrap());
        assert!(!store.create_speaker(&account, &person("ADA"), None).await.unwrap(), "the name is taken");
        assert!(store.create_speaker(&other, &person("Ada"), None).await.unwrap());
        let refusal = async |name, most| store.speaker_refusal(&account, name, most).await.unwrap();
        assert_eq!(refusal("aDa", 9).await, Some(NameRefusal::Taken));
        assert_eq!((refusal("Eve", 2).await, refusal("Eve", 3).await), (Some(NameRefusal::Full), None));
        let (page, total) = store.speakers(&account, 1, 0).await.unwrap();
        assert_eq!((page[0].name.as_str(), page.len(), total), ("Bob", 1, 2));
        assert!(store.speaker(&other, &ada.id).await.unwrap().is_none());
        assert!(!store.delete_speaker(&other, &ada.id).await.unwrap());
        assert!(store.delete_speaker(&account, &ada.id).await.unwrap());
        assert!(!store.delete_speaker(&account, &ada.id).await.unwrap());
        assert_eq!(store.all_speakers(&account).await.unwrap().len(), 1);
        sqlx::query("DELETE FROM accounts WHERE id = $1").bind(account.as_str()).execute(&store.write).await.unwrap();
        let left: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM speakers").fetch_one(&store.read).await.unwrap();
        assert_eq!(left, 1);
    }

    #[tokio::test]
    async fn the_clip_is_deleted_with_the_creation() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let upload = Upload {
            id: UploadId::new(),
            account: account.clone(),
            filename: "ada.wav".into(),
            content_type: "audio/wav".into(),
            declared_bytes: None,
            status: UploadStatus::Ready,
            expires_at: 0,
        };
        store.create_upload(&upload).await.unwrap();
        assert!(store.create_speaker(&account, &person("Ada"), Some(&upload.id)).await.unwrap());
        assert!(store.upload(&upload.id).await.unwrap().is_none());
        assert_eq!(store.orphaned_objects().await.unwrap(), [upload.object_key()]);
    }
}
