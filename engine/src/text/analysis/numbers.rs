//! Numbers and codes: digits as written ("555-0132") and as heard ("five five five oh one thirty two"), letters that are
//! spelled, and both mixed.

use std::ops::Range;

use super::reading::{Break, Reading};
use crate::text::number_words;
use crate::text::word_list::words;

/// A run of digits and letters: a number or a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The words of the run.
    pub words: Range<usize>,
    /// Its digits and capitals, without marks.
    pub text: String,
    /// The same with the marks between them; words are separated by spaces.
    pub written: String,
    /// The number of digits.
    pub digits: usize,
    /// The number of letters.
    pub letters: usize,
    /// A number word or a spelled letter takes part.
    pub spoken: bool,
}

/// The value of a small number word.
pub fn small_number(word: &str) -> Option<u32> {
    if let Some(value) = number_words::value(word) {
        return Some(value);
    }
    match word {
        "oh" | "nought" | "naught" => Some(0),
        "fourty" => Some(40),
        _ => {
            let (tens, unit) = word.split_once('-')?;
            let (tens, unit) = (small_number(tens)?, small_number(unit)?);
            ((20..100).contains(&tens) && tens.is_multiple_of(10) && (1..10).contains(&unit)).then_some(tens + unit)
        }
    }
}

/// The value of an ordinal: "third", "twenty-first", "3rd".
pub fn ordinal(word: &str) -> Option<u32> {
    if let Some(value) = number_words::ordinal(word) {
        return Some(value);
    }
    if let Some((tens, unit)) = word.split_once('-') {
        let (tens, unit) = (small_number(tens)?, ordinal(unit)?);
        return (unit < 10).then_some(tens + unit);
    }
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|suffix| word.strip_suffix(suffix))?;
    digits.parse().ok().filter(|value| (1..=31).contains(value))
}

/// The letter of a word of the spelling alphabets.
fn spelling_word(word: &str) -> Option<char> {
    const WORDS: &[&str] = words!(
        "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec \
         romeo sierra tango uniform victor whiskey xray x-ray yankee zulu alfa"
    );
    WORDS.iter().find(|name| **name == word).and_then(|name| name.chars().next())
}

/// The kind of a word within a code.
enum Piece {
    /// Digits and letters as written, with their marks.
    Written,
    /// A number word.
    Number(u32),
    /// "hundred", "thousand".
    Scale(u32),
    /// "double", "triple".
    Repeat(usize),
    /// A spelled letter.
    Letter(char),
    /// A word for a mark.
    Mark(char),
    /// Something that a speaker puts in between.
    Filler,
    /// No part of a code.
    Other,
}

fn piece(reading: &Reading<'_>, at: usize) -> Piece {
    let Some(token) = reading.tokens.get(at) else { return Piece::Other };
    if token.masked || token.form.is_some() {
        return Piece::Other;
    }
    let lower = token.lower.as_str();
    if let Some(value) = small_number(lower) {
        return Piece::Number(value);
    }
    match lower {
        "hundred" => return Piece::Scale(100),
        "thousand" => return Piece::Scale(1000),
        "double" => return Piece::Repeat(2),
        "triple" | "treble" => return Piece::Repeat(3),
        "dash" | "hyphen" | "minus" => return Piece::Mark('-'),
        "slash" => return Piece::Mark('/'),
        "dot" | "point" => return Piece::Mark('.'),
        "plus" => return Piece::Mark('+'),
        "uh" | "um" | "er" => return Piece::Filler,
        "" => {
            // Marks alone: "-".
            return if matches!(&*token.text, "-" | "–" | "/" | ".") { Piece::Mark('-') } else { Piece::Other };
        }
        _ => {}
    }
    let mut letters = lower.chars();
    if let (Some(letter), None) = (letters.next(), letters.next())
        && letter.is_ascii_alphabetic()
    {
        return Piece::Letter(letter);
    }
    if let Some(letter) = spelling_word(lower) {
        return Piece::Letter(letter);
    }
    if is_written_code(token.core()) { Piece::Written } else { Piece::Other }
}

