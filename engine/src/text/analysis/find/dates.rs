//! Dates, dates of birth, the expiry of cards, and ages.

use std::ops::Range;

use super::super::cues::{self, Cue, Cued};
use super::super::label::Label;
use super::super::lists::MONTHS;
use super::super::numbers::{Code, number_at, ordinal, small_number};
use super::super::reading::{Break, Reading};
use super::super::{Finding, Source};
use crate::text::word_list::words;

/// A cue for a birth or an expiry reaches this number of words.
const REACH: usize = 10;

/// Finds dates and ages.
pub fn find(reading: &Reading<'_>, codes: &[Code], cues: &[Cued], found: &mut Vec<Finding>) {
    let mut dates: Vec<Range<usize>> = Vec::new();
    for at in 0..reading.tokens.len() {
        if dates.last().is_some_and(|date| at < date.end) {
            continue;
        }
        dates.extend(named_month(reading, at));
    }
    for code in codes {
        // "My birthday is 14/3": without a year it is a date only where a birth is spoken of.
        let is_birthday =
            || is_day_and_month(&code.written) && label_of(reading, cues, &code.words) == Label::DateOfBirth;
        if is_numeric_date(&code.written) || is_birthday() {
            dates.push(code.words.clone());
        }
    }
    for words in dates {
        let label = label_of(reading, cues, &words);
        found.push(Finding { words, label, confidence: 0.92, source: Source::Pattern });
    }
    birth_years(reading, cues, found);
    ages(reading, found);
}

fn label_of(reading: &Reading<'_>, cues: &[Cued], words: &Range<usize>) -> Label {
    let cue = cues::before(reading, cues, words.start, REACH, |cue| matches!(cue, Cue::Birth | Cue::Expiry));
    let later = cues::after(reading, cues, words.end, 5, |cue| cue == Cue::Birth);
    match cue.or(later).map(|cued| cued.cue) {
        Some(Cue::Birth) => Label::DateOfBirth,
        Some(Cue::Expiry) => Label::CreditCardExpiration,
        _ => Label::Date,
    }
}

/// A date with the name of its month: "March 3rd, 1985", "the third of March nineteen eighty five", "March 1985".
fn named_month(reading: &Reading<'_>, at: usize) -> Option<Range<usize>> {
    let token = reading.tokens.get(at)?;
    let is_month = MONTHS.contains(&token.lower.as_str());
    if !is_month || token.masked {
        return None;
    }
    let (mut start, mut end) = (at, at + 1);
    // The day before it.
    let of = usize::from(reading.before(at, 1) == "of");
    let day_ends = at - of.min(at);
    let day = |from: usize, length: usize| {
        number_at(reading, from).is_some_and(|(value, words)| words == length && (1..=31).contains(&value))
            && (from + length == at || of == 1)
            && reading.joined(from, at)
    };
    for length in [2, 1] {
        if day_ends >= length && day(day_ends - length, length) {
            start = day_ends - length;
            break;
        }
    }
    // The day after it.
    let mut has_day = start < at;
    if !has_day && reading.tokens[at].after < Break::Sentence {
        let the = usize::from(reading.lower(end) == "the");
        // "March thirteen nineteen ninety" begins like a year of the fourteenth century.
        let single = || small_number(reading.lower(end + the)).map(|value| (value, 1));
        let day = number_at(reading, end + the).filter(|(value, _)| (1..=31).contains(value) || is_year(*value));
        if let Some((value, length)) = day.or_else(single)
            && (1..=31).contains(&value)
        {
            // "March three nineteen eighty five" is a day and a year; "twenty one" is one day.
            end += the + length;
            has_day = true;
        } else if let Some((value, length)) = number_at(reading, end)
            && is_year(value)
        {
            end += length;
        }
    }
    // The year.
    if has_day && end < reading.tokens.len() && reading.tokens[end - 1].after < Break::Sentence {
        let of = usize::from(matches!(reading.lower(end), "of" | "in"));
        if let Some((value, length)) = number_at(reading, end + of)
            && (is_year(value) || (of == 0 && (20..100).contains(&value) && ordinal(reading.lower(end)).is_none()))
        {
            end += of + length;
        }
    }
    let ambiguous = matches!(
        token.lower.as_str(),
        "may" | "march" | "mar" | "jan" | "apr" | "jun" | "sep" | "dec" | "nov" | "oct" | "feb" | "aug" | "jul"
    );
    // A month alone is a date if it cannot be anything else.
    (end - start > 1 || (!ambiguous && (token.capital || !reading.cased))).then_some(start..end)
}

fn is_year(value: u32) -> bool {
    (1900..=2100).contains(&value)
}

/// "03/12/1985", "3.12.85", "1985-12-03"; as heard "oh three slash twelve slash eighty five".
fn is_numeric_date(written: &str) -> bool {
    let parts: Vec<&str> = written.split(['/', '-', '.']).collect();
    let [first, second, third] = parts.as_slice() else { return false };
    let number = |part: &str| (1..=4).contains(&part.len()).then(|| part.parse::<u32>().ok()).flatten();
    let (Some(a), Some(b), Some(c)) = (number(first), number(second), number(third)) else { return false };
    let small = |value: u32| (1..=31).contains(&value);
    let year_last = (is_year(c) && third.len() == 4) || third.len() == 2;
    (small(a) && small(b) && (a <= 12 || b <= 12) && year_last && first.len() <= 2 && second.len() <= 2)
        || (is_year(a) && (1..=12).contains(&b) && small(c))
}

