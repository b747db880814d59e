//! Analysis of text that is no transcript: words with their places in it.

use std::ops::Range;

use super::forms;
use super::label::Label;
use super::mask::{self, Redaction};
use super::reading::Reading;
use super::{Finding, Tagger, Turn, entities_in, tag};
use crate::error::Result;
use crate::text::Word;

/// A span of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text of the span.
    pub text: String,
    /// The kind of what it names.
    pub label: Label,
    /// Its first character.
    pub start_char: usize,
    /// The character after its last.
    pub end_char: usize,
}

/// A text cut into words.
pub struct WrittenText<'a> {
    text: &'a str,
    /// The bytes of each word.
    words: Vec<Range<usize>>,
    /// The words that are identifiers as a whole.
    forms: Vec<(usize, Label)>,
    /// The findings of a tagger in the words.
    tagged: Vec<Finding>,
}

impl<'a> WrittenText<'a> {
    /// Cuts a text at spaces, at identifiers, and at marks that join words: "name:Jo", "Jo/Ann", "Smith,Jo".
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        let (mut words, mut forms) = (Vec::new(), Vec::new());
        let mut at = 0;
        for form in forms::find(text) {
            cut_at_spaces(text, at..form.bytes.start, &mut words);
            at = form.bytes.end;
            forms.push((words.len(), form.label));
            words.push(form.bytes);
        }
        cut_at_spaces(text, at..text.len(), &mut words);
        Self { text, words, forms, tagged: Vec::new() }
    }

    /// The text with the findings of a tagger, which join those of [`WrittenText::entities`] and [`WrittenText::redact`].
    ///
    /// # Errors
    /// As [`Tagger::tag`].
    pub fn tagged(mut self, tagger: &dyn Tagger) -> Result<Self> {
        self.tagged = tag(&self.turns(), Some(tagger))?;
        Ok(self)
    }

    /// The bytes of each word.
    #[must_use]
    pub fn words(&self) -> &[Range<usize>] {
        &self.words
    }

    /// The words with the places of their characters as times.
    #[must_use]
    pub fn to_words(&self) -> Vec<Word> {
        let (mut counted, mut chars) = (0, 0);
        let words = self.words.iter().map(|bytes| {
            chars += self.text[counted..bytes.start].chars().count();
            counted = bytes.start;
            let text = self.text[bytes.clone()].to_owned();
            let (start, end) = (chars as u64, (chars + text.chars().count()) as u64);
            Word { text, start, end, confidence: 1.0, speaker: None, speaker_name: None, channel: None }
        });
        words.collect()
    }

    fn turns(&self) -> Vec<Turn<'a>> {
        let line_ends = |end: usize, next: Option<&Range<usize>>| {
            next.is_some_and(|next| self.text[end..next.start].contains("\n\n"))
        };
        let words = self.words.iter().enumerate();
        words
            .map(|(at, word)| Turn {
                text: &self.text[word.clone()],
                ends: line_ends(word.end, self.words.get(at + 1)),
            })
            .collect()
    }

    /// The bytes of a run of words.
    fn bytes(&self, words: &Range<usize>, start: usize, end: usize) -> Range<usize> {
        self.words[words.start].start + start..self.words[words.end - 1].start + end
    }

    /// The entities of the text.
    #[must_use]
    pub fn entities(&self) -> Vec<Span> {
        let turns = self.turns();
        let mut reading = Reading::new(&turns);
        reading.mark(&self.forms);
        let spans = entities_in(&reading, &self.tagged).into_iter().map(|finding| {
            let (start, end) = reading.bounds(&finding.words, finding.label);
            (self.bytes(&finding.words, start, end), finding.label)
        });
        self.spans(spans.collect())
    }

    /// The text without its personal words, and the spans that were hidden.
    #[must_use]
    pub fn redact(&self, redaction: &Redaction) -> (String, Vec<Span>) {
        let runs = mask::hidden_runs(&self.turns(), &self.forms, redaction, &self.tagged);
        let mut redacted = String::with_capacity(self.text.len());
        let mut spans = Vec::new();
        let mut at = 0;
        for run in runs {
            let bytes = self.bytes(&run.words, run.start, run.end);
            redacted.push_str(&self.text[at..bytes.start]);
            redacted.push_str(&mask::mask_of(&self.text[bytes.clone()], run.label, redaction));
            at = bytes.end;
            spans.push((bytes, run.label));
        }
        redacted.push_str(&self.text[at..]);
        (redacted, self.spans(spans))
    }

    fn spans(&self, found: Vec<(Range<usize>, Label)>) -> Vec<Span> {
        let (mut counted, mut chars) = (0, 0);
        found
            .into_iter()
            .map(|(bytes, label)| {
                chars += self.text[counted..bytes.start].chars().count();
                counted = bytes.start;
                let text = self.text[bytes].to_owned();
                Span { label, start_char: chars, end_char: chars + text.chars().count(), text }
            })
            .collect()
    }
}

fn cut_at_spaces(text: &str, part: Range<usize>, words: &mut Vec<Range<usize>>) {
    let mut start = None;
    for (at, letter) in text[part.clone()].char_indices().chain([(part.len(), ' ')]) {
        match (letter.is_whitespace(), start) {
            (false, None) => start = Some(part.start + at),
            (true, Some(from)) => {
                cut(text, from..part.start + at, words);
                start = None;
            }
            _ => {}
        }
    }
}

/// Cuts what stands between two spaces.
fn cut(text: &str, word: Range<usize>, words: &mut Vec<Range<usize>>) {
    let piece = &text[word.clone()];
    let whole = piece.contains("://")
        || piece.contains('@') && !piece.contains([':', ',', ';', '=', '<'])
        || super::reading::is_mask(piece);
    let mut start = word.start;
    if !whole {
        let mut letters = piece.char_indices().peekable();
        let mut before = ' ';
        while let Some((at, mark)) = letters.next() {
            let next = letters.peek().map_or(' ', |(_, next)| *next);
            let joins = match mark {
                ':' | '=' => {
                    (before.is_alphabetic() || "\"'".contains(before))
                        && next != '/'
                        && !next.is_whitespace()
                        && !piece[..at].contains('.')
                        && !is_hex(piece)
                }
                ';' if before.is_alphanumeric() && next.is_alphanumeric() => true,
                ',' | ';' => {
                    next == '"' && (before == '"' || before.is_alphanumeric())
                        || before == '"' && next.is_alphanumeric()
                        || before.is_alphanumeric() && next.is_alphabetic()
                        || before.is_alphabetic() && next.is_alphanumeric()
                }
                '/' | '|' => before.is_alphabetic() && next.is_alphabetic() && !piece.contains('.') && at > 1,
                '&' => piece.contains('=') && next.is_alphabetic(),
                '—' | '…' => !next.is_whitespace(),
                '<' => !next.is_whitespace() && at > 0,
                _ => false,
            };
            before = mark;
            if joins {
                let end = word.start + at + mark.len_utf8();
                words.push(start..end);
                start = end;
            }
        }
    }
    if start < word.end {
        words.push(start..word.end);
    }
}

/// An address such as "fe80::1" has colons of its own.
fn is_hex(piece: &str) -> bool {
    piece.matches(':').count() > 1 && piece.chars().all(|letter| letter.is_ascii_hexdigit() || letter == ':')
}

/// Hides the personal words of a text.
#[must_use]
pub fn redact_text(text: &str, redaction: &Redaction) -> (String, Vec<Span>) {
    WrittenText::new(text).redact(redaction)
}
