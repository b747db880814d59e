//! Names that people give to the speakers of a transcript on its page. The API knows their labels alone.

use std::collections::BTreeMap;

use sqlx::Row as _;

use super::{Result, Store};
use crate::ids::{AccountId, TranscriptId};

/// Names by label. A speaker without a name is not among them.
pub type SpeakerNames = BTreeMap<String, String>;

impl Store {
    /// The names of a transcript's speakers.
    pub async fn speaker_names(&self, transcript: &TranscriptId) -> Result<SpeakerNames> {
        let rows = sqlx::query("SELECT label, name FROM speaker_names WHERE transcript_id = $1")
            .bind(transcript.as_str())
            .fetch_all(&self.read)
            .await?;
        rows.iter().map(|row| Ok((row.try_get("label")?, row.try_get("name")?))).collect()
    }

    /// Names a speaker of an account's transcript; an empty name takes the name away. Nothing happens without the transcript.
    pub async fn name_speaker(
        &self,
        account: &AccountId,
        transcript: &TranscriptId,
        label: &str,
        name: &str,
    ) -> Result<()> {
        if name.is_empty() {
            let sql = "DELETE FROM speaker_names WHERE label = $3
                       AND transcript_id IN (SELECT id FROM transcripts WHERE id = $1 AND account_id = $2)";
            sqlx::query(sql).bind(transcript.as_str()).bind(account.as_str()).bind(label).execute(&self.write).await?;
            return Ok(());
        }
        sqlx::query(
            "INSERT INTO speaker_names (transcript_id, label, name)
             SELECT id, $3, $4 FROM transcripts WHERE id = $1 AND account_id = $2
             ON CONFLICT (transcript_id, label) DO UPDATE SET name = excluded.name",
        )
        .bind(transcript.as_str())
        .bind(account.as_str())
        .bind(label)
        .bind(name)
        .execute(&self.write)
        .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Durability, NewTranscript};

    #[tokio::test]
    async fn names_go_with_their_transcript_and_are_the_accounts_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let other = store.account_of("b@example.com", 100).await.unwrap().id;
        let new = NewTranscript::of_url(&account);
        store.create_transcript(&new, None).await.unwrap();
        for (label, name) in [("A", "Ada"), ("B", "Bob"), ("B", "Grace")] {
            store.name_speaker(&account, &new.id, label, name).await.unwrap();
        }
        for name in ["Eve", ""] {
            store.name_speaker(&other, &new.id, "A", name).await.unwrap();
        }
        let names = store.speaker_names(&new.id).await.unwrap();
        assert_eq!((names.len(), names["A"].as_str(), names["B"].as_str()), (2, "Ada", "Grace"));
        store.name_speaker(&account, &new.id, "A", "").await.unwrap();
        assert_eq!(store.speaker_names(&new.id).await.unwrap().len(), 1);
        assert!(store.delete_transcript(&account, &new.id).await.unwrap());
        assert!(store.speaker_names(&new.id).await.unwrap().is_empty());
        store.name_speaker(&account, &new.id, "A", "Ada").await.unwrap();
        assert!(store.speaker_names(&new.id).await.unwrap().is_empty(), "there is no such transcript any more");
    }
}
