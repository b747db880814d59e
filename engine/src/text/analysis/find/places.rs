//! Addresses, towns, regions and countries.

use std::ops::Range;

use super::super::cues::{self, Cue, Cued};
use super::super::label::Label;
use super::super::lists::{CALENDAR, COMMON, COMPANY, GIVEN, Lists, PhraseKind, STATE_CODES, SURNAME, TOWN};
use super::super::numbers::{Code, ordinal};
use super::super::reading::{Break, Reading};
use super::super::{Finding, Source};
use crate::text::word_list::words;

/// A place that tells of no person. Redaction leaves it alone.
const MENTIONED: f32 = 0.42;

/// A town where somebody is.
const VISITED: f32 = 0.56;

const STREETS: &[&str] = words!(
    "street st avenue ave road rd lane ln drive dr boulevard blvd court ct place pl way terrace square sq parkway pkwy \
     circle cir crescent close highway hwy trail grove gardens row mews alley plaza walk path crossing loop green hill \
     heights ridge run point broadway village park quay wharf turnpike rise"
);

/// Words for streets that begin with a capital letter nearly always mean one.
const CLEAR_STREETS: &[&str] = words!(
    "street st avenue ave road rd lane ln drive boulevard blvd court terrace parkway pkwy crescent terrace mews square \
     highway"
);

const FOREIGN_STREETS: &[&str] =
    &["rue", "calle", "via", "avenida", "rua", "plaza", "piazza", "chemin", "carrer", "corso", "paseo", "allee"];

const UNITS: &[&str] =
    &["apartment", "apt", "unit", "suite", "flat", "floor", "ste", "room", "building", "box", "block", "lot"];

/// A word that no name of a street has.
const NO_PARTS: &[&str] = words!(
    "is are was the a an and or to from in on at my your his her our their i you he she it we they percent dollars \
     minutes people years miles times days hours down along cars of with for per by weeks"
);

