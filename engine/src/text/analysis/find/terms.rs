//! Terms of the lists, as far as the words around them tell of a person: conditions, drugs, occupations, nationalities; and
//! amounts of money, organisations, events.

use std::ops::Range;

use super::super::label::Label;
use super::super::lists::{COMMON, COMPANY, GIVEN, Lists, PhraseKind};
use super::super::numbers::Code;
use super::super::reading::{Break, Reading};
use super::super::{Finding, Source};
use super::occupations;
use super::persons::{ROLES, any_before, is_owned, is_said_of_person, person_after, person_near};
use crate::text::word_list::{phrases, words};

/// The confidence of a term that tells of no person. Redaction leaves it alone.
const MENTIONED: f32 = 0.35;
/// Finds terms.
pub fn find(reading: &Reading<'_>, codes: &[Code], found: &mut Vec<Finding>) {
    let lists = Lists::get();
    let mut at = 0;
    while at < reading.tokens.len() {
        let token = &reading.tokens[at];
        if token.masked {
            at += 1;
            continue;
        }
        let mut next = at + 1;
        let phrase = lists.phrases(&token.lower).iter().find(|phrase| {
            matches!(phrase.kind, PhraseKind::Term(_))
                && phrase.rest.iter().enumerate().all(|(offset, word)| {
                    let there = reading.lower(at + 1 + offset);
                    (there == *word || there.strip_suffix('s') == Some(word))
                        && reading.tokens[at + offset].after == Break::None
                })
        });
        if let Some(phrase) = phrase
            && let PhraseKind::Term(label) = phrase.kind
        {
            let words = at..at + 1 + phrase.rest.len();
            next = words.end;
            // Some words are in several lists: "english" is a nationality and a language.
            let label =
                if label == Label::Nationality && is_language(reading, &words) { Label::Language } else { label };
            let confidence = term_confidence(reading, &words, label);
            found.push(Finding { words, label, confidence, source: Source::List });
        } else if token.flags & COMMON == 0 && is_drug_name(&token.lower) {
            let words = at..at + 1;
            let confidence = term_confidence(reading, &words, Label::Drug);
            found.push(Finding { words, label: Label::Drug, confidence, source: Source::Pattern });
        } else if token.flags & COMMON == 0 && is_condition_name(&token.lower) {
            let words = at..at + 1;
            let confidence = term_confidence(reading, &words, Label::MedicalCondition);
            found.push(Finding { words, label: Label::MedicalCondition, confidence, source: Source::Pattern });
        }
        at = next;
    }
    announced(reading, found);
    occupations::find(reading, found);
    money(reading, codes, found);
    organizations(reading, found);
    events(reading, found);
}

fn term_confidence(reading: &Reading<'_>, words: &Range<usize>, label: Label) -> f32 {
    let at = words.start;
    let next = reading.lower(words.end);
    let personal = match label {
        Label::Occupation => occupations::is_of_person(reading, words),
        Label::Nationality => {
            (is_said_of_person(reading, at, 3) && !is_noun_after(reading, words.end))
                || matches!(next, "citizen" | "citizens" | "national" | "nationals" | "passport" | "citizenship" | "nationality")
                    && (person_near(reading, at, 6) || person_after(reading, words.end, 6))
                || any_before(reading, at, 3, &["nationality", "citizenship"])
                // "my Scottish grandmother", "of Turkish descent".
                || is_owned(reading, at) && ROLES.contains(&next)
                || matches!(next, "descent" | "origin" | "heritage" | "ancestry" | "parents" | "roots" | "background" | "birth")
                    && person_near(reading, at, 8)
        }
        Label::Religion | Label::PoliticalAffiliation => {
            is_said_of_person(reading, at, 4)
                || any_before(
                    reading,
                    at,
                    3,
                    words!(
                        "practicing practising devout raised religion converted registered vote voted votes faith \
                         identify"
                    ),
                ) && person_near(reading, at, 7)
        }
        Label::MedicalCondition => {
            person_near(reading, at, 10)
                && any_before(
                    reading,
                    at,
                    7,
                    words!(
                        "have has had having got diagnosed suffer suffers suffering suffered history treated treatment \
                         living my his struggling struggled battling battled developed survivor symptoms diagnosis \
                         i've condition managing manage with of from for"
                    ),
                )
        }
        Label::Drug => {
            (person_near(reading, at, 10) || any_before(reading, at, 4, &["prescribed", "milligrams", "mg"]))
                && any_before(
                    reading,
                    at,
                    7,
                    words!(
                        "take takes taking took taken prescribed prescription prescribe on mg milligrams allergic \
                         allergy dose dosage medication using use uses started stopped my given gave need refill with"
                    ),
                )
        }
        Label::MedicalProcess => {
            person_near(reading, at, 10)
                && any_before(
                    reading,
                    at,
                    7,
                    words!(
                        "had have has having scheduled underwent undergo undergoing recovering needs need my his after \
                         for booked getting got results since a"
                    ),
                )
        }
        Label::Language => {
            return if any_before(
                reading,
                at,
                4,
                words!("speak speaks speaking spoken spoke fluent in language learn learning translate and"),
            ) {
                0.8
            } else {
                0.4
            };
        }
        _ => false,
    };
    if personal { 0.78 } else { MENTIONED }
}

