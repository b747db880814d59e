//! Percentages, degrees, lengths and other measures.

use std::sync::LazyLock;

use super::{Place, Rule, group, numbers};
use crate::text::word_list::words;

pub const RULES: &[Rule] = &[
    // "50%", "5-10 %", "-3.5%"
    Rule(concat!("(-)?(", number!(), r")(?:\s?%?\s?[-\u{2013}]\s?(", number!(), r"))?\s?%"), |found, place| {
        let number = ranged(place, group(found, 1), group(found, 2), group(found, 3))?;
        Some(format!("{number} percent"))
    }),
    // "20°C", "-5 °F", "90°"
    Rule(
        concat!("(-)?(", number!(), r")(?:\s?\u{b0}?[CF]?\s?[-\u{2013}]\s?(", number!(), r"))?\s?\u{b0}\s?([CFK]\b)?"),
        |found, place| {
            let number = ranged(place, group(found, 1), group(found, 2), group(found, 3))?;
            let degrees = if group(found, 2) == "1" && group(found, 3).is_empty() { "degree" } else { "degrees" };
            let scale = match group(found, 4) {
                "C" => " celsius",
                "F" => " fahrenheit",
                "K" => " kelvin",
                _ => "",
            };
            Some(format!("{number} {degrees}{scale}"))
        },
    ),
    // 5'10"
    Rule(r#"(\d+)'\s?(\d{1,2})(?:"|'')"#, |found, _| {
        let (feet, inches) = (counted(group(found, 1), "foot", "feet"), counted(group(found, 2), "inch", "inches"));
        Some(format!("{feet} {inches}"))
    }),
    // 15", unless the mark closes a quotation
    Rule(concat!("(", number!(), r#")""#), |found, place| {
        let marks = place.before().match_indices('"');
        let quotes = marks.filter(|(at, _)| !place.text[..*at].ends_with(|before: char| before.is_ascii_digit()));
        let quoted = quotes.count() % 2 == 1;
        // "a 15" screen", "15" tall"
        let next = place.after(found).trim_start().split(|end: char| !end.is_ascii_alphabetic()).next();
        let described = next.is_some_and(|next| {
            !["", "tall", "long", "wide", "deep", "thick", "high", "of", "by", "in", "and", "or", "from", "to"]
                .contains(&next)
        });
        (!quoted).then(|| counted(group(found, 1), "inch", if described { "inch" } else { "inches" }))
    }),
    // "2 × 4 m"
    Rule(concat!("(", number!(), r")\s?[x\u{d7}]\s?(", number!(), r")\s?([A-Za-z\u{3bc}]+)\b"), |found, _| {
        let Unit(_, _, many) = unit(group(found, 3))?;
        Some(format!("{} by {} {many}", numbers::number(group(found, 1)), numbers::number(group(found, 2))))
    }),
    // "1920x1080", "4 × 4"
    Rule(
        concat!("(", number!(), r")\s?[x\u{d7}]\s?(", number!(), r")(?:\s?[x\u{d7}]\s?(", number!(), r"))?\b"),
        |found, place| {
            if place.text.contains('=') {
                return None;
            }
            let joint = if place.after(found).starts_with('^') { "times" } else { "by" };
            let mut said = format!("{} {joint} {}", numbers::number(group(found, 1)), numbers::number(group(found, 2)));
            if !group(found, 3).is_empty() {
                said = format!("{said} by {}", numbers::number(group(found, 3)));
            }
            Some(said)
        },
    ),
    // "5x"
    Rule(concat!("(", number!(), r")[x\u{d7}](?:\s|$|[,.;:!?)])"), |found, _| {
        Some(format!("{} times", numbers::number(group(found, 1))))
    }),
    // "100 sq ft"
    Rule(concat!("(", number!(), r")\s?sq\.?\s?(ft|mi|m|km|in|yd)\b"), |found, _| {
        let Unit(_, one, many) = unit(group(found, 2))?;
        Some(counted(group(found, 1), &format!("square {one}"), &format!("square {many}")))
    }),
    // "5 km", "10-20 kg", "5-km", "60 km/h", "3 m²"
    Rule(
        concat!(
            "(-)?(",
            number!(),
            r")(?:\s?[-\u{2013}]\s?(",
            number!(),
            r"))?([ -]?)(km/h|m/s|MB/s|GB/s|[A-Za-z\u{3bc}]+[23\u{b2}\u{b3}]?)"
        ),
        |found, place| {
            let after = place.after(found);
            if after.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '\'') {
                return None;
            }
            let (joint, symbol) = (group(found, 4), group(found, 5));
            let power = if symbol.ends_with(['2', '\u{b2}']) {
                "square "
            } else if symbol.ends_with(['3', '\u{b3}']) {
                "cubic "
            } else {
                ""
            };
            let bare = symbol.trim_end_matches(['2', '3', '\u{b2}', '\u{b3}']);
            if !power.is_empty() && !["m", "km", "cm", "mm", "ft", "in", "mi", "yd"].contains(&bare) {
                return None;
            }
            // "the 90s" are years.
            if symbol == "s" && joint.is_empty() && is_decade(group(found, 2)) {
                return None;
            }
            // "5 in the" is no measure.
            if bare.eq_ignore_ascii_case("in") && !joint.is_empty() && power.is_empty() {
                return None;
            }
            let Unit(_, one, many) = unit(bare)?;
            let number = ranged(place, group(found, 1), group(found, 2), group(found, 3))?;
            let single = group(found, 2) == "1" && group(found, 3).is_empty() || joint == "-";
            Some(format!("{number} {power}{}", if single { one } else { many }))
        },
    ),
    // The unit behind "4 1/2" or "100 million"
    Rule(r"([A-Za-z\u{3bc}]+)\b", |found, place| {
        let Unit(symbol, _, many) = unit(group(found, 1))?;
        let counted = symbol.len() > 1 && !["in", "mi", "Pa"].contains(&symbol) && is_count(place.previous);
        (counted && place.before().ends_with(' ')).then(|| many.to_owned())
    }),
    // "10k", "5M", "2bn"
    Rule(concat!("(", number!(), r")(k|M|mn|bn|tn)\b"), |found, _| {
        let scale = match group(found, 2) {
            "k" => "thousand",
            "bn" => "billion",
            "tn" => "trillion",
            _ => "million",
        };
        Some(format!("{} {scale}", numbers::number(group(found, 1))))
    }),
    // "$5/month", "60 beats/min"
    Rule(r"/([A-Za-z]+)\b", |found, place| {
        let counted = place.previous.contains(|letter: char| letter.is_ascii_digit());
        let measured = ["beats", "miles", "dollars", "euros", "requests", "words", "frames", "calories"];
        (counted || measured.contains(&place.previous)).then_some(())?;
        let name = match group(found, 1) {
            "mo" => "month",
            "yr" => "year",
            "wk" => "week",
            "h" | "hr" => "hour",
            "min" => "minute",
            "s" | "sec" => "second",
            "month" | "year" | "day" | "week" | "hour" | "minute" | "second" | "person" | "user" | "night" | "item"
            | "unit" | "mile" | "seat" | "student" | "page" | "share" => group(found, 1),
            other => unit(other)?.1,
        };
        Some(format!("per {name}"))
    }),
    Rule(r"km/h\b", |_, _| Some("kilometers per hour".into())),
];

