//! Amounts of money.

use regex::Captures;

use super::{Place, Rule, group, numbers};
use crate::text::word_list::words;

macro_rules! scale {
    () => {
        r"(?:\s?(k|K|m|M|mn|bn|Bn|b|B|tn|trn|T)\b|[ -](hundred|thousand|million|billion|trillion)\b)?"
    };
}

/// A currency: one, many, a hundredth, hundredths.
struct Currency(&'static str, &'static str, &'static str, &'static str);

/// The signs of currencies.
macro_rules! sign {
    () => {
        r"[$\u{20ac}\u{a3}\u{a5}\u{20b9}\u{20a9}\u{20aa}\u{20ba}\u{20bd}\u{20bf}\u{20b1}\u{20a6}\u{20b4}\u{20ab}]"
    };
}

pub const RULES: &[Rule] = &[
    // "€1.234,56", "1.234,56 €"
    Rule(r"([$\u{20ac}\u{a3}])\s?(\d{1,3}(?:\.\d{3})+,\d{2})\b", |found, place| {
        Some(amount(currency(group(found, 1))?, &point_decimal(group(found, 2)), "", None, found, place))
    }),
    Rule(r"(\d{1,3}(?:\.\d{3})*,\d{2})\s?\u{20ac}", |found, place| {
        Some(amount(currency("\u{20ac}")?, &point_decimal(group(found, 1)), "", None, found, place))
    }),
    // "$-5"
    Rule(concat!(r"([$\u{20ac}\u{a3}])-(", number!(), r")\b"), |found, place| {
        Some(format!("minus {}", amount(currency(group(found, 1))?, group(found, 2), "", None, found, place)))
    }),
    // "$5.20", "-€3", "£1bn", "US$5 million", "$5-10"
    Rule(
        concat!(
            r"(-)?(US|AU?|CA?|NZ|HK|S)?(",
            sign!(),
            r")\s?(",
            number!(),
            r")(?:\s?[-\u{2013}]\s?",
            sign!(),
            r"?(",
            number!(),
            r"))?",
            scale!()
        ),
        |found, place| {
            let negative = !group(found, 1).is_empty();
            if negative && place.before().ends_with(|before: char| before.is_ascii_alphanumeric()) {
                return None;
            }
            let said =
                amount(currency(group(found, 3))?, group(found, 4), group(found, 5), scale(found, 6), found, place);
            let country = match group(found, 2) {
                "" => "",
                "US" => "U S ",
                "A" | "AU" => "australian ",
                "C" | "CA" => "canadian ",
                "NZ" => "new zealand ",
                "HK" => "hong kong ",
                _ => "singapore ",
            };
            let said = match country {
                "" => said,
                country => match said.rsplit_once(' ') {
                    Some((number, unit)) => format!("{number} {country}{unit}"),
                    None => said,
                },
            };
            Some(if negative { format!("minus {said}") } else { said })
        },
    ),
    // "5 €", "10$"
    Rule(concat!("(", number!(), r")\s?(", sign!(), ")"), |found, place| {
        let joined = place.after(found).starts_with(|next: char| next.is_ascii_digit());
        (!joined).then_some(())?;
        Some(amount(currency(group(found, 2))?, group(found, 1), "", None, found, place))
    }),
    // "5 EUR", "USD 5"
    Rule(concat!("(", number!(), r")", scale!(), r"\s?(USD|EUR|GBP|JPY|CHF|CAD|AUD|INR)\b"), |found, place| {
        Some(amount(currency(group(found, 4))?, group(found, 1), "", scale(found, 2), found, place))
    }),
    Rule(concat!(r"(USD|EUR|GBP|JPY|CHF|CAD|AUD|INR)\s?(", number!(), ")", scale!()), |found, place| {
        Some(amount(currency(group(found, 1))?, group(found, 2), "", scale(found, 3), found, place))
    }),
    // "50¢"
    Rule(r"(\d+)\s?\u{a2}", |found, _| Some(counted(group(found, 1), "cent", "cents"))),
];

/// A number with a comma before its fraction, in the English form.
fn point_decimal(number: &str) -> String {
    number.replace('.', "").replace(',', ".")
}

