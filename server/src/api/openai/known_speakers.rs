//! The known speakers of one request: names, and a reference of each voice.

use std::io::Write as _;

use data_encoding::BASE64;
use tempfile::NamedTempFile;

use crate::api::form::Form;
use crate::api::speakers::{self, Clip, SpeakersState};
use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::speakers::checked_name;
use crate::storage::LocalFile;
use auricle_engine::KnownSpeaker;

/// The most people of a request.
const MAX_PEOPLE: usize = 4;

/// The most bytes of a form's fields with references: each ten seconds of stereo at 48 kHz, encoded.
pub const MAX_FORM_BYTES: usize = 12 << 20;

/// A person with a clip of the voice.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    name: String,
    clip: Vec<u8>,
}

/// The references of a form.
///
/// # Errors
/// 422 for names that do not fit the references, and for a reference that is no data URL.
pub fn references(form: &Form) -> Result<Vec<Reference>> {
    let names = form.texts("known_speaker_names");
    let urls = form.texts("known_speaker_references");
    if names.len() != urls.len() || names.len() > MAX_PEOPLE {
        return Err(ApiError::validation(format!(
            "Send up to {MAX_PEOPLE} `known_speaker_names` and as many `known_speaker_references`; there are {} and {}.",
            names.len(),
            urls.len()
        )));
    }
    let mut people: Vec<Reference> = Vec::new();
    for (name, url) in names.into_iter().zip(urls) {
        let name = checked_name(name)
            .map_err(|reason| ApiError::validation(format!("A name of `known_speaker_names` {reason}.")))?;
        if people.iter().any(|other| other.name.to_lowercase() == name.to_lowercase()) {
            return Err(ApiError::validation(format!("`known_speaker_names` has {name:?} twice.")));
        }
        let encoded = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
        let clip = encoded.and_then(|(_, data)| BASE64.decode(data.as_bytes()).ok()).ok_or_else(|| {
            let message = format!(
                "The reference of {name:?} in `known_speaker_references` must be a data URL: data:audio/wav;base64,..."
            );
            ApiError::validation(message)
        })?;
        people.push(Reference { name: name.to_owned(), clip });
    }
    Ok(people)
}

/// The profiles of people for one job, encrypted.
///
/// # Errors
/// 422 for a reference that cannot be used, 429 and 503 where there is no room or no engine.
pub async fn sealed(state: &SpeakersState, account: &AccountId, people: Vec<Reference>) -> Result<String> {
    let engine = speakers::engine(state)?;
    let _place = state.places.try_take(account).ok_or_else(speakers::busy)?;
    let mut known = Vec::new();
    for Reference { name, clip } in people {
        let scratch = state.scratch.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut file = NamedTempFile::new_in(scratch)?;
            file.write_all(&clip)?;
            std::io::Result::Ok(LocalFile::Temporary(file))
        });
        let file = written.await.map_err(|panic| ApiError::internal(&panic))?;
        let file = file.map_err(|error| ApiError::internal(&error))?;
        let profile = speakers::heard(engine, file, Clip::Reference).await.map_err(|mut error| {
            error.message = format!("`known_speaker_references`, {name:?}: {}", error.message);
            error
        })?;
        known.push(KnownSpeaker { name, profile });
    }
    state.profiles.seal_for_a_job(account, &known).map_err(|error| ApiError::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_references_come_in_pairs() {
        let read = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            references(&Form { file: None, fields })
        };
        let (name, clip) = ("known_speaker_names[]", "known_speaker_references[]");
        let url = "data:audio/wav;base64,aGk=";
        let both =
            read(&[(name, " Ann "), (clip, url), (name, "Bob"), (clip, "data:audio/ogg;codecs=opus;base64,aGk=")]);
        let person = |name: &str| Reference { name: name.into(), clip: b"hi".into() };
        assert_eq!(both.unwrap(), [person("Ann"), person("Bob")]);
        assert_eq!(read(&[]).unwrap(), []);
        for wrong in [
            [(name, "Ann")].as_slice(),
            &[(clip, url)],
            &[(name, "Ann"), (name, "Bob"), (clip, url)],
            &[(name, "Ann"), (name, "ann"), (clip, url), (clip, url)],
            &[(name, "A\nnn"), (clip, url)],
            &[(name, "Ann"), (clip, "https://example.com/ann.wav")],
            &[(name, "Ann"), (clip, "data:audio/wav;base64,-")],
            &[(name, "Ann"), (clip, "data:audio/wav,hi")],
            &[
                (name, "a"),
                (name, "b"),
                (name, "c"),
                (name, "d"),
                (name, "e"),
                (clip, url),
                (clip, url),
                (clip, url),
                (clip, url),
                (clip, url),
            ],
        ] {
            assert!(read(wrong).is_err_and(|error| error.status == 422), "{wrong:?}");
        }
    }
}
