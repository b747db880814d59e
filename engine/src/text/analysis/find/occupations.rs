//! Jobs of persons: titles of the list, and others by their last word, where the words around them tell of a person.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::super::label::Label;
use super::super::lists::{COMPANY, Lists, PhraseKind};
use super::super::reading::{Break, Reading, is_clear_given};
use super::super::{Finding, Source};
use super::persons::{any_before, is_person_mask, is_said_of_person, person_near};
use crate::text::word_list::{phrases, words};

/// Last words of titles of jobs.
const HEADS: &str = include_str!("../lists/occupation-heads.txt");

/// Endings of words for persons that work in a trade or a science.
const ENDINGS: [&str; 8] = ["ologist", "ographer", "therapist", "smith", "keeper", "monger", "etician", "iatrist"];

/// Words that end a title, or begin no title.
const STOPS: &str = "at for in and with who since but on to from by because so i my now full part near here currently right that of the if \
    or these over this is team last next every after before during until when while recently yesterday today again a an two three few \
    several he she they we it was are be not very really just only";

/// Words that announce a title after "a", "an" or "as".
const WORKS: &[&str] = words!(
    "work works worked working employed job career trained occupation profession hired retired qualified qualify \
     started apprenticed promoted role position post shifts living joined served serves"
);

/// Names of fields, and phrases, after which a title stands.
const FIELDS: &[&str] = phrases!(
    "occupation, profession, job title, position, employment, occupation is, profession is, job is, job title is, \
     job was, occupation was"
);

/// The longest title, in words.
const LONGEST: usize = 4;

static LAST_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| HEADS.split_whitespace().collect());
static STOP_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| STOPS.split_whitespace().collect());

/// Finds titles that an announcement or a last word tells.
pub fn find(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    let mut push = |words: Range<usize>| {
        found.push(Finding { words, label: Label::Occupation, confidence: 0.8, source: Source::Pattern });
    };
    for at in 0..reading.tokens.len() {
        if let Some(words) = announced(reading, at) {
            push(words);
        }
        // "a senior warehouse picker": its last word tells, the words before it belong to it.
        if !is_head(reading.lower(at)) || at == 0 {
            continue;
        }
        let mut start = at;
        while start > 0
            && at - start < LONGEST - 1
            && reading.tokens[start - 1].after == Break::None
            && is_part(reading, start - 1)
        {
            start -= 1;
        }
        let words = start..at + 1;
        let article = matches!(reading.before(start, 1), "a" | "an" | "retired" | "the" | "as" | "our" | "their");
        if article && is_of_person(reading, &words) || is_beside_person(reading, &words) {
            push(words);
        }
    }
}

/// True if the words around the title of a job say that a person has it.
pub fn is_of_person(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let at = words.start;
    let becomes = any_before(reading, at, 3, &["be", "become", "becoming", "became", "being", "been"]);
    let said = is_said_of_person(reading, at, 4) || becomes && person_near(reading, at, 8);
    let article = any_before(reading, at, 3, &["a", "an", "the", "retired"]);
    (said && article && (becomes || !any_before(reading, at, 3, &["to", "with", "for", "from", "by", "at"])))
        || (any_before(reading, at, 4, &["as", "occupation", "profession", "job"])
            && person_near(reading, at, 10)
            && any_before(reading, at, 8, WORKS))
        || is_trade(reading, words.end) && person_near(reading, at, 8)
        || is_beside_person(reading, words)
}

/// "by trade", "by profession", "for a living".
fn is_trade(reading: &Reading<'_>, end: usize) -> bool {
    match [reading.lower(end), reading.lower(end + 1), reading.lower(end + 2)] {
        ["by", "trade" | "profession" | "training" | "occupation", _] | ["for", "a", "living"] => {
            reading.tokens[end - 1].after < Break::Sentence
        }
        _ => false,
    }
}

/// "Maren Holt, the journalist, said", "Maren Holt, our new plumber": a title between commas behind a name.
fn is_beside_person(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let article = usize::from(matches!(reading.before(words.start, 1), "the" | "a" | "an" | "our" | "my"));
    let Some(name) = words.start.checked_sub(1 + article) else { return false };
    let token = &reading.tokens[name];
    let closed = words.end == reading.tokens.len() || reading.tokens[words.end - 1].after >= Break::Clause;
    let is_person = is_person_mask(&token.text) || is_clear_given(token);
    is_person
        && (token.after == Break::Clause || token.masked && article > 0 && !reading.cased)
        && (closed || !reading.cased)
}

