//! Addresses by a postal code and its town, with the unit, the house and the street before them.

use std::ops::Range;

use super::super::lists::{CALENDAR, COMMON, STATE_CODES};
use super::super::reading::{Break, Reading, Token};
use super::towns::{self, NO_PARTS};
use crate::text::word_list::words;

/// Words for streets.
pub(super) const STREETS: &[&str] = words!(
    "street st avenue ave road rd lane ln drive dr boulevard blvd court ct place pl way terrace square sq parkway pkwy \
     pde parade esplanade circle cir crescent close highway hwy trail grove gardens row mews alley plaza walk path \
     crossing loop green hill heights ridge run point broadway village park quay wharf turnpike rise"
);

/// Words for a part of a house.
pub(super) const UNITS: &[&str] = words!("apartment apt unit suite flat floor level ste room building box block lot");

/// Small words within the names of streets and towns.
const PARTICLES: &[&str] = words!(
    "de la las los du des del della dei degli di da do dos das le les of the van den der het am auf bei im zum zur sur \
     sous lez aux au"
);

/// Words for streets before their names.
const STREET_WORDS: &[&str] = words!(
    "rue cours calle via avenida rua plaza piazza chemin carrer corso paseo allee viale vicolo travessa alameda praca camino \
     ronda impasse quai avenue boulevard bd av avda ul ulica place postfach"
);

/// Endings of names of streets: "Lindenstraße", "Keizersgracht", "Vesterbrogade".
const STREET_ENDINGS: &[&str] =
    words!("strasse str weg platz gasse allee ufer damm straat laan gracht kade plein singel gade vej gatan vagen");

/// Words for a unit or beside a house number, in several languages.
const UNIT_WORDS: &[&str] = words!(
    "app appt apto conj piso esc puerta int scala interno top wohnung etage stock bus m tv th mf esq dto bis ter izq dcha"
);

/// Words for houses that have a name instead of a number.
const HOUSES: &[&str] = words!("cottage rectory vicarage house lodge farm manor villa barn hall apartments mansions");

/// Endings of words for wards and towns in Japanese addresses: "Shibuya-ku".
const JAPANESE: &[&str] = &["-ku", "-shi", "-cho", "-machi", "-gun", "-ken", "-fu", "-to", "-chome"];

/// Codes of regions before a postal code that are no words for it elsewhere.
const REGIONS: &[&str] = words!("NSW VIC QLD TAS WA SA NT ACT NL PE YT NU");

/// Most names in a row that no number and no word for a street interrupts.
const MOST_NAMES: usize = 4;

/// Most parts between commas before a town.
const MOST_PARTS: usize = 5;

/// Most words of an address before its town, so that a text of names and numbers alone costs no more than its length.
const MOST_WORDS: usize = 32;

/// How much a postal code shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Digits that may be any number.
    Digits,
    /// Letters and marks that hardly any other number has.
    Clear,
}

/// The addresses that a postal code beside a town gives away, or a Japanese ward.
pub(super) fn find(reading: &Reading<'_>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    if !reading.cased {
        return found;
    }
    let mut at = 0;
    while at < reading.tokens.len() {
        let words =
            code_then_town(reading, at).or_else(|| town_then_code(reading, at)).or_else(|| japanese(reading, at));
        at = words.as_ref().map_or(at + 1, |words| words.end);
        found.extend(words);
    }
    found
}

/// True for a name of a street with a word for it at its end.
pub(super) fn has_street_ending(token: &Token<'_>) -> bool {
    let ends = |ending: &&str| token.lower.ends_with(*ending) && token.lower.len() > ending.len() + 2;
    !token.is(COMMON) && STREET_ENDINGS.iter().any(ends)
}

/// True for a word that stands before the name of a street: "rue", "C/".
pub(super) fn is_street_word(token: &Token<'_>) -> bool {
    STREET_WORDS.contains(&token.lower.as_str()) || token.text.eq_ignore_ascii_case("c/")
}

