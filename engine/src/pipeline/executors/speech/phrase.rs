//! A clause as a model reads it; for an acoustic model symbols, and the words that they belong to.

use std::ops::Range;

use super::text_phrase::TextPhrase;
use crate::text::speech::{Clause, Phone, TokenKind};

/// A phrase, which is said at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phrase {
    /// For a model that reads phones.
    Phones(PhonePhrase),
    /// For a model that reads text.
    Text(TextPhrase),
}

/// Symbols that are said at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhonePhrase {
    /// Numbers of the vocabulary: the silence before, phones, marks, and what else the model reads.
    pub symbols: Vec<usize>,
    /// The words, in their order.
    pub words: Vec<PhraseWord>,
}

/// A written word of a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhraseWord {
    /// As written.
    pub text: String,
    /// Its symbols.
    pub symbols: Range<usize>,
}

/// Numbers of the vocabulary.
pub trait Symbols {
    /// Symbols of a phrase at most. A clause of more is said in several.
    fn most(&self) -> usize;
    /// Of the silence before a phrase.
    fn edge(&self) -> usize;
    /// Of a spoken word with its phones.
    fn word(&self, word: &str, phones: &[Phone]) -> Vec<usize>;
    /// Of one of `, . ? !`.
    fn mark(&self, mark: &str) -> Option<usize>;

    /// Of what is between words, if anything is.
    fn gap(&self) -> Option<usize> {
        None
    }

    /// Of the silence behind a phrase, if it has its own symbol.
    fn end(&self) -> Option<usize> {
        None
    }
}

