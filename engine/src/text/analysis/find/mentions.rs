//! Names beside names, and names that come again.

use std::collections::HashSet;
use std::ops::Range;

use super::super::label::Label;
use super::super::lists::{CALENDAR, COMMON, COMPANY, GIVEN, RARE, SURNAME, TOWN};
use super::super::mask::MIN_CONFIDENCE;
use super::super::reading::{Break, Reading, Token};
use super::super::{Finding, Source, titles};
use super::name_words::{Hit, Names, PARTICLES};

/// From this confidence on, parts of a name are looked for elsewhere.
const KNOWN: f32 = 0.8;

/// The confidence of a name for which another one beside it speaks.
const NEAR: f32 = 0.62;

/// Finds the words beside names that belong to them, the names in a row with them, and where parts of them come again.
pub(super) fn find(names: &Names<'_, '_>, tagged: &[Finding], hits: &mut Vec<Hit>) {
    let tagged = tagged.iter().filter(|finding| finding.label == Label::PersonName);
    let tagged = tagged.map(|finding| (finding.words.clone(), finding.confidence));
    let all = tagged.chain(hits.iter().map(|(words, confidence, _)| (words.clone(), *confidence)));
    let mut known: Vec<(Range<usize>, f32)> = all.filter(|(_, confidence)| *confidence >= MIN_CONFIDENCE).collect();
    let mut covered: HashSet<usize> = known.iter().flat_map(|(words, _)| words.clone()).collect();
    let mut at = 0;
    while at < known.len() {
        let words = known[at].0.clone();
        at += 1;
        for more in beside(names, &words, &covered) {
            covered.extend(more.clone());
            hits.push((more.clone(), NEAR, Source::Pattern));
            known.push((more, NEAR));
        }
    }
    again(names, &known, &covered, hits);
}

/// The words before, behind and in a row with a name: "Alho" makes a name of "Deniz" in "Deniz Alho", "Alho Deniz", "Alho and Deniz".
fn beside(names: &Names<'_, '_>, words: &Range<usize>, covered: &HashSet<usize>) -> Vec<Range<usize>> {
    let reading = names.reading;
    let mut found = Vec::new();
    let is_free =
        |at: usize| names.is_wordlike(at) && !names.is_stop(at) && !names.is_other_phrase(at) && !covered.contains(&at);
    let owns = |at: usize| reading.is_contracted(at);
    let end = words.end;
    if reading.tokens[end - 1].after == Break::None && !owns(end - 1) && is_free(end) && is_name(names, end) {
        found.push(end..end + 1);
    }
    if let Some(before) = words.start.checked_sub(1)
        && reading.tokens[before].after == Break::None
        && !owns(before)
        && !reading.tokens[before].first
        && !titles::is_title(reading.lower(before))
        && is_free(before)
        && is_name(names, before)
    {
        found.push(before..words.start);
    }
    let row = match reading.lower(end) {
        "and" | "or" if reading.joined(end - 1, end + 1) => end + 1,
        _ if reading.tokens[end - 1].after == Break::Clause && reading.cased => end,
        _ => return found,
    };
    // After a comma anything may follow: only a name of the lists goes on with the row.
    let is_listed = || reading.tokens[row].flags & (GIVEN | SURNAME | RARE) != 0;
    if is_free(row) && is_name(names, row) && (row > end || is_listed()) && !is_firm(names, row + 1) {
        found.push(row..row + 1);
    }
    found
}

/// Widens names to the small words and initials before them.
pub fn widen(reading: &Reading<'_>, found: &mut [Finding]) {
    for finding in found.iter_mut().filter(|finding| finding.label == Label::PersonName) {
        finding.words.start = prefix_of(reading, finding.words.start);
    }
}

