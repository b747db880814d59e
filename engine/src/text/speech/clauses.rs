//! Text that comes in pieces to clauses.
//!
//! A cut depends on the text before it and on a bounded part behind it, and is made as soon as that part is there; so the
//! clauses are the same however the text is split into pieces.

use super::Clause;
use super::english::{follows_comma, is_stopped_before, may_be_stopped, tokens};
use super::markup::{Extent, markup_extent};
use crate::text::sentence_boundaries::{CLOSERS, always_ends_sentence, ends_sentence};
use crate::text::word_list::words;

/// Words after which the first clause is cut between plain words.
const FIRST_WORDS: usize = 8;

/// Words after which a clause is cut at a comma.
const COMMA_WORDS: usize = 25;

/// Words after which a clause is cut between plain words.
const SOFT_WORDS: usize = 40;

/// Words after which a clause is cut at any space.
const MAX_WORDS: usize = 60;

/// Bytes after which a clause is cut at any space.
const MAX_BYTES: usize = 1500;

/// Bytes after which a word without a space is cut.
const MAX_WORD_BYTES: usize = 1000;

/// Words that a voice does not pause behind.
const LEANING: &[&str] = words!(
    "a an the of to in on at for with from by and or but my your his her its our their is are was were be not very as \
     that this than i"
);

/// Splits text that comes in pieces into clauses: the first is cut early (behind a comma, or after 8 words), then
/// sentences.
#[derive(Clone, Debug, Default)]
pub struct ClauseSplitter {
    pending: String,
    /// The place of `pending` in the whole text.
    base: usize,
    /// True when a clause was given.
    begun: bool,
}

/// The end of a clause: bytes, and the mark where none is written.
struct Cut {
    end: usize,
    mark: char,
}

impl ClauseSplitter {
    /// Begins a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece, and gives the clauses that are complete.
    pub fn push(&mut self, text: &str) -> Vec<Clause> {
        self.pending.push_str(text);
        self.take(false)
    }

    /// Ends the text, and gives the clauses that are left.
    pub fn finish(&mut self) -> Vec<Clause> {
        let mut clauses = self.take(true);
        clauses.extend(self.clause(0, Cut { end: self.pending.len(), mark: '.' }));
        self.base += self.pending.len();
        self.pending.clear();
        clauses
    }

    fn take(&mut self, ended: bool) -> Vec<Clause> {
        let mut clauses = Vec::new();
        let mut start = 0;
        while let Some(cut) = next_cut(&self.pending[start..], !self.begun, ended) {
            let end = start + cut.end;
            clauses.extend(self.clause(start, Cut { end, ..cut }));
            start = end;
        }
        self.pending.drain(..start);
        self.base += start;
        clauses
    }

    /// The clause from a place of the pending text to a cut, if it has a word.
    fn clause(&mut self, start: usize, cut: Cut) -> Option<Clause> {
        let tokens = tokens(&self.pending[start..cut.end], self.base + start, cut.mark);
        self.begun |= !tokens.is_empty();
        (!tokens.is_empty()).then_some(Clause { tokens })
    }
}

/// The first cut of a text, or none while more text may decide otherwise.
fn next_cut(text: &str, first: bool, ended: bool) -> Option<Cut> {
    let (mut words, mut word_start, mut at) = (0, None, 0);
    while let Some(letter) = text[at..].chars().next() {
        if letter.is_whitespace() {
            if let Some(start) = word_start.take() {
                let word = &text[start..at];
                words += usize::from(word.contains(char::is_alphanumeric));
                match cut_at_space(text, at, word, words, first, ended) {
                    Decision::Cut(mark) => return Some(Cut { end: at, mark }),
                    Decision::Wait => return None,
                    Decision::GoOn => {}
                }
            }
            at += letter.len_utf8();
            continue;
        }
        let start = *word_start.get_or_insert(at);
        at = match markup_extent(&text[at..], ended) {
            Extent::To(length) => at + length,
            Extent::Unknown => return None,
            Extent::None => at + letter.len_utf8(),
        };
        if at - start > MAX_WORD_BYTES {
            return Some(Cut { end: at, mark: ',' });
        }
    }
    None
}

enum Decision {
    Cut(char),
    /// More text is needed.
    Wait,
    GoOn,
}

