//! Spoken English numbers in writing: cardinals, ordinals, decimals, years, decades, times, amounts and codes.
//!
//! A run of number words is written in digits if it has one reading. "one twenty five" has several, so its words stay.

use std::ops::Range;

use super::Spoken;
use crate::text::number_words::{SCALES, TENS, ordinal, value};
use crate::text::word_list::words;

/// Smaller numbers that stand alone stay words.
const LEAST_IN_DIGITS: u64 = 10;

/// Smaller numbers have no commas, so that a year has none.
const LEAST_WITH_COMMAS: u64 = 10_000;

const MONTHS: &[&str] = words!("january february march april may june july august september october november december");

/// Nouns behind an ordinal, as in "fifty second floor". Before others "thirty second" is a length of time.
const COUNTED: &[&str] = words!(
    "street avenue floor birthday anniversary parallel amendment congress president division infantry regiment \
     psalm place edition"
);

/// Nouns behind a length of time, as in "thirty second delay".
const TIMED: &[&str] = words!(
    "delay timer clip spot rule video ad commercial window pause break timeout interval countdown recording sample \
     intervals clips spots ads"
);

/// Words before a year, also one before 1700: "in thirteen forty eight".
const BEFORE_YEARS: &[&str] = words!("in since until circa year during");

/// Words before a time of day.
const BEFORE_TIMES: &[&str] = words!("at by until till before after around");

/// Nouns that make the number before them a count and not a year or a time of day.
const COUNTS: &[&str] = words!(
    "percent dollars dollar cents cent people times degrees degree miles mile years year months month weeks week days day \
     hours hour minutes minute seconds second"
);

/// A longer row of digits stays in words.
const MOST_DIGITS: usize = 32;

/// A number in writing.
pub(super) struct Written {
    /// Places of its spoken words.
    pub words: Range<usize>,
    pub text: String,
}

/// A number read from spoken words.
struct Cardinal {
    value: u64,
    /// The end of its words.
    end: usize,
    /// The largest scale and the number before it, if nothing follows the scale.
    round: Option<(u64, u64)>,
}

/// The numbers of an utterance that have one reading, in order.
pub(super) fn numbers(spoken: &[Spoken<'_>]) -> Vec<Written> {
    let reader = Reader { spoken };
    let mut written: Vec<Written> = Vec::new();
    let mut at = 0;
    while at < spoken.len() {
        let Some(number) = reader.number(at) else {
            at = reader.run_end(at).max(at + 1);
            continue;
        };
        let start = number.words.start;
        at = number.words.end;
        if reader.shares_its_scale(start, at) {
            // "eleven or twelve hundred": the first number has the scale of the second.
            written.pop_if(|before| before.words.end + 1 == start);
            continue;
        }
        written.push(number);
    }
    written
}

struct Reader<'a> {
    spoken: &'a [Spoken<'a>],
}

