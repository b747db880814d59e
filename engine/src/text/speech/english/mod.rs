//! Written English to spoken words.
//!
//! A reader goes through a clause without its markup. At each place the rules of numbers, dates, money, addresses and
//! codes are tried in order, then words and marks.

/// The pattern of a written number, with or without commas and a fraction.
macro_rules! number {
    () => {
        r"(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    };
}

mod abbreviations;
mod codes;
mod dates;
mod measures;
mod money;
mod numbers;
mod plain_numbers;
mod roman;
mod telephone;
mod web;
mod words;

use std::ops::Range;
use std::sync::LazyLock;

pub(super) use abbreviations::{follows_comma, is_stopped_before, may_be_stopped};
use regex::{Captures, Regex};

use super::markup::PlainText;
use super::{Token, TokenKind};

/// The surroundings of a place in a clause.
struct Place<'a> {
    text: &'a str,
    at: usize,
    /// The word before it.
    previous: &'a str,
    /// True if most of the clause is in capitals.
    shouted: bool,
}

impl<'a> Place<'a> {
    fn before(&self) -> &'a str {
        &self.text[..self.at]
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The text behind a match that begins here.
    fn after(&self, found: &Captures) -> &'a str {
        &self.rest()[found.get(0).map_or(0, |all| all.end())..]
    }

    fn previous_lower(&self) -> String {
        self.previous.to_ascii_lowercase()
    }
}

/// A rule's reading of a match: words and marks that are separated by spaces, letters that are said by their names in
/// capitals; none if the rule does not apply.
type Say = fn(&Captures, &Place) -> Option<String>;

/// A pattern of what stands at a place, and its reading.
struct Rule(&'static str, Say);

/// Rules in the order in which they are tried.
const RULES: [&[Rule]; 9] = [
    web::RULES,
    telephone::RULES,
    dates::RULES,
    money::RULES,
    measures::RULES,
    codes::DECIMALS,
    plain_numbers::RULES,
    codes::RULES,
    words::RULES,
];

static PATTERNS: LazyLock<Vec<(Regex, Say)>> = LazyLock::new(|| {
    let rules = RULES.into_iter().flatten();
    rules.filter_map(|Rule(pattern, say)| Some((Regex::new(&format!("^(?:{pattern})")).ok()?, *say))).collect()
});

/// The tokens of a clause that begins at byte `base` of the whole text; none if it has no word. `mark` is added where no
/// mark ends it.
pub(super) fn tokens(written: &str, base: usize, mark: char) -> Vec<Token> {
    let plain = PlainText::new(written);
    let mut reader =
        Reader { plain: &plain, base, tokens: Vec::new(), shouted: is_shouted(&plain.text), derived: false };
    reader.read();
    reader.end(mark);
    reader.tokens
}

/// True if a text of three words and more has most of its letters in capitals.
fn is_shouted(text: &str) -> bool {
    let words = || text.split(|end: char| !end.is_ascii_alphabetic()).filter(|word| word.len() > 1);
    let capitals = words().filter(|word| word.bytes().all(|letter| letter.is_ascii_uppercase())).count();
    words().count() >= 3 && 10 * capitals >= 7 * words().count()
}

struct Reader<'a> {
    plain: &'a PlainText,
    base: usize,
    tokens: Vec<Token>,
    shouted: bool,
    /// True if the last mark stands for something else, such as a parenthesis.
    derived: bool,
}

