//! Words without a topic: function words, and what fills speech.

use std::collections::HashSet;

/// The words without a topic in a language, by its primary subtag; empty for languages without a list.
pub(super) fn stop_words(language: &str) -> HashSet<&'static str> {
    let list = match language {
        "en" => include_str!("stop_words/en.txt"),
        "de" => include_str!("stop_words/de.txt"),
        "fr" => include_str!("stop_words/fr.txt"),
        "es" => include_str!("stop_words/es.txt"),
        "it" => include_str!("stop_words/it.txt"),
        "pt" => include_str!("stop_words/pt.txt"),
        "nl" => include_str!("stop_words/nl.txt"),
        _ => "",
    };
    list.split_whitespace().collect()
}
