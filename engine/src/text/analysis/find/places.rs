//! Addresses, towns, regions and countries.

use std::ops::Range;

use super::super::cues::{self, Cue, Cued};
use super::super::label::Label;
use super::super::lists::{Lists, TOWN};
use super::super::numbers::{Code, ordinal};
use super::super::reading::{Break, Reading, Token};
use super::super::{Finding, Source};
use super::persons;
use super::postal::{self, STREETS, UNITS};
use super::towns::{NO_PARTS, common_town, is_personal, is_state_code, place_at};
use crate::text::word_list::words;

/// A place that tells of no person. Redaction leaves it alone.
const MENTIONED: f32 = 0.42;

/// A town where somebody is.
const VISITED: f32 = 0.56;

/// Words for streets that begin with a capital letter nearly always mean one.
const CLEAR_STREETS: &[&str] = words!(
    "street st avenue ave road rd lane ln drive boulevard blvd court terrace parkway pkwy crescent terrace mews square \
     highway"
);

/// Foreign words for streets that mean something else in English where they have no capital.
const ENGLISH_WORDS: &[&str] = &["via", "place", "plaza", "av", "avenue", "boulevard"];

/// The longest address, in words.
const LONGEST: usize = 64;

/// Finds places.
pub fn find(reading: &Reading<'_>, codes: &[Code], cues: &[Cued], found: &mut Vec<Finding>) {
    let mut taken: Vec<Range<usize>> = addresses(reading, codes, cues);
    for mut words in postal::find(reading) {
        // "Spain" behind an address.
        if let Some((more, _)) = place_at(reading, words.end, true, Lists::get())
            && reading.joined(words.end - 1, words.end)
        {
            words.end = more.end;
        }
        taken.push(words);
    }
    taken.sort_by_key(|words| words.start);
    taken.dedup_by(|next, before| {
        if next.start >= before.end {
            return false;
        }
        // A list of addresses is not one.
        if next.end > before.end && next.end - before.start > LONGEST {
            next.start = before.end;
            return false;
        }
        before.end = before.end.max(next.end);
        true
    });
    for words in &taken {
        found.push(Finding { words: words.clone(), label: Label::Location, confidence: 0.94, source: Source::Pattern });
    }
    let lists = Lists::get();
    let mut at = 0;
    while at < reading.tokens.len() {
        let here = at;
        at += 1;
        let ended = taken.partition_point(|words| words.end <= here);
        if let Some(words) = taken.get(ended).filter(|words| words.contains(&here)) {
            at = words.end;
            continue;
        }
        let Some((words, country)) = place_at(reading, here, reading.cased, lists) else { continue };
        let mut words = words;
        // "Austin, Texas", "Leeds in England".
        let mut linked = false;
        if reading.joined(here, words.end)
            && let Some((more, _)) = place_at(reading, words.end, reading.cased, lists)
            && !country
        {
            words.end = more.end;
            linked = true;
        } else if !country && is_state_code(reading, words.end) {
            words.end += 1;
            linked = true;
        }
        at = words.end;
        let confidence = if country && !linked {
            0.45
        } else if is_personal(reading, here) {
            0.76
        } else if reading.tokens[here].is(TOWN) && is_visited(reading, here) {
            VISITED
        } else {
            MENTIONED
        };
        // The name of a town may be the name of a person: the evidence of names decides.
        found.push(Finding { words, label: Label::Location, confidence, source: Source::List });
    }
}

/// True if words are the name of a country and no more.
pub fn is_country(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let place = place_at(reading, words.start, reading.cased, Lists::get());
    place.is_some_and(|(found, country)| country && found == *words)
}

/// True for a street without a number that a sentence speaks of without a person: "Bourbon Street is loud".
pub fn is_topic(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let (start, end) = (words.start, words.end);
    let has_number =
        reading.tokens[words.clone()].iter().any(|token| token.core().contains(|sign: char| sign.is_ascii_digit()));
    let is_prose = |token: Option<&Token<'_>>| {
        token.is_some_and(|token| token.sentence == reading.tokens[start].sentence && !token.capital && !token.masked)
    };
    let is_goal = matches!(reading.before(start, 1), "at" | "near" | "to" | "from" | "on");
    reading.cased
        && CLEAR_STREETS.contains(&reading.lower(end - 1))
        && !has_number
        && !is_goal
        && !is_about_person(reading, words)
        && reading.tokens[end - 1].after != Break::Clause
        && is_prose(reading.tokens.get(end))
}

/// True if a word of the sentence around words tells of a person.
pub fn is_about_person(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    persons::person_near(reading, words.start, 12)
        || persons::person_after(reading, words.end, 12)
        || is_near_home(reading, words.start)
}