/// True for digits with marks, for letters with digits, and for letters with hyphens between them.
fn is_written_code(core: &str) -> bool {
    let (mut digits, mut small, mut others, mut run, mut longest) = (0, 0, 0, 0, 0);
    for letter in core.chars() {
        if letter.is_ascii_alphabetic() {
            run += 1;
            longest = longest.max(run);
            small += usize::from(letter.is_ascii_lowercase());
            continue;
        }
        run = 0;
        match letter {
            letter if letter.is_ascii_digit() => digits += 1,
            '-' | '.' | '/' | '(' | ')' | '+' | '–' | ':' | ',' => {}
            _ => others += 1,
        }
    }
    if others > 0 {
        return false;
    }
    // "1st" and "90s" are no codes, "a1b2c3" is one.
    let ending = core.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let counted =
        words!("st nd rd th s am pm k m kg km cm mg ml gb mb x x-ray").contains(&ending.to_ascii_lowercase().as_str());
    (digits > 0 && !counted && (small == 0 || longest <= 3 || digits >= 4))
        || (digits == 0 && longest == 1 && core.contains('-') && core.len() > 4)
}

/// Collects the text of a run while its words are read.
#[derive(Default)]
struct Collector {
    text: String,
    written: String,
    /// Digits of number words that are not finished: value, and digits that may still be added below it.
    pending: Option<(u64, u64)>,
    repeat: usize,
    spoken: bool,
}

impl Collector {
    fn flush(&mut self) {
        if let Some((value, _)) = self.pending.take() {
            let digits = value.to_string();
            for _ in 0..self.repeat.max(1) {
                self.text.push_str(&digits);
                self.written.push_str(&digits);
            }
            self.repeat = 0;
        }
    }

    fn number(&mut self, value: u64) {
        self.spoken = true;
        match self.pending {
            // "twenty" + "three", "two hundred" + "five", "three thousand" + "forty".
            Some((so_far, room)) if value > 0 && value < room => {
                let room = if (20..100).contains(&value) && value.is_multiple_of(10) { 10.min(room) } else { 1 };
                self.pending = Some((so_far + value, room));
            }
            _ => {
                self.flush();
                let room = if (20..100).contains(&value) && value.is_multiple_of(10) { 10 } else { 1 };
                self.pending = Some((value, room));
            }
        }
    }

    fn scale(&mut self, scale: u64) {
        if let Some((value, _)) = self.pending
            && value > 0
        {
            // In "one thousand two hundred" the hundreds multiply the last part alone.
            let low = value % scale.max(1000);
            let (high, low) = if scale == 100 { (value - low, low) } else { (0, value) };
            self.pending = Some((high + low * scale, scale));
        }
    }

    fn letter(&mut self, letter: char) {
        self.flush();
        for _ in 0..self.repeat.max(1) {
            self.text.push(letter.to_ascii_uppercase());
            self.written.push(letter.to_ascii_uppercase());
        }
        self.repeat = 0;
        self.spoken = true;
    }

    fn write(&mut self, core: &str) {
        self.flush();
        self.repeat = 0;
        if !self.written.is_empty() && !self.written.ends_with(['-', '/', '.', '+', ' ']) {
            self.written.push(' ');
        }
        self.written.push_str(core);
        self.text.extend(core.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_uppercase()));
    }

    fn mark(&mut self, mark: char) {
        self.flush();
        self.written.push(mark);
    }
}

/// The numbers and codes of a text, in order.
pub fn codes(reading: &Reading<'_>) -> Vec<Code> {
    let mut codes = Vec::new();
    let mut at = 0;
    while at < reading.tokens.len() {
        match code_at(reading, at) {
            Some(code) => {
                at = code.words.end;
                codes.push(code);
            }
            None => at += 1,
        }
    }
    codes
}

/// The code of some words if all of them are written with digits.
pub fn written(reading: &Reading<'_>, words: Range<usize>) -> Option<Code> {
    let mut collector = Collector::default();
    for at in words.clone() {
        match piece(reading, at) {
            Piece::Written => collector.write(reading.tokens[at].core()),
            Piece::Other if is_between_codes(reading, at) => collector.write(reading.tokens[at].core()),
            _ => return None,
        }
    }
    let Collector { text, written, .. } = collector;
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let letters = text.len() - digits;
    Some(Code { words, text, written, digits, letters, spoken: false })
}

