//! Written text without markup: tags, Markdown, emoji and control characters removed, letters without accents, plain
//! quotation marks. Each byte that is left knows the bytes that it was written with.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longest content of an element that is not read, bytes.
const MAX_HIDDEN_BYTES: usize = 20_000;

/// Longest tag or link, bytes. Longer ones are text.
const MAX_MARKUP_BYTES: usize = 300;

/// The extent of markup at the head of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Markup of so many bytes.
    To(usize),
    /// More text is needed.
    Unknown,
    /// The text does not begin with markup.
    None,
}

/// The extent of a tag (`<b>`) or a link (`[text](address)`) at the head of a text, whose end is known if `ended`.
pub fn markup_extent(text: &str, ended: bool) -> Extent {
    let letters = text.as_bytes();
    match letters.first() {
        Some(b'<') => match text[1..].chars().next() {
            Some('s' | 'S') if let Some(extent) = hidden_element(text, ended) => extent,
            Some(next) if !is_address(text) && (next.is_ascii_alphabetic() || ['/', '!', '?'].contains(&next)) => {
                closing(text, 1, b'<', b'>', ended)
            }
            None if !ended => Extent::Unknown,
            _ => Extent::None,
        },
        Some(b'[') => match closing(text, 1, b'[', b']', ended) {
            Extent::To(length) => match letters.get(length) {
                Some(b'(') => match closing(text, length + 1, b'(', b')', ended) {
                    Extent::None => Extent::None,
                    other => other,
                },
                None if !ended => Extent::Unknown,
                _ => Extent::None,
            },
            other => other,
        },
        _ => Extent::None,
    }
}

/// The extent of a style sheet or a script with its content, which is not read; none for other text.
fn hidden_element(text: &str, ended: bool) -> Option<Extent> {
    let bytes = text.as_bytes();
    let begins = |at: usize, tag: &str| {
        bytes.get(at..at + tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag.as_bytes()))
    };
    let (_, end) = [("<style", "</style>"), ("<script", "</script>")].into_iter().find(|(open, _)| {
        begins(0, open) && bytes.get(open.len()).is_some_and(|next| *next == b'>' || next.is_ascii_whitespace())
    })?;
    match (0..bytes.len().min(MAX_HIDDEN_BYTES)).find(|at| begins(*at, end)) {
        Some(at) => Some(Extent::To(at + end.len())),
        None if !ended && bytes.len() < MAX_HIDDEN_BYTES => Some(Extent::Unknown),
        None => None,
    }
}

/// True for an address or a file's name in angle brackets, which is read: `<https://a.b>`, `<jo@a.b>`, `<stdio.h>`.
fn is_address(text: &str) -> bool {
    let end = text.find(|end: char| end.is_whitespace() || ['>', '"', '\''].contains(&end)).unwrap_or(text.len());
    let inner = &text[1..end];
    let name = inner.split(|end: char| !end.is_ascii_alphanumeric() && end != '-').next().unwrap_or_default();
    !name.is_empty() && inner[name.len()..].starts_with(['@', '.', '+', '_'])
        || inner[name.len()..].starts_with("://")
        || inner.starts_with("mailto:")
}

/// The extent up to a closing mark, with neither a blank line nor another opening mark before it.
fn closing(text: &str, from: usize, open: u8, close: u8, ended: bool) -> Extent {
    let bytes = text.as_bytes();
    for at in from..bytes.len().min(MAX_MARKUP_BYTES) {
        match bytes[at] {
            byte if byte == close => return Extent::To(at + 1),
            byte if byte == open => return Extent::None,
            b'\n' if bytes[at - 1] == b'\n' => return Extent::None,
            _ => {}
        }
    }
    if ended || bytes.len() >= MAX_MARKUP_BYTES { Extent::None } else { Extent::Unknown }
}

/// Text without markup.
pub struct PlainText {
    /// ASCII, and a few symbols that have names.
    pub text: String,
    /// The written bytes of each byte of the text.
    sources: Vec<Range<usize>>,
}

impl PlainText {
    /// Removes the markup of a clause.
    pub fn new(written: &str) -> Self {
        let mut plain = Self { text: String::with_capacity(written.len()), sources: Vec::with_capacity(written.len()) };
        plain.read(written, 0..written.len());
        plain
    }

    /// The written bytes of a range of the text.
    pub fn written(&self, range: Range<usize>) -> Range<usize> {
        let start = self.sources.get(range.start).or(self.sources.last()).map_or(0, |source| source.start);
        let end = range.end.checked_sub(1).and_then(|last| self.sources.get(last)).map_or(start, |source| source.end);
        start..end.max(start)
    }

