//! Telephone numbers and other numbers that are said digit by digit.

use regex::Captures;

use super::plain_numbers::MEASURED;
use super::{Place, Rule, abbreviations, numbers};
use crate::text::word_list::words;

pub const RULES: &[Rule] = &[
    // "+44 20 7946 0958"
    Rule(r"\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,6}\b", |found, place| {
        let all = whole(found);
        let count = all.bytes().filter(u8::is_ascii_digit).count();
        (count >= 8).then(|| telephone(found, place)).flatten().map(|said| format!("plus {said}"))
    }),
    // "(415) 555-0132", "1-800-555-0199", "415.555.0132"
    Rule(r"(?:1[-. ])?\(\d{3}\) ?\d{3}[-. ]\d{4}\b", telephone),
    Rule(r"(?:1[-. ])?\d{3}[-. ]\d{3}[-. ]\d{4}\b", |found, place| {
        // Groups with spaces or full stops between them may be amounts: "200 300 4000 people", "192.168.1000".
        let all = whole(found);
        let area = all.trim_start_matches("1-").trim_start_matches("1 ");
        let are_round = all.split(|end: char| !end.is_ascii_digit()).all(|group| group.ends_with('0'));
        let is_plain = !all.contains('-');
        let counts = is_plain && (area.starts_with('1') || are_round || is_measured(place.after(found)));
        (!counts).then(|| telephone(found, place)).flatten()
    }),
    // "135-4567-8900", "1300 555 019", "06 12 34 56 78"
    Rule(r"1\d{2}[- ]\d{4}[- ]\d{4}\b", telephone),
    Rule(r"1[38]00[- ]\d{3}[- ]\d{3}\b", telephone),
    Rule(r"0\d(?:[ .-]\d{2}){4}\b", telephone),
    Rule(r"1-8\d\d-[A-Z]+\b", |found, _| {
        let name = whole(found).get(6..)?.to_ascii_lowercase();
        Some(format!("one {} , {name}", toll_free(whole(found).get(2..5)?)))
    }),
    // "555-0132", but not "100-2000"
    Rule(r"\d{3}-\d{4}\b", |found, place| {
        let is_range = whole(found).ends_with('0') && whole(found).as_bytes().get(4) != Some(&b'0');
        (!is_range).then(|| telephone(found, place)).flatten()
    }),
    // "020 7946 0958"
    Rule(r"0\d{2,4}[ -]\d{3,4}[ -]?\d{3,4}\b", telephone),
    // Cards, and American social security numbers.
    Rule(r"\d{4}(?:[ -]\d{4}){3}\b", telephone),
    Rule(r"\d{3}-\d{2}-\d{4}\b", telephone),
    // "02139-4307"
    Rule(r"\d{5}-\d{4}\b", telephone),
    // "ISBN 978-3-16-148410-0", "PIN 4821"
    Rule(r"\d+(?:-\d+)*\b", |found, place| {
        let coded = ["isbn", "pin", "passcode", "code", "zip", "postcode"].contains(&place.previous_lower().as_str());
        let joined = place.after(found).starts_with(|next: char| next.is_ascii_alphanumeric() || next == '.');
        let ends = !joined || place.after(found).len() == 1;
        // "code 1000" is a number, "code 0042" none.
        let all = whole(found);
        let is_round = place.previous_lower() == "code" && all.ends_with("00") && !all.starts_with('0');
        (coded && ends && !is_round && !is_counted(place.after(found)) && all.len() >= 4)
            .then(|| telephone(found, place))
            .flatten()
    }),
    // "90210" where a clause speaks of a ZIP code, and behind a state's letters
    Rule(r"\d{5}\b", |found, place| {
        let state = abbreviations::state(place.previous).is_some();
        let named = place.text.to_ascii_lowercase().contains("zip code");
        ((state || named) && !is_counted(place.after(found))).then(|| numbers::digits(whole(found)))
    }),
    // "Call 911"
    Rule(r"(?:911|112|999|000|988|411|311|110|119)\b", |found, place| {
        let before = place.before().to_ascii_lowercase();
        let words = before.split(|end: char| !end.is_ascii_alphanumeric()).rev().filter(|word| !word.is_empty());
        // "Call 911, 112 or 999", but not "call 110 people"
        let listed = |word: &&str| {
            ["or", "and", "number", "at"].contains(word) || word.bytes().all(|digit| digit.is_ascii_digit())
        };
        let mut words = words.skip_while(listed);
        let called =
            words.next().is_some_and(|word| ["call", "called", "calling", "dial", "dialed", "dialing"].contains(&word));
        (called && !is_counted(place.after(found))).then(|| numbers::digits(whole(found)))
    }),
    // "DE89 3704 0044 0532 0130 00"
    Rule(r"[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){3,7}(?: [A-Z0-9]{1,3})?\b", |found, _| {
        let group = |group: &str| -> String {
            let sign =
                |sign: char| if sign.is_ascii_digit() { numbers::digits(&sign.to_string()) } else { sign.into() };
            group.chars().map(sign).collect::<Vec<_>>().join(" ")
        };
        Some(whole(found).split(' ').map(group).collect::<Vec<_>>().join(" , "))
    }),
];

/// The word in small letters behind a number.
fn next_word(after: &str) -> &str {
    let next = after.strip_prefix(' ').unwrap_or_default();
    next.split(|end: char| !end.is_ascii_lowercase()).next().unwrap_or_default()
}

/// True if a measure follows: "people".
fn is_measured(after: &str) -> bool {
    MEASURED.contains(&next_word(after))
}

/// True if a measure or another plural follows: "lines".
pub fn is_counted(after: &str) -> bool {
    const OTHERS: &[&str] = words!("this does plus unless perhaps always");
    let next = next_word(after);
    is_measured(after) || next.len() > 3 && next.ends_with('s') && !OTHERS.contains(&next)
}

fn whole<'t>(found: &Captures<'t>) -> &'t str {
    found.get(0).map_or("", |all| all.as_str())
}

/// Groups of digits with pauses between them.
fn telephone(found: &Captures, _: &Place) -> Option<String> {
    let all = whole(found);
    let groups: Vec<&str> = all.split(|end: char| !end.is_ascii_digit()).filter(|group| !group.is_empty()).collect();
    let is_free = groups.len() == 4 && groups[0] == "1" && groups[1].starts_with('8');
    let said = groups.iter().enumerate().map(|(at, group)| match at {
        0 if is_free => "one".to_owned(),
        1 if is_free => toll_free(group),
        _ => numbers::digits(group),
    });
    let said: Vec<String> = said.collect();
    Some(match said.split_first() {
        Some((first, rest)) if is_free => format!("{first} {}", rest.join(" , ")),
        _ => said.join(" , "),
    })
}

/// "800", "888": as a number where it is whole hundreds.
fn toll_free(group: &str) -> String {
    if group == "800" { numbers::whole(group) } else { numbers::digits(group) }
}
