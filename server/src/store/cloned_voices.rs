//! Voices that accounts have made of recordings.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Result, Store};
use crate::ids::{AccountId, VoiceId};

/// A voice as it is stored.
#[derive(Clone)]
pub struct StoredVoice {
    pub id: VoiceId,
    pub name: String,
    /// The model that speaks with it.
    pub model: String,
    pub language: String,
    /// The encrypted voice.
    pub sealed: String,
    pub created_at: i64,
}

/// Why a voice cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoiceRefusal {
    /// The account has a voice of this name.
    NameTaken,
    /// The account has as many voices as it may have.
    Full,
}

/// Names that differ in case alone are one.
fn name_key(name: &str) -> String {
    name.to_lowercase()
}

fn voice(row: &AnyRow) -> Result<StoredVoice> {
    Ok(StoredVoice {
        id: row.try_get::<String, _>("id")?.into(),
        name: row.try_get("name")?,
        model: row.try_get("model")?,
        language: row.try_get("language")?,
        sealed: row.try_get("sealed")?,
        created_at: row.try_get("created_at")?,
    })
}

impl Store {
    /// Why an account that may have `most` voices cannot add one of this name; none if it can.
    pub async fn voice_refusal(&self, account: &AccountId, name: &str, most: usize) -> Result<Option<VoiceRefusal>> {
        let voices = self.cloned_voices(account).await?;
        let is_taken = voices.iter().any(|voice| name_key(&voice.name) == name_key(name));
        Ok(match is_taken {
            true => Some(VoiceRefusal::NameTaken),
            false => (voices.len() >= most).then_some(VoiceRefusal::Full),
        })
    }

    /// Adds a voice. False if its name was taken meanwhile.
    pub async fn create_cloned_voice(&self, account: &AccountId, new: &StoredVoice) -> Result<bool> {
        let done = sqlx::query(
            "INSERT INTO cloned_voices (id, account_id, name, name_key, model, language, sealed, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (account_id, name_key) DO NOTHING",
        )
        .bind(new.id.as_str())
        .bind(account.as_str())
        .bind(&new.name)
        .bind(name_key(&new.name))
        .bind(&new.model)
        .bind(&new.language)
        .bind(&new.sealed)
        .bind(new.created_at)
        .execute(&self.write)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// A voice of an account.
    pub async fn cloned_voice(&self, account: &AccountId, id: &VoiceId) -> Result<Option<StoredVoice>> {
        let row = sqlx::query("SELECT * FROM cloned_voices WHERE account_id = $1 AND id = $2")
            .bind(account.as_str())
            .bind(id.as_str())
            .fetch_optional(&self.read)
            .await?;
        row.as_ref().map(voice).transpose()
    }

    /// The voices of an account, the first first.
    pub async fn cloned_voices(&self, account: &AccountId) -> Result<Vec<StoredVoice>> {
        let rows = sqlx::query("SELECT * FROM cloned_voices WHERE account_id = $1 ORDER BY created_at, id")
            .bind(account.as_str())
            .fetch_all(&self.read)
            .await?;
        rows.iter().map(voice).collect()
    }

    /// Deletes a voice. False if the account has none of this id.
    pub async fn delete_cloned_voice(&self, account: &AccountId, id: &VoiceId) -> Result<bool> {
        let done = sqlx::query("DELETE FROM cloned_voices WHERE id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .execute(&self.write)
            .await?;
        Ok(done.rows_affected() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::store::Durability;

    fn named(name: &str) -> StoredVoice {
        StoredVoice {
            id: VoiceId::new(),
            name: name.into(),
            model: "m".into(),
            language: "de".into(),
            sealed: "c2VhbGVk".into(),
            created_at: clock::now_ms(),
        }
    }

    #[tokio::test]
    async fn voices_are_the_accounts_own_and_go_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let other = store.account_of("b@example.com", 100).await.unwrap().id;
        let ada = named("Ada");
        assert!(store.create_cloned_voice(&account, &ada).await.unwrap());
        assert!(!store.create_cloned_voice(&account, &named("ADA")).await.unwrap(), "the name is taken");
        assert!(store.create_cloned_voice(&other, &named("Ada")).await.unwrap());
        let refusal = async |name, most| store.voice_refusal(&account, name, most).await.unwrap();
        assert_eq!(refusal("aDa", 9).await, Some(VoiceRefusal::NameTaken));
        assert_eq!((refusal("Eve", 1).await, refusal("Eve", 2).await), (Some(VoiceRefusal::Full), None));
        assert!(store.cloned_voice(&other, &ada.id).await.unwrap().is_none());
        assert!(!store.delete_cloned_voice(&other, &ada.id).await.unwrap());
        assert!(store.delete_cloned_voice(&account, &ada.id).await.unwrap());
        assert!(!store.delete_cloned_voice(&account, &ada.id).await.unwrap());
        assert!(store.create_cloned_voice(&account, &ada).await.unwrap());
        sqlx::query("DELETE FROM accounts WHERE id = $1").bind(account.as_str()).execute(&store.write).await.unwrap();
        let left: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM cloned_voices").fetch_one(&store.read).await.unwrap();
        assert_eq!(left, 1);
    }
}
