//! Numbers, dates, times, prices and percentages in words, for voices that read text of other languages than English.

mod cardinals;

use std::ops::Range;
use std::sync::LazyLock;

use cardinals::word;
use regex::{Captures, Regex};

/// A language whose numbers are said in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    German,
    French,
    Spanish,
    Italian,
    Portuguese,
    Dutch,
}

use Language::{Dutch, French, German, Italian, Portuguese, Spanish};

const LANGUAGES: [Language; 6] = [German, French, Spanish, Italian, Portuguese, Dutch];

/// The months, in the order of [`LANGUAGES`].
const MONTHS: [&str; 6] = [
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "januari februari maart april mei juni juli augustus september oktober november december",
];

/// Digits with points or fixed spaces between thousands, and a fraction.
macro_rules! number {
    () => {
        r"(\d{1,3}(?:[.\u{a0}\u{202f}]\d{3})+\b|\d+)(?:,(\d+))?"
    };
}

/// Patterns at a digit or a sign of money, in the order in which they are tried.
static FORMS: LazyLock<Vec<(Regex, Say)>> = LazyLock::new(|| {
    let forms: [(&str, Say); 7] = [
        (r"(\d{1,2})([./-])(\d{1,2})([./-])(\d{4})", date),
        (r"(\d{1,2})(?::|\.|h)([0-5]\d)(?:\s?(Uhr|uur|h)\b)?", time),
        (r"(\d{1,2})\s?(Uhr|uur|h)\b", hour),
        (concat!("([€$])", r"\s?", number!()), price_behind),
        (concat!(number!(), r"\s?([€$])"), price_before),
        (r"(\d{1,3})(\.º|\.|er|º|°)", ordinal),
        (concat!(number!(), r"(\s?%)?"), number),
    ];
    forms.into_iter().filter_map(|(form, say)| Some((Regex::new(&format!("^(?:{form})")).ok()?, say))).collect()
});

/// A reading of a match between the texts before and behind it; none if the form is another one.
type Say = fn(Language, &Captures, Around) -> Option<String>;

#[derive(Clone, Copy)]
struct Around<'a> {
    before: &'a str,
    behind: &'a str,
}

impl Language {
    /// The language of a code's primary subtag, if its numbers are read.
    pub(crate) fn of(code: &str) -> Option<Self> {
        let codes = ["de", "fr", "es", "it", "pt", "nl"];
        codes.iter().position(|known| *known == code).map(|at| LANGUAGES[at])
    }

    /// The written numbers of a text, and what is said for them.
    pub(crate) fn numerals(self, text: &str) -> Vec<(Range<usize>, String)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(letter) = text[at..].chars().next() {
            let before = &text[..at];
            let begins =
                (letter.is_ascii_digit() || ['€', '$'].contains(&letter)) && !before.ends_with(char::is_alphanumeric);
            let form = begins.then(|| {
                FORMS.iter().find_map(|(pattern, say)| {
                    let form = pattern.captures(&text[at..])?;
                    let end = at + form.get_match().end();
                    let behind = &text[end..];
                    let ends = !behind.starts_with(char::is_alphanumeric);
                    let said = ends.then(|| say(self, &form, Around { before, behind })).flatten()?;
                    Some((end, said))
                })
            });
            let Some((end, said)) = form.flatten() else {
                at += match letter.is_ascii_digit() {
                    // A word with digits, such as "3D", stays as it is.
                    true => text[at..].find(|next: char| !next.is_alphanumeric()).unwrap_or(text.len() - at),
                    false => letter.len_utf8(),
                };
                continue;
            };
            let minus = before
                .strip_suffix(['-', '\u{2212}'])
                .filter(|before| before.is_empty() || before.ends_with(char::is_whitespace));
            match minus {
                Some(before) => found.push((before.len()..end, format!("{} {said}", self.minus()))),
                None => found.push((at..end, said)),
            }
            at = end;
        }
        found
    }

    fn minus(self) -> &'static str {
        ["minus", "moins", "menos", "meno", "menos", "min"][self as usize]
    }

    fn comma(self) -> &'static str {
        ["Komma", "virgule", "coma", "virgola", "vírgula", "komma"][self as usize]
    }

    fn percent(self) -> &'static str {
        ["Prozent", "pour cent", "por ciento", "per cento", "por cento", "procent"][self as usize]
    }

    /// The number of a month, from 0 on, which a text begins with.
    fn month(self, text: &str) -> Option<usize> {
        let name: String = text.chars().take_while(|letter| letter.is_alphabetic()).collect();
        MONTHS[self as usize].split(' ').position(|month| month.to_lowercase() == name.to_lowercase())
    }

    /// True if a text goes on with a month.
    fn precedes_month(self, behind: &str) -> bool {
        let word = behind.strip_prefix([' ', '\u{a0}']);
        word.is_some_and(|word| self.month(word.strip_prefix("de ").unwrap_or(word)).is_some())
    }

    /// A day of a month; `before` decides a German ending.
    fn day(self, day: u64, before: &str) -> String {
        match (self, day) {
            (German, _) => german_ordinal(day, before),
            (French, 1) => "premier".into(),
            (Italian, 1) => "primo".into(),
            (Portuguese, 1) => "primeiro".into(),
            _ => self.cardinal(day),
        }
    }

    /// A currency's name behind an amount.
    fn currency(self, sign: &str, is_one: bool) -> &'static str {
        match (self, sign, is_one) {
            (German, "$", _) => "Dollar",
            (German, ..) => "Euro",
            (Dutch, "$", _) => "dollar",
            (Italian, "$", true) => "dollaro",
            (Italian, "$", false) => "dollari",
            (French, "$", true) => "dollar",
            (French, "$", false) => "dollars",
            (Spanish | Portuguese, "$", true) => "dólar",
            (Spanish | Portuguese, "$", false) => "dólares",
            (French | Spanish | Portuguese, _, false) => "euros",
            _ => "euro",
        }
    }
}