impl Reader<'_> {
    /// The word at a place, if no punctuation or pause stands before it.
    fn next(&self, at: usize) -> &str {
        self.spoken.get(at).filter(|word| !word.apart).map_or("", |word| word.lower.as_str())
    }

    fn word(&self, at: usize) -> &str {
        self.spoken.get(at).map_or("", |word| word.lower.as_str())
    }

    fn before(&self, at: usize) -> &str {
        let attached = at > 0 && self.spoken.get(at).is_some_and(|word| !word.apart);
        if attached { self.word(at - 1) } else { "" }
    }

    fn is_number_word(&self, at: usize) -> bool {
        let word = self.word(at);
        value(word).or_else(|| ordinal(word)).is_some()
            || scale(word).is_some()
            || (zero(word) && (digit(self.next(at + 1)).is_some() || (at > 0 && self.is_small(at - 1))))
    }

    fn is_small(&self, at: usize) -> bool {
        value(self.word(at)).is_some()
    }

    /// The end of the number words from a place on.
    fn run_end(&self, at: usize) -> usize {
        let mut end = at;
        while end < self.spoken.len() && self.is_number_word(end) && (end == at || !self.spoken[end].apart) {
            end += 1;
        }
        end
    }

    /// The number that begins at a place, with its sign and its unit.
    fn number(&self, at: usize) -> Option<Written> {
        let is_sign = matches!(self.word(at), "minus" | "negative") && (at == 0 || !self.is_small(at - 1));
        if !is_sign || self.next(at + 1).is_empty() {
            return self.unsigned(at);
        }
        let number = self.unsigned(at + 1).or_else(|| self.before_degrees(at + 1))?;
        let has_digits = number.text.starts_with(|c: char| c.is_ascii_digit());
        has_digits.then(|| Written { words: at..number.words.end, text: format!("-{}", number.text) })
    }

    fn unsigned(&self, at: usize) -> Option<Written> {
        let word = self.word(at);
        let written = |end: usize, text: String| Some(Written { words: at..end, text });
        let with_article = word == "a" && matches!(self.next(at + 1), "hundred" | "thousand");
        if !with_article && !self.is_number_word(at) && !matches!(word, "double" | "triple") {
            return None;
        }
        if let Some((end, text)) = self.time(at).or_else(|| self.code(at)).or_else(|| self.year(at)) {
            return written(end, text);
        }
        if let Some((end, text)) = self.ordinal(at) {
            return written(end, text);
        }
        let cardinal = self.cardinal(at)?;
        if let Some((end, text)) = self.decimal(at, &cardinal) {
            let scale = self.next(end);
            let scaled = scale_of_millions(scale).is_some() || scale == "thousand";
            let (end, text) = if scaled { (end + 1, format!("{text} {scale}")) } else { (end, text) };
            let (end, text) = self.with_unit(end, text.clone()).unwrap_or((end, text));
            return written(end, text);
        }
        if self.continues(&cardinal, at) || self.next(cardinal.end) == "and" && self.next(cardinal.end + 1) == "a" {
            return None;
        }
        let text = match cardinal.round {
            Some((count, scale)) if scale >= 1_000_000 => format!("{} {}", grouped(count), self.word(cardinal.end - 1)),
            _ => grouped(cardinal.value),
        };
        if let Some((end, text)) = self.with_unit(cardinal.end, text.clone()) {
            return written(end, text);
        }
        let is_bare_scale = with_article && cardinal.end == at + 2;
        let is_clock =
            matches!(self.before(at), "past" | "to") && matches!(self.word(at.wrapping_sub(2)), "half" | "quarter");
        let is_odds = matches!(self.before(at), "in" | "of") && cardinal.value <= 100 && {
            let first = if self.before(at) == "of" && self.word(at.wrapping_sub(2)) == "out" { 3 } else { 2 };
            digit(self.word(at.wrapping_sub(first))).is_some()
        };
        if cardinal.value < LEAST_IN_DIGITS || is_bare_scale || is_clock || is_odds {
            return None;
        }
        written(cardinal.end, text)
    }

    /// "minus five degrees".
    fn before_degrees(&self, at: usize) -> Option<Written> {
        let cardinal = self.cardinal(at)?;
        let is_unit = matches!(self.next(cardinal.end), "degrees" | "degree");
        is_unit.then(|| Written { words: at..cardinal.end, text: grouped(cardinal.value) })
    }

    /// True if number words follow that are no part of the number, so that it has several readings. Numbers in a row that
    /// count up are apart.
    fn continues(&self, cardinal: &Cardinal, at: usize) -> bool {
        let counts = |next: &Cardinal, value: u64| next.value == value + 1;
        let follows = self.is_number_word(cardinal.end) && !self.spoken[cardinal.end].apart;
        let counts_up = follows && self.cardinal(cardinal.end).is_some_and(|next| counts(&next, cardinal.value));
        let counted = at > 0
            && !self.spoken[at].apart
            && self.is_number_word(at - 1)
            && !(0..at).rev().take(3).any(|from| {
                self.cardinal(from).is_some_and(|before| before.end == at && counts(cardinal, before.value))
            });
        (follows && !counts_up) || counted
    }

    /// 1 to 99.
    fn below_hundred(&self, at: usize) -> Option<(u64, usize)> {
        let first = value(self.word(at)).map(u64::from).filter(|value| *value > 0)?;
        Some(match digit(self.next(at + 1)) {
            Some(unit) if first >= 20 => (first + unit, at + 2),
            _ => (first, at + 1),
        })
    }

    /// A number with its scales, largest first. "a" stands for one.
    fn cardinal(&self, at: usize) -> Option<Cardinal> {
        let (mut total, mut last_scale, mut next) = (0_u64, u64::MAX, at);
        let mut round = None;
        loop {
            let from = if next > at && self.next(next) == "and" { next + 1 } else { next };
            if next > at && self.spoken.get(from).is_none_or(|word| word.apart) {
                break;
            }
            let (mut group, mut end) = match self.word(from) {
                "a" if next == at && scale(self.next(from + 1)).is_some() => (1, from + 1),
                "zero" if next == at => return Some(Cardinal { value: 0, end: at + 1, round: None }),
                _ => match self.below_hundred(from) {
                    Some(group) => group,
                    None => break,
                },
            };
            if self.next(end) == "hundred" {
                group *= 100;
                end += 1;
                let inner = if self.next(end) == "and" { end + 1 } else { end };
                let rest = self.spoken.get(inner).filter(|word| !word.apart).and_then(|_| self.below_hundred(inner));
                if let Some((rest, rest_end)) = rest {
                    group += rest;
                    end = rest_end;
                }
            }
            let scale = scale(self.next(end)).filter(|scale| *scale >= 1_000);
            let scale_end = if scale.is_some() { end + 1 } else { end };
            let scale = scale.unwrap_or(1);
            // Scales fall, and "and" stands only behind one.
            if scale >= last_scale || (next > at && group >= last_scale) {
                break;
            }
            let sum = group.checked_mul(scale).and_then(|part| total.checked_add(part))?;
            round = (next == at && scale > 1).then_some((group, scale));
            (total, last_scale, next) = (sum, scale, scale_end);
            if scale == 1 {
                break;
            }
        }
        (next > at).then_some(Cardinal { value: total, end: next, round })
    }

    /// "seven point five", "two point one point three".
    fn decimal(&self, at: usize, whole: &Cardinal) -> Option<(usize, String)> {
        let mut text = if whole.round.is_some_and(|(_, scale)| scale >= 1_000_000) {
            return None;
        } else {
            whole.value.to_string()
        };
        let mut end = whole.end;
        if at > 0 && !self.spoken[at].apart && self.is_number_word(at - 1) {
            return None;
        }
        while self.next(end) == "point" {
            let (digits, after) = self.digits(end + 1);
            let (digits, after) = match self.below_hundred(end + 1) {
                Some((value, after)) if digits.is_empty() && !self.next(end + 1).is_empty() => {
                    (value.to_string(), after)
                }
                _ => (digits, after),
            };
            if digits.is_empty() {
                break;
            }
            text = format!("{text}.{digits}");
            end = after;
        }
        (end > whole.end).then_some((end, text))
    }

    /// Digit by digit: "oh", "double five".
    fn digits(&self, at: usize) -> (String, usize) {
        let (mut text, mut end) = (String::new(), at);
        while text.len() < MOST_DIGITS {
            let word = if end == at { self.word(end) } else { self.next(end) };
            let times = match word {
                "double" => 2,
                "triple" => 3,
                _ => 1,
            };
            let value_at = if times > 1 { end + 1 } else { end };
            let word = if times > 1 { self.next(value_at) } else { word };
            let value = if zero(word) { Some(0) } else { digit(word) };
            let Some(value) = value else { break };
            text.push_str(&value.to_string().repeat(times));
            end = value_at + 1;
            // "eight hundred" within a telephone number.
            let is_digit = |word: &str| zero(word) || digit(word).is_some();
            if text.len() <= 2 && self.next(end) == "hundred" && (1..=4).all(|ahead| is_digit(self.next(end + ahead))) {
                text.push_str("00");
                end += 1;
            }
        }
        (text, end)
    }

    /// Three digits and more in a row that do not count up from one.
    fn code(&self, at: usize) -> Option<(usize, String)> {
        let (digits, end) = self.digits(at);
        let counts = digits.bytes().zip(b'1'..).all(|(digit, counted)| digit == counted) && digits.len() < 6;
        let is_whole = !self.is_number_word(end) || self.spoken[end].apart;
        if digits.len() < 3 || counts || !is_whole || (end - at < 2) || self.word(at) == "a" {
            return None;
        }
        if self.next(end) == "point" {
            let (fraction, fraction_end) = self.digits(end + 1);
            if !fraction.is_empty() {
                return Some((fraction_end, format!("{digits}.{fraction}")));
            }
        }
        Some((end, digits))
    }

    /// Two digits behind an hour or a century: "oh five", "thirty", "forty five". Their text and end.
    fn two_digits(&self, at: usize) -> Option<(String, usize)> {
        let word = self.next(at);
        if zero(word) {
            return digit(self.next(at + 1)).map(|value| (format!("0{value}"), at + 2));
        }
        self.below_hundred(at)
            .filter(|(value, _)| !word.is_empty() && *value >= 10)
            .map(|(value, end)| (value.to_string(), end))
    }

    /// "three thirty p m", "at nine forty", "oh five hundred hours".
    fn time(&self, at: usize) -> Option<(usize, String)> {
        if self.word(at) != "a"
            && let Some((hour, end)) = self
                .below_hundred(at)
                .or_else(|| zero(self.word(at)).then(|| digit(self.next(at + 1)).map(|hour| (hour, at + 2)))?)
            && self.next(end) == "hundred"
            && self.next(end + 1) == "hours"
            && hour < 25
            && (hour >= 10 || zero(self.word(at)))
        {
            return Some((end + 1, format!("{hour:02}00")));
        }
        let (hour, hour_end) = self.below_hundred(at).filter(|(hour, _)| (1..=12).contains(hour))?;
        let minutes = self.two_digits(hour_end).filter(|(minutes, _)| minutes.as_str() < "60");
        let end = minutes.as_ref().map_or(hour_end, |(_, end)| *end);
        if self.is_number_word(end) && !self.spoken[end].apart {
            return None;
        }
        let clock = minutes.as_ref().map_or_else(|| hour.to_string(), |(minutes, _)| format!("{hour}:{minutes}"));
        let half = match (self.next(end), self.next(end + 1)) {
            ("am" | "pm", _) => Some((end + 1, self.next(end).to_owned())),
            (half @ ("a" | "p"), "m") => Some((end + 2, format!("{half}m"))),
            _ => None,
        };
        if let Some((end, half)) = half {
            return Some((end, format!("{clock} {half}")));
        }
        minutes.as_ref()?;
        let in_the_morning = matches!(self.next(end), "in")
            && self.next(end + 1) == "the"
            && matches!(self.next(end + 2), "morning" | "afternoon" | "evening");
        let behind_at =
            BEFORE_TIMES.contains(&self.before(at)) && !COUNTS.contains(&self.next(end)) && self.next(end) != "a";
        (in_the_morning || self.next(end) == "tonight" || behind_at).then_some((end, clock))
    }

    /// "nineteen oh five", "twenty twenty", "nineteen nineties", "eighteen hundreds".
    fn year(&self, at: usize) -> Option<(usize, String)> {
        let (century, end) = self.below_hundred(at).filter(|(century, _)| (13..=20).contains(century))?;
        if end - at > 1 || (at > 0 && !self.spoken[at].apart && self.is_number_word(at - 1) && !self.is_day(at - 1)) {
            return None;
        }
        match self.next(end) {
            "hundreds" => return Some((end + 1, format!("{century}00s"))),
            decade if decade.ends_with("ies") => {
                let stem = decade.strip_suffix("ies")?;
                let ten = TENS.iter().find(|ten| ten.strip_suffix('y') == Some(stem)).and_then(|ten| value(ten))?;
                return Some((end + 1, format!("{century}{ten}s")));
            }
            _ => {}
        }
        let (rest, year_end) = self.two_digits(end)?;
        let context = BEFORE_YEARS.contains(&self.before(at))
            || MONTHS.contains(&self.before(at))
            || (at > 0 && self.is_day(at - 1));
        let value: u64 = rest.parse().ok()?;
        let counts_up = value == century + 1 && value < 20;
        let is_count = COUNTS.contains(&self.next(year_end)) || self.next(year_end) == "vision";
        let continues = self.is_number_word(year_end) && !self.spoken[year_end].apart;
        let is_year = !is_count && !continues && (context || (century >= 17 && !counts_up));
        is_year.then(|| (year_end, format!("{century}{rest}")))
    }

    /// True for an ordinal behind a month: "may twenty first".
    fn is_day(&self, at: usize) -> bool {
        ordinal(self.word(at)).is_some()
            && (MONTHS.contains(&self.before(at)) || (at > 1 && MONTHS.contains(&self.before(at - 1))))
    }

    /// "twenty first", "may third", "thirty second street".
    fn ordinal(&self, at: usize) -> Option<(usize, String)> {
        let (value, end) = self.ordinal_value(at)?;
        let next = self.next(end);
        // "may second" is mostly no date.
        let behind_month = MONTHS.contains(&self.before(at)) && (self.before(at), self.word(at)) != ("may", "second");
        let month = behind_month || MONTHS.contains(&next);
        let dated = month || (next == "of" && MONTHS.contains(&self.next(end + 1)));
        if self.word(end - 1) == "second" && value > 10 && !dated {
            if TIMED.contains(&next) {
                return Some((end, format!("{} second", value - 2)));
            }
            if !COUNTED.contains(&next) {
                return None;
            }
        }
        (value >= LEAST_IN_DIGITS || month).then(|| (end, format!("{}{}", grouped(value), suffix(value))))
    }

    fn ordinal_value(&self, at: usize) -> Option<(u64, usize)> {
        if let Some(value) = ordinal(self.word(at)) {
            return Some((value.into(), at + 1));
        }
        let unit = ordinal(self.next(at + 1)).filter(|unit| *unit < 10);
        if let (Some(ten @ 20..), Some(unit)) = (value(self.word(at)), unit) {
            return Some((u64::from(ten + unit), at + 2));
        }
        let cardinal = self.cardinal(at)?;
        let rest = self.next(cardinal.end);
        let (last, end) =
            if rest == "and" { (self.next(cardinal.end + 1), cardinal.end + 2) } else { (rest, cardinal.end + 1) };
        if let Some(value) = ordinal(last) {
            let is_whole = cardinal.value % 100 == 0 && cardinal.value > 0;
            return is_whole.then(|| (cardinal.value + u64::from(value), end));
        }
        let scale = last.strip_suffix("th").and_then(scale)?;
        (cardinal.value >= LEAST_IN_DIGITS).then(|| Some((cardinal.value.checked_mul(scale)?, end)))?
    }

    /// Percent and dollars behind a number.
    fn with_unit(&self, end: usize, text: String) -> Option<(usize, String)> {
        match self.next(end) {
            "percent" => Some((end + 1, format!("{text}%"))),
            "per" if self.next(end + 1) == "cent" => Some((end + 2, format!("{text}%"))),
            "dollars" | "dollar" => {
                let cents_at = if self.next(end + 1) == "and" { end + 2 } else { end + 1 };
                let cents = self.below_hundred(cents_at).filter(|_| !self.next(cents_at).is_empty());
                match cents {
                    Some((cents, after))
                        if matches!(self.next(after), "cents" | "cent") && !text.contains(['.', ' ']) =>
                    {
                        Some((after + 1, format!("${text}.{cents:02}")))
                    }
                    _ => Some((end + 1, format!("${text}"))),
                }
            }
            _ => None,
        }
    }

    /// True behind a smaller number that has the same scale: "two to three thousand".
    fn shares_its_scale(&self, start: usize, end: usize) -> bool {
        matches!(self.before(start), "to" | "or")
            && start > 1
            && !self.spoken[start - 1].apart
            && self.cardinal(start).is_some_and(|number| {
                let scale = scale(self.word(number.end - 1));
                let first = (start.saturating_sub(3)..start - 1)
                    .find_map(|from| self.cardinal(from).filter(|first| first.end == start - 1));
                number.end <= end
                    && scale
                        .zip(first)
                        .is_some_and(|(scale, first)| first.value < number.value / scale && first.round.is_none())
            })
    }
}

fn digit(word: &str) -> Option<u64> {
    value(word).map(u64::from).filter(|value| (1..10).contains(value))
}

fn zero(word: &str) -> bool {
    matches!(word, "zero" | "oh" | "o")
}

fn scale(word: &str) -> Option<u64> {
    let powers = SCALES.iter().zip(1..).map(|(name, power)| (*name, 1_000_u64.pow(power)));
    [("hundred", 100)].into_iter().chain(powers).find_map(|(name, scale)| (name == word).then_some(scale))
}

fn scale_of_millions(word: &str) -> Option<u64> {
    scale(word).filter(|scale| *scale >= 1_000_000)
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    if value < LEAST_WITH_COMMAS {
        return digits;
    }
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn suffix(value: u64) -> &'static str {
    match (value % 100, value % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}