/// Finds places.
pub fn find(reading: &Reading<'_>, codes: &[Code], cues: &[Cued], found: &mut Vec<Finding>) {
    let mut taken: Vec<Range<usize>> = addresses(reading, codes, cues);
    taken.sort_by_key(|words| words.start);
    for words in &taken {
        found.push(Finding { words: words.clone(), label: Label::Location, confidence: 0.94, source: Source::Pattern });
    }
    let lists = Lists::get();
    let mut at = 0;
    while at < reading.tokens.len() {
        let here = at;
        at += 1;
        if let Some(words) = taken.iter().find(|words| words.contains(&here)) {
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

fn is_state_code(reading: &Reading<'_>, at: usize) -> bool {
    reading.tokens.get(at).is_some_and(|token| {
        !token.masked && STATE_CODES.contains(&token.core()) && reading.tokens[at - 1].after < Break::Sentence
    })
}

/// A town, a region or a country at a place, and true for a country.
fn place_at(reading: &Reading<'_>, at: usize, cased: bool, lists: &Lists) -> Option<(Range<usize>, bool)> {
    let token = reading.tokens.get(at)?;
    if token.masked || (cased && !token.capital) || token.lower.len() < 2 {
        return None;
    }
    let phrase = lists.phrases(&token.lower).iter().find(|phrase| {
        let words = phrase.rest.iter().enumerate();
        matches!(phrase.kind, PhraseKind::Place | PhraseKind::Country)
            && words.clone().all(|(offset, word)| {
                reading.lower(at + 1 + offset) == *word && reading.tokens[at + offset].after == Break::None
            })
    });
    if let Some(phrase) = phrase {
        let country = phrase.kind == PhraseKind::Country;
        // "us" and "uk" in capitals only; "turkey" and "wales" alike.
        let short = phrase.rest.is_empty() && token.lower.len() <= 3 && token.core().chars().any(char::is_lowercase);
        if !(short || phrase.rest.is_empty() && token.is(COMMON) && (!cased || token.first)) {
            return Some((at..at + 1 + phrase.rest.len(), country));
        }
    }
    if !token.is(TOWN) || token.flags & (CALENDAR | COMPANY) != 0 {
        return None;
    }
    let preposition = matches!(
        reading.before(at, 1),
        "in" | "from" | "near" | "to" | "at" | "into" | "around" | "outside" | "of" | "is" | "visiting"
    );
    let common = token.is(COMMON);
    let name = token.flags & (GIVEN | SURNAME) != 0;
    let certain = match (cased, common, name) {
        (true, false, false) => true,
        (true, false, true) => preposition || is_followed_by_region(reading, at, lists),
        (true, true, _) => preposition && !token.first,
        (false, false, false) => token.lower.len() > 3,
        (false, false, true) => preposition || is_followed_by_region(reading, at, lists),
        (false, true, _) => {
            matches!(reading.before(at, 1), "in")
                && is_personal(reading, at)
                && matches!(reading.before(at, 2), "live" | "lives" | "born" | "living" | "based" | "i'm" | "lived")
        }
    };
    certain.then_some((at..at + 1, false))
}

fn is_followed_by_region(reading: &Reading<'_>, at: usize, lists: &Lists) -> bool {
    reading.tokens[at].after < Break::Sentence
        && (is_state_code(reading, at + 1)
            || reading.tokens.get(at + 1).is_some_and(|next| {
                lists.phrases(&next.lower).iter().any(|phrase| {
                    !matches!(phrase.kind, PhraseKind::Term(_))
                        && phrase.rest.iter().enumerate().all(|(offset, word)| reading.lower(at + 2 + offset) == *word)
                })
            }))
}

/// The words before a place say that somebody lives there or comes from there.
fn is_personal(reading: &Reading<'_>, at: usize) -> bool {
    let sentence = reading.tokens[at].sentence;
    let words = |most: usize| {
        (at.saturating_sub(most)..at).rev().filter(move |before| reading.tokens[*before].sentence == sentence)
    };
    let lives = words(8).any(|before| {
        words!(
            "live lives living lived reside resides residing born moved moving relocated based grew raised hometown \
             address apartment resident ship deliver delivered stay staying stays relocating native house home \
             neighborhood zip postcode"
        )
        .contains(&reading.lower(before))
    });
    if lives {
        return true;
    }
    // "I'm from Leeds", "calling from Leeds".
    let from = words(2).any(|before| reading.lower(before) == "from");
    let subject = words(6).any(|before| {
        words!("i'm i he she he's she's calling we're originally they family my parents")
            .contains(&reading.lower(before))
    });
    if from
        && subject
        && !words(6).any(|before| {
            words!("flight train bus order ordered bought imported flew drove travel traveled news")
                .contains(&reading.lower(before))
        })
    {
        return true;
    }
    let named = words(6).any(|before| {
        super::super::reading::is_clear_given(&reading.tokens[before])
            || reading.tokens[before].text.contains("[PERSON_NAME]")
    });
    if named && matches!(reading.before(at, 1), "in" | "from" | "of" | "at" | "near") {
        return true;
    }
    // "Where do you live?" - "Leeds."
    if sentence > 0 && at <= first_of(reading, at) + 5 {
        let question =
            (0..first_of(reading, at)).rev().take_while(|before| reading.tokens[*before].sentence + 1 == sentence);
        let mut asks = false;
        let mut ends = false;
        for before in question {
            ends |= reading.tokens[before].after == Break::Question;
            asks |= matches!(
                reading.lower(before),
                "live" | "born" | "city" | "town" | "address" | "located" | "reside" | "from" | "birthplace"
            );
        }
        return asks && ends;
    }
    false
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

fn first_of(reading: &Reading<'_>, at: usize) -> usize {
    let sentence = reading.tokens[at].sentence;
    (0..=at).rev().take_while(|before| reading.tokens[*before].sentence == sentence).last().unwrap_or(at)
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
        let german = ["strasse", "str", "weg", "platz", "gasse", "allee", "straat", "laan"]
            .iter()
            .any(|ending| before.ends_with(ending) && before.len() > ending.len() + 2);
        if german && code.digits <= 4 && reading.joined(start - 1, start) {
            found.push(start - 1..extend(reading, codes, code.words.end, code.spoken));
        } else if before == "box" && matches!(reading.before(start, 2), "po" | "p.o" | "o" | "office") {
            let from = if reading.before(start, 2) == "po" || reading.before(start, 2) == "p.o" { 2 } else { 3 };
            found.push(start.saturating_sub(from)..extend(reading, codes, code.words.end, code.spoken));
        } else if code.digits <= 4 {
            let foreign = (2..=4).find(|back| {
                FOREIGN_STREETS.contains(&reading.before(start, *back)) && reading.tokens[start - back].capital
            });
            if let Some(back) = foreign {
                found.push(start - back..extend(reading, codes, code.words.end, code.spoken));
            }
        }
    }
    // Streets without a number.
    let mut at = 0;
    while at < reading.tokens.len() {
        let here = at;
        at += 1;
        if found.iter().any(|words| words.contains(&here)) || reading.tokens[here].masked {
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
    if FOREIGN_STREETS.contains(&reading.lower(start)) && reading.tokens[start].capital && numbered {
        let mut end = start + 1;
        while end < reading.tokens.len()
            && end - start < 6
            && reading.tokens[end - 1].after == Break::None
            && (reading.tokens[end].capital
                || matches!(reading.lower(end), "de" | "la" | "du" | "des" | "del" | "di" | "da" | "le"))
        {
            end += 1;
        }
        return (end > start + 1).then_some(end);
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
    let code = codes.iter().find(|code| code.words.end == start && code.text.len() <= 4);
    match code {
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
        let code_at = |at: usize| codes.iter().find(|code| code.words.start == at);
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

/// Within an address a town may be a common word or a person's name.
fn common_town(reading: &Reading<'_>, at: usize, cased: bool) -> Option<(Range<usize>, bool)> {
    let token = reading.tokens.get(at)?;
    (token.is(TOWN) && !token.masked && (token.capital || !cased) && !NO_PARTS.contains(&token.lower.as_str()))
        .then_some((at..at + 1, false))
}