impl Reader<'_> {
    fn read(&mut self) {
        let text = self.plain.text.as_str();
        let (mut at, mut previous) = (0, "");
        while let Some(letter) = text[at..].chars().next() {
            let end = at + letter.len_utf8();
            let behind_word = text[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
            if letter == ' ' {
                at = end;
                continue;
            }
            let place = Place { text, at, previous, shouted: self.shouted };
            if let Some(length) = plain_word(&text[at..], previous).filter(|_| !behind_word) {
                self.say(&text[at..at + length], at..at + length);
                previous = &text[at..at + length];
                at += length;
                continue;
            }
            let is_mark = matches!(letter, ',' | ';' | ':' | '.' | '?' | '!') && text[end..].starts_with([' ', '.']);
            if let Some((length, said)) =
                (!is_mark && (!behind_word || !letter.is_ascii_alphanumeric())).then(|| said(&place)).flatten()
            {
                let whole = at..at + length;
                self.say(&said, whole.clone());
                previous = text[whole.clone()].trim_end_matches(['.', ',']);
                at = whole.end;
                continue;
            }
            match letter {
                ',' | ';' | ':' => self.mark(",", at..end, false),
                // The full stop of an abbreviated unit: "5 min. or 10"
                '.' if is_unit(previous)
                    && text[end..]
                        .strip_prefix(' ')
                        .is_some_and(|next| next.starts_with(|next: char| next.is_ascii_lowercase())) => {}
                '.' => self.mark(".", at..end, false),
                '?' => self.mark("?", at..end, false),
                '!' => self.mark("!", at..end, false),
                '(' | ')' | '\u{2013}' | '\u{2014}' | '\u{2192}' => self.mark(",", at..end, true),
                '-' if text[end..].starts_with('-') || (alone(text, at) && alone_behind(text, end)) => {
                    self.mark(",", at..end, true);
                }
                // A letter or digit that no rule took, such as one behind a code.
                letter if letter.is_ascii_alphanumeric() => {
                    let length = text[at..].bytes().take_while(u8::is_ascii_alphanumeric).count();
                    self.say(&codes::code(&text[at..at + length]), at..at + length);
                    at += length;
                    continue;
                }
                _ => {}
            }
            at = end;
        }
    }

    /// Adds the words and marks of a reading.
    fn say(&mut self, said: &str, range: Range<usize>) {
        let written = self.written(range.clone());
        for word in said.split(' ').filter(|word| !word.is_empty()) {
            if matches!(word, "," | "." | "?" | "!") {
                self.mark(word, range.clone(), true);
                continue;
            }
            let kind = match word.as_bytes() {
                [b'A'..=b'Z'] | [b'A'..=b'Z', b'\'', b's'] => TokenKind::Letter,
                _ => TokenKind::Word,
            };
            self.tokens.push(Token { text: word.to_ascii_lowercase(), kind, written: written.clone() });
        }
    }

    /// Adds a mark, or puts it in place of the one before it; one that stands for something else gives way.
    fn mark(&mut self, mark: &str, range: Range<usize>, derived: bool) {
        let written = self.written(range);
        match self.tokens.last_mut() {
            None => {}
            Some(last) if last.kind == TokenKind::Mark && derived => {}
            Some(last) if last.kind == TokenKind::Mark => {
                *last = Token { text: mark.into(), kind: TokenKind::Mark, written };
                self.derived = false;
            }
            Some(_) => {
                self.tokens.push(Token { text: mark.into(), kind: TokenKind::Mark, written });
                self.derived = derived;
            }
        }
    }

    /// Ends the clause with a mark.
    fn end(&mut self, mark: char) {
        let Some(last) = self.tokens.last_mut() else { return };
        if last.kind != TokenKind::Mark {
            let end = last.written.end;
            self.tokens.push(Token { text: mark.into(), kind: TokenKind::Mark, written: end..end });
        } else if self.derived && mark == '.' {
            last.text = mark.into();
        }
    }

    fn written(&self, range: Range<usize>) -> Range<usize> {
        let written = self.plain.written(range);
        self.base + written.start..self.base + written.end
    }
}

/// True for a number with its unit ("5 min"), and for what an amount is for ("/mo").
fn is_unit(previous: &str) -> bool {
    previous.ends_with(|unit: char| unit.is_ascii_lowercase())
        && previous.starts_with(|first: char| first.is_ascii_digit() || first == '/')
}

/// The length of a word in small letters that no rule concerns, at the head of a text: most words are such.
fn plain_word(text: &str, previous: &str) -> Option<usize> {
    let length = text.bytes().take_while(u8::is_ascii_lowercase).count();
    let ends = text[length..].is_empty() || text[length..].starts_with([' ', ',', ';', '?']);
    let word = &text[..length];
    let concerned =
        abbreviations::without_stop(word).is_some() || dates::is_month(word) || measures::is_count(previous);
    (length > 1 && ends && !concerned).then_some(length)
}

/// True if nothing or a space stands before a place.
fn alone(text: &str, at: usize) -> bool {
    at == 0 || text[..at].ends_with(' ')
}

/// True if nothing or a space stands behind a place.
fn alone_behind(text: &str, end: usize) -> bool {
    text[end..].is_empty() || text[end..].starts_with(' ')
}

/// The first rule's reading of what stands at a place, and its length.
fn said(place: &Place) -> Option<(usize, String)> {
    PATTERNS.iter().find_map(|(pattern, say)| {
        let found = pattern.captures(place.rest())?;
        let length = found.get(0)?.end();
        (length > 0).then_some(())?;
        Some((length, say(&found, place)?))
    })
}