fn currency(sign: &str) -> Option<Currency> {
    Some(match sign {
        "$" => Currency("dollar", "dollars", "cent", "cents"),
        "\u{20ac}" | "EUR" => Currency("euro", "euros", "cent", "cents"),
        "\u{a3}" | "GBP" => Currency("pound", "pounds", "penny", "pence"),
        "\u{a5}" | "JPY" => Currency("yen", "yen", "sen", "sen"),
        "\u{20b9}" | "INR" => Currency("rupee", "rupees", "paisa", "paise"),
        "\u{20a9}" => Currency("won", "won", "jeon", "jeon"),
        "\u{20aa}" => Currency("shekel", "shekels", "agora", "agorot"),
        "\u{20ba}" => Currency("lira", "lira", "kurus", "kurus"),
        "\u{20bd}" => Currency("ruble", "rubles", "kopek", "kopeks"),
        "\u{20bf}" => Currency("bitcoin", "bitcoins", "cent", "cents"),
        "\u{20b1}" => Currency("peso", "pesos", "centavo", "centavos"),
        "\u{20a6}" => Currency("naira", "naira", "kobo", "kobo"),
        "\u{20b4}" => Currency("hryvnia", "hryvnias", "kopek", "kopeks"),
        "\u{20ab}" => Currency("dong", "dong", "xu", "xu"),
        "USD" => Currency("U S dollar", "U S dollars", "cent", "cents"),
        "CHF" => Currency("swiss franc", "swiss francs", "centime", "centimes"),
        "CAD" => Currency("canadian dollar", "canadian dollars", "cent", "cents"),
        "AUD" => Currency("australian dollar", "australian dollars", "cent", "cents"),
        _ => return None,
    })
}

/// The scale word of two groups: a letter, or a word.
fn scale<'t>(found: &Captures<'t>, at: usize) -> Option<&'t str> {
    let letter = match group(found, at) {
        "k" | "K" => "thousand",
        "m" | "M" | "mn" => "million",
        "bn" | "Bn" | "b" | "B" => "billion",
        "tn" | "trn" | "T" => "trillion",
        _ => group(found, at + 1),
    };
    (!letter.is_empty()).then_some(letter)
}

fn counted(number: &str, one: &str, many: &str) -> String {
    format!("{} {}", numbers::number(number), if number == "1" { one } else { many })
}

/// An amount, or a range of two.
fn amount(money: Currency, from: &str, to: &str, scale: Option<&str>, found: &Captures, place: &Place) -> String {
    let Currency(one, many, part, parts) = money;
    // "a $5 bill"
    let noun = place.after(found).trim_start_matches([' ', '-']).split(|end: char| !end.is_ascii_alphabetic()).next();
    let described = noun.is_some_and(|noun| {
        words!(
            "bill note coin deal fine bet loan investment contract prize house budget fund lawsuit question gift idea"
        )
        .contains(&noun)
    });
    let unit = if described { one } else { many };
    if scale.is_none() && !to.is_empty() && (from.contains('.') || to.contains('.')) {
        let said = |number| amount(Currency(one, many, part, parts), number, "", None, found, place);
        return format!("{} to {}", said(from), said(to));
    }
    if !to.is_empty() {
        let scale = scale.map(|scale| format!(" {scale}")).unwrap_or_default();
        return format!("{} to {}{scale} {unit}", numbers::number(from), numbers::number(to));
    }
    if let Some(scale) = scale {
        return format!("{} {scale} {unit}", numbers::number(from));
    }
    match from.split_once('.') {
        Some((whole, cents)) if cents.len() == 2 => {
            let whole_said = || counted(whole, one, unit);
            let cents_said = || counted(cents.trim_start_matches('0'), part, parts);
            match (whole.trim_start_matches('0').is_empty(), cents == "00") {
                (false, true) => whole_said(),
                (true, false) => cents_said(),
                (true, true) => format!("zero {many}"),
                (false, false) => format!("{} and {}", whole_said(), cents_said()),
            }
        }
        _ => counted(from, one, unit),
    }
}
