//! Voices that accounts have made of recordings.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::names::{self, NameRefusal};
use super::{Result, Store};
use crate::ids::{AccountId, VoiceId};

/// A stored voice, beside its encrypted latents: those of many are megabytes.
#[derive(Clone)]
pub struct StoredVoice {
    pub id: VoiceId,
    pub name: String,
    /// The model that speaks with it.
    pub model: String,
    pub language: String,
    pub created_at: i64,
}

fn voice(row: &AnyRow) -> Result<StoredVoice> {
    Ok(StoredVoice {
        id: row.try_get::<String, _>("id")?.into(),
        name: row.try_get("name")?,
        model: row.try_get("model")?,
        language: row.try_get("language")?,
        created_at: row.try_get("created_at")?,
    })
}

/// The query of the columns that `voice` reads, and others. `$which` selects the rows.
macro_rules! select {
    ($more:literal, $which:literal) => {
        concat!(
            "SELECT id, name, model, language, created_at",
            $more,
            " FROM cloned_voices WHERE account_id = $1 ",
            $which
        )
    };
}

impl Store {
    /// Why an account that may have `most` voices cannot add one of this name; none if it can.
    pub async fn voice_refusal(&self, account: &AccountId, name: &str, most: i64) -> Result<Option<NameRefusal>> {
        self.name_refusal(names::counts!("cloned_voices"), account, name, most).await
    }

    /// Adds a voice, of which `sealed` is encrypted. False if its name was taken meanwhile.
    pub async fn create_cloned_voice(&self, account: &AccountId, new: &StoredVoice, sealed: &str) -> Result<bool> {
        let done = sqlx::query(
            "INSERT INTO cloned_voices (id, account_id, name, name_key, model, language, sealed, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (account_id, name_key) DO NOTHING",
        )
        .bind(new.id.as_str())
        .bind(account.as_str())
        .bind(&new.name)
        .bind(names::key(&new.name))
        .bind(&new.model)
        .bind(&new.language)
        .bind(sealed)
        .bind(new.created_at)
        .execute(&self.write)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// A voice of an account, and what is encrypted of it.
    pub async fn cloned_voice(&self, account: &AccountId, id: &VoiceId) -> Result<Option<(StoredVoice, String)>> {
        let row = sqlx::query(select!(", sealed", "AND id = $2"))
            .bind(account.as_str())
            .bind(id.as_str())
            .fetch_optional(&self.read)
            .await?;
        row.as_ref().map(|row| Ok((voice(row)?, row.try_get("sealed")?))).transpose()
    }

    /// The voices of an account, the first first.
    pub async fn cloned_voices(&self, account: &AccountId) -> Result<Vec<StoredVoice>> {
        let sql = select!("", "ORDER BY created_at, id");
        let rows = sqlx::query(sql).bind(account.as_str()).fetch_all(&self.read).await?;
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
        assert!(store.create_cloned_voice(&account, &ada, "c2VhbGVk").await.unwrap());
        assert!(!store.create_cloned_voice(&account, &named("ADA"), "").await.unwrap(), "the name is taken");
        assert!(store.create_cloned_voice(&other, &named("Ada"), "").await.unwrap());
        let refusal = async |name, most| store.voice_refusal(&account, name, most).await.unwrap();
        assert_eq!(refusal("aDa", 9).await, Some(NameRefusal::Taken));
        assert_eq!((refusal("Eve", 1).await, refusal("Eve", 2).await), (Some(NameRefusal::Full), None));
        assert!(store.cloned_voice(&other, &ada.id).await.unwrap().is_none());
        assert_eq!(store.cloned_voice(&account, &ada.id).await.unwrap().unwrap().1, "c2VhbGVk");
        assert!(!store.delete_cloned_voice(&other, &ada.id).await.unwrap());
        assert!(store.delete_cloned_voice(&account, &ada.id).await.unwrap());
        assert!(!store.delete_cloned_voice(&account, &ada.id).await.unwrap());
        assert!(store.create_cloned_voice(&account, &ada, "c2VhbGVk").await.unwrap());
        sqlx::query("DELETE FROM accounts WHERE id = $1").bind(account.as_str()).execute(&store.write).await.unwrap();
        let left: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM cloned_voices").fetch_one(&store.read).await.unwrap();
        assert_eq!(left, 1);
    }
}
