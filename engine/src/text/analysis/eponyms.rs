//! Terms that are called after somebody and tell of nobody: "the Doppler effect", "Murphy's law".

use std::ops::Range;

use super::label::Label;
use super::lists::{COMMON, FIRM, SURNAME};
use super::numbers::ordinal;
use super::reading::{Break, Reading, is_clear_given};
use super::{Finding, Source};
use crate::text::word_list::words;

/// Words that make a term of the name before them.
const TERMS: &[&str] = words!(
    "effect principle theorem theorems lemma algorithm algorithms function functions equation equations matrix \
     matrices distribution transform polynomial polynomials integral operator constant conjecture hypothesis paradox \
     calendar calendars chain chains diagram diagrams syndrome criterion inequality calculus automaton method methods \
     scale index cipher radiation telescope counter formula coefficient cycle salad sauce mustard dressing cheese burger"
);

/// Words that make a term of a name with `'s` before them.
const OWNED_TERMS: &[&str] = words!(
    "law laws principle theorem theorems lemma algorithm equation equations constant conjecture paradox inequality \
     criterion razor maxim"
);

/// Words with a capital that make the name of a place or a day of the name before them: "Victoria Station", "May Day".
const LANDMARKS: &[&str] = words!(
    "station falls day foundation award prize medal trophy cup memorial expedition bridge tower dam glacier canyon \
     island islands airport stadium cathedral palace castle line"
);

/// Words that make a family of the name before them: "the Okafor family".
const KIN: &[&str] = words!(
    "family household brothers sisters siblings twins couple wedding residence children kids boys girls house home"
);

/// Words for streets that are hardly ever names.
const STREETS: &[&str] = words!("street strasse road avenue boulevard platz");

/// Small words before a street.
const PARTICLES: &[&str] = words!("der die den");

/// Words with a capital that make a place or a storm of the name after them: "Mount Everest".
const BEFORE_LANDMARKS: &[&str] = words!("mount lake cape hurricane storm comet");

/// Words after "law" with which it is no rule: "Okafor's law firm".
const NO_RULES: [&str; 6] = ["firm", "firms", "school", "degree", "office", "practice"];

/// Takes the names out that a term bears.
pub fn drop(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    // "Angeles" in "Los Angeles".
    let is_place =
        |other: &&Finding| other.label == Label::Location && other.source == Source::List && other.words.len() > 1;
    let mut places: Vec<Range<usize>> = found.iter().filter(is_place).map(|place| place.words.clone()).collect();
    places.sort_unstable_by_key(|place| place.start);
    let is_within = |words: &Range<usize>| {
        let ended = places.partition_point(|place| place.end < words.end);
        places.get(ended).is_some_and(|place| place.len() > words.len() && place.start <= words.start)
    };
    found.retain(|finding| match finding.label {
        Label::PersonName if is_within(&finding.words) => false,
        Label::PersonName => {
            !is_term(reading, finding)
                && !is_landmark(reading, &finding.words)
                && !is_after_article(reading, &finding.words)
        }
        Label::Location => !is_landmark(reading, &finding.words),
        _ => true,
    });
}

/// True for a name with a capital behind an article, which is one of a thing: "the Nile", "a Zorblax salad". A full name is a person's
/// there, too: "the Maria Lopez case".
fn is_after_article(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let (first, last) = (&reading.tokens[words.start], &reading.tokens[words.end - 1]);
    let is_full = words.len() > 1 && is_clear_given(first) && last.is(SURNAME) && !last.is(COMMON);
    let is_family = KIN.contains(&reading.lower(words.end)) || last.lower.ends_with('s') && last.after != Break::None;
    reading.cased
        && first.capital
        && words.start > 0
        && reading.tokens[words.start - 1].after == Break::None
        && matches!(reading.before(words.start, 1), "the" | "a" | "an")
        && !is_full
        && !is_family
}

/// True if words or those beside them are the name of a landmark, a day or a storm. An address has numbers, and a given
/// name with a family name that means a day is a person: "Doris Day".
fn is_landmark(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let tokens = &reading.tokens;
    let (first, last) = (words.start, words.end - 1);
    let is_one_of = |at: usize, list: &[&str]| {
        tokens.get(at).is_some_and(|token| token.capital && !token.masked) && list.contains(&reading.lower(at))
    };
    let has_number =
        tokens[words.clone()].iter().any(|token| token.core().contains(|letter: char| letter.is_ascii_digit()));
    let is_given = words.len() > 1 && is_clear_given(&tokens[first]) && tokens[last].is(SURNAME);
    let ends = words.len() > 1 && is_one_of(last, LANDMARKS);
    let goes_on = tokens[last].after == Break::None && is_one_of(last + 1, LANDMARKS);
    let begins = is_one_of(first, BEFORE_LANDMARKS) && words.len() > 1
        || first > 0 && tokens[first - 1].after == Break::None && is_one_of(first - 1, BEFORE_LANDMARKS);
    // "Downing Street", of which a name ends with "Downing".
    let is_street = words.len() == 1
        && first > 0
        && tokens[first - 1].after == Break::None
        && (tokens[first - 1].capital || PARTICLES.contains(&reading.before(first, 1)))
        && STREETS.contains(&reading.lower(first));
    reading.cased && is_street
        || reading.cased && words.len() < 4 && !has_number && !is_given && (ends || goes_on || begins)
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
    use super::super::Turn;
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

    #[test]
    fn a_name_behind_an_article_is_one_of_a_thing() {
        let is_kept = |text: &str, words: Range<usize>| {
            let turns: Vec<Turn<'_>> = text.split(' ').map(|text| Turn { text, ends: false }).collect();
            let mut found = vec![Finding { words, label: Label::PersonName, confidence: 0.9, source: Source::Tagger }];
            drop(&Reading::new(&turns), &mut found);
            !found.is_empty()
        };
        assert!(!is_kept("The Ottersby is long.", 1..2));
        assert!(!is_kept("We saw the Ottersby Wall there.", 3..5));
        assert!(!is_kept("We had Ottersby salad there.", 2..3));
        assert!(is_kept("We met the Ottersby family there.", 3..4));
        assert!(is_kept("We read the Maria Lopez file there.", 3..5));
        assert!(is_kept("We saw Ottersby there.", 2..3));
        assert!(is_kept("we saw the ottersby there", 3..4), "no capitals");
    }

    #[test]
    fn landmarks_days_and_streets_are_no_persons() {
        let is_kept = |text: &str, words: Range<usize>, label: Label| {
            let turns: Vec<Turn<'_>> = text.split(' ').map(|text| Turn { text, ends: false }).collect();
            let mut found = vec![Finding { words, label, confidence: 0.9, source: Source::Tagger }];
            drop(&Reading::new(&turns), &mut found);
            !found.is_empty()
        };
        let person = Label::PersonName;
        assert!(!is_kept("The rally on May Day drew a crowd.", 3..5, person));
        assert!(!is_kept("Meet at Victoria Station at noon.", 2..4, Label::Location));
        assert!(!is_kept("We saw Victoria Falls there.", 2..3, person));
        assert!(!is_kept("We saw Mount Everest there.", 3..4, person));
        assert!(!is_kept("Then Downing Street declined.", 2..3, person));
        assert!(is_kept("Then Doris Day sang.", 1..3, person));
        assert!(is_kept("We met at 12 Station Road there.", 3..6, Label::Location));
        assert!(is_kept("We met Everest there.", 2..3, person));
    }
}
