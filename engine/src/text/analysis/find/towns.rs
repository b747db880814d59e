//! Towns, regions and countries of the lists.

use std::ops::Range;

use super::super::lists::{CALENDAR, COMMON, COMPANY, GIVEN, Lists, PhraseKind, STATE_CODES, SURNAME, TOWN};
use super::super::reading::{Break, Reading};
use crate::text::word_list::words;

/// A word that no name of a street has.
pub(super) const NO_PARTS: &[&str] = words!(
    "is are was the a an and or to from in on at my your his her our their i you he she it we they percent dollars \
     minutes people years miles times days hours down along cars of with for per by weeks mr mrs ms"
);

/// True if lists have a town, a region or a country at a place, or a town that is also a common word or a name.
pub(super) fn is_town(reading: &Reading<'_>, at: usize) -> bool {
    place_at(reading, at, true, Lists::get()).or_else(|| common_town(reading, at, true)).is_some()
}

pub(super) fn is_state_code(reading: &Reading<'_>, at: usize) -> bool {
    reading.tokens.get(at).is_some_and(|token| {
        !token.masked && STATE_CODES.contains(&token.core()) && reading.tokens[at - 1].after < Break::Sentence
    })
}

/// A town, a region or a country at a place, and true for a country.
pub(super) fn place_at(reading: &Reading<'_>, at: usize, cased: bool, lists: &Lists) -> Option<(Range<usize>, bool)> {
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
pub(super) fn is_personal(reading: &Reading<'_>, at: usize) -> bool {
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

fn first_of(reading: &Reading<'_>, at: usize) -> usize {
    let sentence = reading.tokens[at].sentence;
    (0..=at).rev().take_while(|before| reading.tokens[*before].sentence == sentence).last().unwrap_or(at)
}

/// Within an address a town may be a common word or a person's name.
pub(super) fn common_town(reading: &Reading<'_>, at: usize, cased: bool) -> Option<(Range<usize>, bool)> {
    let token = reading.tokens.get(at)?;
    (token.is(TOWN) && !token.masked && (token.capital || !cased) && !NO_PARTS.contains(&token.lower.as_str()))
        .then_some((at..at + 1, false))
}
