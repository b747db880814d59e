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
    // "5‰"
    Rule(concat!("(", number!(), r")\s?\u{2030}"), |found, _| {
        Some(format!("{} per mille", numbers::number(group(found, 1))))
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
    // "1h 30m", "2 min 5 s"
    Rule(r"(?:\d+\s?(?:d|h|hrs?|m|mins?|s|secs?)(?:,?\s)?){2,4}", |found, place| {
        let joined = place.after(found).starts_with(|next: char| next.is_ascii_alphanumeric());
        (!joined || group(found, 0).ends_with(' ')).then(|| duration(group(found, 0))).flatten()
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
            let noun =
                after.strip_prefix(' ').and_then(|next| next.split(|end: char| !end.is_ascii_alphabetic()).next());
            let described = noun.is_some_and(|noun| DESCRIBED.contains(&noun));
            let single = group(found, 2) == "1" && group(found, 3).is_empty() || joint == "-" || described;
            Some(format!("{number} {power}{}", if single { one } else { many }))
        },
    ),
    // The unit behind "4 1/2" or "100 million"
    Rule(r"([A-Za-z\u{3bc}]+)\b", |found, place| {
        let Unit(symbol, _, many) = unit(group(found, 1))?;
        let counted = symbol.len() > 1 && !["in", "mi", "Pa"].contains(&symbol) && is_count(place.previous);
        (counted && place.before().ends_with(' ')).then(|| many.to_owned())
    }),
    // "1.5K users", "7B parameters"; not "4K" and "flat 4B"
    Rule(concat!("(", number!(), r")([kKBT])\b"), |found, place| {
        let (number, letter) = (group(found, 1), group(found, 2));
        let after = place.after(found);
        let noun = after.strip_prefix([' ', '-']).unwrap_or_default();
        let noun = noun.split(|end: char| !end.is_ascii_alphabetic()).next().unwrap_or_default();
        let is_run =
            ["run", "race", "walk", "resolution", "video", "display", "monitor", "tv", "screen"].contains(&noun);
        let fraction = number.contains('.') || number.len() > 2 && letter != "B";
        let counts =
            noun.len() > 2 && (noun.ends_with('s') || ["people", "parameter", "token", "model"].contains(&noun));
        let named = place.previous.ends_with('.') || is_place(place.previous);
        let applies = letter == "k" || fraction || counts;
        (applies && !is_run && !named).then(|| {
            let scale = match letter {
                "B" => "billion",
                "T" => "trillion",
                _ => "thousand",
            };
            format!("{} {scale}", numbers::number(number))
        })
    }),
    // "5M", "2bn"
    Rule(concat!("(", number!(), r")(M|mn|bn|tn)\b"), |found, _| {
        let scale = match group(found, 2) {
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

/// Nouns that a measure describes: "a 500m race".
const DESCRIBED: &[&str] = words!(
    "race run dash sprint swim walk hike ride engine jack lens screen display monitor cable wire pipe rope fence pool \
     film tower battery charger adapter bottle can tank bag drive limit delay gun bullet bolt"
);

/// True for what has a number with a letter: "apartment 4B".
fn is_place(previous: &str) -> bool {
    let lower = previous.to_ascii_lowercase();
    ["apt", "apartment", "flat", "room", "unit", "suite", "seat", "gate", "block", "section", "building", "exit"]
        .contains(&lower.as_str())
}

/// Days, hours, minutes and seconds, each once and in this order.
fn duration(text: &str) -> Option<String> {
    let (mut said, mut last) = (Vec::new(), 0);
    let mut rest = text.trim_end_matches([' ', ',']);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at(digits);
        let behind = behind.trim_start();
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (rank, one, many) = match behind.as_bytes().first()? {
            b'd' => (1, "day", "days"),
            b'h' => (2, "hour", "hours"),
            b'm' => (3, "minute", "minutes"),
            _ => (4, "second", "seconds"),
        };
        (rank > last).then_some(())?;
        last = rank;
        said.push(counted(number, one, many));
        rest = behind[letters..].trim_start_matches([' ', ',']);
    }
    (said.len() > 1).then(|| said.join(" "))
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