/// A number, or a range of two, which may be negative; none where the sign belongs to something before it.
fn ranged(place: &Place, sign: &str, from: &str, to: &str) -> Option<String> {
    if !sign.is_empty() && place.before().ends_with(|before: char| before.is_ascii_alphanumeric()) {
        return None;
    }
    let minus = if sign.is_empty() { "" } else { "minus " };
    let from = numbers::number(from);
    Some(if to.is_empty() { format!("{minus}{from}") } else { format!("{minus}{from} to {}", numbers::number(to)) })
}

fn is_decade(number: &str) -> bool {
    number.ends_with('0') && (number.len() == 2 && number != "10" || number.len() == 4) && !number.contains(['.', ','])
}

fn counted(number: &str, one: &str, many: &str) -> String {
    format!("{} {}", numbers::number(number), if number == "1" { one } else { many })
}

/// A unit: its symbol, one and many of it.
#[derive(Clone, Copy)]
struct Unit(&'static str, &'static str, &'static str);

/// Units that are written with other capitals, or with an "s".
const VARIED: &[&str] =
    words!("kg km cm mm mg ml mph lb lbs oz ft gal mbps gbps kbps hz khz mhz ghz gb tb kb kwh wk mo yr");

fn unit(symbol: &str) -> Option<Unit> {
    let exact = UNITS.iter().find(|unit| unit.0 == symbol);
    let varied = || {
        let lower = symbol.to_ascii_lowercase();
        let stem = lower.strip_suffix('s').filter(|stem| VARIED.contains(stem)).unwrap_or(&lower);
        let known = VARIED.contains(&stem);
        UNITS.iter().find(|unit| known && unit.0.eq_ignore_ascii_case(stem))
    };
    exact.or_else(varied).copied()
}

/// True for a written number, and for the words of large numbers.
pub fn is_count(previous: &str) -> bool {
    let ends =
        |end: char| end.is_ascii_digit() || matches!(end, '\u{bc}'..='\u{be}' | '\u{2153}' | '\u{2154}' | '\u{215b}');
    previous.ends_with(ends) || ["hundred", "thousand", "million", "billion", "trillion"].contains(&previous)
}

/// A row a unit: its symbol, one and many of it.
static UNITS: LazyLock<Vec<Unit>> = LazyLock::new(|| {
    let rows = include_str!("units.tsv").lines().map(|row| row.split('\t'));
    rows.filter_map(|mut row| Some(Unit(row.next()?, row.next()?, row.next()?))).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        assert_eq!(UNITS.len(), include_str!("units.tsv").lines().count());
        assert_eq!(unit("\u{3bc}m").map(|unit| unit.2), Some("micrometers"));
        assert_eq!(unit("lbs").map(|unit| unit.1), Some("pound"));
    }
}
