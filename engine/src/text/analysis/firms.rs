//! Firms and institutions that bear the name of a person or a place: "Okafor Engineering", "the Valga Country Club".

use std::ops::Range;

use super::Finding;
use super::label::Label;
use super::lists::{FIRM, GIVEN};
use super::reading::{Break, Reading, is_clear_given};
use crate::text::word_list::{phrases, words};

/// Words that end the name of a firm, and that are hardly ever family names.
const KINDS: &[&str] = words!(
    "academy accountants advisers aerospace airlines airways analytics architects associates aviation bakery biotech \
     bistro boutique brewery broadband broadcasting builders capital catering chemicals church cinema clinic club \
     college communications company components construction consultants consulting corp corporation couriers dairy \
     dental design diagnostics digital diner distillery electric electrical electronics energy engineering enterprises \
     entertainment estates fashion finance financial fitness florists foods foundation freight funeral furniture \
     gallery garage gas gmbh graphics group gymnasium hardware haulage health healthcare holdings hospital hotel \
     hotels inc industries institute instruments insurance interiors international investments jewellers joinery \
     kitchens laboratories labs landscaping legal limited llc logistics ltd lodge machinery management manufacturing \
     marine marketing media mortgages motors museum mutual networks nurseries optics opticians orchestra packaging \
     partners pharma pharmaceuticals pharmacy physio pictures plastics plc plumbing press printing productions \
     properties publishing realty records recruitment removals resort restaurant robotics roofing salon savings \
     scaffolding security semiconductors services shipping software solar solutions staffing stadium storage store \
     stores studio studios supermarket supermarkets supplies surgery systems technologies telecom textiles theatre \
     theater tools trading transport travel trust tutoring university utilities ventures vineyards wealth wholesale \
     winery"
);

/// Takes out the names of persons and places to which a firm's kind belongs. After a given name that is no family name it may be chance.
pub fn drop(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    found.retain(|finding| {
        !matches!(finding.label, Label::PersonName | Label::Location)
            || !(is_firm(reading, finding) || is_partner(reading, &finding.words) || is_known(reading, &finding.words))
    });
}

/// Firms that are called after persons by their full names.
const FIRMS: &[&str] = phrases!(
    "morgan stanley, goldman sachs, wells fargo, harley davidson, jp morgan, charles schwab, ralph lauren, \
     calvin klein, tommy hilfiger, john deere, john lewis, estee lauder, louis vuitton, merrill lynch, \
     lehman brothers, hewlett packard, lockheed martin, philip morris, tim hortons, rolls royce, mercedes benz, \
     aston martin, johnnie walker, jack daniels, hugo boss, warner brothers"
);

/// True for a firm of the list, or a part of it.
fn is_known(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let at = |start: usize| FIRMS.iter().any(|firm| reading.starts(start, firm));
    let whole: Vec<&str> = words.clone().map(|at| reading.lower(at)).collect();
    let whole = whole.join(" ").replace('-', " ");
    reading.cased
        && words.len() <= 2
        && (FIRMS.contains(&whole.as_str())
            || words.len() == 1 && (at(words.start) || words.start > 0 && at(words.start - 1)))
}

/// True for a name beside "&" and another one: "Johnson & Johnson". Two given names are persons: "Tom & Maria".
fn is_partner(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let is_and = |at: usize| reading.tokens.get(at).is_some_and(|token| token.text == "&");
    let other = match words.start.checked_sub(1) {
        _ if is_and(words.end) => words.end + 1,
        Some(before) if before > 0 && is_and(before) => before - 1,
        _ => return false,
    };
    let last = reading.tokens.get(other.max(words.start));
    words.len() == 1
        && reading.cased
        && last.is_some_and(|last| {
            last.capital && !is_clear_given(last) || reading.lower(other) == reading.lower(words.start)
        })
}

/// True if the last word is the kind of a firm, or the word after it.
fn is_firm(reading: &Reading<'_>, finding: &Finding) -> bool {
    let end = finding.words.end;
    let is_kind = |at: usize| {
        reading.tokens.get(at).is_some_and(|token| token.capital && !token.first) && KINDS.contains(&reading.lower(at))
    };
    let first = &reading.tokens[finding.words.start];
    let is_person = finding.words.len() == 1 && first.is(FIRM | GIVEN);
    reading.cased
        && !is_person
        && !reading.is_contracted(end - 1)
        && (is_kind(end - 1) || reading.tokens[end - 1].after == Break::None && is_kind(end))
        // An address has numbers: "12 Mill Street, Hotel Garni".
        && !(finding.label == Label::Location && finding.words.len() > 3)
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Turn};
    use super::*;

    #[test]
    fn a_firm_is_not_the_person_that_it_is_called_after() {
        let is_kept = |text: &str, words: std::ops::Range<usize>| {
            let turns: Vec<Turn<'_>> = text.split(' ').map(|text| Turn { text, ends: false }).collect();
            let mut found = vec![Finding { words, label: Label::PersonName, confidence: 0.9, source: Source::Tagger }];
            drop(&Reading::new(&turns), &mut found);
            !found.is_empty()
        };
        assert!(!is_kept("We hired Ottersby Engineering today.", 2..3));
        assert!(!is_kept("We hired Ottersby Vant Consulting today.", 2..5));
        assert!(!is_kept("At the Ottersby Country Club. Yes.", 2..5));
        assert!(is_kept("We hired Ottersby for engineering today.", 2..3));
        assert!(is_kept("We asked Ottersby, Engineering will know.", 2..3));
        assert!(is_kept("I gave John Media Player today.", 2..3));
        assert!(is_kept("we hired ottersby engineering today", 2..3));
    }

    #[test]
    fn firms_of_partners_and_of_full_names_are_no_persons() {
        let named = |text: &str, words: std::ops::Range<usize>| {
            let turns: Vec<Turn<'_>> = text.split(' ').map(|text| Turn { text, ends: false }).collect();
            let mut found = vec![Finding { words, label: Label::PersonName, confidence: 0.9, source: Source::List }];
            drop(&Reading::new(&turns), &mut found);
            !found.is_empty()
        };
        assert!(!named("Now Johnson & Johnson rose.", 1..2));
        assert!(!named("Now Johnson & Johnson rose.", 3..4));
        assert!(!named("Now Ottersby & Vant rose.", 1..2));
        assert!(!named("Now Morgan Stanley rose.", 1..3));
        assert!(!named("The Rolls-Royce rose.", 1..2));
        assert!(named("Now Ottersby & Maria rose.", 1..2));
        assert!(named("Now Morgan Ottersby rose.", 1..3));
    }
}
