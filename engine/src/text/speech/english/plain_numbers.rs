//! Numbers that are no date, money or measure: fractions, ordinals, decades, ratios, versions, years and amounts.

use unicode_normalization::UnicodeNormalization as _;

use super::{Place, Rule, alone, group, numbers};
use crate::text::word_list::words;

pub const RULES: &[Rule] = &[
    // The number of a list's item
    Rule(r"(\d{1,3})[.)]\s", |found, place| {
        place.before().trim().is_empty().then(|| format!("{} ,", numbers::whole(group(found, 1))))
    }),
    // "½", "2½"
    Rule(r"(\d+)?\s?([\u{bd}\u{bc}\u{be}\u{2150}-\u{215e}])", |found, _| {
        let sign = group(found, 2).chars().next()?;
        // Their decomposition has the two numbers: "3⁄8".
        let plain: String = std::iter::once(sign).nfkd().collect();
        let (over, under) = plain.split_once('\u{2044}')?;
        Some(mixed(group(found, 1), over.parse().ok()?, under.parse().ok()?))
    }),
    // "2 1/2"
    Rule(r"(\d+) (\d)/(\d{1,2})\b", |found, place| {
        let (over, under) = (group(found, 2).parse().ok()?, group(found, 3).parse().ok()?);
        let ends = place.after(found).starts_with('/');
        (over < under && !ends).then(|| mixed(group(found, 1), over, under))
    }),
    Rule(r"24/7\b", |_, _| Some("twenty four seven".into())),
    Rule(r"9/11\b", |_, _| Some("nine eleven".into())),
    Rule(r"(401|403)\((k|b)\)", |found, _| {
        Some(format!("{} {}", numbers::number_in_name(group(found, 1))?, group(found, 2).to_ascii_uppercase()))
    }),
    Rule(r"50[/-]50\b", |_, _| Some("fifty fifty".into())),
    // "3/4", "8/10"
    Rule(r"(\d{1,6})/(\d{1,6})\b", |found, place| {
        let (over, under): (u64, u64) = (group(found, 1).parse().ok()?, group(found, 2).parse().ok()?);
        (!place.after(found).starts_with('/')).then_some(())?;
        Some(match under {
            10 | 100 if over > 1 => format!("{} out of {}", numbers::cardinal(over), numbers::cardinal(under)),
            _ if over < under => numbers::fraction(over, under),
            _ => format!("{} over {}", numbers::cardinal(over), numbers::cardinal(under)),
        })
    }),
    // "1990s", "'80s", "the 80's"
    Rule(r"(\d{3}0)'?s\b", |found, _| Some(numbers::decade(group(found, 1).parse().ok()?))),
    Rule(r"'?([2-9]0)'?s\b", |found, _| Some(numbers::decade(group(found, 1).parse().ok()?))),
    // "'99"
    Rule(r"'(\d\d)\b", |found, place| {
        let opens = place.before().is_empty() || place.before().ends_with([' ', '(']);
        let value: u64 = group(found, 1).parse().ok()?;
        opens.then(|| if value < 10 { format!("oh {}", numbers::cardinal(value)) } else { numbers::cardinal(value) })
    }),
    // "21st", "1,000th"
    Rule(r"(?i)(\d{1,3}(?:,\d{3})+|\d{1,12})(?:st|nd|rd|th)(s?)\b", |found, _| {
        let ordinal = numbers::ordinal(group(found, 1).replace(',', "").parse().ok()?);
        Some(if group(found, 2).is_empty() { ordinal } else { format!("{ordinal}s") })
    }),
    // "v2.1", "1.2.3", "192.168.0.1"
    Rule(r"[vV]\.?\s?(\d+(?:\.\d+)*)\b", |found, _| Some(format!("version {}", versions(group(found, 1), " point ")))),
    Rule(r"(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?::(\d+))?\b", |found, _| {
        let parts: Vec<String> = group(found, 1).split('.').map(numbers::digits).collect();
        let port = if group(found, 2).is_empty() {
            String::new()
        } else {
            format!(" port {}", numbers::whole(group(found, 2)))
        };
        Some(format!("{}{port}", parts.join(" dot ")))
    }),
    // "1.000.000", a million elsewhere
    Rule(r"\d{1,3}(?:\.000){2,}\b", |found, _| Some(numbers::number(&group(found, 0).replace('.', "")))),
    Rule(r"\d+(?:\.\d+){2,}\b", |found, _| Some(versions(group(found, 0), " point "))),
    // "16:9"
    Rule(r"(\d+):(\d+)\b", |found, _| {
        Some(format!("{} to {}", numbers::whole(group(found, 1)), numbers::whole(group(found, 2))))
    }),
    // "#5"
    Rule(r"#(\d[\d,]*\d|\d)\b", |found, _| {
        let number = group(found, 1);
        // Five digits and more without commas name an order or a ticket.
        let said =
            if number.len() > 4 && !number.contains(',') { numbers::digits(number) } else { numbers::whole(number) };
        Some(format!("number {said}"))
    }),
    // "1-0", the score of a game
    Rule(r"(\d{1,2})[-\u{2013}]0\b", |found, place| {
        let after = place.after(found);
        let is_score = group(found, 1) != "0"
            && alone(place.text, place.at)
            && !after.starts_with(['-', '/', ':', '%'])
            && !after.strip_prefix('.').is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()));
        is_score.then(|| format!("{} nil", numbers::whole(group(found, 1))))
    }),
    // "1-2-3"
    Rule(r"\d(?:-\d){2,}\b", |found, _| Some(numbers::digits(group(found, 0)))),
    // The dash of "10-12", "9am–5pm", "$5-$10", "1914 - 1918"; a minus in equations
    Rule(r"[-\u{2013}]\s?", range_dash),
    // "-5"
    Rule(concat!(r"-(", number!(), r")\b"), |found, place| {
        let opens = place.before().is_empty() || place.before().ends_with([' ', '(', '=', '"', '^']);
        opens.then(|| format!("minus {}", numbers::number(group(found, 1))))
    }),
    // "5 million", "0 %"; amounts, years
    Rule(concat!("(", number!(), r")\b"), |found, place| {
        let text = group(found, 1);
        Some(plain(text, place, place.after(found)))
    }),
    // Too long for a pattern's end: digits.
    Rule(r"\d+", |found, place| {
        let joined = place.after(found).starts_with(|next: char| next.is_ascii_alphanumeric());
        (!joined).then(|| numbers::whole(group(found, 0)))
    }),
];