fn value(digits: &str) -> Option<u64> {
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|value| *value <= cardinals::MAX)
}

/// Each digit by its name.
fn digits(language: Language, text: &str) -> String {
    let names = text.bytes().filter(u8::is_ascii_digit).map(|digit| language.cardinal(u64::from(digit - b'0')));
    names.collect::<Vec<_>>().join(" ")
}

/// "27.11.2026", "27/11/2026", "27-11-2026".
fn date(language: Language, found: &Captures, around: Around) -> Option<String> {
    let (day, month, year) = (value(&found[1])?, value(&found[3])?, value(&found[5])?);
    if found[2] != found[4] || !(1..=31).contains(&day) || !(1..=12).contains(&month) {
        return None;
    }
    let month = word(MONTHS[language as usize], month as usize - 1);
    let (day, year) = (language.day(day, around.before), language.year(year));
    let of = if matches!(language, Spanish | Portuguese) { " de " } else { " " };
    Some([day, month.into(), year].join(of))
}

/// "14:30", "14.30 Uhr", "14h30".
fn time(language: Language, found: &Captures, _: Around) -> Option<String> {
    let (hour, minute) = (value(&found[1]).filter(|hour| *hour < 25)?, value(&found[2])?);
    // A point is a time's with its word alone, an h in two languages alone.
    match found[0][found[1].len()..].chars().next()? {
        '.' if found.get(3).is_none() => return None,
        'h' if !matches!(language, French | Portuguese) => return None,
        _ => {}
    }
    Some(clock(language, hour, minute))
}

/// "14 Uhr", "14 h".
fn hour(language: Language, found: &Captures, _: Around) -> Option<String> {
    let is_clock = matches!((language, &found[2]), (German, "Uhr") | (Dutch, "uur") | (French | Portuguese, "h"));
    let hour = value(&found[1]).filter(|hour| is_clock && *hour < 25)?;
    Some(clock(language, hour, 0))
}

fn clock(language: Language, hour: u64, minute: u64) -> String {
    let hours = match (language, hour) {
        (German, _) => format!("{} Uhr", language.before_noun(hour)),
        (Dutch, _) => format!("{} uur", language.cardinal(hour)),
        (French, 1) => "une heure".into(),
        (French, _) => format!("{} heures", language.cardinal(hour)),
        (Spanish | Italian, 1) => "una".into(),
        (Portuguese, 1) if minute == 0 => "uma hora".into(),
        (Portuguese, 1) => "uma".into(),
        (Portuguese, _) if minute == 0 => format!("{} horas", feminine(&language.cardinal(hour))),
        (Portuguese, _) => feminine(&language.cardinal(hour)),
        (Spanish | Italian, _) => language.cardinal(hour),
    };
    match (language, minute) {
        (_, 0) => hours,
        (Italian | Portuguese, _) => format!("{hours} e {}", language.cardinal(minute)),
        _ => format!("{hours} {}", language.cardinal(minute)),
    }
}

