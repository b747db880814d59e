//! Dates and times of day.

use regex::Captures;

use super::{Place, Rule, group, initialism, numbers};
use crate::text::word_list::words;

macro_rules! month {
    () => {
        "(?i:(January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec))"
    };
}

pub const MONTHS: &[&str] =
    words!("january february march april may june july august september october november december");

pub const RULES: &[Rule] = &[
    // "2024-03-05", "2024/3/5", with a time behind it
    Rule(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})\b(?:T(\d{2}):(\d{2})(?::\d{2}(?:\.\d+)?)?Z?)?", |found, _| {
        let date = month_first(number(found, 2)?, number(found, 3)?, Some(group(found, 1)))?;
        match number(found, 4) {
            Some(hour) => Some(format!("{date} , {}", clock(hour, number(found, 5)?, None, "")?)),
            None => Some(date),
        }
    }),
    // "3/5/2024", "25/12/24": the month is first unless it cannot be
    Rule(r"(\d{1,2})([/-])(\d{1,2})[/-](\d{4}|\d{2})\b", |found, _| {
        if group(found, 2) == "-" && group(found, 4).len() == 2 {
            return None;
        }
        let (first, second, year) = (number(found, 1)?, number(found, 3)?, Some(group(found, 4)));
        month_first(first, second, year).or_else(|| month_first(second, first, year))
    }),
    // "5.3.2024": the day is first
    Rule(r"(\d{1,2})\.(\d{1,2})\.(\d{4})\b", |found, place| {
        day_first(number(found, 1)?, number(found, 2)?, group(found, 3), place)
    }),
    // "March 5-7, 2024"
    Rule(
        concat!(
            month!(),
            r"\.? (\d{1,2})(?:st|nd|rd|th)?\s?[-\u{2013}]\s?(\d{1,2})(?:st|nd|rd|th)?\b(?:,? (\d{4})\b)?"
        ),
        |found, place| {
            let (first, last) = (number(found, 2)?, number(found, 3)?);
            let ends = place.after(found).starts_with([':', '/', '-']);
            ((1..=31).contains(&first) && first < last && last <= 31 && !ends).then_some(())?;
            let month = month(group(found, 1))?;
            let days = format!("{month} {} to {}", numbers::ordinal(first), numbers::ordinal(last));
            Some(format!("{days}{}", with_year(group(found, 4))))
        },
    ),
    // "March 5th, 2024"
    Rule(concat!(month!(), r"\.? (\d{1,2})(?:st|nd|rd|th)?\b(?:,? (\d{4})\b)?"), |found, place| {
        let day = number(found, 2)?;
        let goes_on = place.after(found).starts_with([':', '/', '%']) || followed_by_fraction(place.after(found));
        let plain = group(found, 3).is_empty() && group(found, 0).ends_with(|end: char| end.is_ascii_digit());
        ((1..=31).contains(&day) && !goes_on && !(plain && is_word(group(found, 1)))).then_some(())?;
        Some(format!("{} {}{}", month(group(found, 1))?, numbers::ordinal(day), with_year(group(found, 3))))
    }),
    // "Mar. 2024"
    Rule(concat!(month!(), r"\.?,? (\d{4})\b"), |found, _| {
        Some(format!("{} {}", month(group(found, 1))?, numbers::year(numbers::written_year(group(found, 2))?)))
    }),
    // "5 March 2024", "the 5th of March"
    Rule(concat!(r"(\d{1,2})(?:st|nd|rd|th)?(?: of)? ", month!(), r"\b\.?(?:,? (\d{4})\b)?"), |found, place| {
        (!group(found, 3).is_empty() || !is_word(group(found, 2))).then_some(())?;
        let at = MONTHS.iter().position(|name| Some(*name) == month(group(found, 2)))?;
        day_first(number(found, 1)?, at as u64 + 1, group(found, 3), place)
    }),
    // "GMT-5", "UTC+5:30"
    Rule(r"(GMT|UTC)\s?([+-]|\u{2013})\s?(\d{1,2})(?::?(\d{2}))?\b", |found, _| {
        let hours = number(found, 3).filter(|hours| *hours <= 14)?;
        let sign = if group(found, 2) == "+" { "plus" } else { "minus" };
        let minutes = number(found, 4).filter(|minutes| *minutes > 0).map(numbers::cardinal).unwrap_or_default();
        let zone = initialism(group(found, 1));
        Some(format!("{zone} {sign} {} {minutes}", numbers::cardinal(hours)))
    }),
    // "3:05 pm", "15:30", "10:15:30"
    Rule(r"(?i)(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s?(a\.m\.?|p\.m\.?|am\b|pm\b))?", |found, place| {
        let digits = |next: char| next.is_ascii_digit() || next == ':';
        (!place.after(found).starts_with(digits)).then_some(())?;
        clock(number(found, 1)?, number(found, 2)?, number(found, 3), group(found, 4))
    }),
    // "3 pm", "10 a.m."
    Rule(r"(?i)(\d{1,2})\s?(a\.m\.?|p\.m\.?|am\b|pm\b)", |found, _| {
        let hour = number(found, 1).filter(|hour| (1..=12).contains(hour))?;
        Some(format!("{} {}", numbers::cardinal(hour), half_of_day(group(found, 2))))
    }),
    // "1.59 p.m."
    Rule(r"(?i)(\d{1,2})\.(\d{2})\s?(a\.m\.?|p\.m\.?|am\b|pm\b)", |found, _| {
        let hour = number(found, 1).filter(|hour| (1..=12).contains(hour))?;
        clock(hour, number(found, 2)?, None, group(found, 3))
    }),
];

