//! The people whom an account's transcripts may name. What identifies a voice is encrypted before it is stored, and never logged.

use std::io;
use std::sync::Arc;

use auricle_engine::{Catalog, KnownSpeaker, VoiceProfile, speaker_embedding};
use data_encoding::HEXLOWER;
use serde_json::json;

use crate::clock;
use crate::ids::{AccountId, SpeakerId, random};
use crate::sealing::{SealError, Sealer};
use crate::store::{self, Speaker, Store};
use crate::visible;

/// The most people of an account.
pub const MAX_SPEAKERS: i64 = 1000;

/// The longest name, in characters.
pub const MAX_NAME_CHARS: usize = 100;

/// The name of the secret that all nodes on a database share.
const SERVICE_SECRET: &str = "url-signing";

/// The secret of the service, which signs URLs and tokens. Makes one for a new database.
///
/// # Errors
/// If it cannot be read.
pub async fn service_secret(store: &Store) -> store::Result<String> {
    store.secret(SERVICE_SECRET, &HEXLOWER.encode(&random::<32>())).await
}

/// Reads and writes the profiles of voices.
#[derive(Clone)]
pub struct Profiles {
    store: Store,
    catalog: Arc<Catalog>,
    sealer: Arc<Sealer>,
}

impl Profiles {
    /// `key` is the secret that profiles are encrypted with.
    pub fn new(store: Store, catalog: Arc<Catalog>, key: &str) -> Self {
        Self { store, catalog, sealer: Arc::new(Sealer::new(key, "voice profiles")) }
    }

    /// A profile as it is stored, under an id of its own.
    ///
    /// # Errors
    /// If it cannot be encrypted.
    pub fn speaker(&self, account: &AccountId, name: &str, profile: &VoiceProfile) -> Result<Speaker, SealError> {
        let id = SpeakerId::new();
        let bytes: Vec<u8> = profile.direction.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(Speaker {
            name: name.to_owned(),
            model: profile.model.clone(),
            speech_ms: (profile.speech_sec * 1e3).round() as i64,
            sealed: self.sealer.seal(&place(account, &id, &profile.model), &bytes)?,
            created_at: clock::now_ms(),
            id,
        })
    }

    /// People whom one job may name, encrypted for its options.
    ///
    /// # Errors
    /// If they cannot be encrypted.
    pub fn seal_for_a_job(&self, account: &AccountId, known: &[KnownSpeaker]) -> Result<String, SealError> {
        let parts = |known: &KnownSpeaker| {
            let VoiceProfile { model, direction, speech_sec, .. } = known.profile.clone();
            (known.name.clone(), model, direction, speech_sec)
        };
        let known: Vec<_> = known.iter().map(parts).collect();
        self.sealer.seal(&place_of_jobs(account), json!(known).to_string().as_bytes())
    }

    /// Decrypts what [`Profiles::seal_for_a_job`] made. None with another key.
    pub fn open_for_a_job(&self, account: &AccountId, sealed: &str) -> Option<Vec<KnownSpeaker>> {
        let bytes = self.sealer.open(&place_of_jobs(account), sealed)?;
        let known: Vec<(String, String, Vec<f32>, f64)> = serde_json::from_slice(&bytes).ok()?;
        let person = |(name, model, direction, speech_sec): (String, String, Vec<f32>, f64)| KnownSpeaker {
            name,
            profile: VoiceProfile::new(model, direction, speech_sec),
        };
        Some(known.into_iter().map(person).collect())
    }

    /// The fingerprint of the embedding whose profiles can be used; none where the catalog names none.
    ///
    /// # Errors
    /// If the embedding cannot be read.
    pub async fn model(&self) -> io::Result<Option<String>> {
        let catalog = self.catalog.clone();
        let read = tokio::task::spawn_blocking(move || speaker_embedding(&catalog).map_err(io::Error::other));
        read.await.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    }

    /// The profile of a stored speaker. None if another embedding has made it, or another key has encrypted it.
    pub fn profile(&self, account: &AccountId, speaker: &Speaker, model: Option<&str>) -> Option<VoiceProfile> {
        (model? == speaker.model).then_some(())?;
        let bytes = self.sealer.open(&place(account, &speaker.id, &speaker.model), &speaker.sealed)?;
        let (values, _) = bytes.as_chunks::<4>();
        let direction = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
        Some(VoiceProfile::new(&speaker.model, direction, speaker.speech_ms as f64 / 1e3))
    }

    /// The people of an account whose profiles can be used.
    ///
    /// # Errors
    /// If the database or the embedding cannot be read.
    pub async fn known(&self, account: &AccountId) -> io::Result<Vec<KnownSpeaker>> {
        let speakers = self.store.all_speakers(account).await.map_err(io::Error::other)?;
        let model = self.model().await?;
        let known = |speaker: Speaker| {
            let profile = self.profile(account, &speaker, model.as_deref())?;
            Some(KnownSpeaker { name: speaker.name, profile })
        };
        Ok(speakers.into_iter().filter_map(known).collect())
    }
}

/// A profile can be read in its own row alone.
fn place(account: &AccountId, id: &SpeakerId, model: &str) -> String {
    format!("{account} {id} {model}")
}

fn place_of_jobs(account: &AccountId) -> String {
    format!("{account} jobs")
}

/// A name without space around it.
///
/// # Errors
/// The end of a sentence, for an empty or too long name, and for one with characters that readers do not see.
pub fn checked_name(name: &str) -> Result<&str, String> {
    let name = name.trim();
    if !(1..=MAX_NAME_CHARS).contains(&name.chars().count()) || name.contains('\n') {
        return Err(format!("must have 1 to {MAX_NAME_CHARS} characters on one line"));
    }
    visible::check(name).map(|()| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(checked_name("  Ada King "), Ok("Ada King"));
        let long = "x".repeat(MAX_NAME_CHARS);
        assert_eq!(checked_name(&long), Ok(long.as_str()));
        for wrong in ["", "  ", "Ada\nKing", "Ada\u{200b}", &(long.clone() + "x")] {
            assert!(checked_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