/// True if a letter at `at` may begin a code: "a" and "i" are mostly words.
fn may_begin(reading: &Reading<'_>, at: usize, letter: char) -> bool {
    let next_is_code =
        matches!(piece(reading, at + 1), Piece::Letter(_) | Piece::Number(_) | Piece::Written | Piece::Repeat(_));
    let introduced = matches!(reading.before(at, 1), "is" | "it" | "number" | "code" | "that" | "plate" | "spelled");
    let alone = reading.tokens[at].lower.len() == 1;
    match letter {
        // "a seven six oh two".
        'a' if alone
            && (at + 1..at + 5).all(|at| matches!(piece(reading, at), Piece::Number(0..=9) | Piece::Repeat(_))) =>
        {
            true
        }
        'a' | 'i' if alone => introduced && next_is_code,
        _ if alone => next_is_code || reading.tokens[at].capital,
        _ => next_is_code,
    }
}

fn code_at(reading: &Reading<'_>, first: usize) -> Option<Code> {
    let mut collector = Collector::default();
    match piece(reading, first) {
        Piece::Written | Piece::Number(_) => {}
        Piece::Repeat(_) if matches!(piece(reading, first + 1), Piece::Number(0..=9) | Piece::Letter(_)) => {}
        Piece::Letter(letter) if may_begin(reading, first, letter) => {}
        Piece::Mark('+') if matches!(piece(reading, first + 1), Piece::Number(_) | Piece::Repeat(_)) => {}
        _ => return None,
    }
    let (mut at, mut end) = (first, first);
    while at < reading.tokens.len() {
        let within = at > first;
        match piece(reading, at) {
            Piece::Written => collector.write(reading.tokens[at].core()),
            Piece::Number(value) => collector.number(u64::from(value)),
            Piece::Scale(scale) if collector.pending.is_some() => {
                collector.scale(u64::from(scale));
                // "eight hundred, five five five": single digits follow a prefix.
                let single = |at| matches!(piece(reading, at), Piece::Number(0..=9));
                if single(at + 1) && single(at + 2) {
                    collector.flush();
                }
            }
            Piece::Repeat(times) if matches!(piece(reading, at + 1), Piece::Number(0..=9) | Piece::Letter(_)) => {
                collector.flush();
                collector.repeat = times;
                at += 1;
                continue;
            }
            Piece::Letter('o') if within && next_to_digits(reading, at) => collector.number(0),
            Piece::Letter(letter) => {
                let word = matches!(reading.lower(at), "a" | "i") && within;
                let next = piece(reading, at + 1);
                let next_is_code = matches!(
                    next,
                    Piece::Letter(_) | Piece::Number(_) | Piece::Written | Piece::Repeat(_) | Piece::Mark(_)
                );
                // At the end of a run "a" and "i" are words, unless they are written as capitals.
                if word && !next_is_code && !(reading.tokens[at].capital && reading.lower(at) == "a") {
                    break;
                }
                collector.letter(letter);
                // "b as in boy", "b for bravo".
                let cued = reading.starts(at + 1, "as in") || reading.starts(at + 1, "like in");
                if cued && at + 3 < reading.tokens.len() {
                    at += 3;
                } else if reading.starts(at + 1, "for") && at + 2 < reading.tokens.len() {
                    let named = reading.lower(at + 2).starts_with(letter) && reading.lower(at + 2).len() > 1;
                    at += if named { 2 } else { 0 };
                }
            }
            Piece::Mark(mark) => {
                let next = piece(reading, at + 1);
                if !matches!(next, Piece::Letter(_) | Piece::Number(_) | Piece::Written | Piece::Repeat(_)) {
                    break;
                }
                collector.mark(mark);
                at += 1;
                continue;
            }
            // "GB29 NWBK 6016".
            Piece::Other if within && is_between_codes(reading, at) => collector.write(reading.tokens[at].core()),
            Piece::Filler if within => {
                at += 1;
                continue;
            }
            Piece::Other
                if within
                    && reading.lower(at) == "and"
                    && collector.pending.is_some_and(|(value, room)| value >= 100 && room >= 100) =>
            {
                at += 1;
                continue;
            }
            _ => break,
        }
        end = at + 1;
        match reading.tokens[at].after {
            Break::Sentence | Break::Question => break,
            Break::Clause if separates(reading, at) => break,
            Break::Clause => {
                collector.flush();
                collector.written.push(' ');
            }
            Break::None => {}
        }
        at += 1;
    }
    collector.flush();
    if end == first {
        return None;
    }
    let Collector { text, written, spoken, .. } = collector;
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let letters = text.len() - digits;
    (digits + letters > 0).then_some(Code {
        words: first..end,
        text,
        written: written.trim().to_owned(),
        digits,
        letters,
        spoken,
    })
}

