//! Numbers as English says them.

use crate::text::number_words::{ORDINALS, SCALES, SMALL, TENS};

/// Digits of the longest number that has a name; longer ones are said digit by digit.
const MAX_DIGITS: usize = 18;

/// A whole number: "one hundred twenty three".
pub fn cardinal(value: u64) -> String {
    if value == 0 {
        return SMALL[0].into();
    }
    let mut words: Vec<&str> = Vec::new();
    for power in (0..=SCALES.len() as u32).rev() {
        let group = (value / 1000u64.pow(power) % 1000) as usize;
        if group == 0 {
            continue;
        }
        if group >= 100 {
            words.extend([SMALL[group / 100], "hundred"]);
        }
        let rest = group % 100;
        if rest >= 20 {
            words.push(TENS[rest / 10 - 2]);
        }
        match rest {
            0 => {}
            rest if rest < 20 => words.push(SMALL[rest]),
            rest if rest % 10 > 0 => words.push(SMALL[rest % 10]),
            _ => {}
        }
        if power > 0 {
            words.push(SCALES[power as usize - 1]);
        }
    }
    words.join(" ")
}

/// The ordinal of a whole number: "twenty first".
pub fn ordinal(value: u64) -> String {
    let words = cardinal(value);
    let (before, last) = words.rsplit_once(' ').map_or(("", words.as_str()), |(before, last)| (before, last));
    let last = match SMALL.iter().position(|small| *small == last) {
        Some(0) => "zeroth".to_owned(),
        Some(value) => ORDINALS[value - 1].to_owned(),
        None => match last.strip_suffix('y') {
            Some(ten) => format!("{ten}ieth"),
            None => format!("{last}th"),
        },
    };
    if before.is_empty() { last } else { format!("{before} {last}") }
}

/// Digits, one at a time; other characters are left out.
pub fn digits(text: &str) -> String {
    let names: Vec<&str> =
        text.chars().filter_map(|digit| digit.to_digit(10)).map(|digit| SMALL[digit as usize]).collect();
    names.join(" ")
}

/// A written whole number with commas or without: its name, or its digits where it is no amount ("007").
pub fn whole(text: &str) -> String {
    let bare = text.replace(',', "");
    match bare.parse() {
        Ok(value) if bare.len() <= MAX_DIGITS && (bare.len() == 1 || !bare.starts_with('0')) => {
            // Ten digits and more without commas are a number of something, not an amount.
            if bare.len() >= 10 && !text.contains(',') && !bare.ends_with("000000") {
                digits(&bare)
            } else {
                cardinal(value)
            }
        }
        _ => digits(&bare),
    }
}

/// A written number with or without a fraction: "three point one four".
pub fn number(text: &str) -> String {
    match text.split_once('.') {
        Some(("", fraction)) => format!("point {}", digits(fraction)),
        Some((whole_part, fraction)) => format!("{} point {}", whole(whole_part), digits(fraction)),
        None => whole(text),
    }
}

/// A year: "nineteen eighty four", "two thousand five", "nineteen oh five".
pub fn year(value: u64) -> String {
    let (century, rest) = (value / 100, value % 100);
    match (century, rest) {
        (10..=99, 0) if century % 10 > 0 => format!("{} hundred", cardinal(century)),
        (10..=99, 1..=9) if century % 10 > 0 => format!("{} oh {}", cardinal(century), cardinal(rest)),
        (10..=99, 10..=99) => format!("{} {}", cardinal(century), cardinal(rest)),
        _ => cardinal(value),
    }
}

/// The value of a written four-digit year.
pub fn written_year(text: &str) -> Option<u64> {
    text.parse().ok().filter(|year| text.len() == 4 && (1010..2100).contains(year))
}

/// A decade: "nineteen nineties", "nineties", "eighteen hundreds".
pub fn decade(value: u64) -> String {
    plural(&if value < 100 { cardinal(value) } else { year(value) })
}

