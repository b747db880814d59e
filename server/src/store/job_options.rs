//! The options of a transcript beside its audio, model and language, as they are stored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The options; names and values are those of the API. What a request leaves out is not stored, and what is stored and not known is an
/// error: a job never ends without a part that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobOptions {
    #[serde(skip_serializing_if = "is_default")]
    pub speaker_labels: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub speakers_expected: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub identify_speakers: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub multichannel: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub auto_chapters: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub summarization: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub summary_type: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub pii_redaction: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub pii_policies: Option<Vec<String>>,
    #[serde(skip_serializing_if = "is_default")]
    pub pii_substitution: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub redact_audio: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub profanity_filter: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub entity_detection: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub sentiment_analysis: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub content_moderation: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub medical_mode: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub language_codes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "is_default")]
    pub keyterms_prompt: Option<Vec<String>>,
}

impl JobOptions {
    /// Reads stored options.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn read(stored: &str) -> std::result::Result<Self, String> {
        // Serde reads a struct from a list too.
        let fields: serde_json::Result<Map<String, Value>> = serde_json::from_str(stored);
        fields.and_then(|fields| Self::deserialize(Value::Object(fields))).map_err(|error| error.to_string())
    }

    /// The stored form.
    pub fn stored(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_read_are_an_error() {
        assert_eq!(JobOptions::read("{}"), Ok(JobOptions::default()));
        let earlier = r#"{"speaker_labels":true,"pii_policies":null,"multichannel":false,"language_codes":["en"]}"#;
        let options = JobOptions::read(earlier).unwrap();
        assert_eq!(options.stored(), r#"{"speaker_labels":true,"language_codes":["en"]}"#);
        for damaged in ["", r#"{"pii_redaction":tru"#, r#"{"pii_redaction":"yes"}"#, r#"{"hide_faces":true}"#, "[]"] {
            JobOptions::read(damaged).unwrap_err();
        }
    }
}
