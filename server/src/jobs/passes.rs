//! The analysis that a job's options ask for.

use auricle_engine::analysis::summary::SummaryForm;
use auricle_engine::analysis::{Label, Passes, Redaction, Substitution};
use serde_json::Value;

/// The passes of a job's options.
pub fn passes(options: &Value) -> Passes {
    let is_on = |name: &str| options[name].as_bool().unwrap_or(false);
    let mut passes = Passes::default();
    if is_on("pii_redaction") {
        let labels = options["pii_policies"].as_array();
        passes.redaction = Some(Redaction {
            labels: labels.map(|labels| labels.iter().filter_map(Value::as_str).filter_map(Label::named).collect()),
            substitution: options["pii_substitution"].as_str().and_then(Substitution::named).unwrap_or_default(),
        });
    }
    passes.profanity_filter = is_on("profanity_filter");
    passes.entities = is_on("entity_detection");
    passes.sentiment = is_on("sentiment_analysis");
    passes.moderation = is_on("content_moderation");
    passes.chapters = is_on("auto_chapters");
    if is_on("summarization") {
        let form = options["summary_type"].as_str().and_then(|name| name.parse::<SummaryForm>().ok());
        passes.summary = Some(form.unwrap_or_default());
    }
    passes
}

/// The options without vocabulary hints, which may name persons.
pub fn without_terms(options: &Value) -> String {
    let mut options = options.clone();
    if let Some(fields) = options.as_object_mut() {
        fields.remove("keyterms_prompt");
    }
    options.to_string()
}
