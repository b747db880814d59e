//! Names, numbers, amounts, dates and addresses within a sentence, as the transcript writes them.

use std::ops::Range;

use super::terms::{Term, TermReader, is_spoken_number};
use crate::text::number_words::{self, SMALL, TENS};
use crate::text::word_list::words;

const TIME_WORDS: &[&str] = words!(
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july august september \
     october november december today tomorrow yesterday tonight noon midnight morning afternoon evening montag \
     dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz juni juli oktober dezember morgen heute \
     gestern lunes martes miércoles jueves viernes sábado domingo enero abril mayo junio julio lundi mardi mercredi \
     jeudi vendredi samedi dimanche janvier"
);

const UNITS_OF_TIME: &[&str] = words!(
    "second seconds minute minutes hour hours day days week weeks month months year years sekunden minuten stunde \
     stunden tag tage wochen monate jahr jahre días años horas jours heures ans"
);

const ORDINALS: &[&str] = words!(
    "first second third fourth fifth sixth seventh eighth ninth tenth twelfth fourteenth fifteenth twentieth thirtieth"
);

const NUMBER_WORDS_ELSEWHERE: &[&str] = words!(
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig vierzig fünfzig hundert tausend dos \
     tres cuatro cinco seis siete ocho nueve diez cien mil deux trois quatre cinq six sept huit neuf dix vingt cent \
     mille"
);

/// True for a numeral, in digits or in words.
pub fn is_number(term: &Term) -> bool {
    term.is_number || NUMBER_WORDS_ELSEWHERE.contains(&term.word.as_str())
}

/// True if the terms name a time or date.
pub fn holds_time(terms: &[Term]) -> bool {
    let words = |wanted: &[&str]| terms.iter().any(|term| wanted.contains(&term.word.as_str()));
    words(TIME_WORDS) || terms.iter().any(is_year) || holds_spoken_year(terms) || holds_clock(terms) || words(UNITS_OF_TIME)
        // "the fourteenth of July", "the second of May"
        || terms.windows(2).any(|pair| ORDINALS.contains(&pair[0].word.as_str()) && pair[1].word == "of")
}

/// True if the terms name a duration.
pub fn holds_duration(terms: &[Term]) -> bool {
    terms.iter().any(|term| UNITS_OF_TIME.contains(&term.word.as_str()))
}

/// True if the terms hold a number. "One" alone is a pronoun more often.
pub fn holds_number(terms: &[Term]) -> bool {
    terms.iter().any(|term| is_number(term) && term.word != "one")
}

fn is_year(term: &Term) -> bool {
    term.word.len() == 4 && term.word.parse::<u32>().is_ok_and(|year| (1000..2200).contains(&year))
}

fn holds_spoken_year(terms: &[Term]) -> bool {
    terms.windows(2).any(|pair| is_spoken_year(&pair[0].word, &pair[1].word))
}

/// "eighteen fifty two", "two thousand and four"
fn is_spoken_year(first: &str, second: &str) -> bool {
    let is_second = |word| word == "hundred" || number_words::value(word).is_some_and(|value| value >= 10);
    matches!(number_words::value(first), Some(16..=20)) && is_second(second) || (first == "two" && second == "thousand")
}

/// "at ten", "10:30", "um sieben", "ten o'clock"
fn holds_clock(terms: &[Term]) -> bool {
    terms.iter().any(|term| term.word.contains(':') && term.is_number)
        || terms.windows(2).any(|pair| {
            ["at", "um", "ab", "by", "until", "before"].contains(&pair[0].word.as_str()) && is_number(&pair[1])
                || is_number(&pair[0]) && ["o", "uhr", "am", "pm"].contains(&pair[1].word.as_str())
        })
}

/// The words of a sentence, as written but without the marks around them.
fn bare(text: &str) -> Vec<&str> {
    let trimmed = text.split_whitespace().map(|word| {
        word.trim_matches(|character: char| {
            !character.is_alphanumeric() && !matches!(character, '$' | '€' | '£' | '%' | '+')
        })
    });
    trimmed.filter(|word| !word.is_empty()).collect()
}