/// A noun that the nationality describes follows: "is French wine".
fn is_noun_after(reading: &Reading<'_>, end: usize) -> bool {
    if reading.tokens[end - 1].after > Break::None {
        return false;
    }
    !matches!(
        reading.lower(end),
        "" | "and"
            | "but"
            | "by"
            | "so"
            | "or"
            | "not"
            | "now"
            | "though"
            | "too"
            | "i"
            | "he"
            | "she"
            | "with"
            | "from"
            | "citizen"
            | "national"
            | "originally"
            | "living"
            | "on"
            | "in"
    )
}

fn is_language(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    any_before(
        reading,
        words.start,
        3,
        &["speak", "speaks", "speaking", "fluent", "learn", "learning", "language", "translate", "spoke"],
    )
}

/// Endings of international nonproprietary names.
fn is_drug_name(lower: &str) -> bool {
    const ENDINGS: &[&str] = words!(
        "statin sartan prazole cillin mycin oxetine azepam azolam dipine gliptin gliflozin tidine triptan floxacin \
         cycline conazole zumab ximab mumab tinib setron glutide caine olol profen parin semide thiazide barbital \
         vudine"
    );
    lower.len() >= 7 && lower.is_ascii() && ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

fn is_condition_name(lower: &str) -> bool {
    const ENDINGS: &[&str] = &["itis", "emia", "aemia", "opathy", "oma", "algia", "phobia", "osis"];
    lower.len() >= 8 && lower.is_ascii() && ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

/// "my religion is ...", "diagnosed with ...": the value may be in no list.
fn announced(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    for at in 0..reading.tokens.len() {
        let (label, skip) = match [reading.lower(at), reading.lower(at + 1), reading.lower(at + 2)] {
            ["religion", "is", _] => (Label::Religion, 2),
            ["nationality", "is", _] => (Label::Nationality, 2),
            ["diagnosed", "with", _] => (Label::MedicalCondition, 2),
            _ => continue,
        };
        if !reading.joined(at, (at + skip).min(reading.tokens.len())) || !person_near(reading, at + 1, 8) {
            continue;
        }
        let start = at
            + skip
            + usize::from(
                label == Label::MedicalCondition
                    && matches!(reading.lower(at + skip), "a" | "an" | "severe" | "mild" | "early"),
            );
        if let Some(words) = occupations::value_at(reading, start) {
            found.push(Finding { words, label, confidence: 0.8, source: Source::Pattern });
        }
    }
}

fn money(reading: &Reading<'_>, codes: &[Code], found: &mut Vec<Finding>) {
    let mut push = |words: Range<usize>| {
        found.push(Finding { words, label: Label::MoneyAmount, confidence: 0.9, source: Source::Pattern });
    };
    for (at, token) in reading.tokens.iter().enumerate() {
        let core = token.core();
        if core.starts_with(['$', '€', '£']) && core.chars().any(|letter| letter.is_ascii_digit()) {
            let more = usize::from(matches!(reading.lower(at + 1), "million" | "billion" | "thousand"));
            push(at..at + 1 + more);
        }
    }
    const UNITS: &[&str] =
        words!("dollars dollar euros euro pounds bucks cents yen rupees francs pesos yuan pence quid");
    for code in codes.iter().filter(|code| code.letters == 0) {
        let scale =
            usize::from(matches!(reading.lower(code.words.end), "million" | "billion" | "thousand" | "hundred"));
        let unit = code.words.end + scale;
        if UNITS.contains(&reading.lower(unit)) && reading.tokens[unit - 1].after == Break::None {
            push(code.words.start..unit + 1);
        }
    }
}

fn organizations(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    const SUFFIXES: &[&str] = words!(
        "inc ltd llc corp corporation gmbh plc university hospital bank college institute foundation academy airlines \
         airways insurance partners holdings group association clinic pharmacy limited company ministry committee \
         council agency society"
    );
    for (at, token) in reading.tokens.iter().enumerate() {
        if token.masked {
            continue;
        }
        let capital = token.capital || !reading.cased;
        if token.is(COMPANY) && capital && !(token.is(GIVEN) && token.first) {
            found.push(Finding {
                words: at..at + 1,
                label: Label::Organization,
                confidence: 0.55,
                source: Source::List,
            });
        }
        if !SUFFIXES.contains(&token.lower.as_str()) || !token.capital || !reading.cased {
            continue;
        }
        let mut start = at;
        while start > 0 && at - start < 4 {
            let before = &reading.tokens[start - 1];
            let part = before.capital || (start < at && matches!(before.lower.as_str(), "of" | "and" | "&"));
            if before.masked || before.after > Break::None || !part || before.first && before.is(COMMON) {
                break;
            }
            start -= 1;
        }
        if start < at {
            found.push(Finding {
                words: start..at + 1,
                label: Label::Organization,
                confidence: 0.82,
                source: Source::Pattern,
            });
        }
    }
}

fn events(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    const EVENTS: &[&str] = phrases!(
        "world cup, super bowl, olympic games, olympics, world war two, world war ii, world war one, thanksgiving, \
         christmas, ramadan, hanukkah, diwali, black friday, hurricane katrina"
    );
    for at in 0..reading.tokens.len() {
        if let Some(event) = EVENTS.iter().find(|event| reading.starts(at, event)) {
            found.push(Finding {
                words: at..at + event.split(' ').count(),
                label: Label::Event,
                confidence: 0.7,
                source: Source::List,
            });
        }
    }
}
