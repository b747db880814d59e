//! Voices that accounts have made of recordings. A voice imitates a person: it is encrypted before it is stored, and never logged.

use std::sync::Arc;

use auricle_engine::{ClonedVoice, SpeakOptions};

use crate::clock;
use crate::ids::{AccountId, VoiceId};
use crate::sealing::{SealError, Sealer};
use crate::store::{self, Store, StoredVoice};

/// The most voices of an account.
pub const MAX_VOICES: i64 = 100;

/// Characters of the words in which a person has agreed.
const CONSENT_CHARS: std::ops::RangeInclusive<usize> = 10..=1000;

/// The words of a consent without space around them.
///
/// # Errors
/// The end of a sentence, for too few and too many.
pub fn checked_consent(words: &str) -> Result<&str, String> {
    let (words, chars) = (words.trim(), CONSENT_CHARS);
    match chars.contains(&words.chars().count()) {
        true => Ok(words),
        false => Err(format!("must have {} to {} characters", chars.start(), chars.end())),
    }
}

/// The beginning of their ids.
const ID: &str = "voice_";

/// Reads and writes the voices of accounts.
#[derive(Clone)]
pub struct ClonedVoices {
    store: Store,
    sealer: Arc<Sealer>,
    is_on: bool,
}

impl ClonedVoices {
    /// `key` is the secret that voices are encrypted with; voices are made and speak where `is_on`.
    pub fn new(store: Store, key: &str, is_on: bool) -> Self {
        Self { store, sealer: Arc::new(Sealer::new(key, "cloned voices")), is_on }
    }

    /// True where voices are made and speak.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// A voice as it is stored, under an id of its own, and what is encrypted of it.
    ///
    /// # Errors
    /// If it cannot be encrypted.
    pub fn stored(
        &self,
        account: &AccountId,
        name: &str,
        voice: &ClonedVoice,
    ) -> Result<(StoredVoice, String), SealError> {
        let id = VoiceId::new();
        let sealed = self.sealer.seal(&place(account, &id), &voice.to_file().map_err(|_| SealError)?)?;
        let stored = StoredVoice {
            name: name.to_owned(),
            model: voice.model.clone(),
            language: voice.language.clone(),
            created_at: clock::now_ms(),
            id,
        };
        Ok((stored, sealed))
    }

    /// A stored voice. None if another key has encrypted it.
    pub fn opened(&self, account: &AccountId, id: &VoiceId, sealed: &str) -> Option<ClonedVoice> {
        ClonedVoice::from_file(&self.sealer.open(&place(account, id), sealed)?)
    }

    /// The options with the account's voice, where they name one.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn chosen(&self, account: &AccountId, options: SpeakOptions) -> store::Result<SpeakOptions> {
        let Some(id) = options.voice.clone().filter(|voice| self.is_on && voice.starts_with(ID)) else {
            return Ok(options);
        };
        let stored = self.store.cloned_voice(account, &id.into()).await?;
        let found = stored.and_then(|(stored, sealed)| self.opened(account, &stored.id, &sealed));
        Ok(match found {
            Some(voice) => options.cloned(voice),
            None => options,
        })
    }

    /// The ids of an account's voices.
    pub async fn ids(&self, account: &AccountId) -> Vec<String> {
        let voices = match self.is_on {
            true => self.store.cloned_voices(account).await,
            false => Ok(Vec::new()),
        };
        match voices {
            Ok(voices) => voices.into_iter().map(|voice| voice.id.to_string()).collect(),
            Err(error) => {
                tracing::warn!(%error, "the account's own voices could not be read");
                Vec::new()
            }
        }
    }
}

/// A voice can be read in its own row alone.
fn place(account: &AccountId, id: &VoiceId) -> String {
    format!("{account} {id}")
}
