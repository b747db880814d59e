//! Passwords and names of accounts: what follows "my password is".

use std::ops::Range;

use super::super::cues::{Cue, Cued};
use super::super::label::Label;
use super::super::lists::COMMON;
use super::super::numbers::small_number;
use super::super::reading::{Break, Reading};
use super::super::{Finding, Source};
use crate::text::word_list::words;

/// No password begins with one of these.
const NO_VALUES: &[&str] = words!(
    "not too the a an wrong incorrect required weak strong expired invalid on in being now very secure safe always \
     never stored here what something correct at only also sent your my working needed that still going just protected \
     ready fine good bad hard easy long short so really about over reset changed missing lost locked because why how \
     where when no of for from with and or to by as hidden written saved printed due available different case shown \
     asked entered down up out active disabled broken blocked set important unknown encrypted none null nil true false \
     undefined string"
);

/// A value ends before one of these.
const ENDS: &[&str] = words!(
    "and but so please thanks thank then because if for with can could i i'm you okay ok in that is it it's on right \
     don't do let my your just when will should or until since now from are yesterday today again last this before \
     after tomorrow instead all by not he she we they at"
);

/// Words that stand between a question and its answer.
pub const FILLERS: &[&str] = words!(
    "sure yes yeah yep okay ok um uh well it it's is that that's of course so oh right hi hello certainly absolutely \
     the my would be let me see alright right i think"
);

/// Finds passwords and names of accounts.
pub fn find(reading: &Reading<'_>, cues: &[Cued], found: &mut Vec<Finding>) {
    for cued in cues {
        let label = match cued.cue {
            Cue::Secret => Label::Password,
            Cue::Username => Label::Username,
            _ => continue,
        };
        let Some(start) = value_start(reading, cued) else { continue };
        // The value has been found by its form.
        let is_form = |at: usize| reading.tokens.get(at).is_some_and(|token| token.form.is_some());
        if reading.tokens[start].masked
            || is_form(start)
            || is_form(start + 1)
            || NO_VALUES.contains(&reading.lower(start)) && !reading.tokens[start].text.starts_with(['"', '\''])
        {
            continue;
        }
        let words = value(reading, start, label);
        if !words.is_empty() && is_plausible(reading, cued, &words, label) {
            found.push(Finding { words, label, confidence: 0.86, source: Source::Pattern });
        }
    }
}

/// The first word of the value that a cue announces.
fn value_start(reading: &Reading<'_>, cued: &Cued) -> Option<usize> {
    let end = cued.words.end;
    let last = &reading.tokens[end - 1];
    let colon = last.text.ends_with([':', '=']) || last.text.ends_with("'s");
    if colon && last.after < Break::Sentence {
        return (end < reading.tokens.len()).then_some(end);
    }
    // "the password for the router is".
    for at in end..(end + 7).min(reading.tokens.len()) {
        if reading.tokens[at - 1].after >= Break::Sentence {
            break;
        }
        match reading.lower(at) {
            "is" | "was" | "=" | "be" | "it's" | "becomes" | "remains" => {
                let skip = (at + 1..reading.tokens.len()).find(|at| {
                    !matches!(
                        reading.lower(*at),
                        "all" | "still" | "currently" | "now" | "um" | "uh" | "lowercase" | "just" | "actually"
                    )
                });
                return skip.filter(|at| reading.tokens[*at].sentence == reading.tokens[end - 1].sentence);
            }
            "to" | "as" if at == end => return (at + 1 < reading.tokens.len()).then_some(at + 1),
            "" if matches!(&*reading.tokens[at].text, "=" | ":" | "-" | "–") => {
                return (at + 1 < reading.tokens.len()).then_some(at + 1);
            }
            _ => {}
        }
    }
    // "What's the password?" - "Blue horse seven."
    let question =
        (end - 1..(end + 8).min(reading.tokens.len())).find(|at| reading.tokens[*at].after >= Break::Sentence);
    if let Some(question) = question.filter(|at| reading.tokens[*at].after == Break::Question) {
        let answer =
            (question + 1..(question + 9).min(reading.tokens.len())).find(|at| !FILLERS.contains(&reading.lower(*at)));
        return answer.filter(|at| *at < reading.tokens.len() && is_code_like(reading, *at));
    }
    // "use password hunter2".
    let next = (end < reading.tokens.len() && last.after == Break::None).then_some(end)?;
    let marked = cued.cue == Cue::Username && matches!(reading.lower(end + 1), "underscore" | "dash" | "hyphen");
    (marked || is_mixed(reading.tokens[next].core())).then_some(next)
}