    fn push(&mut self, letters: &str, source: Range<usize>) {
        self.text.push_str(letters);
        self.sources.extend(std::iter::repeat_n(source, letters.len()));
    }

    fn read(&mut self, written: &str, range: Range<usize>) {
        let mut at = range.start;
        let mut opens_line = written[..at].rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
        while let Some(letter) = written.get(at..range.end).and_then(|rest| rest.chars().next()) {
            let rest = &written[at..range.end];
            let end = at + letter.len_utf8();
            let before = written[..at].chars().next_back();
            let after = written[end..].chars().next();
            let alone = |side: Option<char>| side.is_none_or(char::is_whitespace);
            let in_word = [before, after].iter().all(|side| side.is_some_and(char::is_alphanumeric));
            let mut next = end;
            match letter {
                '<' => match markup_extent(rest, true) {
                    Extent::To(length) => {
                        if !is_inline(&rest[..length]) {
                            self.push(" ", at..at + length);
                        }
                        next = at + length;
                    }
                    _ => self.push("<", at..end),
                },
                '[' | '!' if letter == '[' || after == Some('[') => {
                    let open = at + usize::from(letter == '!');
                    match markup_extent(&written[open..range.end], true) {
                        Extent::To(length) => {
                            let text = written[open..open + length].find("](").map_or(open + 1, |text| open + text);
                            self.read(written, open + 1..text);
                            next = open + length;
                        }
                        _ if rest.starts_with("[^") => next = at + rest.find(']').map_or(1, |end| end + 1),
                        _ => self.push(if letter == '!' { "!" } else { "(" }, at..end),
                    }
                }
                ']' => self.push(")", at..end),
                '&' => match entity(rest) {
                    Some((length, named)) => {
                        self.push_letter(named, at..at + length);
                        next = at + length;
                    }
                    None => self.push("&", at..end),
                },
                '`' if opens_line && rest.starts_with("```") => {
                    next = at + rest.find('\n').unwrap_or(rest.len());
                }
                '`' => {}
                '*' => {
                    let spaced = alone(before) && alone(after) && !opens_line;
                    let digits = [before, after].iter().all(|side| side.is_some_and(|side| side.is_ascii_digit()));
                    if spaced || digits {
                        self.push("*", at..end);
                    }
                }
                '_' if in_word => self.push("_", at..end),
                '_' => {}
                '~' if before == Some('~') || after == Some('~') => {}
                '#' if opens_line && rest.trim_start_matches('#').starts_with([' ', '\t']) => {
                    next = at + rest.len() - rest.trim_start_matches('#').len();
                }
                '-' | '+' | '>' | '\u{2022}' if opens_line && alone(after) => {}
                '\u{2022}' => self.push(",", at..end),
                // "a || b"
                '|' if alone(before) && rest.starts_with("|| ") => {
                    next = at + 2;
                    self.push("or", at..next);
                }
                '|' => self.push(",", at..end),
                // "5^th^"
                '^' if let Some(letters) = raised_letters(rest) => {
                    next = at + letters.len() + 2;
                    self.push(letters, end..next - 1);
                }
                _ if let Some(sign) = raised(letter)
                    && is_power(&written[..at], rest) =>
                {
                    if before.and_then(raised).is_none() {
                        self.push("^", at..end);
                    }
                    self.push_letter(sign, at..end);
                }
                _ if is_number(letter) && [before, after].iter().flatten().any(|side| is_number(*side)) => {
                    self.push(" ", at..end);
                    match letter {
                        '\u{2160}'..='\u{216b}' => self.push(&(u32::from(letter) - 0x215f).to_string(), at..end),
                        _ => self.push_letter(letter, at..end),
                    }
                    self.push(" ", at..end);
                }
                '\\' => match after {
                    Some(escaped) if escaped.is_ascii_punctuation() => {
                        next = end + escaped.len_utf8();
                        self.push_letter(escaped, at..next);
                    }
                    // "C:\\Users"
                    Some(_)
                        if before.is_some_and(|before| before == ':' || before == '_' || before.is_alphanumeric()) =>
                    {
                        self.push("\\", at..end);
                    }
                    _ => self.push(" ", at..end),
                },
                // "wait…what"
                '\u{2026}' if after.is_some_and(char::is_alphanumeric) => self.push(", ", at..end),
                _ => self.push_letter(letter, at..end),
            }
            opens_line = letter == '\n' || opens_line && letter.is_whitespace();
            at = next;
        }
    }

