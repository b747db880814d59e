//! English number words: one table for readers and writers of numbers.

use crate::text::word_list::words;

/// 0 to 19.
pub const SMALL: &[&str] = words!(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen \
     eighteen nineteen"
);

/// 20, 30, up to 90.
pub const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// The ordinals of 1 to 20.
pub const ORDINALS: &[&str] = words!(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth \
     sixteenth seventeenth eighteenth nineteenth twentieth"
);

/// The powers of a thousand, from 10^3 on.
pub const SCALES: [&str; 5] = ["thousand", "million", "billion", "trillion", "quadrillion"];

/// The value of a number word below 20, or of a whole ten below 100.
pub fn value(word: &str) -> Option<u32> {
    let place = |words: &[&str]| words.iter().position(|name| *name == word).and_then(|at| u32::try_from(at).ok());
    place(SMALL).or_else(|| Some(10 * (place(&TENS)? + 2)))
}

/// The value of an ordinal: 1 to 20, or a whole ten below 100.
pub fn ordinal(word: &str) -> Option<u32> {
    if let Some(at) = ORDINALS.iter().position(|name| *name == word) {
        return u32::try_from(at + 1).ok();
    }
    let stem = word.strip_suffix("ieth")?;
    TENS.iter().find(|ten| ten.strip_suffix('y') == Some(stem)).and_then(|ten| value(ten))
}