/// The start of the small words and initials before a family name, where names have capitals: "van der Berg", "T. J.
/// Okereke". After an article such a word is a noun: "the den Smith built".
fn prefix_of(reading: &Reading<'_>, start: usize) -> usize {
    let is_small = |token: &Token<'_>| {
        !token.capital
            && PARTICLES.contains(&token.lower.as_str())
            && !["do", "o", "st"].contains(&token.lower.as_str())
    };
    let is_initial = |token: &Token<'_>| token.capital && token.lower.len() == 1 && token.text.ends_with('.');
    let is_part =
        |token: &Token<'_>| !token.masked && token.after == Break::None && (is_small(token) || is_initial(token));
    let parts = reading.tokens[..start].iter().rev().take_while(|token| is_part(token)).count();
    let is_noun = matches!(reading.before(start - parts, 1), "the" | "a" | "an" | "my" | "your" | "this" | "that");
    if reading.cased && reading.tokens[start].capital && !is_noun { start - parts } else { start }
}

/// A word that no dictionary has: with a capital where names have one, of a list where they have none.
fn is_name(names: &Names<'_, '_>, at: usize) -> bool {
    let reading = names.reading;
    let token: &Token<'_> = &reading.tokens[at];
    let listed = token.flags & (GIVEN | SURNAME | RARE) != 0;
    token.flags & (COMMON | COMPANY | CALENDAR | TOWN) == 0 && if reading.cased { token.capital } else { listed }
}

/// A word with a capital follows that makes the words a firm's: "Alho and Deniz Logistics".
fn is_firm(names: &Names<'_, '_>, at: usize) -> bool {
    let token = names.reading.tokens.get(at);
    names.reading.cased
        && token
            .is_some_and(|token| token.capital && token.is(COMMON) && names.reading.tokens[at - 1].after == Break::None)
}

/// Parts of names that were found with certainty, wherever they come again, also with the `s` of an owner that is heard without its mark.
fn again(names: &Names<'_, '_>, known: &[(Range<usize>, f32)], covered: &HashSet<usize>, hits: &mut Vec<Hit>) {
    let reading = names.reading;
    let parts = known.iter().filter(|(_, confidence)| *confidence >= KNOWN).flat_map(|(words, _)| words.clone());
    let known: HashSet<&str> = parts
        .map(|at| &reading.tokens[at])
        .filter(|token| token.lower.len() > 2 && token.flags & (COMMON | CALENDAR | COMPANY) == 0)
        .map(|token| token.lower.as_str())
        .collect();
    if known.is_empty() {
        return;
    }
    for (at, token) in reading.tokens.iter().enumerate() {
        let owner = token.lower.strip_suffix('s').filter(|_| !reading.cased && !token.is(COMMON));
        if !covered.contains(&at)
            && !token.masked
            && (known.contains(token.lower.as_str()) || owner.is_some_and(|owner| known.contains(owner)))
            && (token.capital || !reading.cased || !token.is(TOWN))
        {
            hits.push((at..at + 1, 0.7, Source::Pattern));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Redaction, redact_text};

    fn hidden(text: &str) -> String {
        redact_text(text, &Redaction::default()).0
    }

    #[test]
    fn small_words_and_initials_before_a_family_name_are_hidden_with_it() {
        for (text, expected) in [
            (
                "We met Ms. von Stauffen and Mr. bin Rashid there.",
                "We met Ms. [PERSON_NAME] and Mr. [PERSON_NAME] there.",
            ),
            ("Ask Maria de la Cruz or Inés de los Ríos now.", "Ask [PERSON_NAME] or [PERSON_NAME] now."),
            ("The bill of Charles d'Aubigny is late.", "The bill of [PERSON_NAME] is late."),
            ("Then Abdullah bin Faisal al-Mutairi signed.", "Then [PERSON_NAME] signed."),
            ("It is signed. Nom : Lecoq", "It is signed. Nom : [PERSON_NAME]"),
        ] {
            assert_eq!(hidden(text), expected);
        }
        for text in
            ["The bin is full and the van is late.", "From: Head Office", "We saw Los Angeles and San Francisco."]
        {
            assert_eq!(hidden(text), text);
        }
    }
}