/// A Portuguese number of hours.
fn feminine(said: &str) -> String {
    match said.strip_suffix("dois") {
        Some(start) => format!("{start}duas"),
        None => said.strip_suffix("um").map_or(said.to_owned(), |start| format!("{start}uma")),
    }
}

fn price_behind(language: Language, found: &Captures, _: Around) -> Option<String> {
    price(language, &found[1], &found[2], found.get(3).map(|cents| cents.as_str()))
}

fn price_before(language: Language, found: &Captures, _: Around) -> Option<String> {
    price(language, &found[3], &found[1], found.get(2).map(|cents| cents.as_str()))
}

fn price(language: Language, sign: &str, amount: &str, cents: Option<&str>) -> Option<String> {
    let amount = value(amount)?;
    let whole = || {
        // "Un millón de euros".
        let of = match language {
            French | Spanish | Portuguese if amount >= 1_000_000 && amount.is_multiple_of(1_000_000) => "de ",
            Italian if amount >= 1_000_000 && amount.is_multiple_of(1_000_000) => "di ",
            _ => "",
        };
        format!("{} {of}{}", language.before_noun(amount), language.currency(sign, amount == 1))
    };
    let joint = match language {
        German | French | Dutch => " ",
        Spanish => " con ",
        Italian | Portuguese => " e ",
    };
    match cents {
        None | Some("00") => Some(whole()),
        Some(cents) if cents.len() == 2 => Some(whole() + joint + &language.cardinal(value(cents)?)),
        Some(fraction) => Some(format!(
            "{} {} {} {}",
            language.cardinal(amount),
            language.comma(),
            digits(language, fraction),
            language.currency(sign, false)
        )),
    }
}

/// "3. März" and, in German, "der 3. Platz"; "1er mars", "1º de enero".
fn ordinal(language: Language, found: &Captures, around: Around) -> Option<String> {
    let number = value(&found[1]).filter(|number| *number > 0)?;
    if language == German {
        let goes_on = around.behind.strip_prefix([' ', '\u{a0}'])?.starts_with(char::is_alphabetic);
        return (&found[2] == "." && goes_on).then(|| german_ordinal(number, around.before));
    }
    let is_day = number <= 31 && &found[2] != "." && language.precedes_month(around.behind);
    is_day.then(|| language.day(number, ""))
}

/// With the ending that the word before asks for.
fn german_ordinal(number: u64, before: &str) -> String {
    let last = before.split_whitespace().next_back().unwrap_or_default().to_lowercase();
    let ending = match last.as_str() {
        "der" | "die" | "das" | "dieser" | "diese" | "jeder" | "jede" => "e",
        "am" | "im" | "vom" | "zum" | "zur" | "beim" | "bis" | "dem" | "den" | "des" | "seit" | "ab" | "jeden" => "en",
        _ => "er",
    };
    let said = German.cardinal(number);
    // The last word of a number below 20 has a form of its own, or takes a t.
    let stem = match number % 100 {
        1 => said.strip_suffix("eins").map(|start| format!("{start}erst")),
        3 => said.strip_suffix("drei").map(|start| format!("{start}dritt")),
        7 => said.strip_suffix("sieben").map(|start| format!("{start}siebt")),
        8 => Some(said.clone()),
        2..20 => Some(format!("{said}t")),
        _ => None,
    };
    stem.unwrap_or_else(|| format!("{said}st")) + ending
}

/// A number, perhaps with a fraction and a percent sign.
fn number(language: Language, found: &Captures, around: Around) -> Option<String> {
    let (whole, fraction, percent) = (&found[1], found.get(2), found.get(3));
    let is_plain = fraction.is_none() && percent.is_none();
    let mut said = match value(whole) {
        Some(_) if whole.len() > 1 && whole.starts_with('0') => digits(language, whole),
        // Codes and telephone numbers.
        None => digits(language, whole),
        Some(year) if is_plain && whole.len() == 4 => language.year(year),
        // A German day has a point.
        Some(day) if is_plain && language != German && day <= 31 && language.precedes_month(around.behind) => {
            language.day(day, "")
        }
        Some(1) if language == German && percent.is_some() && fraction.is_none() => "ein".into(),
        Some(value) => language.cardinal(value),
    };
    if let Some(fraction) = fraction {
        said = format!("{said} {} {}", language.comma(), fraction_digits(language, fraction.as_str()));
    }
    match percent {
        Some(_) => Some(format!("{said} {}", language.percent())),
        None => Some(said),
    }
}