/// "14/3", "3.14": a day and a month in either order.
fn is_day_and_month(written: &str) -> bool {
    let number = |part: &str| (1..=2).contains(&part.len()).then(|| part.parse::<u32>().ok()).flatten();
    let parts = written.split_once(['/', '.', '-']).and_then(|(first, second)| Some((number(first)?, number(second)?)));
    parts.is_some_and(|(a, b)| (1..=31).contains(&a) && (1..=31).contains(&b) && (a <= 12 || b <= 12))
}

/// "born in 1985".
fn birth_years(reading: &Reading<'_>, cues: &[Cued], found: &mut Vec<Finding>) {
    for cued in cues.iter().filter(|cued| cued.cue == Cue::Birth) {
        for at in cued.words.end..(cued.words.end + 5).min(reading.tokens.len()) {
            if let Some((value, length)) = number_at(reading, at)
                && is_year(value)
                && reading.joined(cued.words.end - 1, at)
            {
                found.push(Finding {
                    words: at..at + length,
                    label: Label::DateOfBirth,
                    confidence: 0.8,
                    source: Source::Pattern,
                });
                break;
            }
        }
    }
}

fn ages(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    let mut push = |words: Range<usize>| {
        found.push(Finding { words, label: Label::PersonAge, confidence: 0.88, source: Source::Pattern });
    };
    let mut at = 0;
    while at < reading.tokens.len() {
        let here = at;
        at += 1;
        // "42-year-old".
        let lower = reading.lower(here);
        if let Some(number) = lower.strip_suffix("-year-old").or_else(|| lower.strip_suffix("-years-old"))
            && (number.parse::<u32>().is_ok() || super::super::numbers::small_number(number).is_some())
        {
            push(here..here + 1);
            continue;
        }
        let Some((value, length)) = number_at(reading, here) else { continue };
        if !(1..=115).contains(&value) || ordinal(lower).is_some() {
            continue;
        }
        let end = here + length;
        at = end;
        let next = [reading.lower(end), reading.lower(end + 1), reading.lower(end + 2)];
        let old = match next {
            ["years" | "year", "old", _] => 2,
            ["year-old" | "years-old" | "yo" | "y.o" | "y/o", ..] => 1,
            ["years", "of", "age"] => 3,
            ["months", "old", _] => 2,
            _ => 0,
        };
        // Buildings and things have ages, too.
        let thing = matches!(reading.before(here, 1), "is" | "was")
            && words!("it building house car bridge tree church company wine laptop roof castle phone")
                .contains(&reading.before(here, 2))
            || words!("building house car bridge tree church whisky whiskey wine scotch oak castle company software")
                .contains(&reading.lower(end + old));
        if old > 0 {
            if !thing {
                push(here..end);
                at = end + old;
            }
            continue;
        }
        let before = [reading.before(here, 3), reading.before(here, 2), reading.before(here, 1)];
        let cued = match before {
            [_, "age" | "aged", "is" | "of" | "was"] | [_, _, "age" | "aged" | "turning"] => true,
            [_, "i" | "he" | "she" | "they", "turned"] => true,
            [_, "i'll" | "he'll" | "she'll" | "will" | "to", "turn"] => ends_clause(reading, end),
            [_, "turn" | "turns" | "turned", _] => false,
            [_, _, "turns" | "turned"] => person_before(reading, here - 1),
            [
                _,
                "mother" | "father" | "mom" | "mum" | "dad" | "son" | "daughter" | "wife" | "husband" | "brother"
                | "sister" | "grandmother" | "grandfather" | "patient" | "partner" | "client",
                "is",
            ] => ends_clause(reading, end),
            [_, "i" | "he" | "she", "am" | "is" | "was"] | [_, _, "i'm" | "he's" | "she's"] => {
                ends_clause(reading, end)
            }
            [_, _, "he" | "she"] => reading.tokens[here - 1].text.contains('\'') && ends_clause(reading, end),
            [
                "i" | "he" | "she",
                "am" | "is" | "will",
                "only" | "now" | "just" | "about" | "almost" | "be" | "nearly",
            ] => ends_clause(reading, end),
            _ => false,
        };
        if cued
            && value > 1
            && !matches!(
                next[0],
                "percent" | "minutes" | "miles" | "days" | "hours" | "weeks" | "feet" | "o'clock" | "am" | "pm"
            )
        {
            push(here..end);
        }
    }
}

fn ends_clause(reading: &Reading<'_>, end: usize) -> bool {
    reading.tokens[end - 1].after > Break::None
        || end >= reading.tokens.len()
        || matches!(reading.lower(end), "and" | "but" | "now" | "so" | "this" | "years" | "today" | "with" | "i")
}

fn person_before(reading: &Reading<'_>, at: usize) -> bool {
    let word = reading.before(at, 1);
    words!("i he she who son daughter brother sister mother father husband wife").contains(&word)
        || at.checked_sub(1).is_some_and(|at| reading.tokens[at].is(super::super::lists::GIVEN))
}
