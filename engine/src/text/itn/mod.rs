//! Inverse text normalisation (ITN): numbers in digits, a capital at the start, a full stop at the end.

mod english;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use text2num::{Language, Token, find_numbers, get_interpreter_for, text2digits};

use self::english::Written;
use super::Word;
use super::quote_marks::{is_typographic, plain, plain_words};
use super::sentence_boundaries::CLOSERS;
use super::tokens::{is_unspaced, joined};
use crate::language::primary_subtag;

/// Smaller numbers that stand alone stay words.
const MIN_SINGLE_NUMBER: f64 = 10.0;

/// Pause that ends a number, ms.
pub const PAUSE_MS: u64 = 500;

/// Marks that end a sentence.
const ENDS: [char; 9] = ['.', '?', '!', '\u{2026}', '\u{3002}', '\u{ff1f}', '\u{ff01}', '\u{061f}', '\u{0964}'];

/// Formats a finished turn; returns its words and its text. Without a language its numbers stay as they are.
pub fn format(words: Vec<Word>, language: Option<&str>) -> (Vec<Word>, String) {
    sentence(match language {
        Some(language) => numbers(&words, language),
        None => words,
    })
}

/// Numbers in digits; the words as they are in a language whose numbers are not known. What replaces several words has their span
/// and the least of their confidences. Words of two speakers or channels make no number together.
pub fn numbers(words: &[Word], language: &str) -> Vec<Word> {
    let Some(language) = get_interpreter_for(&primary_subtag(language)) else { return words.to_vec() };
    let of_one_voice = |a: &Word, b: &Word| (&a.speaker, a.channel) == (&b.speaker, b.channel);
    words.chunk_by(of_one_voice).flat_map(|run| numbers_of_run(run, &language)).collect()
}

fn numbers_of_run(words: &[Word], language: &Language) -> Vec<Word> {
    let read = plain_words(words);
    let spoken = spoken(&read);
    let written = match language {
        Language::English(_) => english::numbers(&spoken),
        language => foreign(&spoken, language),
    };
    replaced(words, &spoken, &written)
}

/// Numbers of a written text in digits, as transcripts have those of speech. Lines stay; spaces between words become one.
/// `None` for a language whose numbers are not known.
#[must_use]
pub fn numbers_in_text(text: &str, language: &str) -> Option<String> {
    get_interpreter_for(&primary_subtag(language))?;
    let line = |line: &str| {
        let word = |(at, text): (usize, &str)| Word {
            text: text.into(),
            start: at as u64,
            end: at as u64 + 1,
            confidence: 1.0,
            speaker: None,
            speaker_name: None,
            channel: None,
        };
        let words: Vec<Word> = line.split_whitespace().enumerate().map(word).collect();
        let texts: Vec<String> = numbers(&words, language).into_iter().map(|word| word.text).collect();
        texts.join(" ")
    };
    Some(text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

/// The turn with a capital at its start and a full stop at its end; its words and its text.
fn sentence(mut words: Vec<Word>) -> (Vec<Word>, String) {
    if let Some(first) = words.first_mut()
        && !has_capital(&first.text)
    {
        first.text = capitalised(&first.text);
    }
    if let Some(last) = words.last_mut()
        && !plain(&last.text).trim_end_matches(CLOSERS).ends_with(ENDS)
        && !last.text.chars().any(is_unspaced)
    {
        let kept = last.text.trim_end_matches([',', ';', ':', '-']).len();
        if kept > 0 {
            last.text.truncate(kept);
        }
        last.text.push('.');
    }
    let text = joined(&words);
    (words, text)
}

/// True if the text has a capital anywhere: "iPhone" stays as it is.
fn has_capital(text: &str) -> bool {
    text.chars().any(char::is_uppercase)
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// A word without the punctuation around it, or a part of one that is written with hyphens.
struct Spoken<'a> {
    /// Place of the word.
    at: usize,
    bare: &'a str,
    lower: String,
    /// True if punctuation or a pause stands between it and the word before.
    apart: bool,
}

impl Token for &Spoken<'_> {
    fn text(&self) -> Cow<'_, str> {
        self.bare.into()
    }

    fn text_lowercase(&self) -> Cow<'_, str> {
        self.lower.as_str().into()
    }

    fn nt_separated(&self, _previous: &Self) -> bool {
        self.apart
    }
}

fn spoken(words: &[Word]) -> Vec<Spoken<'_>> {
    let mut spoken = Vec::with_capacity(words.len());
    let mut apart = true;
    for (at, word) in words.iter().enumerate() {
        let bare = word.text.trim_matches(is_mark);
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        apart |= before.is_some_and(|before| word.start.saturating_sub(before.end) > PAUSE_MS);
        apart |= word.text.starts_with(is_mark);
        for part in bare.split('-') {
            spoken.push(Spoken { at, bare: part, lower: part.to_lowercase(), apart });
            apart = false;
        }
        apart = !trailing(&word.text).is_empty();
    }
    spoken
}