/// "They found my car in Scunthorpe": a town after a preposition in a sentence about somebody.
fn is_visited(reading: &Reading<'_>, at: usize) -> bool {
    let sentence = reading.tokens[at].sentence;
    let person = |at: usize| {
        reading.tokens[at].sentence == sentence
            && words!(
                "i i'm i've i'll i'd we we're we've we'll he she they they're my our his her their you your me us him \
                 them"
            )
            .contains(&reading.lower(at))
    };
    matches!(
        reading.before(at, 1),
        "in" | "from" | "to" | "near" | "at" | "into" | "around" | "outside" | "through" | "via" | "towards"
    ) && (at.saturating_sub(10)..at).any(person)
}

/// Addresses: "12 Oak Street, apartment 4, Springfield, Illinois 62704".
fn addresses(reading: &Reading<'_>, codes: &[Code], cues: &[Cued]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for code in codes {
        if (1..=6).contains(&code.digits) && code.letters <= 1 && !code.written.contains([':', '$', '/']) {
            let heard = if code.spoken { Street::HeardNumber } else { Street::WrittenNumber };
            let numbered = street_after(reading, code.words.end, heard).map(|end| code.words.start..end);
            if let Some(mut words) = numbered {
                words.end = extend(reading, codes, words.end, code.spoken);
                words.start = unit_before(reading, codes, words.start);
                found.push(words);
                continue;
            }
        }
        // "Hauptstraße 5", "Via Roma 12", "PO box 12".
        let start = code.words.start;
        let before = reading.before(start, 1);
        let joined = start > 0 && reading.joined(start - 1, start);
        // "Große Hamburger Straße 5".
        let apart = matches!(before, "strasse" | "str" | "weg" | "platz" | "allee" | "straat")
            && start > 1
            && postal::is_street_name(&reading.tokens[start - 2..start]);
        if joined && code.digits <= 4 && (apart || postal::has_street_ending(&reading.tokens[start - 1])) {
            let first = start - 1 - usize::from(apart);
            found.push(first..extend(reading, codes, code.words.end, code.spoken));
        } else if before == "box" && matches!(reading.before(start, 2), "po" | "p.o" | "o" | "office") {
            let from = if reading.before(start, 2) == "po" || reading.before(start, 2) == "p.o" { 2 } else { 3 };
            found.push(start.saturating_sub(from)..extend(reading, codes, code.words.end, code.spoken));
        } else if code.digits <= 4 {
            let foreign = (2..=start.min(6)).find(|back| {
                let first = &reading.tokens[start - back];
                first.capital
                    && first.after == Break::None
                    && postal::is_street_word(first)
                    && postal::is_street_name(&reading.tokens[start - back + 1..start])
                    && !postal::is_year(&reading.tokens[start])
            });
            if let Some(back) = foreign {
                found.push(start - back..extend(reading, codes, code.words.end, code.spoken));
            }
        }
    }
    // Streets without a number.
    let mut is_taken = vec![false; reading.tokens.len()];
    found.iter().for_each(|words| is_taken[words.clone()].fill(true));
    let mut at = 0;
    while at < reading.tokens.len() {
        let here = at;
        at += 1;
        if is_taken[here] || reading.tokens[here].masked {
            continue;
        }
        let cued = cues::before(reading, cues, here, 4, |cue| cue == Cue::Address).is_some()
            || (1..=3).any(|back| {
                matches!(
                    reading.before(here, back),
                    "live" | "lives" | "living" | "lived" | "house" | "home" | "apartment"
                )
            });
        let name = reading.tokens[here].capital && !reading.tokens[here].first && reading.cased;
        if (cued || name)
            && !NO_PARTS.contains(&reading.lower(here))
            && let Some(end) = street_after(reading, here, Street::Alone)
            && end > here + 1
            && (cued || (CLEAR_STREETS.contains(&reading.lower(end - 1)) && is_near_home(reading, here)))
        {
            let end = extend(reading, codes, end, false);
            found.push(here..end);
            at = end;
        }
    }
    found
}

fn is_near_home(reading: &Reading<'_>, at: usize) -> bool {
    let sentence = reading.tokens[at].sentence;
    (at.saturating_sub(9)..at).any(|before| {
        reading.tokens[before].sentence == sentence
            && matches!(
                reading.lower(before),
                "my" | "his" | "her" | "live" | "lives" | "address" | "house" | "home" | "i" | "i'm" | "moved" | "our"
            )
    })
}

/// Words before the name of a street.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Street {
    /// A number in digits.
    WrittenNumber,
    /// A number in words.
    HeardNumber,
    /// No number.
    Alone,
}

