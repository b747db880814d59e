//! Words: abbreviations, initialisms, mixed case, symbols.

use super::telephone::is_counted;
use super::{Place, Rule, abbreviations, group, initialism, roman};
use crate::text::speech::lexicon::Lexicon;
use crate::text::word_list::words;

pub const RULES: &[Rule] = &[
    // Emoticons are no text.
    Rule(r"[:;]-?[)(DPp](?:\s|$)", |_, place| place.before().ends_with(' ').then(String::new)),
    Rule(r"[A-Za-z]{1,3}/(?:[A-Za-z]{1,3})?", |found, place| {
        let joined = place.after(found).starts_with(|next: char| next.is_ascii_alphanumeric());
        (!joined && !place.before().ends_with('/'))
            .then(|| abbreviations::slashed(group(found, 0)).map(str::to_owned))
            .flatten()
    }),
    // "U.S.", "e.g.", "Ph.D."
    Rule(r"(?:[A-Za-z]\.)+[A-Za-z]\b\.?|(?:[A-Za-z]\.){2,}|Ph\.D\.?", |found, place| {
        let text = group(found, 0);
        let stopped = format!("{}.", text.trim_end_matches('.'));
        let ending = if place.after(found).starts_with("'s") { "'s" } else { "" };
        abbreviations::dotted(&stopped).map(str::to_owned).or_else(|| {
            let letters: String = text.chars().filter(char::is_ascii_alphabetic).collect();
            (ending.is_empty()).then(|| initialism(&letters))
        })
    }),
    // "AT&T"
    Rule(r"([A-Z]{1,3})&([A-Z]{1,3})\b", |found, _| {
        Some(format!("{} and {}", initialism(group(found, 1)), initialism(group(found, 2))))
    }),
    // "J. Smith"
    Rule(r"([A-Z])\.", |found, place| {
        let goes_on = place
            .after(found)
            .strip_prefix(' ')
            .is_some_and(|next| next.starts_with(|next: char| next.is_ascii_uppercase()));
        goes_on.then(|| group(found, 1).to_owned())
    }),
    // "Beverly Hills, CA 90210", "Tampa, FL"
    Rule(r"[A-Z]{2}\b", |found, place| {
        let (state, after) = (abbreviations::state(group(found, 0))?, place.after(found));
        let next = after.strip_prefix(' ').unwrap_or_default();
        let behind = next.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let has_code = next.len() - behind.len() == 5 && !is_counted(behind);
        let follows = place.before().ends_with(", ") && is_named(place.previous) && !place.shouted;
        let ends = after.is_empty() || after.starts_with([',', '.', ';', ')', '?', '!']);
        (has_code && !place.shouted || follows && ends).then(|| state.to_owned())
    }),
    // "Dr.", "St.", "etc."
    Rule(r"([A-Za-z]{1,6})\.", |found, place| {
        let (short, after) = (group(found, 1), place.after(found));
        let capital = after.trim_start().starts_with(|next: char| next.is_ascii_uppercase());
        match short {
            "St" => Some(if capital && !is_addressed(place.before()) { "saint" } else { "street" }.into()),
            "Dr" => Some(
                if is_addressed(place.before()) || !capital && is_named(place.previous) { "drive" } else { "doctor" }
                    .into(),
            ),
            _ => abbreviations::with_stop(short, after).map(str::to_owned),
        }
    }),
    // "rock 'n' roll", "rock'n'roll"
    Rule(r"'[nN]'", |_, _| Some("and".into())),
    Rule(r"([A-Za-z]+)'[nN]'([A-Za-z]+)\b", |found, place| {
        Some(format!("{} and {}", word(group(found, 1), place.shouted), word(group(found, 2), place.shouted)))
    }),
    // A word, with its genitive and the words that hyphens join to it
    Rule(r"[A-Za-z]+(?:'[A-Za-z]+)*(?:-[A-Za-z]+(?:'[A-Za-z]+)*)*", |found, place| {
        let text = group(found, 0);
        let after = place.after(found);
        if text.contains('-') {
            let parts: Vec<String> = text
                .split('-')
                .map(|part| match part {
                    part if part.len() == 1 && part != "a" => part.to_ascii_uppercase(),
                    part => word(part, place.shouted),
                })
                .collect();
            return Some(parts.join(" "));
        }
        match text {
            "St" | "Dr" if after.starts_with(' ') => {
                let capital = after.trim_start().starts_with(|next: char| next.is_ascii_uppercase());
                if capital {
                    return Some(if text == "St" { "saint" } else { "doctor" }.into());
                }
            }
            "A" if !place.previous.is_empty() && !place.shouted => return Some("A".into()),
            _ => {}
        }
        if let Some(said) = abbreviations::without_stop(text) {
            return Some(said.into());
        }
        if let Some(said) = roman::said(text, place.previous, after) {
            return Some(said);
        }
        Some(word(text, place.shouted))
    }),
    // Symbols
    Rule(r"&&?", |_, _| Some("and".into())),
    Rule(r"\^2\b", |_, _| Some("squared".into())),
    Rule(r"\^3\b", |_, _| Some("cubed".into())),
    Rule(r"\^", |_, place| {
        let power = place.rest()[1..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-');
        power.then(|| "to the power of".into())
    }),
    Rule(r"@", |_, _| Some("at".into())),
    Rule(r"->|=>|<-", |_, _| Some(",".into())),
    Rule(r"==?", |_, _| Some("equals".into())),
    Rule(r"!=|\u{2260}", |_, _| Some("not equal to".into())),
    Rule(r"<=|\u{2264}", |_, _| Some("less than or equal to".into())),
    Rule(r">=|\u{2265}", |_, _| Some("greater than or equal to".into())),
    Rule(r"<", |_, place| compares(place).then(|| "less than".into())),
    Rule(r">", |_, place| compares(place).then(|| "greater than".into())),
    Rule(r"\+", |_, _| Some("plus".into())),
    // "SELECT * FROM"
    Rule(r"\*", |_, place| {
        let is_word = place.previous.len() > 1 && place.previous.bytes().all(|letter| letter.is_ascii_alphabetic());
        Some(if is_word { "star" } else { "times" }.into())
    }),
    Rule(r"\u{d7}", |_, _| Some("times".into())),
    Rule(r"\u{f7}", |_, _| Some("divided by".into())),
    Rule(r"\u{b1}", |_, _| Some("plus or minus".into())),
    Rule(r"\u{2248}", |_, _| Some("approximately".into())),
    Rule(r"~", |_, place| {
        let number = place.rest()[1..].trim_start().starts_with(|next: char| next.is_ascii_digit() || next == '$');
        let joined = place.before().ends_with(|before: char| before.is_ascii_alphanumeric());
        (number && !joined).then(|| "about".into())
    }),
    Rule(r"%", |_, _| Some("percent".into())),
    Rule(r"\u{b0}", |_, _| Some("degrees".into())),
    Rule(r"\u{b2}", |_, _| Some("squared".into())),
    Rule(r"\u{b3}", |_, _| Some("cubed".into())),
    Rule(r"\u{221a}", |_, _| Some("square root of".into())),
    Rule(r"\u{3c0}", |_, _| Some("pi".into())),
    Rule(r"\u{221e}", |_, _| Some("infinity".into())),
    Rule(r"\u{a7}", |_, _| Some("section".into())),
    Rule(r"\u{2030}", |_, _| Some("per mille".into())),
    Rule(r"\$", |_, place| {
        // Two of them enclose a formula.
        let marks = place.text.match_indices('$');
        let is_sign = |at: usize| place.text[at + 1..].starts_with(|next: char| next.is_ascii_digit());
        Some(if marks.filter(|(at, _)| !is_sign(*at)).count() == 2 { "" } else { "dollar" }.into())
    }),
    Rule(r"\u{20ac}", |_, _| Some("euro".into())),
    Rule(r"\u{a3}", |_, _| Some("pound".into())),
    Rule(r"\u{a5}", |_, _| Some("yen".into())),
    Rule(r"/", |_, place| {
        let before = place.before().ends_with(|before: char| before.is_ascii_alphanumeric());
        let behind = place.rest()[1..].chars().next();
        let letters = place.previous.len() <= 4 && place.previous.bytes().all(|letter| letter.is_ascii_uppercase());
        // "TCP/IP" has no word for it.
        if before && letters && behind.is_some_and(|next| next.is_ascii_uppercase()) {
            return Some(String::new());
        }
        (before && behind.is_some_and(|next| next.is_ascii_alphanumeric())).then(|| "slash".into())
    }),
];

/// True between numbers, and between spaces.
fn compares(place: &Place) -> bool {
    let behind = &place.rest()[1..];
    place.before().ends_with(' ') && behind.starts_with(' ')
        || behind.trim_start().starts_with(|next: char| next.is_ascii_digit())
}

fn is_named(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
}

/// True if a text ends with a number and a name: "12 Elm ".
fn is_addressed(before: &str) -> bool {
    let mut words = before
        .split(' ')
        .rev()
        .filter(|word| !word.is_empty())
        .skip_while(|word| is_named(word) && !word.ends_with(','));
    is_named(before.split(' ').rfind(|word| !word.is_empty()).unwrap_or_default())
        && words.next().is_some_and(|word| word.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Capitals that are said as a word.
const ACRONYMS: &[&str] = words!(
    "NATO NASA UNESCO UNICEF OPEC AIDS SCUBA LASER RADAR COVID FEMA NAFTA ASCII JPEG GIF RAM ROM PIN SIM LAN WAN POTUS \
     SCOTUS SWAT NASDAQ HIPAA ASEAN BIOS DOS FIFA UEFA IKEA MIDI OSHA PETA SARS MERS YOLO ZIP BASIC CRUD LIDAR SONAR \
     NOAA NIMBY TASER NORAD PEN RICO SAAB FIAT LEGO NIKE VISA ACID CAD FAQ SAP TED OK"
);

/// Short words that are put in capitals for weight.
const STRESSED: &[&str] = words!(
    "NO SO WE MY ME DO GO IS IN ON BY OF OR IF TO AN AS BE HE UP AT NOT AND THE ALL YES NOW YOU HOW WHO WHY OUT OFF \
     BUT FOR HIS HER ARE WAS CAN ANY NEW BIG BAD WAY DAY TOO ONE TWO SIX TEN OUR SHE HIM HAS HAD DID GET LET SEE SAY \
     MAY END TOP FUN RUN WAR HOT RED OH"
);

/// True for capitals that are said as a word.
pub fn is_acronym(capitals: &str) -> bool {
    ACRONYMS.contains(&capitals)
}

/// A word of letters and apostrophes.
pub fn word(text: &str, shouted: bool) -> String {
    let lower = text.to_ascii_lowercase();
    if text.len() == 1 {
        return if matches!(lower.as_str(), "a" | "i") { lower } else { text.to_ascii_uppercase() };
    }
    let is_capital = |text: &str| text.bytes().all(|letter| letter.is_ascii_uppercase());
    if let Some(stem) = text.strip_suffix("'s").filter(|stem| stem.len() > 1 && is_capital(stem)) {
        return format!("{}'s", capitals(stem, shouted));
    }
    if let Some(stem) = text.strip_suffix('s').filter(|stem| (2..=4).contains(&stem.len()) && is_capital(stem)) {
        let said = capitals(stem, shouted);
        return if said.len() == 1 || said.contains(' ') { format!("{said}'s") } else { format!("{said}s") };
    }
    if is_capital(text) {
        return capitals(text, shouted);
    }
    let mixed = text.bytes().skip(1).any(|letter| letter.is_ascii_uppercase()) && !text.contains('\'');
    match text {
        "PhD" => "P H D".into(),
        "pH" => "P H".into(),
        _ if mixed && Lexicon::cmudict().entry(&lower).is_none() => camel(text),
        _ => lower,
    }
}

/// A word in capitals: said as a word, or spelled.
fn capitals(text: &str, shouted: bool) -> String {
    match text {
        "WWI" => return "world war one".into(),
        "WWII" => return "world war two".into(),
        _ => {}
    }
    let lower = text.to_ascii_lowercase();
    let entry = Lexicon::cmudict().entry(&lower);
    let as_word = if is_acronym(text) || STRESSED.contains(&text) {
        true
    } else if entry.as_ref().is_some_and(|phones| is_spelling(&lower, phones)) {
        false
    } else if shouted && entry.is_some() {
        true
    } else {
        let has_vowel = lower.contains(['a', 'e', 'i', 'o', 'u', 'y']);
        has_vowel && (text.len() > 4 || text.len() == 4 && entry.is_some())
    };
    if as_word { lower } else { initialism(text) }
}

/// True if a pronunciation names the letters of a word.
fn is_spelling(word: &str, phones: &[crate::text::speech::Phone]) -> bool {
    let bare = |phones: &[crate::text::speech::Phone]| -> Vec<&'static str> {
        phones.iter().map(|phone| phone.name().trim_end_matches(|digit: char| digit.is_ascii_digit())).collect()
    };
    let mut buffer = [0; 4];
    let mut names = Vec::new();
    for letter in word.chars() {
        match letter {
            'a' => names.push("EY"),
            letter => {
                names.extend(bare(&Lexicon::cmudict().entry(letter.encode_utf8(&mut buffer)).unwrap_or_default()))
            }
        }
    }
    names == bare(phones)
}

/// The words of a name in mixed case: "i phone" of "iPhone", "open A I" of "OpenAI".
pub fn camel(text: &str) -> String {
    let letters = text.as_bytes();
    let mut words = Vec::new();
    let mut start = 0;
    for at in 1..letters.len() {
        let upper = letters[at].is_ascii_uppercase();
        let after_small = letters[at - 1].is_ascii_lowercase();
        let before_small = letters.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        if upper && (after_small || letters[at - 1].is_ascii_uppercase() && before_small) {
            words.push(&text[start..at]);
            start = at;
        }
    }
    words.push(&text[start..]);
    let said: Vec<String> = words
        .into_iter()
        .map(|part| match part {
            part if part.len() == 1 => part.to_ascii_uppercase(),
            part if part.bytes().all(|letter| letter.is_ascii_uppercase()) => capitals(part, false),
            part => part.to_ascii_lowercase(),
        })
        .collect();
    said.join(" ")
}