fn number(found: &Captures, at: usize) -> Option<u64> {
    group(found, at).parse().ok()
}

/// True for months in small letters that are words too: "march 5 miles", "5 may be".
fn is_word(month: &str) -> bool {
    ["may", "march", "mar", "dec"].contains(&month)
}

/// True for the name of a month in small letters, or its abbreviation.
pub fn is_month(lower: &str) -> bool {
    month(lower).is_some()
}

/// The name of a month that may be abbreviated.
fn month(written: &str) -> Option<&'static str> {
    let lower = written.to_ascii_lowercase();
    MONTHS.iter().copied().find(|name| name.starts_with(&lower) && lower.len() >= 3)
}

/// ", twenty twenty four", or nothing for an empty text.
fn with_year(year: &str) -> String {
    match year.parse() {
        Ok(value) if year.len() == 4 => format!(" , {}", numbers::year(value)),
        _ => String::new(),
    }
}

fn month_first(month: u64, day: u64, year: Option<&str>) -> Option<String> {
    let name = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    (1..=31).contains(&day).then_some(())?;
    let year = match year {
        Some(year) if year.len() == 4 => with_year(year),
        Some(year) => match year.parse::<u64>().ok()? {
            value if value < 10 => format!(" , oh {}", numbers::cardinal(value)),
            value => format!(" , {}", numbers::cardinal(value)),
        },
        None => String::new(),
    };
    Some(format!("{name} {}{year}", numbers::ordinal(day)))
}

fn day_first(day: u64, month: u64, year: &str, place: &Place) -> Option<String> {
    let name = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    (1..=31).contains(&day).then_some(())?;
    let article = if place.previous_lower() == "the" { "" } else { "the " };
    Some(format!("{article}{} of {name}{}", numbers::ordinal(day), with_year(year)))
}

/// "P M" of "pm" and "p.m."
fn half_of_day(written: &str) -> &'static str {
    if written.starts_with(['p', 'P']) { "P M" } else { "A M" }
}

/// A time of day.
fn clock(hour: u64, minute: u64, second: Option<u64>, half: &str) -> Option<String> {
    (hour <= 24 && minute < 60 && second.is_none_or(|second| second < 60)).then_some(())?;
    let hour_words = numbers::cardinal(hour);
    let mut said = match minute {
        0 if second.is_some() => format!("{hour_words} zero zero"),
        0 if !half.is_empty() => hour_words,
        0 if (1..=12).contains(&hour) => format!("{hour_words} o'clock"),
        0 => format!("{hour_words} hundred"),
        1..=9 => format!("{hour_words} oh {}", numbers::cardinal(minute)),
        _ => format!("{hour_words} {}", numbers::cardinal(minute)),
    };
    if let Some(second) = second {
        let plural = if second == 1 { "" } else { "s" };
        said = format!("{said} and {} second{plural}", numbers::cardinal(second));
    }
    if !half.is_empty() {
        said = format!("{said} {}", half_of_day(half));
    }
    Some(said)
}

fn followed_by_fraction(after: &str) -> bool {
    after.strip_prefix(['.', ',']).is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
}
