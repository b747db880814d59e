//! A clause as a model reads it that needs no phones: tokens of its text, and the words in it.

use std::ops::Range;

use crate::error::Result;
use crate::models::pocket_tts::{PreparedText, SequenceOptions};
use crate::text::speech::{Clause, NumeralLanguage, Token, TokenKind};

/// A text that is said at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPhrase {
    /// Tokens of the text, at least one.
    pub tokens: Vec<u32>,
    /// Frames that follow the end of speech.
    pub frames_after_end: usize,
    /// The words as written, and their characters in the text that is said.
    pub words: Vec<(String, Range<usize>)>,
}

impl TextPhrase {
    /// The phrase of a clause, if anything of it is text for the model; `written` gives the text of a range. English is said as the front
    /// end reads it; another language as it is written, in some with numbers in words.
    ///
    /// # Errors
    /// Those of `tokens`.
    pub fn of(
        clause: &Clause,
        language: &str,
        written: impl Fn(Range<usize>) -> String,
        tokens: impl FnOnce(&str) -> Result<Option<PreparedText>>,
    ) -> Result<Option<Self>> {
        let Some((said, words)) = said(clause, language, written) else { return Ok(None) };
        Ok(tokens(&said)?.map(|PreparedText { tokens, frames_after_end }| Self { tokens, frames_after_end, words }))
    }

    /// How the phrase is drawn: alike whenever it is said.
    pub fn options(&self) -> SequenceOptions {
        let mixed = |state: u64, token: &u32| (state ^ u64::from(*token)).wrapping_mul(0x0100_0000_01b3);
        let seed = self.tokens.iter().fold(0xcbf2_9ce4_8422_2325, mixed);
        SequenceOptions { seed, greedy: false, frames_after_end: self.frames_after_end }
    }
}

/// A word as written, and its characters in the text that is said.
type WrittenWord = (String, Range<usize>);

/// The text of a clause as a model without phones gets it, and its words; none if it has no word.
fn said(
    clause: &Clause,
    language: &str,
    written: impl Fn(Range<usize>) -> String,
) -> Option<(String, Vec<WrittenWord>)> {
    let is_english = language == "en";
    let (mut said, mut words) = (String::new(), Vec::new());
    let mut count = 0;
    let mut end = None;
    // Tokens of one written number or code belong together.
    for group in clause.tokens.chunk_by(|a, b| a.kind != TokenKind::Mark && a.written == b.written) {
        let (Some(first), place) = (group.first(), group[0].written.clone()) else { continue };
        // English says a date in several parts, with a comma between: it is written once.
        if !is_english && end.is_some_and(|end| place.end <= end) {
            continue;
        }
        let text = written(place.clone());
        if first.kind == TokenKind::Mark {
            // A mark without words before it is no pause.
            if is_english && !words.is_empty() {
                said.push_str(&first.text);
            } else if !is_english {
                said.push_str(&text);
            }
        } else {
            let gap = match end {
                // Markup is left out.
                Some(end) if !is_english => written(end..place.start).replace(|c: char| !joins(c), ""),
                Some(_) => " ".to_owned(),
                None => String::new(),
            };
            said.push_str(&gap);
            let from = said.chars().count();
            let spoken = if is_english { spoken(group, &text) } else { text.clone() };
            said.push_str(&spoken);
            count = said.chars().count();
            words.push((text, from..count));
        }
        end = Some(place.end);
    }
    if words.is_empty() || count == 0 {
        return None;
    }
    if let Some(language) = NumeralLanguage::of(language) {
        say_numerals(language, &mut said, &mut words);
    }
    Some((said, words))
}