/// True for words with a capital and the small words between them.
pub(super) fn is_street_name(tokens: &[Token<'_>]) -> bool {
    let is_part = |token: &Token<'_>| (is_name(token) || is_particle(token)) && token.after == Break::None;
    tokens.split_last().is_some_and(|(last, parts)| is_name(last) && parts.iter().all(is_part))
}

/// "10623 Berlin", "D-10623 Berlin", "1016 EA Amsterdam", "411 24 Göteborg".
fn code_then_town(reading: &Reading<'_>, at: usize) -> Option<Range<usize>> {
    let tokens = &reading.tokens;
    let (town, form) = leading_code(reading, at)?;
    let most = tokens.len().min(town + 3);
    let names =
        (town..most).take_while(|at| is_name(&tokens[*at]) && (*at == town || tokens[at - 1].after == Break::None));
    let mut end = town + names.count();
    if end == town {
        return None;
    }
    let start = start_of(reading, at);
    let is_numbered = tokens[start..at].iter().any(is_number);
    let is_known = towns::is_town(reading, town);
    let opens = at == 0 || tokens[at - 1].after >= Break::Clause;
    let closes = end == tokens.len() || tokens[end - 1].after >= Break::Clause;
    let is_address = match (form, tokens[town - 1].after) {
        (_, Break::Clause) => is_numbered && is_known,
        (Form::Clear, _) => is_numbered || is_known || opens && closes,
        (Form::Digits, _) => is_numbered || is_known && opens && closes && !is_year(&tokens[at]),
    };
    // "København V", "Torino (TO)".
    if tokens[end - 1].after == Break::None
        && tokens.get(end).is_some_and(|next| !next.masked && next.capital && next.text.starts_with('('))
    {
        end += 1;
    }
    is_address.then_some(start..end)
}

/// A postal code that stands before its town: the place of the town, and how much the code shows.
fn leading_code(reading: &Reading<'_>, at: usize) -> Option<(usize, Form)> {
    let token = &reading.tokens[at];
    let next = reading.tokens.get(at + 1).filter(|next| !next.masked)?;
    if token.masked || token.form.is_some() || token.after > Break::Clause {
        return None;
    }
    let joined = token.after == Break::None;
    let (code, follows) = (shape(token.core()), shape(next.core()));
    Some(match (code.as_str(), follows.as_str()) {
        ("0000", "AA") if joined => (at + 2, if is_year(token) { Form::Digits } else { Form::Clear }),
        ("000", "00") if joined => (at + 2, Form::Digits),
        ("A-0000" | "A-00000" | "AA-0000" | "AA-00000" | "0000AA" | "0000-000" | "00000-000", _) => {
            (at + 1, Form::Clear)
        }
        ("0000" | "00000" | "000000" | "00-000", _) => (at + 1, Form::Digits),
        _ => return None,
    })
    .filter(|(town, _)| reading.tokens.get(*town).is_some() && reading.tokens[town - 1].after <= Break::Clause)
}

/// "London N1 1BL", "Montréal (Québec) H2X 3J9", "Truckee, CA 96160", "Melbourne VIC 3000", "São Paulo - SP, 01310-200", "Pune 411001".
fn town_then_code(reading: &Reading<'_>, at: usize) -> Option<Range<usize>> {
    let tokens = &reading.tokens;
    let token = &tokens[at];
    if token.masked || token.form.is_some() || at == 0 || tokens[at - 1].after >= Break::Sentence {
        return None;
    }
    let before = &tokens[at - 1];
    let region = before.core();
    let is_region = STATE_CODES.contains(&region) || REGIONS.contains(&region);
    let two = || tokens.get(at + 1).filter(|_| token.after == Break::None).map(|next| shape(next.core()));
    let (end, has_region) = match shape(token.core()).as_str() {
        "A0" | "A00" | "AA0" | "AA00" | "A0A" | "AA0A" if two().as_deref() == Some("0AA") => (at + 2, is_region),
        "A0A" if two().as_deref() == Some("0A0") => (at + 2, is_region || before.text.starts_with('(')),
        "00000" | "00000-0000" | "0000" if is_region => (at + 1, true),
        "00000-000" if shape(region) == "AA" => (at + 1, true),
        "000000" if towns::is_town(reading, at - 1) => (at + 1, false),
        _ => return None,
    };
    let region = at - usize::from(has_region);
    let is_dash = region > 0 && tokens[region - 1].text == "-";
    let last = region - usize::from(is_dash);
    let mut town = last;
    while town > 0 && last - town < 3 {
        let before = &tokens[town - 1];
        let is_part = is_name(before) && !is_number(before) || is_particle(before);
        if before.after >= Break::Sentence || before.after == Break::Clause && town < last || !is_part {
            break;
        }
        town -= 1;
    }
    while town < last && is_particle(&tokens[town]) && !tokens[town].capital {
        town += 1;
    }
    let start = start_of(reading, town);
    let is_plain = token.core().len() == 6 && !token.core().contains(char::is_alphabetic);
    (town < last && !(is_plain && start == town)).then_some(start..end)
}

/// "Meguro-ku, Tokyo 153-0063", "Kita-ku, Umeda 3-1-3": a ward beside a number with hyphens.
fn japanese(reading: &Reading<'_>, at: usize) -> Option<Range<usize>> {
    let tokens = &reading.tokens;
    let is_ward = tokens[at].capital && JAPANESE.iter().any(|ending| tokens[at].lower.ends_with(ending));
    let is_block = |token: &Token<'_>| {
        let mut groups = token.core().split('-');
        groups.clone().count() > 1
            && groups.all(|group| (1..=4).contains(&group.len()) && group.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let is_part = |token: &Token<'_>| !token.masked && (is_block(token) || is_number(token) || is_name(token));
    if !is_ward {
        return None;
    }
    let mut words = at..at + 1;
    let most = 2 * MOST_PARTS;
    let goes_on = |words: &Range<usize>| words.len() <= most;
    while goes_on(&words)
        && words.start > 0
        && tokens[words.start - 1].after < Break::Sentence
        && is_part(&tokens[words.start - 1])
    {
        words.start -= 1;
    }
    while goes_on(&words)
        && words.end < tokens.len()
        && tokens[words.end - 1].after < Break::Sentence
        && is_part(&tokens[words.end])
    {
        words.end += 1;
    }
    (words.len() <= most && tokens[words.clone()].iter().any(is_block)).then_some(words)
}

/// The start of an address that goes on at `from` with its town: the house number, the word for a street or for a house that is farthest
/// before it, and the names before that one. `from` without any.
fn start_of(reading: &Reading<'_>, from: usize) -> usize {
    let tokens = &reading.tokens;
    let (mut start, mut at, mut names, mut parts) = (from, from, 0, 0);
    while at > 0 && parts <= MOST_PARTS && from - at < MOST_WORDS {
        let token = &tokens[at - 1];
        if token.masked || token.after >= Break::Sentence || token.text.ends_with(':') {
            break;
        }
        parts += usize::from(token.after == Break::Clause);
        if is_number(token) || is_street(token) {
            (start, names) = (at - 1, 0);
        } else if (is_name(token) || is_particle(token)) && names < MOST_NAMES {
            names += 1;
        } else if !(UNIT_WORDS.contains(&token.lower.as_str()) || token.text == "-") {
            break;
        }
        at -= 1;
    }
    let mut first = start;
    while first > 0 && start < from && start - first < MOST_NAMES {
        let token = &tokens[first - 1];
        if token.masked
            || token.after > Break::None
            || token.text.ends_with(':')
            || !(is_name(token) || is_particle(token))
        {
            break;
        }
        first -= 1;
    }
    while first < start && is_particle(&tokens[first]) && !tokens[first].capital {
        first += 1;
    }
    first
}

fn is_street(token: &Token<'_>) -> bool {
    let lower = token.lower.as_str();
    let is_word = || [STREETS, HOUSES, UNITS].iter().any(|words| words.contains(&lower)) || lower == "route";
    is_street_word(token) || token.capital && (has_street_ending(token) || is_word())
}

/// A number of a house or a unit: "112a", "84/92", "3-II", "2ºA", "B-204".
fn is_number(token: &Token<'_>) -> bool {
    let core = token.core();
    let digits = core.chars().filter(char::is_ascii_digit).count();
    let others = core.chars().filter(|letter| letter.is_alphabetic()).count();
    !token.masked
        && (1..=6).contains(&digits)
        && others <= 2
        && core.chars().all(|letter| letter.is_alphanumeric() || "-/.".contains(letter))
        && core.split(['-', '/']).all(|group| group.len() <= 6)
}

fn is_name(token: &Token<'_>) -> bool {
    token.capital
        && !token.masked
        && token.form.is_none()
        && !token.is(CALENDAR)
        && !token.core().contains(|letter: char| letter.is_ascii_digit())
        && (!NO_PARTS.contains(&token.lower.as_str()) || token.lower == "the")
}

fn is_particle(token: &Token<'_>) -> bool {
    PARTICLES.contains(&token.lower.as_str()) || token.lower.starts_with("d'")
}

pub(super) fn is_year(token: &Token<'_>) -> bool {
    token.core().parse().is_ok_and(|year: u32| (1700..2100).contains(&year))
}

/// A word with `0` for each digit and `A` for each capital; other signs stay.
fn shape(core: &str) -> String {
    let sign = |letter: char| match letter {
        '0'..='9' => '0',
        'A'..='Z' => 'A',
        other => other,
    };
    core.chars().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::{Redaction, redact_text};

    fn hidden(text: &str) -> String {
        redact_text(text, &Redaction::default()).0
    }

    #[test]
    fn addresses_of_many_countries_are_found_by_their_postal_code() {
        for address in [
            "Am Alten Markt 7, 86150 Augsburg",
            "Goethestr. 112a, D-10623 Berlin",
            "3 bis avenue Jean Jaurès, 69007 Lyon",
            "8 impasse du Moulin 33000 Bordeaux",
            "Calle de Alcalá 45, 3º B, 28014 Madrid",
            "Corso Vittorio Emanuele II, 55 - 10128 Torino (TO)",
            "Keizersgracht 241, 1016 EA Amsterdam",
            "Rue du Rhône 65, CH-1204 Genève",
            "Storgatan 12 B, 411 24 Göteborg",
            "ul. Długa 84/92 m. 17, 00-514 Warszawa",
            "The Old Rectory, Church Lane, Little Wenham, Colchester CO7 6QB",
            "1287 rue Saint-Denis, app. 4, Montréal (Québec) H2X 3J9",
            "17/203 Bourke St, Melbourne VIC 3000",
            "RR 2 Box 114, Caney, KS 67333",
            "Rua das Laranjeiras, 210 - apto 402, Rio de Janeiro - RJ, 22240-003",
            "2-11-3 Meguro, Meguro-ku, Tokyo 153-0063",
        ] {
            let text = format!("Please send the parcel to {address}.");
            assert_eq!(hidden(&text), "Please send the parcel to [LOCATION].", "{address}");
        }
    }

    #[test]
    fn a_long_run_of_parts_ends() {
        for part in ["1010 Wien ", "Shibuya-ku ", "12345 Berlin, ", "7 Rue de la Paix, ", "S-M-I-T-H "] {
            assert!(!hidden(&part.repeat(20_000)).is_empty());
        }
    }

    #[test]
    fn numbers_beside_towns_are_no_addresses() {
        for text in [
            "In 2019 Berlin was full.",
            "The 80000 Hamburg fans sang.",
            "We sold 20000 Paris guides.",
            "Hamburg won 3:1 against Dresden.",
            "The 2012 London games were a success.",
            "How-to guides come in parts 3-1-3.",
            "Drive 5 failed in bay 12, row 10115.",
        ] {
            assert_eq!(hidden(text), text);
        }
    }
}
