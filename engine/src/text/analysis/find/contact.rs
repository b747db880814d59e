//! E-mail and web addresses, written and as heard ("jo at example dot com"), and names of accounts on networks.

use std::ops::Range;

use super::super::cues::{self, Cue, Cued};
use super::super::label::Label;
use super::super::numbers::small_number;
use super::super::reading::{Break, Reading};
use super::super::{Finding, Source};
use crate::text::word_list::words;

/// Endings of domains.
const TLDS: &[&str] = words!(
    "com org net edu gov io co uk de fr es it nl pt eu us ca au in jp cn br mx ch at be se no dk fi pl ru za ng ke \
     info biz me tv app dev ai tech online store shop blog xyz site cloud email health care bank legal example test \
     mil int nz ie gg ly sh kr uni"
);

/// Endings that are words of a sentence, too: after "point" and "period" they end no domain.
const WORDS: &[&str] =
    &["in", "at", "be", "no", "me", "us", "it", "se", "care", "bank", "legal", "example", "test", "health", "store"];

/// Words between which and "at" a spoken address begins.
const BOUNDARIES: &[&str] = words!(
    "is it its it's to email e-mail mail address me us him her them as contact via be was that that's on use using \
     write reach at message cc with or and name account username sure yes yeah okay from used send sent try tried you \
     i by for says"
);

/// Words for the marks within an address.
const MARKS: &[&str] = &["dot", "underscore", "dash", "hyphen", "plus", "period", "point", "minus"];

/// Finds addresses.
pub fn find(reading: &Reading<'_>, cues: &[Cued], found: &mut Vec<Finding>) {
    let mut push = |words: Range<usize>, label, confidence| {
        found.push(Finding { words, label, confidence, source: Source::Pattern });
    };
    let mut at = 0;
    while at < reading.tokens.len() {
        let token = &reading.tokens[at];
        let here = at;
        at += 1;
        if token.masked {
            continue;
        }
        let lower = token.lower.as_str();
        if let Some((local, domain)) = lower.split_once('@') {
            if !local.is_empty() && is_domain(domain) {
                push(here..here + 1, Label::EmailAddress, 0.99);
            } else if local.is_empty()
                && domain.len() > 1
                && domain.chars().all(|letter| letter.is_alphanumeric() || "._-".contains(letter))
            {
                push(here..here + 1, Label::Username, 0.85);
            }
            continue;
        }
        if lower.contains('.') && is_url(lower) {
            push(here..here + 1, Label::Url, 0.95);
            continue;
        }
        if lower.contains(':') && is_ip6(token.core()) {
            push(here..here + 1, Label::IpAddress, 0.95);
            continue;
        }
        if lower == "at" || (lower.is_empty() && token.text == "@") {
            if let Some(end) = spoken_domain(reading, here + 1, cues)
                && let Some(start) = local_part(reading, here)
            {
                push(start..end, Label::EmailAddress, 0.95);
                at = end;
            }
            continue;
        }
        if let Some(words) = spoken_url(reading, here) {
            at = words.end;
            push(words, Label::Url, 0.85);
        }
    }
}

fn is_domain(text: &str) -> bool {
    let mut parts = text.split('.').rev();
    parts.next().is_some_and(|last| last.len() >= 2 && last.chars().all(char::is_alphabetic))
        && parts.clone().next().is_some()
        && parts.all(|part| !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || letter == '-'))
}

fn is_url(lower: &str) -> bool {
    let scheme = ["http://", "https://", "ftp://"].iter().find_map(|scheme| lower.strip_prefix(scheme));
    if let Some(rest) = scheme {
        return rest.len() > 3;
    }
    let host = lower.split(['/', '?', ':']).next().unwrap_or(lower);
    let tld = host.rsplit('.').next().unwrap_or_default();
    is_domain(host)
        && (host.starts_with("www.")
            || (TLDS.contains(&tld) && host.split('.').all(|part| part.len() > 1) && host.len() > tld.len() + 3))
}

fn is_ip6(core: &str) -> bool {
    core.matches(':').count() >= 2
        && core.len() >= 6
        && core.chars().all(|letter| letter.is_ascii_hexdigit() || letter == ':')
        && core.split(':').all(|group| group.len() <= 4)
        && (core.matches(':').count() == 7 || core.contains("::"))
}

/// The end of a domain that is spoken from `start` on: "example dot co dot uk", "g mail dot com", "example.com".
fn spoken_domain(reading: &Reading<'_>, start: usize, cues: &[Cued]) -> Option<usize> {
    let first = reading.lower(start);
    let after_provider = start + 1 + usize::from(first == "g");
    let is_provider = matches!(first, "gmail" | "hotmail" | "yahoo" | "outlook" | "icloud" | "protonmail" | "aol")
        || reading.starts(start, "g mail");
    if is_provider
        && !matches!(reading.lower(after_provider), "dot" | "point" | "period")
        && has_email_cue(reading, cues, start)
    {
        return Some(after_provider);
    }
    if first.contains('.') && is_domain(first) {
        return Some(start + 1);
    }
    let dot = (start + 1..(start + 6).min(reading.tokens.len()))
        .find(|at| matches!(reading.lower(*at), "dot" | "period" | "point"))?;
    let within = (start..dot).all(|at| reading.tokens[at].after == Break::None && !reading.tokens[at].masked);
    let named = (start..dot).all(|at| is_name_part(reading.lower(at)));
    if within && named {
        let end = tld_end(reading, dot)?;
        return Some(end);
    }
    None
}

