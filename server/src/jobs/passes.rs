//! The analysis that the options of a job or a live session ask for.

use auricle_engine::analysis::summary::SummaryForm;
use auricle_engine::analysis::{Label, Passes, Redaction, Substitution};
use auricle_engine::audio::Cover;

use crate::http::body::Fields;
use crate::http::response::{ApiError, Result as ApiResult};
use crate::store::JobOptions;

/// The most vocabulary hints, and the length of each.
const MAX_KEYTERMS: usize = 1000;
const MAX_KEYTERM_CHARS: usize = 100;

/// More policies than there are labels are a mistake; no label is longer.
const MAX_POLICIES: usize = 100;
const MAX_POLICY_CHARS: usize = 50;

/// Reads the options of a request that change the text itself: the words to expect, and those to hide.
///
/// # Errors
/// 422 for a wrong value.
pub fn text_options(fields: &mut Fields) -> ApiResult<JobOptions> {
    let options = JobOptions {
        pii_redaction: fields.flag("pii_redaction")?,
        pii_policies: policies(fields)?,
        pii_substitution: fields.string("pii_substitution")?,
        profanity_filter: fields.flag("profanity_filter")?,
        keyterms_prompt: fields.strings("keyterms_prompt", MAX_KEYTERMS, MAX_KEYTERM_CHARS)?,
        ..JobOptions::default()
    };
    match options.pii_substitution.as_deref().filter(|name| Substitution::named(name).is_none()) {
        Some(name) => {
            Err(ApiError::validation(format!("`pii_substitution` must be entity_name or hash, not {name:?}.")))
        }
        None => Ok(options),
    }
}

/// The labels that redaction hides, if the request names any.
fn policies(fields: &mut Fields) -> ApiResult<Option<Vec<String>>> {
    let Some(names) = fields.strings("pii_policies", MAX_POLICIES, MAX_POLICY_CHARS)? else { return Ok(None) };
    if names.is_empty() {
        return Err(ApiError::validation("`pii_policies` is empty: leave it out to hide all, or name some."));
    }
    let labels = names.iter().map(|name| {
        let label = Label::named(&name.to_uppercase()).map(|label| label.name().to_owned());
        label.ok_or_else(|| {
            let known: Vec<&str> = Label::ALL.iter().map(|label| label.name()).collect();
            ApiError::validation(format!("`pii_policies` has {name:?}; it may have {}.", known.join(", ")))
        })
    });
    labels.collect::<ApiResult<_>>().map(Some)
}

/// The passes that options ask for.
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

/// The options to keep at the end of a job, if they are not all: voices are not kept, and beside redaction no vocabulary hints, which may
/// name persons.
pub fn kept(options: &JobOptions) -> Option<String> {
    let keyterms_prompt = options.keyterms_prompt.clone().filter(|_| !options.pii_redaction);
    let kept = JobOptions { keyterms_prompt, known_speakers: None, ..options.clone() };
    (kept != *options).then(|| kept.stored())
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