/// Letters and digits, or marks within a word.
fn is_mixed(core: &str) -> bool {
    let digits = core.chars().any(|letter| letter.is_ascii_digit());
    let letters = core.chars().any(char::is_alphabetic);
    let marks = core.chars().any(|letter| "!@#$%^&*_+=~".contains(letter));
    (digits && letters) || (marks && (letters || digits))
}

fn is_code_like(reading: &Reading<'_>, at: usize) -> bool {
    let token = &reading.tokens[at];
    is_mixed(&token.text)
        || token.core().chars().all(|letter| letter.is_ascii_digit())
        || small_number(&token.lower).is_some()
        || !token.is(COMMON)
}

/// The words of a value.
fn value(reading: &Reading<'_>, start: usize, label: Label) -> Range<usize> {
    let first = &reading.tokens[start];
    let quoted = first.text.starts_with(['"', '\'']);
    let most = if label == Label::Username { 7 } else { 8 };
    let mut end = start;
    while end < reading.tokens.len() && end - start < most {
        let token = &reading.tokens[end];
        if token.masked || (end > start && !quoted && ENDS.contains(&token.lower.as_str())) {
            break;
        }
        end += 1;
        let closed = quoted && token.text[token.core.end..].contains(['"', '\'']);
        // A written value is one word.
        let written = end == start + 1 && !quoted && is_mixed(&token.text) && small_number(&token.lower).is_none();
        if token.after > Break::None && !is_letter_by_letter(reading, end) || closed || written {
            break;
        }
    }
    start..end
}

/// "b, l, u, e": commas between letters and digits.
fn is_letter_by_letter(reading: &Reading<'_>, end: usize) -> bool {
    let single = |word: &str| word.len() == 1 || small_number(word).is_some();
    reading.tokens[end - 1].after == Break::Clause && single(reading.before(end, 1)) && single(reading.lower(end))
}

fn is_plausible(reading: &Reading<'_>, cued: &Cued, words: &Range<usize>, label: Label) -> bool {
    let tokens = &reading.tokens[words.clone()];
    let coded = |text: &str, lower: &str| {
        is_mixed(text) || text.chars().any(|letter| letter.is_ascii_digit()) || small_number(lower).is_some()
    };
    let has_code = tokens.iter().any(|token| coded(&token.text, &token.lower));
    let has_mark = tokens.iter().any(|token| {
        matches!(token.lower.as_str(), "underscore" | "dash" | "dot" | "hyphen" | "hashtag" | "exclamation" | "capital")
    });
    let unknown = tokens
        .iter()
        .any(|token| !token.is(COMMON) && token.lower.len() > 2 && token.lower.chars().any(char::is_alphabetic));
    if label == Label::Username {
        let strong = reading.lower(cued.words.start).contains("user")
            || matches!(reading.lower(cued.words.start), "handle" | "login" | "screen" | "gamertag");
        return has_code
            || has_mark
            || (unknown && (strong || tokens.len() == 1))
            || (strong
                && tokens.len() <= 2
                && reading.lower(cued.words.start) != "user"
                && reading.lower(cued.words.start) != "handle");
    }
    let first = reading.lower(cued.words.start);
    let strong =
        first.starts_with("pass") || matches!(first, "wifi" | "wi-fi" | "secret" | "security" | "memorable" | "otp");
    has_code || strong || (unknown && tokens.len() == 1)
}