/// The words with numbers in writing. A number that would cut a word in two stays as it is.
fn replaced(words: &[Word], spoken: &[Spoken<'_>], numbers: &[Written]) -> Vec<Word> {
    let mut written = Vec::with_capacity(words.len());
    let mut next = 0;
    for number in numbers {
        let Some(range) = spoken.get(number.words.clone()) else { continue };
        let (Some(first), Some(last)) = (range.first(), range.last()) else { continue };
        let cut_before = number.words.start > 0 && spoken[number.words.start - 1].at == first.at;
        let cut_behind = spoken.get(number.words.end).is_some_and(|behind| behind.at == last.at);
        if cut_before || cut_behind || first.at < next {
            continue;
        }
        written.extend_from_slice(&words[next..first.at]);
        let replaced = &words[first.at..=last.at];
        let (first_word, last_word) = (&words[first.at], &words[last.at]);
        let head: String = first_word.text.chars().take_while(|c| is_mark(*c)).collect();
        let whole = Word {
            text: format!("{head}{}{}", number.text, trailing(&last_word.text)),
            end: last_word.end,
            confidence: replaced.iter().map(|word| word.confidence).fold(1.0, f32::min),
            ..first_word.clone()
        };
        next = last.at + 1;
        let Some((digits, rest)) = whole.text.split_once(' ') else {
            written.push(whole);
            continue;
        };
        // "5.6 billion", "3:30 pm": the second word begins where it is spoken; "thirty-second" was one word.
        let initial = rest.chars().flat_map(char::to_lowercase).next().unwrap_or_default();
        let second = range.iter().rfind(|part| part.lower.starts_with(initial)).map_or(last.at, |part| part.at);
        let (end, start) = if second > first.at {
            (words[second - 1].end, words[second].start)
        } else {
            let middle = whole.start.midpoint(whole.end);
            (middle, middle)
        };
        written.push(Word { text: digits.into(), end, ..whole.clone() });
        written.push(Word { text: rest.into(), start, ..whole.clone() });
    }
    written.extend_from_slice(&words[next..]);
    written
}

/// The numbers of other languages than English. A scale stays a word: "1,2 Millionen", "tausend".
fn foreign(spoken: &[Spoken<'_>], language: &Language) -> Vec<Written> {
    let scale = |at: usize| -> Option<f64> {
        let word = &spoken.get(at)?.lower;
        let value: f64 = match word.as_str() {
            // Italian scales that are no numbers on their own.
            "mila" => 1e3,
            "milione" | "milioni" => 1e6,
            "miliardo" | "miliardi" => 1e9,
            word => text2digits(word, language).ok()?.parse().ok()?,
        };
        (value >= 100.0 && value.log10().fract() == 0.0).then_some(value)
    };
    let is_behind_digits = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| spoken.get(before));
        !spoken[at].apart && before.is_some_and(|word| word.bare.ends_with(|c: char| c.is_ascii_digit()))
    };
    let written = |number: text2num::Occurence| {
        if number.start >= number.end || number.end > spoken.len() {
            return None;
        }
        // "3 mille cinq cents": the model has written the beginning of the number.
        if scale(number.start).is_some() && is_behind_digits(number.start) {
            return None;
        }
        let last = number.end - 1;
        if number.text.contains([',', '.']) {
            // The reader writes the zeros of the scales behind the fraction. "cinco mil millones" has two.
            let scales: Vec<f64> =
                (number.start..=last).rev().map_while(|at| scale(at).filter(|scale| *scale >= 1e3)).collect();
            let zeros: usize = scales.iter().map(|scale| format!("{scale:.0}").len() - 1).sum();
            let end = number.text.len().checked_sub(zeros)?;
            let (fraction, rest) = number.text.split_at_checked(end)?;
            if scales.is_empty() {
                return Some(Written { words: number.start..number.end, text: number.text });
            }
            let first = number.end - scales.len();
            return rest.bytes().all(|digit| digit == b'0').then(|| Written {
                words: number.start..first + 1,
                text: format!("{fraction} {}", spoken[first].bare),
            });
        }
        let text = match scale(last) {
            Some(_) if number.start == last => return None,
            Some(scale) if scale >= 1e6 && number.value % scale == 0.0 => {
                format!("{} {}", number.value / scale, spoken[last].bare)
            }
            _ => number.text,
        };
        Some(Written { words: number.start..number.end, text })
    };
    find_numbers(spoken.iter(), language, MIN_SINGLE_NUMBER).into_iter().filter_map(written).collect()
}

/// The punctuation at the end of a word.
fn trailing(text: &str) -> &str {
    &text[text.trim_end_matches(is_mark).len()..]
}

fn is_mark(character: char) -> bool {
    !character.is_alphanumeric() || is_typographic(character)
}