/// The text of a clause as it is said, for people to read: English in words, with the names of letters in capitals; another
/// language as [`TextPhrase`] has it.
pub fn readable(clause: &Clause, language: &str, written: impl Fn(Range<usize>) -> String) -> Option<String> {
    if language != "en" {
        return said(clause, language, written).map(|(said, _)| said.trim().to_owned());
    }
    let mut text = String::new();
    for token in &clause.tokens {
        if token.kind != TokenKind::Mark && !text.is_empty() {
            text.push(' ');
        }
        match token.kind {
            TokenKind::Letter => {
                let (letter, ending) = token.text.split_at(1);
                text.push_str(&letter.to_ascii_uppercase());
                text.push_str(ending);
            }
            TokenKind::Word | TokenKind::Mark => text.push_str(&token.text),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Puts numbers into words, and moves the words' places in the text.
fn say_numerals(language: NumeralLanguage, said: &mut String, words: &mut [(String, Range<usize>)]) {
    // From the last on, so that the places before stay.
    for (bytes, spoken) in language.numerals(said).into_iter().rev() {
        let start = said[..bytes.start].chars().count();
        let end = start + said[bytes.clone()].chars().count();
        let new_end = start + spoken.chars().count();
        let moved = |place: usize| match place {
            place if place >= end => place - end + new_end,
            place if place > start => new_end,
            place => place,
        };
        for (_, place) in words.iter_mut() {
            *place = moved(place.start)..moved(place.end);
        }
        said.replace_range(bytes, &spoken);
    }
}

/// True for a character between words that is no markup.
fn joins(c: char) -> bool {
    c.is_whitespace() || ['-', '\'', '\u{2019}'].contains(&c)
}

/// How a written word is said: as it is written, with its capitals, where that is what it says.
fn spoken(group: &[Token], written: &str) -> String {
    let words: Vec<&str> = group.iter().map(|token| token.text.as_str()).collect();
    let letters = group.iter().all(|token| token.kind == TokenKind::Letter);
    if (letters && written.chars().all(char::is_alphabetic)) || written.to_lowercase() == words.concat() {
        return written.to_owned();
    }
    if letters { words.join(" ").to_uppercase() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::speech::ClauseSplitter;

    /// The texts that are said, with the written words and what each of them is there.
    fn said(text: &str, language: &str) -> Vec<(String, Vec<(String, String)>)> {
        let mut splitter = ClauseSplitter::new();
        let mut clauses = splitter.push(text);
        clauses.extend(splitter.finish());
        let mut found = Vec::new();
        for clause in clauses {
            let mut line = String::new();
            let tokens = |said: &str| {
                line = said.to_owned();
                Ok(Some(PreparedText { tokens: vec![1], frames_after_end: 2 }))
            };
            let written = |range: Range<usize>| text.get(range).unwrap_or_default().to_owned();
            let phrase = TextPhrase::of(&clause, language, written, tokens).unwrap();
            let Some(phrase) = phrase else { continue };
            let part = |range: &Range<usize>| line.chars().skip(range.start).take(range.len()).collect::<String>();
            found.push((line.clone(), phrase.words.iter().map(|(word, at)| (word.clone(), part(at))).collect()));
        }
        found
    }

    #[test]
    fn english_is_said_as_the_front_end_reads_it() {
        let found = said("Paris paid $5 to the BBC, today.", "en");
        let lines: Vec<&str> = found.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(lines.join(" "), "Paris paid five dollars to the BBC, today.");
        let words: Vec<(&str, &str)> =
            found.iter().flat_map(|(_, words)| words).map(|(word, said)| (word.as_str(), said.as_str())).collect();
        let expected = [
            ("Paris", "Paris"),
            ("paid", "paid"),
            ("$5", "five dollars"),
            ("to", "to"),
            ("the", "the"),
            ("BBC", "BBC"),
            ("today", "today"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn another_language_is_said_as_it_is_written() {
        let found = said("Det kostar 25 euro, idag.", "sv");
        let lines: Vec<&str> = found.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(lines.join(" "), "Det kostar 25 euro, idag.");
        assert!(found.iter().flat_map(|(_, words)| words).all(|(word, said)| word == said), "{found:?}");
        assert_eq!(said("Das ist **gut** so.", "de")[0].0, "Das ist gut so.");
    }

    #[test]
    fn numbers_of_the_voices_languages_are_said_in_words() {
        let lines = |text: &str, language: &str| {
            said(text, language).into_iter().map(|(line, _)| line).collect::<Vec<_>>().join(" ")
        };
        let german = lines("Am 3. März um 14:30 Uhr kosten 3,5 kg **1.250,50 €**.", "de");
        let expected = "Am dritten März um vierzehn Uhr dreißig kosten drei Komma fünf kg \
                        eintausendzweihundertfünfzig Euro fünfzig.";
        assert_eq!(german, expected);
        assert_eq!(
            lines("Le 27/11/2026, 80 %.", "fr"),
            "Le vingt-sept novembre deux mille vingt-six, quatre-vingts pour cent."
        );
        assert_eq!(lines("Son 21 €, o 1.000 euros.", "es"), "Son veintiún euros, o mil euros.");
        let every = "Das Zimmer 12 B, ca. 20 m², am 27.11.2026 und 11/27/2026, Tel. 030/1234567, 5:30 p.m., IV. Stock";
        assert_eq!(lines(every, "sv"), every, "nothing is said twice");
        let found = said("Nur 25 Leute kamen 1987 dorthin.", "de");
        let words: Vec<(&str, &str)> =
            found.iter().flat_map(|(_, words)| words).map(|(word, said)| (word.as_str(), said.as_str())).collect();
        let expected = [
            ("Nur", "Nur"),
            ("25", "fünfundzwanzig"),
            ("Leute", "Leute"),
            ("kamen", "kamen"),
            ("1987", "neunzehnhundertsiebenundachtzig"),
            ("dorthin", "dorthin"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn phrases_are_drawn_by_their_text() {
        let phrase = |tokens: &[u32]| TextPhrase { tokens: tokens.to_vec(), ..TextPhrase::default() }.options().seed;
        assert_eq!(phrase(&[1, 2]), phrase(&[1, 2]));
        assert_ne!(phrase(&[1, 2]), phrase(&[2, 1]));
    }
}
