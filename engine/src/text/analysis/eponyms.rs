//! Terms that are called after somebody and tell of nobody: "the Doppler effect", "Murphy's law".

use super::Finding;
use super::label::Label;
use super::lists::FIRM;
use super::numbers::ordinal;
use super::reading::{Break, Reading};
use crate::text::word_list::words;

/// Words that make a term of the name before them.
const TERMS: &[&str] = words!(
    "effect principle theorem theorems lemma algorithm algorithms function functions equation equations matrix \
     matrices distribution transform polynomial polynomials integral operator constant conjecture hypothesis paradox \
     syndrome criterion inequality calculus automaton"
);

/// Words that make a term of a name with `'s` before them.
const OWNED_TERMS: &[&str] = words!(
    "law laws principle theorem theorems lemma algorithm equation equations constant conjecture paradox inequality \
     criterion razor maxim"
);

/// Words after "law" with which it is no rule: "Okafor's law firm".
const NO_RULES: [&str; 6] = ["firm", "firms", "school", "degree", "office", "practice"];

/// Takes the names out that a term bears.
pub fn drop(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    found.retain(|finding| finding.label != Label::PersonName || !is_term(reading, finding));
}

/// True if a term follows a name of one or two words. After an everyday given name none does: "Mary's theorem" is hers.
fn is_term(reading: &Reading<'_>, finding: &Finding) -> bool {
    let (first, end) = (&reading.tokens[finding.words.start], finding.words.end);
    let is_owned = reading.is_contracted(end - 1);
    let terms = if is_owned { OWNED_TERMS } else { TERMS };
    // "Ottersby's third law".
    let end = end + usize::from(is_owned && ordinal(reading.lower(end)).is_some());
    finding.words.len() <= 2
        && !first.is(FIRM)
        && reading.tokens[finding.words.end - 1].after == Break::None
        && terms.contains(&reading.lower(end))
        && !NO_RULES.contains(&reading.lower(end + 1))
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Turn};
    use super::*;

    #[test]
    fn a_term_is_not_the_person_that_it_is_called_after() {
        let is_named = |text: &str, length: usize| {
            let turns: Vec<Turn<'_>> = text.split(' ').map(|text| Turn { text, ends: false }).collect();
            let name =
                Finding { words: 1..1 + length, label: Label::PersonName, confidence: 0.9, source: Source::Tagger };
            let mut found = vec![name];
            drop(&Reading::new(&turns), &mut found);
            !found.is_empty()
        };
        assert!(!is_named("The Ottersby effect was small.", 1));
        assert!(!is_named("By Ottersby's law it fails.", 1));
        assert!(!is_named("By Ottersby's third law it fails.", 1));
        assert!(is_named("At Ottersby's third attempt it failed.", 1));
        assert!(!is_named("the ottersby vant equation holds", 2));
        assert!(is_named("At Ottersby's law firm it rained.", 1));
        assert!(is_named("With Ottersby, effect and cause differ.", 1));
        assert!(is_named("Is Mary's theorem right?", 1));
        assert!(is_named("Did Ottersby write it?", 1));
    }
}