/// The plural of the last of number words: "sixes", "nineties".
pub fn plural(words: &str) -> String {
    match words.strip_suffix('y') {
        Some(ten) => format!("{ten}ies"),
        None if words.ends_with("six") => format!("{words}es"),
        None => format!("{words}s"),
    }
}

/// A fraction: "three quarters", "one half", "seven over two hundred".
pub fn fraction(over: u64, under: u64) -> String {
    let name = match under {
        2 => "half".to_owned(),
        4 => "quarter".to_owned(),
        3 | 5..=100 => ordinal(under),
        _ => return format!("{} over {}", cardinal(over), cardinal(under)),
    };
    match (over, under) {
        (1, _) => format!("one {name}"),
        (_, 2) => format!("{} halves", cardinal(over)),
        _ => format!("{} {name}s", cardinal(over)),
    }
}

/// A number in a code or an address: up to two digits as a number, a year as a year, others digit by digit.
pub fn code_number(text: &str) -> String {
    match text.parse() {
        Ok(value) if text.len() <= 2 && !(text.len() == 2 && text.starts_with('0')) => cardinal(value),
        _ => written_year(text).map_or_else(|| digits(text), year),
    }
}

/// A number of a room, a flight or a road: "two thirty seven", "seven oh one".
pub fn number_in_name(text: &str) -> Option<String> {
    let value: u64 = text.parse().ok()?;
    match (text.len(), value / 100, value % 100) {
        (3, hundreds @ 1.., rest @ 10..) => Some(format!("{} {}", cardinal(hundreds), cardinal(rest))),
        (3, hundreds @ 1.., rest @ 1..) => Some(format!("{} oh {}", cardinal(hundreds), cardinal(rest))),
        (4, hundreds @ 10.., rest @ 10..) => Some(format!("{} {}", cardinal(hundreds), cardinal(rest))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (value, said) in [
            (0, "zero"),
            (13, "thirteen"),
            (20, "twenty"),
            (99, "ninety nine"),
            (100, "one hundred"),
            (123, "one hundred twenty three"),
            (1_000_001, "one million one"),
            (40_000, "forty thousand"),
            (
                999_999_999,
                "nine hundred ninety nine million nine hundred ninety nine thousand nine hundred ninety nine",
            ),
        ] {
            assert_eq!(cardinal(value), said);
        }
        assert_eq!(cardinal(u64::MAX).split(' ').next(), Some("four"));
        for (value, said) in [
            (1, "first"),
            (12, "twelfth"),
            (21, "twenty first"),
            (30, "thirtieth"),
            (100, "one hundredth"),
            (0, "zeroth"),
        ] {
            assert_eq!(ordinal(value), said);
        }
        assert_eq!(whole("1,234"), "one thousand two hundred thirty four");
        assert_eq!(whole("007"), "zero zero seven");
        assert_eq!(number("3.14"), "three point one four");
        assert_eq!(number(".5"), "point five");
        assert_eq!(whole("99999999999999999999999").split(' ').count(), 23);
    }

    #[test]
    fn years_and_fractions() {
        for (value, said) in [
            (1984, "nineteen eighty four"),
            (1900, "nineteen hundred"),
            (1905, "nineteen oh five"),
            (2000, "two thousand"),
            (2005, "two thousand five"),
            (2010, "twenty ten"),
            (2024, "twenty twenty four"),
            (476, "four hundred seventy six"),
        ] {
            assert_eq!(year(value), said);
        }
        assert_eq!(decade(1990), "nineteen nineties");
        assert_eq!(decade(1800), "eighteen hundreds");
        assert_eq!(decade(80), "eighties");
        assert_eq!(fraction(3, 4), "three quarters");
        assert_eq!(fraction(1, 2), "one half");
        assert_eq!(fraction(2, 3), "two thirds");
        assert_eq!(fraction(1, 200), "one over two hundred");
    }
}
