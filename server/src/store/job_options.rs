//! The options of a transcript beside its audio, model and language, as they are stored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The options; names and values are those of the API. What a request leaves out is not stored, and what is stored and not known is an
/// error: a job never ends without a part that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobOptions {
    pub speaker_labels: bool,
    pub speakers_expected: Option<u64>,
    pub identify_speakers: bool,
    /// People whom this job alone may name, encrypted; erased at its end.
    pub known_speakers: Option<String>,
    pub multichannel: bool,
    pub auto_chapters: bool,
    pub summarization: bool,
    pub summary_type: Option<String>,
    pub pii_redaction: bool,
    pub pii_policies: Option<Vec<String>>,
    pub pii_substitution: Option<String>,
    pub redact_audio: Option<String>,
    pub profanity_filter: bool,
    pub entity_detection: bool,
    pub sentiment_analysis: bool,
    pub content_moderation: bool,
    pub medical_mode: bool,
    pub translate: bool,
    /// None is true.
    pub format_numbers: Option<bool>,
    pub language_codes: Option<Vec<String>>,
    pub keyterms_prompt: Option<Vec<String>>,
}

impl JobOptions {
    /// Reads stored options.
    ///
    /// # Errors
    /// The part that cannot be read.
    pub fn read(stored: &str) -> std::result::Result<Self, String> {
        // Serde reads a struct from a list too.
        let fields: serde_json::Result<Map<String, Value>> = serde_json::from_str(stored);
        fields.and_then(|fields| Self::deserialize(Value::Object(fields))).map_err(|error| error.to_string())
    }

    /// The stored form: [`JobOptions::fields`], so that an earlier program reads those that it knows.
    pub fn stored(&self) -> String {
        Value::Object(self.fields()).to_string()
    }

    /// The fields that are not as in a request without options.
    pub fn fields(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(self) else { return Map::new() };
        let without = serde_json::to_value(Self::default()).unwrap_or_default();
        fields.retain(|name, value| *value != without[name.as_str()]);
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_read_are_an_error() {
        assert_eq!(JobOptions::read("{}"), Ok(JobOptions::default()));
        let earlier = r#"{"speaker_labels":true,"pii_policies":null,"multichannel":false,"language_codes":["en"]}"#;
        let options = JobOptions::read(earlier).unwrap();
        let stored = |options: &JobOptions| serde_json::from_str::<Value>(&options.stored()).unwrap();
        assert_eq!(stored(&options), serde_json::json!({"speaker_labels": true, "language_codes": ["en"]}));
        assert_eq!(options.format_numbers, None);
        let words = JobOptions { format_numbers: Some(false), ..JobOptions::default() };
        assert_eq!(stored(&words), serde_json::json!({"format_numbers": false}));
        assert_eq!(JobOptions::read(&words.stored()), Ok(words));
        for damaged in ["", r#"{"pii_redaction":tru"#, r#"{"pii_redaction":"yes"}"#, r#"{"hide_faces":true}"#, "[]"] {
            JobOptions::read(damaged).unwrap_err();
        }
    }
}