/// German says digits one by one, the others numbers of two.
fn fraction_digits(language: Language, text: &str) -> String {
    match value(text) {
        Some(number) if language != German && text.len() <= 2 && !text.starts_with('0') => language.cardinal(number),
        _ => digits(language, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str, text: &str) -> String {
        let mut said = text.to_owned();
        for (range, words) in Language::of(code).unwrap().numerals(text).into_iter().rev() {
            said.replace_range(range, &words);
        }
        said
    }

    #[test]
    fn numbers_and_prices_are_said() {
        for (code, text, expected) in [
            (
                "de",
                "25 Leute, 1.250 Stimmen, 3,14",
                "fünfundzwanzig Leute, eintausendzweihundertfünfzig Stimmen, drei Komma eins vier",
            ),
            ("de", "Das kostet 25,50 € oder 1 €.", "Das kostet fünfundzwanzig Euro fünfzig oder ein Euro."),
            ("de", "1 % von 12,5 % bei -3 Grad", "ein Prozent von zwölf Komma fünf Prozent bei minus drei Grad"),
            (
                "fr",
                "80 pages, 21\u{a0}000 lecteurs, 3,5 %",
                "quatre-vingts pages, vingt et un mille lecteurs, trois virgule cinq pour cent",
            ),
            ("fr", "1 € et 2,30 €", "un euro et deux euros trente"),
            ("es", "21 € y 1.000.000 $", "veintiún euros y un millón de dólares"),
            ("it", "€ 1,20 e 50 %", "un euro e venti e cinquanta per cento"),
            ("pt", "1.234 casas por 2,50 €", "mil duzentos e trinta e quatro casas por dois euros e cinquenta"),
            ("nl", "22 euro, 5,25 procent, $ 3", "tweeëntwintig euro, vijf komma vijfentwintig procent, drie dollar"),
            (
                "de",
                "Nummer 0171 und 12345678901234567890",
                "Nummer null eins sieben eins und eins zwei drei vier \
                 fünf sechs sieben acht neun null eins zwei drei vier fünf sechs sieben acht neun null",
            ),
        ] {
            assert_eq!(said(code, text), expected);
        }
    }

    #[test]
    fn dates_and_times_are_said() {
        for (code, text, expected) in [
            (
                "de",
                "Am 27.11.2026 um 14:30 Uhr",
                "Am siebenundzwanzigsten November zweitausendsechsundzwanzig um vierzehn Uhr dreißig",
            ),
            ("de", "der 3. März 1987, ab 1 Uhr", "der dritte März neunzehnhundertsiebenundachtzig, ab ein Uhr"),
            ("de", "Der 20. Platz. Es sind 7.", "Der zwanzigste Platz. Es sind sieben."),
            ("fr", "le 1er mai 2021 à 14h30", "le premier mai deux mille vingt et un à quatorze heures trente"),
            ("fr", "1 maison, 01/02/2000", "un maison, premier février deux mille"),
            ("es", "el 05/06/2007 a las 1:15", "el cinco de junio de dos mil siete a las una quince"),
            ("it", "1º gennaio, alle 18:45", "primo gennaio, alle diciotto e quarantacinque"),
            ("pt", "1 de março às 2:10 e 21:00", "primeiro de março às duas e dez e vinte e uma horas"),
            ("nl", "3-10-1987 om 9 uur", "drie oktober negentienhonderdzevenentachtig om negen uur"),
        ] {
            assert_eq!(said(code, text), expected);
        }
    }

    #[test]
    fn what_is_no_number_stays() {
        for text in ["", "3D", "25km", "x2", "A4-Blatt", "€", "keine Zahl", "é1"] {
            assert_eq!(said("de", text), text);
        }
        assert_eq!(
            said("de", "99.99.2026 25:70 1914-1918"),
            "neunundneunzig.neunundneunzig.zweitausendsechsundzwanzig fünfundzwanzig:siebzig neunzehnhundertvierzehn-neunzehnhundertachtzehn"
        );
        assert!(Language::of("en").is_none() && Language::of("").is_none());
    }
}