/// The end of a street's name that begins at `start`: up to four words and a word for a street.
fn street_after(reading: &Reading<'_>, start: usize, kind: Street) -> Option<usize> {
    let numbered = kind != Street::Alone;
    // If numbers are words, names of streets may be in lower case.
    let cased = reading.cased && kind != Street::HeardNumber;
    let is_foreign = |token: &Token<'_>| {
        let is_clear = token.capital || reading.cased && !ENGLISH_WORDS.contains(&token.lower.as_str());
        postal::is_street_word(token) && is_clear && token.after == Break::None
    };
    // "12 rue de Rivoli".
    if numbered && reading.tokens.get(start).is_some_and(is_foreign) {
        let most = reading.tokens.len().min(start + 6);
        let mut ends = (start + 2..=most).rev();
        if let Some(end) = ends.find(|end| postal::is_street_name(&reading.tokens[start + 1..*end])) {
            return Some(end);
        }
    }
    if reading.lower(start) == "broadway" && numbered {
        return Some(start + 1);
    }
    for length in 1..=4 {
        let at = start + length;
        let part = at - 1;
        if part >= reading.tokens.len()
            || reading.tokens[part].masked
            || reading.tokens[part].after > Break::None
            || NO_PARTS.contains(&reading.lower(part))
        {
            return None;
        }
        if numbered
            && part == start
            && at < reading.tokens.len()
            && start > 0
            && reading.tokens[start - 1].after > Break::Clause
        {
            return None;
        }
        let word = reading.lower(at);
        if STREETS.contains(&word) {
            let clear = CLEAR_STREETS.contains(&word)
                || matches!(word, "way" | "place" | "pl" | "dr" | "ct" | "circle" | "trail" | "close" | "grove");
            let named = reading.tokens[at].capital || !cased;
            // "3 more way" and "two hour walk" are no streets.
            let name_like = (start..at)
                .all(|part| reading.tokens[part].capital || ordinal(reading.lower(part)).is_some() || !cased);
            if !name_like || !named || (!clear && !cased) {
                continue;
            }
            if !cased
                && words!("hour minute mile day year more other way block car lane single")
                    .contains(&reading.lower(start))
            {
                return None;
            }
            let mut end = at + 1;
            // "Oak Street North".
            if matches!(
                reading.lower(end),
                "north" | "south" | "east" | "west" | "northwest" | "northeast" | "nw" | "ne" | "sw" | "se"
            ) && reading.tokens[at].after == Break::None
            {
                end += 1;
            }
            return Some(end);
        }
    }
    None
}

/// "apartment 4b" before a number.
fn unit_before(reading: &Reading<'_>, codes: &[Code], start: usize) -> usize {
    let code = codes.binary_search_by_key(&start, |code| code.words.end).ok().map(|at| &codes[at]);
    match code.filter(|code| code.text.len() <= 4) {
        Some(code) if UNITS.contains(&reading.before(code.words.start, 1)) => code.words.start - 1,
        _ => start,
    }
}

/// Words after a street: a unit, a town, a region, a postal code, a country.
fn extend(reading: &Reading<'_>, codes: &[Code], mut end: usize, heard: bool) -> usize {
    // If numbers are words, names may be in lower case.
    let cased = reading.cased && !heard;
    let lists = Lists::get();
    for _ in 0..6 {
        if end >= reading.tokens.len() || reading.tokens[end].masked || !reading.joined(end - 1, end) {
            break;
        }
        let comma = reading.tokens[end - 1].after == Break::Clause;
        let word = reading.lower(end);
        let code_at = |at: usize| codes.binary_search_by_key(&at, |code| code.words.start).ok().map(|at| &codes[at]);
        if (UNITS.contains(&word) || word == "number")
            && let Some(code) = code_at(end + 1)
            && code.text.len() <= 5
        {
            end = code.words.end;
            continue;
        }
        if reading.tokens[end].text.starts_with('#') && reading.tokens[end].core().len() <= 5 {
            end += 1;
            continue;
        }
        // "in Springfield".
        let link = usize::from(matches!(word, "in" | "comma") && !comma);
        if let Some((words, _)) =
            place_at(reading, end + link, cased, lists).or_else(|| common_town(reading, end + link, cased))
        {
            end = words.end;
            continue;
        }
        if is_state_code(reading, end) {
            end += 1;
            continue;
        }
        if let Some(code) = code_at(end)
            && ((code.letters == 0 && matches!(code.digits, 4 | 5 | 6 | 9))
                || (code.letters >= 2 && (5..=7).contains(&code.text.len())))
        {
            end = code.words.end;
            continue;
        }
        if matches!(word, "zip" | "postcode" | "zipcode") {
            let skip = 1
                + usize::from(reading.lower(end + 1) == "code")
                + usize::from(reading.lower(end + 1) == "is" || reading.lower(end + 2) == "is");
            if let Some(code) = code_at(end + skip) {
                end = code.words.end;
                continue;
            }
        }
        // An unknown town: capitals between commas.
        if comma && reading.cased && reading.tokens[end].capital {
            let mut town = end + 1;
            while town < reading.tokens.len()
                && town - end < 3
                && reading.tokens[town - 1].after == Break::None
                && reading.tokens[town].capital
                && code_at(town).is_none()
                && !is_state_code(reading, town)
            {
                town += 1;
            }
            let closed = reading.tokens[town - 1].after > Break::None
                || town >= reading.tokens.len()
                || is_state_code(reading, town)
                || code_at(town).is_some();
            if closed {
                end = town;
                continue;
            }
        }
        break;
    }
    end
}
