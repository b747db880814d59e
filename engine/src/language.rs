//! Language codes: `en`, `en-US` or `en_us`.

use std::collections::BTreeMap;

/// The primary subtag of a code, in lower case: `en` of `EN-us`.
pub fn primary_subtag(code: &str) -> String {
    code.split(['-', '_']).next().unwrap_or(code).to_lowercase()
}

/// The language of checkpoints for English alone.
pub(crate) const ENGLISH: &str = "en";

/// Finds a code among `known`, case and separators ignored: the code itself, or else the first with the same primary
/// subtag.
pub(crate) fn find<'a, T>(code: &str, known: &'a BTreeMap<String, T>) -> Option<&'a T> {
    let normal = |code: &str| code.replace('_', "-").to_lowercase();
    let code = normal(code);
    let same = known.iter().find(|(name, _)| normal(name) == code);
    same.or_else(|| known.iter().find(|(name, _)| primary_subtag(name) == primary_subtag(&code)))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_subtag_has_no_region_and_no_capitals() {
        for code in ["en", "EN", "en-US", "en_us"] {
            assert_eq!(primary_subtag(code), "en", "{code}");
        }
    }

    #[test]
    fn a_code_is_found_by_itself_and_then_by_its_primary_subtag() {
        let known =
            ["de-DE", "en-GB", "en-US"].into_iter().zip(0..).map(|(name, slot)| (name.to_owned(), slot)).collect();
        for (code, value) in [("en_us", 2), ("en", 1), ("en-AU", 1), ("DE", 0)] {
            assert_eq!(find(code, &known), Some(&value), "{code}");
        }
        assert_eq!(find("fr", &known), None);
    }
}
