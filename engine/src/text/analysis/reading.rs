//! The words as finders see them: without the punctuation around them, folded, with their breaks and list memberships.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::Turn;
use super::label::Label;
use super::lists::{CALENDAR, COMMON, COMPANY, FIRM, Flags, GIVEN, Lists, RARE, SURNAME, TOWN};
use crate::text::quote_marks::{original_place, plain};
use crate::text::word_list::words;

/// The punctuation between a word and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Break {
    /// None.
    None,
    /// A comma, a dash, a closing bracket.
    Clause,
    /// A full stop, a mark of exclamation.
    Sentence,
    /// A question mark.
    Question,
}

/// A word as finders see it.
#[derive(Debug)]
pub struct Token<'a> {
    /// The word with its punctuation, quotation marks in their plain form.
    pub text: Cow<'a, str>,
    /// The word as written.
    pub original: &'a str,
    /// The part without the punctuation around it and without `'s`, in bytes.
    pub core: Range<usize>,
    /// The core in lower case without accents.
    pub lower: String,
    /// It begins with a capital.
    pub capital: bool,
    /// It begins a sentence.
    pub first: bool,
    /// The break after it.
    pub after: Break,
    /// Its list memberships.
    pub flags: Flags,
    /// It is a mark of an earlier redaction, which nothing crosses.
    pub masked: bool,
    /// The number of its sentence.
    pub sentence: usize,
    /// The whole word is an identifier of this kind.
    pub form: Option<Label>,
}

impl Token<'_> {
    /// The core as written.
    pub fn core(&self) -> &str {
        &self.text[self.core.clone()]
    }

    /// True if all of these list memberships hold.
    pub fn is(&self, flags: Flags) -> bool {
        self.flags & flags == flags
    }
}

/// The words of a text.
pub struct Reading<'a> {
    /// The words.
    pub tokens: Vec<Token<'a>>,
    /// Capitals mean something: most sentences begin with one, or names have them.
    pub cased: bool,
}

impl<'a> Reading<'a> {
    /// Reads words.
    pub fn new(words: &[Turn<'a>]) -> Self {
        let lists = Lists::get();
        let mut tokens: Vec<Token<'a>> = Vec::new();
        let (mut first, mut sentence) = (true, 0);
        let (mut capitals, mut letters) = (0usize, 0usize);
        for &Turn { text: original, ends } in words {
            let text = plain(original);
            let masked = is_mask(&text);
            let core = core_of(&text);
            let lower = fold(&text[core.clone()]);
            let capital = has_capital(&text[core.clone()]);
            let mut after = break_after(&text[core.end..], &lower);
            if ends {
                after = after.max(Break::Sentence);
            }
            let mut flags = if masked { 0 } else { lists.flags(&lower) };
            if lower.contains('-') && !masked {
                flags |= hyphenated(&lower, lists);
            }
            if lower.contains('\'') && !masked {
                flags |= prefixed(&lower, lists);
            }
            if lower.len() > 2 && text[core.clone()].starts_with(char::is_alphabetic) {
                letters += 1;
                // Capitals throughout tell nothing.
                let shout = text[core.clone()].chars().all(|letter| letter.is_uppercase() || !letter.is_alphabetic());
                capitals += usize::from(capital && !shout);
            }
            tokens.push(Token {
                text,
                original,
                core,
                lower,
                capital,
                first,
                after,
                flags,
                masked,
                sentence,
                form: None,
            });
            first = after >= Break::Sentence;
            sentence += usize::from(first);
        }
        // A text in lower case may hold a few capitals, such as "I".
        let cased = capitals * 25 >= letters && capitals > 0;
        Self { tokens, cased }
    }

    /// Marks words that are identifiers as a whole.
    pub fn mark(&mut self, forms: &[(usize, Label)]) {
        for &(at, label) in forms {
            if let Some(token) = self.tokens.get_mut(at) {
                token.core = 0..token.text.len();
                token.flags = 0;
                token.form = Some(label);
            }
        }
    }

    /// The folded word at an index; empty beyond the ends and at marks of redaction.
    pub fn lower(&self, at: usize) -> &str {
        match self.tokens.get(at) {
            Some(token) if !token.masked => &token.lower,
            _ => "",
        }
    }

    /// The folded word `back` words before `at`.
    pub fn before(&self, at: usize, back: usize) -> &str {
        at.checked_sub(back).map_or("", |at| self.lower(at))
    }

    /// True if the word is written with an `'s` that its core lacks: "it's".
    pub fn is_contracted(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.text[token.core.end..].starts_with('\''))
    }

    /// True if the words at `at` are those of a phrase.
    pub fn starts(&self, at: usize, phrase: &str) -> bool {
        phrase.split(' ').enumerate().all(|(offset, word)| {
            self.lower(at + offset) == word && (offset == 0 || self.tokens[at + offset - 1].after < Break::Sentence)
        })
    }

    /// True if no sentence ends between two words.
    pub fn joined(&self, from: usize, to: usize) -> bool {
        self.tokens[from..to].iter().all(|token| token.after < Break::Sentence && !token.masked)
    }