/// Ranges of positions below `count` that satisfy a condition.
fn runs(count: usize, is_part: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in (0..count).filter(|at| is_part(*at)) {
        match found.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// True for a word in lower case that is a numeral.
fn is_numeral(word: &str) -> bool {
    word.trim_start_matches(['$', '€', '£', '+']).starts_with(|character: char| character.is_ascii_digit())
        || is_spoken_number(word)
        || NUMBER_WORDS_ELSEWHERE.contains(&word)
}

/// Names of people, places and things: runs of words with capitals, but for the sentence's first word if it is common.
pub fn names(text: &str, reader: &TermReader) -> Vec<String> {
    const NOT_NAMES: [&str; 12] = ["I", "I'm", "I'll", "I've", "I'd", "Mr", "Mrs", "Ms", "Dr", "OK", "Okay", "Yes"];
    let mut found = Vec::new();
    let mut begins = true;
    let mut run: Vec<&str> = Vec::new();
    let mut close = |run: &mut Vec<&str>| {
        if !run.is_empty() {
            let name = run.join(" ");
            if !found.contains(&name) {
                found.push(name);
            }
            run.clear();
        }
    };
    for word in text.split_whitespace() {
        let core = word.trim_matches(|character: char| !character.is_alphanumeric());
        let core = core.strip_suffix("'s").unwrap_or(core);
        let lower = core.to_lowercase();
        let capital = core.chars().next().is_some_and(char::is_uppercase);
        let is_time = TIME_WORDS.contains(&lower.as_str()) || lower == "may";
        let is_stop = reader.terms(&lower).iter().all(|term| term.is_stop);
        if capital && !begins && !NOT_NAMES.contains(&core) && !is_time && !is_stop {
            run.push(core);
        } else {
            close(&mut run);
        }
        let ends = word.ends_with(['.', '!', '?']) && !["Mr.", "Mrs.", "Ms.", "Dr."].contains(&word);
        if word.ends_with([',', ';', ':']) || ends {
            close(&mut run);
        }
        begins = ends;
    }
    close(&mut run);
    found
}

/// Numerals, as written: "18", "four hundred thousand".
pub fn numbers(text: &str) -> Vec<String> {
    let words = bare(text);
    let numerals = runs(words.len(), |at| is_numeral(&words[at].to_lowercase()));
    numerals.into_iter().map(|run| words[run].join(" ")).filter(|numeral| numeral.to_lowercase() != "one").collect()
}

/// The value of a numeral in digits, or of simple English words.
pub fn value(numeral: &str) -> Option<f64> {
    let digits: String =
        numeral.chars().filter(|character| character.is_ascii_digit() || matches!(character, '.' | '-')).collect();
    if !digits.is_empty() && !numeral.chars().any(char::is_alphabetic) {
        return digits.parse().ok();
    }
    let (mut total, mut group) = (0.0, 0.0);
    let (mut last_small, mut last_ten) = (false, false);
    for word in numeral.to_lowercase().split([' ', '-']) {
        if let Some(value) = SMALL.iter().position(|small| *small == word) {
            // "four four seven" and "eighteen fifty two" are no sums.
            if last_small || (last_ten && value >= 10) {
                return None;
            }
            group += value as f64;
            (last_small, last_ten) = (true, false);
        } else if let Some(value) = TENS.iter().position(|tens| *tens == word) {
            if last_small || last_ten {
                return None;
            }
            group += (value as f64 + 2.0) * 10.0;
            (last_small, last_ten) = (false, true);
        } else {
            let scale = match word {
                "hundred" => 1e2,
                "thousand" => 1e3,
                "million" => 1e6,
                "billion" => 1e9,
                _ => return None,
            };
            group = if group == 0.0 { scale } else { group * scale };
            if scale > 1e2 {
                total += group;
                group = 0.0;
            }
            (last_small, last_ten) = (false, false);
        }
    }
    Some(total + group)
}

/// Times and dates, as written: "Thursday evening", "the second of May", "eighteen fifty two".
pub fn times(text: &str) -> Vec<String> {
    let words = bare(text);
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let is_time = |at: usize| {
        let word = lower[at].as_str();
        TIME_WORDS.contains(&word)
            || (word == "may" && at > 0 && ["of", "in"].contains(&lower[at - 1].as_str()))
            || (word.contains(':') && is_numeral(word))
            || (word.len() == 4 && word.parse::<u32>().is_ok_and(|year| (1000..2200).contains(&year)))
            || (UNITS_OF_TIME.contains(&word) && at > 0 && is_numeral(&lower[at - 1]))
    };
    let may_join = |at: usize| {
        let word = lower[at].as_str();
        ORDINALS.contains(&word) || is_numeral(word) || ["of", "o'clock"].contains(&word)
    };
    let mut found = Vec::new();
    for run in runs(words.len(), |at| is_time(at) || may_join(at)) {
        let spoken_year = lower[run.clone()].windows(2).any(|pair| is_spoken_year(&pair[0], &pair[1]));
        // Words that only join are no time.
        if run.clone().any(is_time) || spoken_year {
            let text = words[run].join(" ").trim_start_matches("of ").trim_end_matches(" of").to_owned();
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

/// Addresses of electronic mail.
pub fn emails(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.trim_matches(|character: char| !character.is_alphanumeric()));
    let is_email = |word: &&str| {
        word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !host.contains('@'))
    };
    words.filter(is_email).map(str::to_owned).collect()
}

/// Numbers that may be telephone numbers: at least seven digits, with the usual marks between them.
pub fn phones(text: &str) -> Vec<String> {
    let is_part =
        |character: char| character.is_ascii_digit() || matches!(character, ' ' | '-' | '(' | ')' | '+' | '.' | '/');
    let candidates =
        text.split(|character: char| !is_part(character)).map(|part| part.trim_matches([' ', '-', '.', '/']));
    candidates
        .filter(|part| {
            let digits = part.chars().filter(char::is_ascii_digit).count();
            (7..=15).contains(&digits)
        })
        .map(str::to_owned)
        .collect()
}
