//! Codes of letters and digits.

use super::words::{is_acronym, word};
use super::{Rule, group, initialism, numbers};

/// Numbers with a fraction that are joined to letters; they are tried before plain numbers.
pub const DECIMALS: &[Rule] = &[
    // "802.11n" is said as a name.
    Rule(r"802\.11([a-z]{0,2})\b", |found, _| Some(format!("eight oh two eleven {}", initialism(group(found, 1))))),
    // "6.02e23"
    Rule(r"(\d+(?:\.\d+)?)[eE]([+-]?)(\d{1,3})\b", |found, _| {
        let sign = if group(found, 2) == "-" { "minus " } else { "" };
        let (number, power) = (numbers::number(group(found, 1)), numbers::whole(group(found, 3)));
        Some(format!("{number} times ten to the power of {sign}{power}"))
    }),
    // "16.04LTS", "2.0b1", "3.12.1rc2", "3.x"
    Rule(r"([vV]?)(\d+(?:\.\d+)+)([A-Za-z][A-Za-z0-9]*)\b", |found, _| {
        let version = if group(found, 1).is_empty() { "" } else { "version " };
        let parts: Vec<String> = match group(found, 2).split('.').collect::<Vec<_>>().as_slice() {
            [_, _] => vec![numbers::number(group(found, 2))],
            parts => parts.iter().map(|part| numbers::whole(part)).collect(),
        };
        Some(format!("{version}{} {}", parts.join(" point "), code(group(found, 3))))
    }),
    Rule(r"(\d+)\.x\b", |found, _| Some(format!("{} point X", numbers::whole(group(found, 1))))),
];

pub const RULES: &[Rule] = &[
    // "A4", "B-52", "BA249", "COVID-19", "iPhone15"; not "mid-1990s"
    Rule(r"([A-Za-z]+)(-?)(\d+)([A-Za-z0-9]*(?:-[A-Z0-9]*\d[A-Z0-9]*)*)\b", |found, _| {
        let (name, hyphen, number, rest) = (group(found, 1), group(found, 2), group(found, 3), group(found, 4));
        if hyphen == "-"
            && (name.bytes().all(|letter| letter.is_ascii_lowercase()) || ["s", "th", "st", "nd", "rd"].contains(&rest))
        {
            return None;
        }
        let said = match numbers::number_in_name(number) {
            Some(said) if rest.is_empty() && number.len() == 3 && (name.len() == 1 || hyphen == "-") => said,
            _ => numbers::code_number(number),
        };
        Some(format!("{} {said} {}", letters(name), code(rest)).trim_end().to_owned())
    }),
    // "5G", "3D", "1080p"
    Rule(r"(\d+)([A-Za-z][A-Za-z0-9]*)\b", |found, _| {
        let number = group(found, 1);
        let said = match number {
            "720" | "1080" | "1440" | "2160" => numbers::number_in_name(number)?,
            // "221B"
            _ if number.len() == 3 && group(found, 2).len() == 1 => {
                numbers::number_in_name(number).unwrap_or_else(|| numbers::code_number(number))
            }
            _ => numbers::code_number(number),
        };
        Some(format!("{said} {}", code(group(found, 2))))
    }),
    Rule(r"C\+\+", |_, _| Some("C plus plus".into())),
    Rule(r"([CF])#", |found, _| Some(format!("{} sharp", group(found, 1)))),
];

/// Letters of a code: a word, or the names of letters.
fn letters(name: &str) -> String {
    let capitals = name.bytes().filter(u8::is_ascii_uppercase).count();
    let is_spelled = capitals == name.len() && name.len() <= 4 && !is_acronym(name);
    if is_spelled || name.len() == 1 || name.len() == 2 && capitals <= 1 { initialism(name) } else { word(name, false) }
}

/// A code: runs of letters and digits.
pub fn code(text: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let is_digit = first.is_ascii_digit();
        let same = |byte: &u8| byte.is_ascii_digit() == is_digit && byte.is_ascii_alphanumeric();
        let length = rest.bytes().take_while(|byte| same(byte)).count();
        if length == 0 {
            rest = &rest[1..];
            continue;
        }
        let (part, behind) = rest.split_at(length);
        parts.push(if is_digit { numbers::code_number(part) } else { letters(part) });
        rest = behind;
    }
    parts.join(" ")
}