fn is_name_part(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|letter| letter.is_alphanumeric() || letter == '-')
        && !matches!(word, "the" | "least" | "is" | "and")
}

/// The end of "dot com", "dot co dot uk", from the word "dot" on.
fn tld_end(reading: &Reading<'_>, dot: usize) -> Option<usize> {
    let mut at = dot;
    let mut end = None;
    while matches!(reading.lower(at), "dot" | "period" | "point") && reading.tokens[at].after == Break::None {
        let part = reading.lower(at + 1);
        let (spelled, length) = spelled_tld(reading, at + 1);
        // "At another point in" is no address.
        let is_word = reading.lower(at) != "dot" && WORDS.contains(&part);
        if (TLDS.contains(&part) && !is_word) || spelled {
            end = Some(at + 1 + length);
        } else if part.is_empty() {
            break;
        }
        if reading.tokens[at + 1].after > Break::None {
            break;
        }
        at += 1 + length;
    }
    end
}

/// "u k", "d e" and the like.
fn spelled_tld(reading: &Reading<'_>, at: usize) -> (bool, usize) {
    let (first, second) = (reading.lower(at), reading.lower(at + 1));
    if first.len() == 1 && second.len() == 1 && reading.tokens.get(at).is_some_and(|token| token.after == Break::None) {
        let both = format!("{first}{second}");
        if TLDS.contains(&both.as_str()) {
            return (true, 2);
        }
    }
    (false, 1)
}

/// The start of the local part whose "at" is at `at`.
fn local_part(reading: &Reading<'_>, at: usize) -> Option<usize> {
    if at == 0 {
        return None;
    }
    let usable = |at: usize| {
        let token = &reading.tokens[at];
        !token.masked && !token.lower.is_empty() && token.after < Break::Sentence
    };
    // All words since a boundary belong to it.
    let mut start = at;
    let mut bounded = false;
    while start > 0 && at - start < 12 {
        let word = reading.before(start, 1);
        if !usable(start - 1) || (BOUNDARIES.contains(&word) && !is_joined_by_marks(reading, start - 1, at)) {
            bounded = BOUNDARIES.contains(&word) || start == 1 || reading.tokens[start - 1].after >= Break::Sentence;
            break;
        }
        if reading.tokens[start - 1].after == Break::Clause && start < at {
            bounded = true;
            break;
        }
        start -= 1;
    }
    if start == 0 {
        bounded = true;
    }
    if bounded {
        while start < at
            && matches!(
                reading.lower(start),
                "the" | "my" | "our" | "his" | "just" | "so" | "um" | "uh" | "actually" | "probably"
            )
        {
            start += 1;
        }
        if start < at && at - start <= 9 {
            return Some(start);
        }
    }
    // The words that marks, digits and spelled letters connect with the last one.
    let mut start = at - 1;
    if !usable(start) {
        return None;
    }
    while start > 0 && usable(start - 1) {
        let (word, next) = (reading.before(start, 1), reading.lower(start));
        let mark = MARKS.contains(&word) || MARKS.contains(&next);
        let part = |word: &str| {
            word.len() == 1 || small_number(word).is_some() || word.chars().all(|letter| letter.is_ascii_digit())
        };
        if !(mark || part(word) || part(next)) || (BOUNDARIES.contains(&word) && !mark) {
            break;
        }
        start -= 1;
    }
    Some(start)
}

/// True if a word that looks like a boundary stands next to a mark: "sign dot up at".
fn is_joined_by_marks(reading: &Reading<'_>, word: usize, at: usize) -> bool {
    word + 1 < at && MARKS.contains(&reading.lower(word + 1))
}

/// "www dot example dot com slash jo", "example dot org".
fn spoken_url(reading: &Reading<'_>, at: usize) -> Option<Range<usize>> {
    let mut start = at;
    let mut host = at;
    if reading.lower(at) == "www" && reading.lower(at + 1) == "dot" {
        host = at + 2;
    } else if reading.starts(at, "w w w dot")
        || (matches!(reading.lower(at), "https" | "http") && reading.starts(at + 1, "colon slash slash"))
    {
        host = at + 4;
    }
    if reading.tokens.get(host).is_none_or(|token| token.masked || token.after > Break::None)
        || !is_name_part(reading.lower(host))
    {
        return None;
    }
    if matches!(reading.lower(host), "at" | "dot" | "point" | "a" | "i") {
        return None;
    }
    if host == at && (reading.lower(host + 1) != "dot" || MARKS.contains(&reading.before(at, 1))) {
        return None;
    }
    // A host of two words: "my company dot com".
    let dot = (host + 1..(host + 3).min(reading.tokens.len())).find(|at| reading.lower(*at) == "dot")?;
    let mut end = tld_end(reading, dot)?;
    while reading.lower(end) == "slash"
        && end + 1 < reading.tokens.len()
        && reading.tokens[end - 1].after == Break::None
    {
        end += 2;
        while MARKS.contains(&reading.lower(end))
            && end + 1 < reading.tokens.len()
            && reading.tokens[end - 1].after == Break::None
        {
            end += 2;
        }
    }
    if host == at && start > 0 && matches!(reading.before(at, 1), "dash" | "hyphen") && start > 1 {
        start -= 2;
    }
    Some(start..end)
}

/// A cue for an address stands before `at`.
fn has_email_cue(reading: &Reading<'_>, cues: &[Cued], at: usize) -> bool {
    cues::before(reading, cues, at, 9, |cue| cue == Cue::Email).is_some()
}
