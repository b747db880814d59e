//! Roman numerals.

use super::numbers;
use crate::text::word_list::words;

/// Names that kings, queens, popes and emperors have.
const REGNAL: &[&str] = words!(
    "Henry Louis George Edward Charles Richard William James Elizabeth Mary Philip Francis Frederick Napoleon Nicholas \
     Alexander Ivan Peter Catherine Pius Leo Benedict Paul Gregory Innocent Clement Urban Julius Sixtus Ramses \
     Ramesses Thutmose Ptolemy Xerxes Darius Cyrus Otto Leopold Albert Christian Gustav Olav Harald Felipe Carlos Carl \
     Wilhelm Umberto Victor Emmanuel Haakon Pedro Alfonso Ferdinand Maximilian Robert Margrethe Boniface"
);

/// Words that a number follows.
const NUMBERED: &[&str] = words!(
    "chapter part act scene section book volume type phase war bowl article title stage grade level appendix figure \
     table class category fantasy rocky wars apollo episode unit mark tier factor vol ch sec fig"
);

/// The value of a numeral in its usual form.
pub fn value(numeral: &str) -> Option<u64> {
    const PARTS: [(&str, u64); 13] = [
        ("M", 1000),
        ("CM", 900),
        ("D", 500),
        ("CD", 400),
        ("C", 100),
        ("XC", 90),
        ("L", 50),
        ("XL", 40),
        ("X", 10),
        ("IX", 9),
        ("V", 5),
        ("IV", 4),
        ("I", 1),
    ];
    let (mut rest, mut sum) = (numeral, 0);
    for (part, worth) in PARTS {
        while let Some(behind) = rest.strip_prefix(part) {
            rest = behind;
            sum += worth;
        }
    }
    let (mut left, mut usual) = (sum, String::new());
    for (part, worth) in PARTS {
        usual += &part.repeat((left / worth) as usize);
        left %= worth;
    }
    (sum > 0 && sum < 4000 && usual == numeral).then_some(sum)
}

/// The reading of a numeral behind a word: "the eighth" of "Henry VIII", "four" of "Chapter IV".
pub fn said(numeral: &str, previous: &str, after: &str) -> Option<String> {
    let value = value(numeral)?;
    let capital = previous.starts_with(|first: char| first.is_ascii_uppercase());
    if NUMBERED.contains(&previous.to_ascii_lowercase().as_str()) && (numeral != "I" || capital && !is_pronoun(after)) {
        return Some(numbers::cardinal(value));
    }
    let named = capital && previous.len() > 1;
    if REGNAL.contains(&previous)
        && value < 40
        && (!["I", "C", "L", "D", "M"].contains(&numeral) || numeral == "I" && !continues(after))
    {
        return Some(format!("the {}", numbers::ordinal(value)));
    }
    (named && numeral.len() > 1 && value < 40 && numeral.bytes().all(|letter| b"IVX".contains(&letter)))
        .then(|| numbers::cardinal(value))
}

/// True if "I" is a pronoun before a text.
fn is_pronoun(after: &str) -> bool {
    let next = after.trim_start().split(' ').next().unwrap_or_default();
    let verbs = words!("think am will have like want know can believe would read saw love mean");
    verbs.contains(&next) || after.starts_with('\'')
}

/// True if a verb may follow, so that "I" is a pronoun.
fn continues(after: &str) -> bool {
    let next = after.trim_start().split(' ').next().unwrap_or_default();
    let nouns =
        ["of", "was", "is", "died", "became", "reigned", "and", "in", "had", "ruled", "to", "by", "with", "on", "the"];
    after.starts_with(' ') && !next.is_empty() && !nouns.contains(&next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerals_have_values_in_their_usual_form_only() {
        for (numeral, worth) in
            [("I", 1), ("IV", 4), ("VIII", 8), ("XIV", 14), ("XL", 40), ("MCMXCIX", 1999), ("MMXXIV", 2024)]
        {
            assert_eq!(value(numeral), Some(worth));
        }
        for other in ["", "IIII", "VV", "IC", "MIX2", "ABC", "IVI"] {
            assert_eq!(value(other), None, "{other}");
        }
    }
}
