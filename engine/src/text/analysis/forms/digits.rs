//! Numbers whose digits identify by a check or by their groups, whatever numbers stand beside them.

use std::ops::Range;
use std::str::FromStr as _;
use std::sync::LazyLock;

use iban::Iban;
use regex::Regex;

use super::super::find::codes::{has_luhn_check, is_ssn};
use super::super::label::Label;

fn compiled(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static IBAN: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}"));
static GROUPS: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(r"\d+"));
static SSN: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(r"\d{3}-\n?\d{2}-\n?\d{4}"));
static INTERNATIONAL: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(r"\+\d(?:[ ./-]?[(]?\d[)]?){7,14}"));
static NATIONAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"(?:\b1[-. ])?(?:\(\d{3}\) ?-?|\d{3}[-.]\n?)\d{3}[-.]\n?\d{4}|0[1-9](?:(?: \d\d){4}|(?:\.\d\d){4}|(?:-\d\d){4})|[679]\d\d(?: \d\d){3}",
    )
});
static PERSONAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"\b(?:[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]|[A-Z]{6}\d\d[A-EHLMPR-T]\d\d[A-Z]\d{3}[A-Z]|[0-9XYZ]\d{7}-?[A-Z])\b",
    )
});

/// The expiry date behind a card number, and its security code.
static CARD_REST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"^[ \t]*[,;|]?[ \t]*((?:0[1-9]|1[0-2]) ?/ ?(?:20)?[2-9]\d)\b(?:[ \t]*[,;|]?[ \t]*(?:cvv:?[ \t]*)?(\d{3,4})\b)?",
    )
});

/// Shapes of card numbers, in lengths of groups.
const CARDS: [&[usize]; 7] = [&[16], &[15], &[14], &[19], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];

/// Finds numbers.
pub fn find(text: &str, mut claim: impl FnMut(Range<usize>, Label)) {
    for found in matches(&IBAN, text) {
        // Digits that follow are no part of it: the longest beginning that passes the check.
        let ends = (found.start + 15..=found.end).rev().filter(|end| is_right_end(text, *end));
        let compact = |end: usize| text[found.start..end].replace([' ', '-'], "");
        if let Some(end) = ends.into_iter().find(|end| Iban::from_str(&compact(*end)).is_ok()) {
            claim(found.start..end, Label::BankingInformation);
        }
    }
    cards(text, &mut claim);
    for found in matches(&SSN, text).filter(|found| is_alone(text, found)) {
        let digits: String = text[found.clone()].chars().filter(char::is_ascii_digit).collect();
        if is_ssn(&digits) {
            claim(found, Label::UsSocialSecurityNumber);
        }
    }
    for found in matches(&INTERNATIONAL, text).filter(|found| is_alone(text, found)) {
        claim(international(text, &found), Label::PhoneNumber);
    }
    for found in matches(&NATIONAL, text).filter(|found| is_alone(text, found)) {
        claim(found, Label::PhoneNumber);
    }
    for found in matches(&PERSONAL, text).filter(|found| is_personal(&text[found.clone()])) {
        claim(found, Label::AccountNumber);
    }
}

fn matches<'t>(regex: &'static LazyLock<Option<Regex>>, text: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
    regex.iter().flat_map(move |regex| regex.find_iter(text)).map(|found| found.range())
}

fn is_right_end(text: &str, end: usize) -> bool {
    text.is_char_boundary(end) && !text[end..].starts_with(|letter: char| letter.is_ascii_alphanumeric())
}

/// No digit touches the number, also none behind a hyphen, a dot or a slash of the number's own kind.
fn is_alone(text: &str, found: &Range<usize>) -> bool {
    let digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
    let mut before = text[..found.start].chars().rev();
    let mut after = text[found.end..].chars();
    let (last, first) = (before.next(), after.next());
    let joins = |mark: Option<char>| matches!(mark, Some('-' | '.'));
    let touches = digit(last) || digit(first) || first.is_some_and(char::is_alphabetic);
    let goes_on = joins(last) && digit(before.next()) || joins(first) && digit(after.next());
    !touches && !goes_on
}

/// Runs of groups with the shape and the check of a card number.
fn cards(text: &str, claim: &mut impl FnMut(Range<usize>, Label)) {
    let groups: Vec<Range<usize>> = matches(&GROUPS, text).collect();
    let mut at = 0;
    while at < groups.len() {
        let shape = CARDS.iter().find(|shape| {
            let run = groups.get(at..at + shape.len()).unwrap_or_default();
            let apart =
                run.windows(2).all(|pair| matches!(&text[pair[0].end..pair[1].start], " " | "-" | "\n" | "\u{a0}"));
            run.len() == shape.len()
                && apart
                && run.iter().zip(**shape).all(|(group, length)| group.len() == *length)
                && {
                    let digits: String = run.iter().map(|group| &text[group.clone()]).collect();
                    digits.starts_with(['2', '3', '4', '5', '6']) && has_luhn_check(&digits)
                }
        });
        match shape {
            Some(shape) => {
                let end = groups[at + shape.len() - 1].end;
                claim(groups[at].start..end, Label::CreditCardNumber);
                if let Some(rest) = CARD_REST.as_ref().and_then(|rest| rest.captures(&text[end..])) {
                    for (part, label) in [(1, Label::CreditCardExpiration), (2, Label::CreditCardCvv)] {
                        rest.get(part).into_iter().for_each(|part| claim(end + part.start()..end + part.end(), label));
                    }
                }
                at += shape.len();
            }
            None => at += 1,
        }
    }
}

/// A number with its country's code; a lone digit behind a whole number is another number.
fn international(text: &str, found: &Range<usize>) -> Range<usize> {
    let mut end = found.end;
    let digits = |end: usize| text[found.start..end].bytes().filter(u8::is_ascii_digit).count();
    let most = if text[found.start..].starts_with("+1") { 11 } else { 15 };
    while let Some(space) = text[found.start..end].rfind(' ') {
        let last = digits(end) - digits(found.start + space);
        if !(digits(end) > most || last == 1 && digits(end) > 9) {
            break;
        }
        end = found.start + space;
    }
    found.start..end
}

/// A national number of a person: of the United Kingdom, of Italy, or of Spain with its check letter.
fn is_personal(found: &str) -> bool {
    const LETTERS: &[u8] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let digits: String = found.chars().filter(char::is_ascii_digit).collect();
    match (digits.len(), found.as_bytes()) {
        (7 | 8, [first, ..]) if found.trim_end_matches(char::is_alphabetic).trim_end_matches('-').len() == 8 => {
            let lead = match first {
                b'X' => "0",
                b'Y' => "1",
                b'Z' => "2",
                _ => "",
            };
            let value: Option<usize> = format!("{lead}{digits}").parse().ok();
            value.is_some_and(|value| found.as_bytes().last() == Some(&LETTERS[value % 23]))
        }
        (7 | 8, _) => false,
        _ => true,
    }
}