    /// The part of a finding's first and last words that it hides, in bytes of each word
    /// as written.
    pub fn bounds(&self, words: &Range<usize>, label: Label) -> (usize, usize) {
        let (Some(first), Some(last)) = (self.tokens.get(words.start), self.tokens.get(words.end.wrapping_sub(1)))
        else {
            return (0, 0);
        };
        let (mut start, mut end) = (first.core.start, last.core.end);
        if first.form.is_some() && last.form.is_some() {
            return (original_place(first.original, start), original_place(last.original, end));
        }
        if matches!(label, Label::Password | Label::Username) {
            // A password may end with marks.
            start = first.text.len() - first.text.trim_start_matches(['"', '\'', '(', '[']).len();
            let kept = last.text.trim_end_matches(['.', ',', ';', ':', '?', '"', '\'', ')', ']']);
            end = kept.len().max(end);
        }
        let opens = |text: &str| text.matches('(').count();
        let closes = |text: &str| text.matches(')').count();
        let inner: i64 = if words.len() == 1 {
            opens(&first.text[start..end]) as i64 - closes(&first.text[start..end]) as i64
        } else {
            let middle = &self.tokens[words.start + 1..words.end - 1];
            let sum: i64 = middle.iter().map(|token| opens(&token.text) as i64 - closes(&token.text) as i64).sum();
            sum + opens(&first.text[start..]) as i64 - closes(&first.text[start..]) as i64
                + opens(&last.text[..end]) as i64
                - closes(&last.text[..end]) as i64
        };
        if inner < 0 && first.text[..start].ends_with('(') {
            start -= 1;
        }
        if inner > 0 && last.text[end..].starts_with(')') {
            end += 1;
        }
        (original_place(first.original, start), original_place(last.original, end))
    }
}

/// True for the mark of a redaction: `[LABEL]` or `####`.
pub fn is_mask(text: &str) -> bool {
    let Some(open) = text.find('[') else { return text.contains("##") };
    text[open + 1..].split(']').next().is_some_and(|name| Label::named(name).is_some())
}

/// The core of a word: without the punctuation around it and without `'s`.
fn core_of(text: &str) -> Range<usize> {
    let Some(mut start) = text.find(char::is_alphanumeric) else { return 0..text.len() };
    let before = text[..start].chars().next_back();
    if let Some(mark) = before.filter(|mark| "+@$£€".contains(*mark)) {
        start -= mark.len_utf8();
    }
    let mut end = text
        .char_indices()
        .rev()
        .find(|(_, letter)| letter.is_alphanumeric())
        .map_or(text.len(), |(at, letter)| at + letter.len_utf8());
    for owner in ["'s", "'S"] {
        if text[start..end].ends_with(owner) && end - start > owner.len() {
            end -= owner.len();
        }
    }
    start..end
}

/// The text in lower case without accents.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    for letter in text.nfd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase) {
        match letter {
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'þ' => folded.push_str("th"),
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ı' => folded.push('i'),
            '’' | '‘' => folded.push('\''),
            '‑' | '–' => folded.push('-'),
            letter => folded.push(letter),
        }
    }
    folded
}

/// True for a word with a capital first, or behind the small prefix of a name: "d'Aubigny", "al-Mutairi".
fn has_capital(core: &str) -> bool {
    let prefixes = ["d'", "l'", "dell'", "al-", "el-", "bin-"];
    let name = prefixes.iter().find_map(|prefix| core.strip_prefix(prefix)).unwrap_or(core);
    name.chars().next().is_some_and(char::is_uppercase)
}

/// A hyphenated word has what all its parts share: "Anne-Marie".
fn hyphenated(lower: &str, lists: &Lists) -> Flags {
    let shared = lower.split('-').map(|part| lists.flags(part)).reduce(|all, part| all & part).unwrap_or(0);
    let names = lower.split('-').all(|part| lists.flags(part) & (GIVEN | SURNAME | RARE) != 0);
    shared & (GIVEN | SURNAME | COMMON) | if names { SURNAME } else { 0 }
}

/// A family name may be written with an apostrophe that lists lack: "O'Neal", "D'Souza".
fn prefixed(lower: &str, lists: &Lists) -> Flags {
    let names = GIVEN | SURNAME | RARE;
    match lower.split_once('\'') {
        Some(("o" | "d" | "l" | "m" | "n" | "de" | "dell" | "dall", rest)) => {
            let rest = lists.flags(rest);
            let whole = lists.flags(&lower.replace('\'', "")) & names != 0;
            if whole || rest & names != 0 && rest & COMMON == 0 { SURNAME } else { 0 }
        }
        _ => 0,
    }
}

/// Abbreviations whose full stop ends no sentence.
const ABBREVIATIONS: &[&str] = words!(
    "mr mrs ms dr prof st ave rd blvd apt no vs jr sr mt ft acct exp tel ext inc ltd e.g i.e av ul bd apto app conj esq \
     mx mme mlle sig sra"
);

fn break_after(tail: &str, lower: &str) -> Break {
    let mut found = Break::None;
    for mark in tail.chars() {
        found = found.max(match mark {
            '?' => Break::Question,
            '!' | '…' | '。' | '\n' => Break::Sentence,
            // "Goethestr. 12".
            '.' if ABBREVIATIONS.contains(&lower)
                || lower.ends_with("str")
                || (lower.len() == 1 && lower.starts_with(char::is_alphabetic)) =>
            {
                Break::None
            }
            '.' => Break::Sentence,
            ',' | ';' | ')' | ']' | '"' | '—' | '–' => Break::Clause,
            _ => Break::None,
        });
    }
    found
}

/// True for a given name that stands for a person without more evidence.
pub fn is_clear_given(token: &Token<'_>) -> bool {
    token.is(GIVEN) && (token.is(FIRM) || token.flags & (COMMON | CALENDAR | COMPANY | TOWN) == 0)
}