/// Decides on a cut at a space, behind a word.
fn cut_at_space(text: &str, at: usize, word: &str, words: usize, first: bool, ended: bool) -> Decision {
    if words == 0 {
        return if at >= MAX_BYTES { Decision::Cut(',') } else { Decision::GoOn };
    }
    if always_ends_sentence(word) && !may_be_stopped(word) {
        return Decision::Cut('.');
    }
    let rest = &text[at..];
    let after = rest.trim_start();
    let gap = &rest[..rest.len() - after.len()];
    let next_length = after.find(char::is_whitespace);
    let Some(next_length) = next_length.or(ended.then_some(after.len())) else { return Decision::Wait };
    let next = &after[..next_length];
    if next.is_empty() {
        return Decision::GoOn;
    }
    if ends_line(text, at, gap, next) {
        return Decision::Cut('.');
    }
    let is_number_of_list = words == 1 && word.strip_suffix(['.', ')']).is_some_and(is_digits);
    if !is_number_of_list && ends_sentence(word, next) && !is_stopped_before(word, next) {
        return Decision::Cut('.');
    }
    let pauses = word.trim_end_matches(CLOSERS).ends_with([',', ';', ':', '\u{2014}'])
        && !next.starts_with(|next: char| next.is_numeric())
        && !follows_comma(next);
    let cut =
        if first { pauses || (words >= FIRST_WORDS && is_soft(word, next)) } else { pauses && words >= COMMA_WORDS };
    if cut || (words >= SOFT_WORDS && is_soft(word, next)) || words >= MAX_WORDS || at >= MAX_BYTES {
        return Decision::Cut(',');
    }
    Decision::GoOn
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if a line ends a clause: before a blank line or an item of a list, and behind a heading or an item.
fn ends_line(text: &str, at: usize, gap: &str, next: &str) -> bool {
    match gap.matches('\n').count() {
        0 => false,
        1 => {
            let line = text[..at].rsplit('\n').next().unwrap_or_default().trim_start();
            begins_item(next) || begins_item(line.split_whitespace().next().unwrap_or_default())
        }
        _ => true,
    }
}

/// True for the first word of a heading, a quotation, a row of a table or an item of a list.
fn begins_item(word: &str) -> bool {
    matches!(word, "-" | "*" | "+" | "\u{2022}" | "\u{2013}" | ">")
        || word.starts_with(['|', '\u{2022}'])
        || word.starts_with("```")
        || !word.is_empty() && word.trim_start_matches('#').is_empty()
        || word.strip_suffix(['.', ')']).is_some_and(is_digits)
}

/// True between two plain words where a pause does not break a phrase.
fn is_soft(word: &str, next: &str) -> bool {
    let is_plain = |word: &str| word.chars().all(|letter| letter.is_lowercase() || letter == '\'');
    is_plain(word) && is_plain(next) && !LEANING.contains(&word) && !["of", "than"].contains(&next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::speech::TokenKind;

    /// Clauses as text, of a text in pieces.
    fn clauses(pieces: &[&str]) -> Vec<Clause> {
        let mut splitter = ClauseSplitter::new();
        let mut found: Vec<Clause> = pieces.iter().flat_map(|piece| splitter.push(piece)).collect();
        found.extend(splitter.finish());
        found
    }

    fn texts(text: &str) -> Vec<String> {
        let join =
            |clause: &Clause| clause.tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ");
        clauses(&[text]).iter().map(join).collect()
    }

    #[test]
    fn the_first_clause_is_short_and_the_rest_are_sentences() {
        assert_eq!(texts("Well, I see, yes. And then, we go!"), ["well ,", "i see , yes .", "and then , we go !"]);
        let long = texts("one two three four five six seven eight nine ten eleven twelve. Next one.");
        assert_eq!(long[0], "one two three four five six seven eight ,");
        assert_eq!(long[1], "nine ten eleven twelve .");
        assert_eq!(texts("Plain"), ["plain ."]);
    }

    #[test]
    fn abbreviations_numbers_and_addresses_stay_whole() {
        for text in [
            "See Dr. Smith today",
            "It is 3.5 now",
            "Fruit e.g. apples",
            "Look at https://example.com/a,b?c=d.e now",
            "Born March 5, 2024 here",
            "Ask J. R. Smith here",
            "Sammy Davis, Jr. sang",
        ] {
            assert_eq!(clauses(&[text]).len(), 1, "{text}");
        }
    }

    #[test]
    fn complete_sentences_are_given_at_once() {
        let mut splitter = ClauseSplitter::new();
        assert_eq!(splitter.push("Hello there.").len(), 0);
        assert_eq!(splitter.push(" ").len(), 1);
        assert_eq!(splitter.push("I met Dr. ").len(), 0);
        assert_eq!(splitter.push("Who? ").len(), 1);
        assert_eq!(splitter.finish().len(), 0);
    }

    #[test]
    fn lines_of_lists_and_paragraphs_are_clauses() {
        assert_eq!(
            texts("# Title\nText goes\non here\n\nNew\n- one\n- two\n1. first"),
            ["title .", "text goes on here .", "new .", "one .", "two .", "one , first ."]
        );
    }

    #[test]
    fn text_without_words_has_no_clause() {
        for text in ["", " \n", "...", "\u{1f600} \u{1f600}", "?! \u{0}", "<b></b>", "\u{5d0}\u{5d1}"] {
            assert_eq!(texts(text), Vec::<String>::new(), "{text:?}");
        }
    }

    #[test]
    fn text_without_marks_or_spaces_is_cut() {
        let words = "word ".repeat(500);
        assert!(clauses(&[&words]).iter().all(|clause| clause.tokens.len() <= MAX_WORDS + 1));
        let letters = "x".repeat(5000);
        assert_eq!(clauses(&[&letters]).len(), 5);
    }

    /// A generator of numbers for made-up texts (xorshift).
    fn random(state: &mut u64, below: usize) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state % below as u64) as usize
    }

    const PARTS: [&str; 64] = [
        "the",
        "cat",
        " ",
        " ",
        " ",
        ". ",
        ", ",
        "! ",
        "? ",
        "\n",
        "\n\n",
        "Dr.",
        "e.g.",
        "3.5",
        "$5.20",
        "\u{20ac}3m",
        "March 5, 2024",
        "5'10\"",
        "<b>",
        "</b>",
        "<break time=\"1.0 s\"/>",
        "<",
        "[click, here](http://a.b/c. d)",
        "[",
        "](",
        "&amp;",
        "**",
        "_",
        "`",
        "```rust\n",
        "# ",
        "- ",
        "1. ",
        "\u{1f600}",
        "\u{1f469}\u{200d}\u{1f52c}",
        "\u{5d0}\u{5d1}",
        "\u{0}",
        "\u{7}",
        "\u{201c}so\u{201d}",
        "it\u{2019}s",
        "caf\u{e9}",
        "e\u{301}",
        "\u{fb01}sh",
        "BBC",
        "NATO's",
        "DVDs",
        "Henry VIII",
        "iPhone",
        "a@b.co",
        "1/2",
        "10-12",
        "-5",
        "12:30 pm",
        "1990s",
        "\u{bd}",
        "B-52",
        "20\u{b0}C",
        "...",
        "\u{2014}",
        "(",
        ")",
        "\\",
        "#tag",
        "999999999999999999999999",
    ];

    fn made_up(state: &mut u64) -> String {
        (0..random(state, 60)).map(|_| PARTS[random(state, PARTS.len())]).collect()
    }

    #[test]
    fn pieces_make_no_difference() {
        let mut state = 7;
        for _ in 0..1500 {
            let text = made_up(&mut state);
            let whole = clauses(&[&text]);
            let characters: Vec<String> = text.chars().map(String::from).collect();
            let singly: Vec<&str> = characters.iter().map(String::as_str).collect();
            assert_eq!(clauses(&singly), whole, "{text:?}");
            let mut cuts: Vec<usize> = (0..5).map(|_| random(&mut state, text.len() + 1)).collect();
            cuts.retain(|cut| text.is_char_boundary(*cut));
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            assert_eq!(clauses(&pieces), whole, "{text:?}");
        }
    }

    /// Holds clauses to what every text is promised.
    fn check(text: &str) {
        let mut start = 0;
        for clause in clauses(&[text]) {
            assert!(clause.tokens.iter().any(|token| token.kind != TokenKind::Mark), "{text:?}");
            assert_eq!(clause.tokens.last().map(|token| token.kind), Some(TokenKind::Mark), "{text:?}");
            assert_ne!(clause.tokens.first().map(|token| token.kind), Some(TokenKind::Mark), "{text:?}");
            for pair in clause.tokens.windows(2) {
                assert!(pair.iter().any(|token| token.kind != TokenKind::Mark), "two marks: {text:?}");
            }
            for token in &clause.tokens {
                assert!(
                    token.written.start >= start && text.get(token.written.clone()).is_some(),
                    "{token:?} of {text:?}"
                );
                start = token.written.start;
                let bare = token.text.replace('\'', "");
                match token.kind {
                    TokenKind::Mark => assert!([",", ".", "?", "!"].contains(&token.text.as_str()), "{token:?}"),
                    TokenKind::Letter => {
                        assert!(matches!(token.text.trim_end_matches("'s").as_bytes(), [b'a'..=b'z']), "{token:?}")
                    }
                    TokenKind::Word => {
                        assert!(
                            !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_lowercase()),
                            "{token:?} of {text:?}"
                        );
                    }
                }
                assert!(token.kind == TokenKind::Mark || !token.written.is_empty(), "{token:?} of {text:?}");
            }
        }
    }

    #[test]
    fn any_text_gives_words_that_can_be_said() {
        let mut state = 11;
        for _ in 0..3000 {
            check(&made_up(&mut state));
            let any = |state: &mut u64| loop {
                let top = [0x80, 0x250, 0x3000, 0x11_0000][random(state, 4)];
                if let Some(letter) = char::from_u32(random(state, top) as u32) {
                    break letter;
                }
            };
            let text: String = (0..random(&mut state, 80)).map(|_| any(&mut state)).collect();
            check(&text);
        }
        for letter in '\u{0}'..='\u{ffff}' {
            check(&format!("a{letter}b {letter}5{letter} {letter}"));
        }
    }
}