    /// Adds a letter in the form that is read.
    fn push_letter(&mut self, letter: char, source: Range<usize>) {
        let mut buffer = [0; 4];
        match letter {
            '\n' | '\t' | '\r' | '\u{2028}' | '\u{2029}' => self.push(" ", source),
            ' '..='~' => self.push(letter.encode_utf8(&mut buffer), source),
            '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2bc}' | '\u{2032}' | '\u{b4}' => self.push("'", source),
            '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2033}' | '\u{2039}' | '\u{203a}' => {
                self.push("\"", source)
            }
            '\u{2010}'..='\u{2012}' | '\u{2212}' | '\u{fe63}' | '\u{ff0d}' => self.push("-", source),
            '\u{2013}' => self.push("\u{2013}", source),
            '\u{2014}' | '\u{2015}' => self.push("\u{2014}", source),
            '\u{2026}' | '\u{3002}' => self.push(".", source),
            '\u{b5}' | '\u{3bc}' => self.push("\u{3bc}", source),
            '\u{bd}'
            | '\u{bc}'
            | '\u{be}'
            | '\u{2150}'..='\u{215e}'
            | '\u{2030}'
            | '\u{b2}'
            | '\u{b3}'
            | '\u{b0}'
            | '\u{b1}'
            | '\u{d7}'
            | '\u{f7}'
            | '\u{2248}'
            | '\u{2264}'
            | '\u{2265}'
            | '\u{2260}'
            | '\u{a3}'
            | '\u{20ac}'
            | '\u{a5}'
            | '\u{20b9}'
            | '\u{20a9}'
            | '\u{20aa}'
            | '\u{20ba}'
            | '\u{20bd}'
            | '\u{20bf}'
            | '\u{20b1}'
            | '\u{20a6}'
            | '\u{20b4}'
            | '\u{20ab}'
            | '\u{a2}'
            | '\u{a7}'
            | '\u{2192}'
            | '\u{221a}'
            | '\u{3c0}'
            | '\u{221e}' => {
                self.push(letter.encode_utf8(&mut buffer), source);
            }
            '\u{df}' => self.push("ss", source),
            '\u{c6}' => self.push("Ae", source),
            '\u{e6}' => self.push("ae", source),
            '\u{152}' => self.push("Oe", source),
            '\u{153}' => self.push("oe", source),
            '\u{d8}' => self.push("O", source),
            '\u{f8}' => self.push("o", source),
            '\u{141}' => self.push("L", source),
            '\u{142}' => self.push("l", source),
            '\u{d0}' | '\u{110}' => self.push("D", source),
            '\u{f0}' | '\u{111}' => self.push("d", source),
            '\u{de}' => self.push("Th", source),
            '\u{fe}' => self.push("th", source),
            '\u{131}' => self.push("i", source),
            '\u{2116}' => self.push("No.", source),
            '\u{2122}' | '\u{ae}' | '\u{a9}' => {}
            _ if is_invisible(letter) => {}
            _ => {
                let plain: String =
                    std::iter::once(letter).nfkd().filter(|part| matches!(part, ' '..='~' | '\u{b0}')).collect();
                match plain.as_str() {
                    "" if is_combining_mark(letter) => {}
                    "" => self.push(" ", source),
                    plain => self.push(plain, source),
                }
            }
        }
    }
}

/// True for characters without width, and for controls.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{20e3}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
}

/// The digit or sign that stands above the line.
fn raised(letter: char) -> Option<char> {
    Some(match letter {
        '\u{b9}' => '1',
        '\u{b2}' => '2',
        '\u{b3}' => '3',
        '\u{207a}' => '+',
        '\u{207b}' => '-',
        '\u{2070}' | '\u{2074}'..='\u{2079}' => char::from_digit(u32::from(letter) - 0x2070, 10)?,
        _ => return None,
    })
}

/// True within the raised digits of a power, `10\u{207b}\u{2076}` say. A single one behind a word is a note, and squares and cubes have words.
fn is_power(before: &str, rest: &str) -> bool {
    let base = before.trim_end_matches(|letter| raised(letter).is_some());
    let is_base = base.ends_with(|letter: char| letter.is_ascii_digit() || letter == ')');
    let is_single = before.len() == base.len() && rest.chars().nth(1).and_then(raised).is_none();
    is_base && !(is_single && rest.starts_with(['\u{b2}', '\u{b3}']))
}

