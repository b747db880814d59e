//! Medical terms, for recognition that expects them.

use crate::language::primary_subtag;

const LISTS: [(&str, &str); 4] = [
    ("de", include_str!("de.txt")),
    ("en", include_str!("en.txt")),
    ("es", include_str!("es.txt")),
    ("fr", include_str!("fr.txt")),
];

/// True if there are terms in the language, `en` or `en_us` say.
#[must_use]
pub fn has_terms(language: &str) -> bool {
    terms(language).is_some()
}

/// The terms of medical mode for a language; none where it does not apply.
#[must_use]
pub fn terms(language: &str) -> Option<impl Iterator<Item = &'static str>> {
    let language = primary_subtag(language);
    LISTS.iter().find(|(code, _)| *code == language).map(|(_, list)| terms_of(list))
}

/// The terms of all languages, for speech whose language is not known.
pub fn all_terms() -> impl Iterator<Item = &'static str> {
    LISTS.iter().flat_map(|(_, list)| terms_of(list))
}

fn terms_of(list: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|term| !term.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn lists_have_drugs_and_conditions_once_each() {
        for (language, drug, condition) in [
            ("en", "lisinopril", "atrial fibrillation"),
            ("de-AT", "Lisinopril", "Vorhofflimmern"),
            ("ES", "lisinopril", "fibrilación auricular"),
            ("fr", "lisinopril", "fibrillation auriculaire"),
        ] {
            let all: Vec<&str> = terms(language).unwrap().collect();
            assert!(all.contains(&drug) && all.contains(&condition), "{language}");
            let different: HashSet<&&str> = all.iter().collect();
            assert_eq!(different.len(), all.len(), "{language}");
            assert!(all.iter().all(|term| term.chars().count() <= 50 && !term.contains('#')), "{language}");
        }
        assert!(!has_terms("pt") && has_terms("en_us"));
    }
}