/// "work as a ...", "my occupation is ...", "Occupation: ...": the title may be of no list.
fn announced(reading: &Reading<'_>, at: usize) -> Option<Range<usize>> {
    if at + 1 >= reading.tokens.len() {
        return None;
    }
    let article = |at: usize| usize::from(matches!(reading.lower(at), "a" | "an"));
    if matches!(reading.lower(at), "work" | "works" | "worked" | "working" | "employed")
        && person_near(reading, at + 1, 8)
    {
        // "works for Lindqvist Foods as a ...": the name of the firm has a capital, or is short.
        let as_at = (at + 1..(at + 6).min(reading.tokens.len())).find(|at| reading.lower(*at) == "as")?;
        let adjacent = as_at == at + 1;
        if !reading.joined(at, as_at)
            || !(adjacent || matches!(reading.lower(at + 1), "for" | "at" | "with" | "in" | "there" | "here"))
        {
            return None;
        }
        let start = as_at + 1 + article(as_at + 1);
        if !adjacent && start == as_at + 1 && !ends_with_head(reading, start) {
            return None;
        }
        return value_at(reading, start);
    }
    let field = FIELDS.iter().filter(|field| reading.starts(at, field)).max_by_key(|field| field.split(' ').count())?;
    let start = at + field.split(' ').count();
    let named = reading.tokens[start - 1].text.ends_with(':');
    if field.ends_with(" is") || field.ends_with(" was") {
        return person_near(reading, at + 1, 8).then(|| value_at(reading, start + article(start)))?;
    }
    named.then(|| value_at(reading, start))?
}

/// The words of a value that begins at `start`: at most four, up to a mark or a word that is no part of it.
pub fn value_at(reading: &Reading<'_>, start: usize) -> Option<Range<usize>> {
    let mut end = start;
    while end < reading.tokens.len()
        && end - start < LONGEST
        && !reading.tokens[end].masked
        && !STOP_WORDS.contains(reading.lower(end))
    {
        end += 1;
        if reading.tokens[end - 1].after > Break::None {
            break;
        }
    }
    let is_word = end > start
        && reading.lower(start).chars().any(char::is_alphabetic)
        && !matches!(
            reading.lower(start),
            "usual" | "expected" | "well" | "intended" | "one" | "something" | "part" | "done" | "hard"
        );
    is_word.then_some(start..end)
}

/// The title that begins at `start` ends with a word for one.
fn ends_with_head(reading: &Reading<'_>, start: usize) -> bool {
    value_at(reading, start).is_some_and(|words| {
        let last = reading.lower(words.end - 1);
        let listed = |at: usize| {
            Lists::get()
                .phrases(reading.lower(at))
                .iter()
                .any(|phrase| matches!(phrase.kind, PhraseKind::Term(Label::Occupation)))
        };
        is_head(last) || words.clone().any(listed)
    })
}

fn is_head(lower: &str) -> bool {
    LAST_WORDS.contains(lower) || lower.len() > 7 && ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

/// A word within a title, before its last: no article, no name of a firm.
fn is_part(reading: &Reading<'_>, at: usize) -> bool {
    let token = &reading.tokens[at];
    !token.masked
        && !STOP_WORDS.contains(token.lower.as_str())
        && !token.is(COMPANY)
        && token.lower.chars().all(|letter| letter.is_alphabetic() || letter == '-')
        && token.lower.len() > 1
        && !matches!(
            token.lower.as_str(),
            "i'm" | "am" | "as" | "retired" | "our" | "their" | "his" | "her" | "your" | "no" | "any" | "some"
        )
}

#[cfg(test)]
mod tests {
    use super::super::super::{Redaction, redact_text};

    fn hidden(text: &str) -> String {
        redact_text(text, &Redaction::default()).0
    }

    #[test]
    fn titles_of_jobs_are_hidden_where_a_person_has_them() {
        for (text, expected) in [
            ("I'm a senior warehouse picker.", "I'm a [OCCUPATION]."),
            ("My sister is a forensic toxicologist.", "My sister is a [OCCUPATION]."),
            ("She wants to become a dental technician.", "She wants to become a [OCCUPATION]."),
            (
                "I used to work for Lindqvist Foods as a lorry driver.",
                "I used to work for Lindqvist Foods as a [OCCUPATION].",
            ),
            ("he works at the harbour as crane operator", "he works at the harbour as [OCCUPATION]"),
            ("I'm a blacksmith by trade.", "I'm a [OCCUPATION] by trade."),
            ("Occupation: window cleaner", "Occupation: [OCCUPATION]"),
            ("My job is sheep shearing.", "My job is [OCCUPATION]."),
            (
                "We called John Smith, the journalist, yesterday.",
                "We called [PERSON_NAME], the [OCCUPATION], yesterday.",
            ),
            ("She was hired as an account executive in March.", "She was hired as an [OCCUPATION] in March."),
        ] {
            assert_eq!(hidden(text), expected);
        }
    }

    #[test]
    fn titles_that_nobody_in_the_text_has_stay() {
        for text in [
            "A window cleaner was outside.",
            "The job is done, and the position is open.",
            "It works as expected.",
            "Ask a pharmacist before you take it.",
            "They are looking for a senior engineer.",
            "The manager of the hotel was rude.",
        ] {
            assert_eq!(hidden(text), text);
        }
    }
}
