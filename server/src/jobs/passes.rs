//! The analysis that a job's options ask for.

use auricle_engine::analysis::summary::SummaryForm;
use auricle_engine::analysis::{Label, Passes, Redaction, Substitution};
use auricle_engine::audio::Cover;

use crate::store::JobOptions;

/// The passes of a job's options.
///
/// # Errors
/// The option that has an unknown value: a job must not leave out what was asked for.
pub fn passes(options: &JobOptions) -> Result<Passes, String> {
    let redaction = options.pii_redaction.then(|| {
        let label = |name: &String| Label::named(name).ok_or_else(|| format!("`pii_policies` has {name:?}"));
        let labels = options.pii_policies.as_ref().map(|names| names.iter().map(label).collect::<Result<_, _>>());
        let substitution = named("pii_substitution", &options.pii_substitution, Substitution::named)?;
        Ok::<_, String>(Redaction { labels: labels.transpose()?, substitution: substitution.unwrap_or_default() })
    });
    let summary = options.summarization.then(|| {
        named("summary_type", &options.summary_type, |name| name.parse::<SummaryForm>().ok())
            .map(Option::unwrap_or_default)
    });
    let mut passes = Passes::default();
    passes.redaction = redaction.transpose()?;
    passes.profanity_filter = options.profanity_filter;
    passes.entities = options.entity_detection;
    passes.sentiment = options.sentiment_analysis;
    passes.moderation = options.content_moderation;
    passes.chapters = options.auto_chapters;
    passes.summary = summary.transpose()?;
    Ok(passes)
}

/// How the audio of what is redacted is covered; none where it is not.
///
/// # Errors
/// As [`passes`].
pub fn cover(options: &JobOptions) -> Result<Option<Cover>, String> {
    named("redact_audio", &options.redact_audio, Cover::named)
}

/// The value that an option names.
fn named<T>(option: &str, name: &Option<String>, find: impl Fn(&str) -> Option<T>) -> Result<Option<T>, String> {
    let unknown = |name: &String| format!("`{option}` is {name:?}");
    name.as_ref().map(|name| find(name).ok_or_else(|| unknown(name))).transpose()
}

/// The options without vocabulary hints, which may name persons.
pub fn without_terms(options: &JobOptions) -> String {
    JobOptions { keyterms_prompt: None, ..options.clone() }.stored()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_is_an_error_and_never_less_redaction() {
        let options = JobOptions { pii_redaction: true, ..JobOptions::default() };
        assert!(passes(&options).unwrap().redaction.unwrap().labels.is_none(), "all labels");
        let name = || Some("of-another-version".to_owned());
        for options in [
            JobOptions { pii_policies: Some(vec!["EMAIL".into(), "OF_ANOTHER_VERSION".into()]), ..options.clone() },
            JobOptions { pii_substitution: name(), ..options.clone() },
            JobOptions { summarization: true, summary_type: name(), ..options.clone() },
        ] {
            passes(&options).unwrap_err();
        }
        cover(&JobOptions { redact_audio: name(), ..options }).unwrap_err();
    }
}