/// The letters between the marks of Pandoc's raised text at the head of a text: `^th^`.
fn raised_letters(text: &str) -> Option<&str> {
    let (letters, _) = text.strip_prefix('^')?.split_once('^')?;
    let is_short = (1..=4).contains(&letters.len());
    (is_short && letters.bytes().all(|letter| letter.is_ascii_alphabetic())).then_some(letters)
}

/// True for numbers of a single character: Roman ones, and those in circles.
fn is_number(letter: char) -> bool {
    matches!(letter, '\u{2160}'..='\u{217f}' | '\u{2460}'..='\u{249b}')
}

/// True for a tag that may stand inside a word.
fn is_inline(tag: &str) -> bool {
    let name =
        tag.trim_start_matches(['<', '/']).split(|end: char| !end.is_ascii_alphanumeric()).next().unwrap_or_default();
    ["b", "i", "u", "s", "em", "strong", "span", "a", "code", "sup", "sub", "small", "mark", "emphasis", "prosody"]
        .contains(&name.to_ascii_lowercase().as_str())
}

/// The length and letter of an HTML entity at the head of a text.
fn entity(text: &str) -> Option<(usize, char)> {
    let length = text.bytes().take(10).position(|byte| byte == b';')?;
    let letter = match &text[1..length] {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "mdash" => '\u{2014}',
        "ndash" => '\u{2013}',
        "hellip" => '\u{2026}',
        "deg" => '\u{b0}',
        "pound" => '\u{a3}',
        "euro" => '\u{20ac}',
        "times" => '\u{d7}',
        other => {
            let number = other.strip_prefix('#')?;
            let value = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(value)?
        }
    };
    Some((length + 1, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(written: &str) -> String {
        PlainText::new(written).text
    }

    #[test]
    fn markup_and_emoji_are_removed() {
        assert_eq!(plain("**bold** and _slanted_ `code`"), "bold and slanted code");
        assert_eq!(plain("# Title"), " Title");
        assert_eq!(plain("see [the *page*](http://a.b/c)!"), "see the page!");
        assert_eq!(plain("![a cat](cat.png)"), "a cat");
        assert_eq!(plain("<p>so<b>me</b><br/>text</p>").trim(), "some text");
        assert_eq!(plain("a <break time=\"1s\"/> b"), "a   b");
        assert_eq!(plain("3 < 5 &amp; 5 &lt; 7 &#65;"), "3 < 5 & 5 < 7 A");
        assert_eq!(plain("1\u{fe0f}\u{20e3} ok\u{1f44d}\u{1f3fd}"), "1 ok ");
        assert_eq!(plain("3 * 4, 3*4"), "3 * 4, 3*4");
        assert_eq!(plain("a\u{0}b\u{200b}c\u{ad}d"), "abcd");
        assert_eq!(plain("```rust\nlet"), " let");
        assert_eq!(plain("a || b || c"), "a or b or c");
        assert_eq!(plain("| a || b |").trim(), ", a or b ,");
    }

    #[test]
    fn numbers_of_a_single_character_stand_apart() {
        assert_eq!(plain("\u{2460}\u{2461}").split_whitespace().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(plain("\u{2163}\u{2164}").split_whitespace().collect::<Vec<_>>(), ["4", "5"]);
        assert_eq!(plain("10\u{207b}\u{2076} m, 2\u{2078}, 10\u{b9}\u{b2}, 3\u{b2}"), "10^-6 m, 2^8, 10^12, 3\u{b2}");
        assert_eq!(plain("the 5^th^ of 10^th^, x^2, a^n + b^n"), "the 5th of 10th, x^2, a^n + b^n");
    }

    #[test]
    fn letters_lose_accents_and_quotes_their_curls() {
        assert_eq!(
            plain("caf\u{e9} na\u{ef}ve e\u{301} \u{141}\u{f3}d\u{17a} stra\u{df}e"),
            "cafe naive e Lodz strasse"
        );
        assert_eq!(plain("it\u{2019}s \u{201c}so\u{201d}"), "it's \"so\"");
        assert_eq!(plain("\u{ff21}\u{ff22} \u{fb01}sh \u{2103}"), "AB fish \u{b0}C");
    }

    #[test]
    fn bytes_know_where_they_were_written() {
        let written = "**caf\u{e9}** \u{201c}so\u{201d}";
        let plain = PlainText::new(written);
        let at = plain.text.find("cafe").unwrap();
        assert_eq!(&written[plain.written(at..at + 4)], "caf\u{e9}");
        let at = plain.text.find("so").unwrap();
        assert_eq!(&written[plain.written(at..at + 2)], "so");
    }
}