/// The phrases of a clause with the phones of its tokens; `written` gives the text of a range. A clause without phones has none.
pub fn phrases(
    clause: &Clause,
    phones: &[Vec<Phone>],
    symbols: &impl Symbols,
    written: impl Fn(Range<usize>) -> String,
) -> Vec<PhonePhrase> {
    let begin = || PhonePhrase { symbols: vec![symbols.edge()], words: Vec::new() };
    let pause = symbols.mark(",");
    // Room for the mark at the end, and for what is around a word.
    let room = 1 + symbols.gap().iter().count() + symbols.end().iter().count();
    let finished = |mut phrase: PhonePhrase| {
        phrase.symbols.extend(symbols.end());
        phrase
    };
    let (mut found, mut phrase) = (Vec::new(), begin());
    let mut ended_at: Option<Range<usize>> = None;
    for (token, phones) in clause.tokens.iter().zip(phones) {
        if token.kind == TokenKind::Mark {
            // A mark without words before it is no pause.
            if !phrase.words.is_empty() {
                phrase.symbols.extend(symbols.mark(&token.text));
            }
            continue;
        }
        // A word of more symbols than fit is said in pieces.
        let longest = symbols.most().saturating_sub(1 + room).max(1);
        for (piece, said) in symbols.word(&token.text, phones).chunks(longest).enumerate() {
            if phrase.symbols.len() + said.len() + room > symbols.most() && !phrase.words.is_empty() {
                phrase.symbols.extend(pause);
                found.push(finished(std::mem::replace(&mut phrase, begin())));
            }
            if !phrase.words.is_empty() {
                phrase.symbols.extend(symbols.gap());
            }
            let first = phrase.symbols.len();
            phrase.symbols.extend(said);
            let end = phrase.symbols.len();
            let goes_on = piece > 0 || ended_at.as_ref() == Some(&token.written);
            match phrase.words.last_mut() {
                // Several spoken words of one written number.
                Some(word) if goes_on => word.symbols.end = end,
                _ => phrase.words.push(PhraseWord { text: written(token.written.clone()), symbols: first..end }),
            }
        }
        ended_at = Some(token.written.clone());
    }
    if !phrase.words.is_empty() {
        let ends_in_mark = clause.tokens.last().is_some_and(|token| token.kind == TokenKind::Mark);
        if !ends_in_mark {
            phrase.symbols.extend(pause);
        }
        found.push(finished(phrase));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::speech::Token;

    /// Symbols of a phrase at most.
    const MOST_SYMBOLS: usize = 400;

    /// Phones are their numbers from 10 on.
    struct Numbers;

    impl Symbols for Numbers {
        fn most(&self) -> usize {
            MOST_SYMBOLS
        }

        fn edge(&self) -> usize {
            0
        }

        fn word(&self, _: &str, phones: &[Phone]) -> Vec<usize> {
            vec![10; phones.len()]
        }

        fn mark(&self, mark: &str) -> Option<usize> {
            [",", ".", "?", "!"].iter().position(|known| *known == mark).map(|at| at + 1)
        }
    }

    fn token(text: &str, written: Range<usize>) -> Token {
        let kind = if text.chars().all(char::is_alphabetic) { TokenKind::Word } else { TokenKind::Mark };
        Token { text: text.into(), kind, written }
    }

    /// As [`Numbers`], with gaps and an end.
    struct Spaced;

    impl Symbols for Spaced {
        fn most(&self) -> usize {
            MOST_SYMBOLS
        }

        fn edge(&self) -> usize {
            0
        }

        fn word(&self, word: &str, phones: &[Phone]) -> Vec<usize> {
            Numbers.word(word, phones)
        }

        fn mark(&self, mark: &str) -> Option<usize> {
            Numbers.mark(mark)
        }

        fn gap(&self) -> Option<usize> {
            Some(7)
        }

        fn end(&self) -> Option<usize> {
            Some(8)
        }
    }

    fn said_with(symbols: &impl Symbols, text: &str, tokens: Vec<Token>, phones: &[usize]) -> Vec<PhonePhrase> {
        let phone = Phone::from_index(0).unwrap();
        let phones: Vec<Vec<Phone>> = phones.iter().map(|count| vec![phone; *count]).collect();
        phrases(&Clause { tokens }, &phones, symbols, |range| text[range].to_owned())
    }

    fn said(text: &str, tokens: Vec<Token>, phones: &[usize]) -> Vec<PhonePhrase> {
        said_with(&Numbers, text, tokens, phones)
    }

    #[test]
    fn gaps_are_between_words_and_the_end_is_behind_the_last_mark() {
        let tokens = || vec![token("pay", 0..3), token(",", 3..4), token("now", 5..8), token(".", 8..8)];
        let found = said_with(&Spaced, "pay, now", tokens(), &[2, 0, 1, 0]);
        assert_eq!(found[0].symbols, [0, 10, 10, 1, 7, 10, 2, 8]);
        let words: Vec<_> = found[0].words.iter().map(|word| word.symbols.clone()).collect();
        assert_eq!(words, [1..3, 5..6]);
        let long = (0..300).map(|at| token("a", 2 * at..2 * at + 1)).collect();
        let found = said_with(&Spaced, &"a ".repeat(300), long, &[4; 300]);
        assert!(found.iter().all(|phrase| phrase.symbols.len() <= MOST_SYMBOLS && phrase.symbols.ends_with(&[1, 8])));
        assert_eq!(found.iter().map(|phrase| phrase.words.len()).sum::<usize>(), 300);
    }

    #[test]
    fn words_have_their_symbols_and_spoken_words_of_a_number_are_one() {
        let tokens = vec![
            token("pay", 0..3),
            token("five", 4..6),
            token("dollars", 4..6),
            token(",", 6..7),
            token("now", 8..11),
            token(".", 11..11),
        ];
        let found = said("pay $5, now", tokens, &[2, 3, 4, 0, 1, 0]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].symbols, [vec![0], vec![10; 9], vec![1, 10, 2]].concat());
        let words: Vec<_> = found[0].words.iter().map(|word| (word.text.as_str(), word.symbols.clone())).collect();
        assert_eq!(words, [("pay", 1..3), ("$5", 3..10), ("now", 11..12)]);
    }

    #[test]
    fn a_clause_of_marks_alone_is_not_said() {
        assert!(said(".", vec![token(".", 0..1)], &[0]).is_empty());
    }

    #[test]
    fn a_long_clause_is_said_in_several_phrases() {
        let text = "a ".repeat(300);
        let tokens: Vec<Token> = (0..300).map(|at| token("a", 2 * at..2 * at + 1)).collect();
        let found = said(&text, tokens, &[5; 300]);
        assert!(found.iter().all(|phrase| phrase.symbols.len() <= MOST_SYMBOLS));
        assert_eq!(found.iter().map(|phrase| phrase.words.len()).sum::<usize>(), 300);
        assert!(found.iter().all(|phrase| phrase.symbols.last() == Some(&1)));
    }

    #[test]
    fn a_word_without_end_is_said_in_pieces() {
        let found = said("a", vec![token("a", 0..1), token(".", 1..1)], &[1_000, 0]);
        assert!(found.iter().all(|phrase| phrase.symbols.len() <= MOST_SYMBOLS));
        let phones: usize =
            found.iter().map(|phrase| phrase.symbols.iter().filter(|symbol| **symbol == 10).count()).sum();
        assert_eq!(phones, 1_000);
    }
}
