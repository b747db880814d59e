//! Inverse text normalisation (ITN): numbers in digits, a capital at the start, a full stop at the end.

use std::borrow::Cow;

use text2num::{Language, Occurence, Token, find_numbers, get_interpreter_for};

use super::Word;
use super::sentence_boundaries::CLOSERS;
use super::tokens::{is_unspaced, joined};
use crate::language::primary_subtag;

/// Smaller numbers that stand alone stay words.
const MIN_SINGLE_NUMBER: f64 = 10.0;

/// Pause that ends a number, ms.
const PAUSE_MS: u64 = 500;

/// Marks that end a sentence.
const ENDS: [char; 9] = ['.', '?', '!', '\u{2026}', '\u{3002}', '\u{ff1f}', '\u{ff01}', '\u{061f}', '\u{0964}'];

/// Formats a finished turn; returns its words and its text. A word that replaces several has their span and the least
/// of their confidences.
pub fn format(words: &[Word], language: &str) -> (Vec<Word>, String) {
    sentence(match get_interpreter_for(&primary_subtag(language)) {
        Some(numbers) => numbers_to_digits(words, &numbers),
        None => words.to_vec(),
    })
}

/// Formats a finished turn of a model that writes digits by itself.
pub fn sentence(mut words: Vec<Word>) -> (Vec<Word>, String) {
    if let Some(first) = words.first_mut()
        && !has_capital(&first.text)
    {
        first.text = capitalised(&first.text);
    }
    if let Some(last) = words.last_mut()
        && !last.text.trim_end_matches(CLOSERS).ends_with(ENDS)
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

/// A word without the punctuation around it.
struct BareWord<'a> {
    word: &'a Word,
    bare: &'a str,
    lower: String,
    /// True if punctuation stands between it and the word before.
    apart: bool,
}

impl Token for &BareWord<'_> {
    fn text(&self) -> Cow<'_, str> {
        self.bare.into()
    }

    fn text_lowercase(&self) -> Cow<'_, str> {
        self.lower.as_str().into()
    }

    fn nt_separated(&self, previous: &Self) -> bool {
        self.apart || self.word.start.saturating_sub(previous.word.end) > PAUSE_MS
    }
}

fn numbers_to_digits(words: &[Word], language: &Language) -> Vec<Word> {
    let mut apart = false;
    let spoken: Vec<BareWord> = words
        .iter()
        .map(|word| {
            let bare = word.text.trim_matches(|c: char| !c.is_alphanumeric());
            let tail = trailing(&word.text);
            let found = BareWord { word, bare, lower: bare.to_lowercase(), apart };
            apart = !tail.is_empty();
            found
        })
        .collect();
    let mut written = Vec::with_capacity(words.len());
    let mut next = 0;
    for number in years(find_numbers(spoken.iter(), language, MIN_SINGLE_NUMBER), language, &spoken) {
        if number.start < next || number.end > words.len() || number.start >= number.end {
            continue;
        }
        written.extend_from_slice(&words[next..number.start]);
        let (first, last) = (&words[number.start], &words[number.end - 1]);
        let head: String = first.text.chars().take_while(|c| !c.is_alphanumeric()).collect();
        written.push(Word {
            text: format!("{head}{}{}", number.text, trailing(&last.text)),
            start: first.start,
            end: last.end,
            confidence: words[number.start..number.end].iter().map(|word| word.confidence).fold(1.0, f32::min),
            speaker: first.speaker.clone(),
            speaker_name: first.speaker_name.clone(),
            channel: first.channel,
        });
        next = number.end;
    }
    written.extend_from_slice(&words[next..]);
    written
}

/// Joins the two halves of English years, as in "nineteen ninety", to one number.
fn years(numbers: Vec<Occurence>, language: &Language, spoken: &[BareWord]) -> Vec<Occurence> {
    if !matches!(language, Language::English(_)) {
        return numbers;
    }
    let mut joined: Vec<Occurence> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let two_digits = |number: &Occurence| number.text.len() == 2 && !number.is_ordinal;
        match joined.last_mut() {
            Some(century)
                if century.end == number.start
                    && two_digits(century)
                    && two_digits(&number)
                    && (13.0..=20.0).contains(&century.value)
                    && !spoken[number.start].apart =>
            {
                century.text.push_str(&number.text);
                century.end = number.end;
                century.value = century.value * 100.0 + number.value;
            }
            _ => joined.push(number),
        }
    }
    joined
}

/// The punctuation at the end of a word.
fn trailing(text: &str) -> &str {
    &text[text.trim_end_matches(|c: char| !c.is_alphanumeric()).len()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &str) -> Vec<Word> {
        text.split(' ')
            .enumerate()
            .map(|(at, word)| Word {
                text: word.into(),
                start: at as u64 * 300,
                end: at as u64 * 300 + 250,
                confidence: 0.9 - at as f32 / 100.0,
                speaker: None,
                speaker_name: None,
                channel: None,
            })
            .collect()
    }

    fn text(spoken: &str, language: &str) -> String {
        format(&words_of(spoken), language).1
    }

    #[test]
    fn numbers_become_digits_and_the_rest_stays() {
        assert_eq!(text("we sold twenty three cars in nineteen ninety", "en"), "We sold 23 cars in 1990.");
        assert_eq!(
            text("in twenty twenty six we saw twenty, thirty or forty five", "en"),
            "In 2026 we saw 20, 30 or 45."
        );
        assert_eq!(text("it is three", "en_us"), "It is three.");
        assert_eq!(text("twenty three", "EN-us"), "23.");
        assert_eq!(text("the twenty first, of may", "en"), "The 21st, of may.");
        assert_eq!(text("es sind zweiundzwanzig", "de"), "Es sind 22.");
        assert_eq!(text("cuesta treinta y dos euros", "es"), "Cuesta 32 euros.");
        assert_eq!(text("twenty, three hundred", "en"), "20, 300.");
        assert_eq!(text("twenty three", "xx"), "Twenty three.");
    }

    #[test]
    fn a_number_spans_its_words() {
        let (words, _) = format(&words_of("about two hundred and five people"), "en");
        assert_eq!(words.len(), 3);
        assert_eq!((words[1].text.as_str(), words[1].start, words[1].end), ("205", 300, 1450));
        assert!((words[1].confidence - 0.86).abs() < 1e-6);
    }

    #[test]
    fn sentences_begin_and_end_once() {
        assert_eq!(text("Is it so?", "en"), "Is it so?");
        assert_eq!(text("well,", "en"), "Well.");
        assert_eq!(text("iPhone users", "en"), "iPhone users.");
        assert_eq!(text("McDonald went", "en"), "McDonald went.");
        assert_eq!(text("he said \"no.\"", "en"), "He said \"no.\"");
        assert_eq!(text("(so it is", "en"), "(so it is.");
        assert_eq!(format(&[], "en").1, "");
    }

    #[test]
    fn scripts_without_spaces_get_none() {
        assert_eq!(text("今 日 は 晴 れ", "ja"), "今日は晴れ");
        assert_eq!(text("我 用 GPU 。", "zh"), "我用GPU。");
    }
}