/// The names of letters.
fn initialism(letters: &str) -> String {
    let letters: Vec<String> = letters.chars().map(|letter| letter.to_ascii_uppercase().to_string()).collect();
    letters.join(" ")
}

/// The text of a group; empty if it took no part.
fn group<'t>(found: &Captures<'t>, at: usize) -> &'t str {
    found.get(at).map_or("", |group| group.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::speech::ClauseSplitter;

    /// Written forms, and what is said for them, with bars between equally good ways.
    const FORMS: &str = include_str!("../../../../../tests/fixtures/speech/written_forms.tsv");

    /// The words of a text, without marks.
    fn words(written: &str) -> String {
        let mut splitter = ClauseSplitter::new();
        let mut clauses = splitter.push(written);
        clauses.extend(splitter.finish());
        let tokens = clauses.into_iter().flat_map(|clause| clause.tokens);
        let words = tokens.filter(|token| token.kind != TokenKind::Mark).map(|token| token.text);
        words.collect::<Vec<_>>().join(" ")
    }

    /// Lines of written forms that are said otherwise.
    fn wrong(forms: &str) -> Vec<String> {
        let lines = forms.lines().filter_map(|line| line.split_once('\t'));
        let wrong = lines.filter_map(|(written, ways)| {
            let said = words(written);
            (!ways.split('|').any(|way| way == said)).then(|| format!("{written:?}: {said:?}, not {ways:?}"))
        });
        wrong.collect()
    }

    #[test]
    fn written_forms_are_said_as_readers_say_them() {
        assert!(FORMS.lines().count() >= 280);
        let wrong = wrong(FORMS);
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    /// More written forms, wrong and right neighbours mixed.
    const MORE_FORMS: &str = "\
The talk takes 1h 30m.\tthe talk takes one hour thirty minutes\n\
It ran 2h15m.\tit ran two hours fifteen minutes\n\
It ran 1d 2h 3m 4s.\tit ran one day two hours three minutes four seconds\n\
5 min 30 sec\tfive minutes thirty seconds\n\
3m 20s later\tthree minutes twenty seconds later\n\
a 30m pool\ta thirty meter pool\n\
It is 30m long.\tit is thirty meters long\n\
5d 3h\tfive days three hours\n\
GMT-5\tg m t minus five\n\
UTC+5:30\tu t c plus five thirty\n\
UTC +2\tu t c plus two\n\
at 5 PM GMT+1\tat five p m g m t plus one\n\
1.7B parameters\tone point seven billion parameters\n\
a 70B model\ta seventy billion model\n\
8B people\teight billion people\n\
flat 4B is free\tflat four b is free\n\
Apt. 12B\tapartment twelve b\n\
3.4K stars\tthree point four thousand stars\n\
200K users\ttwo hundred thousand users\n\
a 4K display\ta four k display\n\
10k steps\tten thousand steps\n\
2.5T tokens\ttwo point five trillion tokens\n\
415 555 0132\tfour one five five five five zero one three two\n\
415-555-0132\tfour one five five five five zero one three two\n\
100 200 people\tone hundred two hundred people\n\
On Sun. we rest.\ton sunday we rest\n\
I saw the sun. It rose.\ti saw the sun it rose\n\
They mar. the wood\tthey mar the wood\n\
2.0b3\ttwo point zero b three\n\
802.11ax\teight oh two eleven a x\n\
<mailto:jo@x.com>\tjo at x dot com\n\
<jo@x.com>\tjo at x dot com\n\
see <https://example.com/a>.\tsee example dot com slash a\n\
a <b>bold</b> word\ta bold word\n\
<a href=\"https://x.y\">here</a>\there\n\
PIN 0042\tpin zero zero four two\n\
Dial 112 now\tdial one one two now\n\
911 people\tnine hundred eleven people\n\
3.x and 4.x\tthree point x and four point x\n\
1.5e-3\tone point five times ten to the power of minus three\n\
1.234,56 €\tone thousand two hundred thirty four euros and fifty six cents\n\
Mar. 4\tmarch fourth\n\
On Mar. 14 we met.\ton march fourteenth we met\n\
In Mar. we met.\tin march we met\n\
555 123 4567\tfive five five one two three four five six seven\n\
call me at 321 434-5049\tcall me at three two one four three four five zero four nine\n\
1300 555 019\tone three zero zero five five five zero one nine\n\
06 12 34 56 78\tzero six one two three four five six seven eight\n\
90210 is a ZIP code\tnine zero two one zero is a zip code\n\
a town of 90210 people\ta town of ninety thousand two hundred ten people\n\
ZIP: 02139-4307\tzip zero two one three nine four three zero seven\n\
Order #12345\torder number one two three four five\n\
#42\tnumber forty two\n\
0.5B model\tzero point five billion model\n\
Python 3.12.1rc2\tpython three point twelve point one r c two\n\
a/b/c\ta slash b slash c\n\
rock 'n' roll, rock'n'roll\trock and roll rock and roll\n\
cf. Smith\tcompare smith\n\
US 10000 dollars\tu s ten thousand dollars\n\
Beverly Hills, CA 90210\tbeverly hills california nine zero two one zero\n\
She lives in Tampa, FL.\tshe lives in tampa florida\n\
Say yes, OK 20000 times\tsay yes ok twenty thousand times\n\
200 300 4000 people\ttwo hundred three hundred four thousand people\n\
it is 192.168.1000\tit is one hundred ninety two point one hundred sixty eight point one thousand\n\
code 1000\tcode one thousand\n\
code 4821\tcode four eight two one\n\
code 4821 lines\tcode four thousand eight hundred twenty one lines\n\
call 110 people\tcall one hundred ten people\n\
they called when 119 came\tthey called when one hundred nineteen came\n\
Call 911 or 112 now\tcall nine one one or one one two now\n\
5‰ of all\tfive per mille of all\n\
2⅜ inches\ttwo and three eighths inches\n\
⅝ cup\tfive eighths cup\n\
C:\\Users\\me\tc colon backslash users backslash me\n\
in /usr/local/bin.\tin slash u s r slash local slash bin|in slash usr slash local slash bin\n\
wait…what?\twait what\n\
They won 1-0.\tthey won one nil\n\
pages 3-10\tpages three to ten\n\
v16.04LTS\tversion sixteen point zero four l t s\n\
Llama-3.1-8B-Instruct\tllama three point one eight b instruct\n\
SELECT * FROM t\tselect star from t\n\
5*3=15\tfive times three equals fifteen\n\
H~2~O\th two o\n\
so $x^2$ is it\tso x squared is it\n\
<style>p{a:1; b:2}</style><script>var x=1; y();</script>Hi\thi\n\
<stylish> it is\tit is\n\
\u{20a9}500, \u{20bd}20 and 3 \u{20bf}\tfive hundred won twenty rubles and three bitcoins\n\
\u{2460}\u{2461} and \u{2163}\u{2164}\tone two and four five\n\
Act \u{2163}\tact four\n\
10\u{2076} and 10\u{207b}\u{b3}\tten to the power of six and ten to the power of minus three\n\
the 10^th^ floor\tthe tenth floor\n\
a || b\ta or b\n\
open stdio.h\topen stdio dot h\n\
1.000.000 euros\tone million euros\n\
$-5\tminus five dollars";

    #[test]
    fn neighbours_of_written_forms_are_said_apart() {
        let wrong = wrong(MORE_FORMS);
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn every_pattern_is_valid() {
        for Rule(pattern, _) in RULES.into_iter().flatten() {
            assert!(Regex::new(pattern).is_ok(), "{pattern}");
        }
    }

    fn texts(written: &str) -> Vec<String> {
        tokens(written, 0, '.').into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn marks_are_kept_and_parentheses_are_pauses() {
        assert_eq!(texts("(Well) - so: yes?! \"No...\""), ["well", ",", "so", ",", "yes", "!", "no", "."]);
        assert_eq!(texts("one (two)"), ["one", ",", "two", "."]);
        assert_eq!(texts("one\u{2014}two"), ["one", ",", "two", "."]);
        assert_eq!(texts("what?)"), ["what", "?"]);
    }

    #[test]
    fn words_know_what_they_stand_for() {
        let written = "**Pay** $5.20 to the BBC's caf\u{e9}, please";
        let found: Vec<(String, &str)> =
            tokens(written, 0, '.').into_iter().map(|token| (token.text, &written[token.written])).collect();
        let expected = [
            ("pay", "Pay"),
            ("five", "$5.20"),
            ("dollars", "$5.20"),
            ("and", "$5.20"),
            ("twenty", "$5.20"),
            ("cents", "$5.20"),
            ("to", "to"),
            ("the", "the"),
            ("b", "BBC's"),
            ("b", "BBC's"),
            ("c's", "BBC's"),
            ("cafe", "caf\u{e9}"),
            (",", ","),
            ("please", "please"),
            (".", ""),
        ];
        assert_eq!(found, expected.map(|(text, written)| (text.to_owned(), written)));
    }
}