fn mixed(whole: &str, over: u64, under: u64) -> String {
    let part = match (whole.is_empty(), over, under) {
        (true, ..) => return numbers::fraction(over, under),
        (false, 1, 2) => "a half".into(),
        (false, 1, 4) => "a quarter".into(),
        (false, 1, _) => format!("a{}", numbers::fraction(1, under).trim_start_matches("one")),
        _ => numbers::fraction(over, under),
    };
    // "an eighth"
    let part = if part.starts_with("a e") { part.replacen("a e", "an e", 1) } else { part };
    format!("{} and {part}", numbers::whole(whole))
}

fn versions(text: &str, between: &str) -> String {
    text.split('.').map(numbers::whole).collect::<Vec<_>>().join(between)
}

/// Words after which a number of three or four digits is said in pairs.
const NUMBERED: &[&str] =
    words!("room flight route highway interstate boeing apartment suite area extension bus gate channel airbus");

/// Words that a year does not stand before.
pub(super) const MEASURED: &[&str] = words!(
    "people dollars euros pounds miles meters metres kilometers kilometres feet times years days hours words pages \
     users calories points children"
);

/// A number: a year where it looks like one, or an amount.
fn plain(text: &str, place: &Place, after: &str) -> String {
    let previous = place.previous_lower();
    let is_model = place.previous.len() > 1 && place.previous.bytes().all(|letter| letter.is_ascii_uppercase());
    if (NUMBERED.contains(&previous.as_str()) || is_model && !place.shouted && text.len() == 4)
        && let Some(said) = numbers::number_in_name(text)
    {
        return said;
    }
    let next = after.trim_start().split(|end: char| !end.is_ascii_alphabetic()).next().unwrap_or_default();
    let measured = after.starts_with(' ') && MEASURED.contains(&next);
    match numbers::written_year(text) {
        Some(year) if !measured => numbers::year(year),
        _ => numbers::number(text),
    }
}

/// The word for a dash between numbers.
fn range_dash(found: &regex::Captures, place: &Place) -> Option<String> {
    let (before, after) = (place.before(), place.after(found));
    let attached = before.ends_with(|end: char| end.is_ascii_alphanumeric() || matches!(end, '%' | '\u{b0}' | '.'));
    let spaced = before.ends_with(' ') && group(found, 0).ends_with(' ');
    let number_before = place.previous.ends_with(|end: char| end.is_ascii_digit() || end == '%')
        || place
            .previous
            .starts_with(|first: char| first.is_ascii_digit() || matches!(first, '$' | '\u{a3}' | '\u{20ac}'));
    let number_behind =
        after.starts_with(|next: char| next.is_ascii_digit() || matches!(next, '$' | '\u{a3}' | '\u{20ac}'));
    // "Llama-3.1-8B" is a name.
    let run = before.rsplit(' ').next().unwrap_or_default();
    let is_name = attached && run.starts_with(|first: char| first.is_ascii_alphabetic()) && run.contains('-');
    (number_before && number_behind && !is_name && (attached || spaced)).then_some(())?;
    let minus = spaced && place.text.contains('=');
    Some(if minus { "minus" } else { "to" }.into())
}