/// Four capitals between a word of letters and digits and a word of digits, as in an IBAN.
fn is_between_codes(reading: &Reading<'_>, at: usize) -> bool {
    let core = reading.tokens[at].core();
    let before = at.checked_sub(1).map_or("", |before| reading.tokens[before].core());
    core.len() == 4
        && core.chars().all(|letter| letter.is_ascii_uppercase())
        && before.len() == 4
        && before.chars().any(|letter| letter.is_ascii_alphabetic())
        && before.chars().any(|letter| letter.is_ascii_digit())
        && matches!(piece(reading, at + 1), Piece::Written)
}

/// A comma separates two numbers unless both look like parts of one: short groups, or digit by digit.
fn separates(reading: &Reading<'_>, at: usize) -> bool {
    match (piece(reading, at), piece(reading, at + 1)) {
        (Piece::Number(_), Piece::Number(_) | Piece::Repeat(_)) => false,
        (Piece::Letter(_), Piece::Letter(_) | Piece::Number(_)) => false,
        (Piece::Number(_), Piece::Letter(_)) => false,
        _ => {
            // "(415), 555-0132".
            !reading.tokens[at].text.ends_with(')') && !reading.tokens[at].text.starts_with('(')
        }
    }
}

fn next_to_digits(reading: &Reading<'_>, at: usize) -> bool {
    let digits = |piece: Piece| matches!(piece, Piece::Number(_) | Piece::Repeat(_));
    digits(piece(reading, at + 1)) || at.checked_sub(1).is_some_and(|before| digits(piece(reading, before)))
}

/// A number at a place: its value and the number of its words. "twenty three", "nineteen eighty five", "two thousand and
/// four", "42", "3rd", "twenty first".
pub fn number_at(reading: &Reading<'_>, at: usize) -> Option<(u32, usize)> {
    let word = reading.lower(at);
    if let Ok(value) = word.replace(',', "").parse::<u32>() {
        return Some((value, 1));
    }
    if let Some(value) = ordinal(word) {
        return Some((value, 1));
    }
    let joined = |upto: usize| {
        reading.joined(at, at + upto) && reading.tokens[at..at + upto].iter().all(|token| token.after == Break::None)
    };
    let first = small_number(word)?;
    let mut value = first;
    let mut length = 1;
    if (20..100).contains(&first) && first.is_multiple_of(10) && joined(1) {
        if let Some(unit) = small_number(reading.lower(at + 1)).filter(|unit| (1..10).contains(unit)) {
            (value, length) = (first + unit, 2);
        } else if let Some(unit) = ordinal(reading.lower(at + 1)).filter(|unit| *unit < 10) {
            return Some((first + unit, 2));
        }
    }
    if joined(length) {
        match reading.lower(at + length) {
            "hundred" => {
                value *= 100;
                length += 1;
            }
            "thousand" => {
                value *= 1000;
                length += 1;
                let and = usize::from(reading.lower(at + length) == "and" && joined(length + 1));
                if joined(length + and)
                    && let Some(rest) = small_number(reading.lower(at + length + and))
                {
                    value += rest;
                    length += and + 1;
                    if rest >= 20
                        && rest.is_multiple_of(10)
                        && let Some(unit) =
                            small_number(reading.lower(at + length)).filter(|unit| (1..10).contains(unit))
                    {
                        value += unit;
                        length += 1;
                    }
                }
                return Some((value, length));
            }
            _ => {}
        }
    }
    // The second half of a year.
    if (13..=20).contains(&value)
        && joined(length)
        && let Some(second) = small_number(reading.lower(at + length))
    {
        let mut half = second;
        let mut longer = length + 1;
        if second == 0 && joined(longer) {
            let unit = small_number(reading.lower(at + longer)).filter(|unit| (1..10).contains(unit))?;
            return Some((value * 100 + unit, longer + 1));
        }
        if second >= 20
            && second.is_multiple_of(10)
            && joined(longer)
            && let Some(unit) = small_number(reading.lower(at + longer)).filter(|unit| (1..10).contains(unit))
        {
            half += unit;
            longer += 1;
        }
        if half >= 10 {
            return Some((value * 100 + half, longer));
        }
    }
    if reading.lower(at + length) == "hundred" {
        length += 1;
        value *= 100;
    }
    Some((value, length))
}
