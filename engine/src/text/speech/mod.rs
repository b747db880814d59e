//! The text front end of speech synthesis: written text to clauses of spoken words, and words to phones.
//!
//! [`ClauseSplitter`] takes text in pieces and gives clauses, whose tokens are words as they are said and marks.
//! [`Pronouncer`] gives their phones. Text is read as English; `numerals` says the numbers of others.

mod clauses;
mod english;
mod heteronyms;
mod inflections;
mod lexicon;
mod markup;
mod numerals;
mod phone;
mod pronouncer;

use std::ops::Range;

pub use clauses::ClauseSplitter;
pub use lexicon::Lexicon;
pub(crate) use numerals::Language as NumeralLanguage;
pub use phone::{PHONES, Phone};
pub use pronouncer::{GraphemeToPhoneme, Pronouncer};

/// A stretch of text that is said at once: at least one word, and a mark at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Words in the order in which they are said, and marks.
    pub tokens: Vec<Token>,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word.
    Word,
    /// A letter that is said by its name, as those of "BBC"; it may have a genitive's or plural's "'s".
    Letter,
    /// A mark: a pause, and the tone before it.
    Mark,
}

/// A spoken word or a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// A word of the letters a to z and apostrophes, or one of `, . ? !`.
    pub text: String,
    /// Word, letter or mark.
    pub kind: TokenKind,
    /// The bytes of the whole text that it stands for. Words of one written number or code have its range; a mark
    /// that is not written has an empty one. Starts never decrease.
    pub written: Range<usize>,
}
