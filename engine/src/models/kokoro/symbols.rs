//! Phones as the American voices were taught them: IPA with single letters for diphthongs, stress before its vowel.

use std::collections::BTreeMap;

use crate::text::speech::Phone;
use crate::text::word_list::words;

/// Marks that a clause has.
const MARKS: [&str; 4] = [",", ".", "?", "!"];
/// The silence at both ends of an utterance.
pub const SILENCE: usize = 0;
/// Vowels, without their stress, then consonants.
const LETTERS: [(&str, &str); 39] = [
    ("AA", "ɑ"),
    ("AE", "æ"),
    ("AH", "ʌ"),
    ("AO", "ɔ"),
    ("AW", "W"),
    ("AY", "I"),
    ("EH", "ɛ"),
    ("ER", "ɜɹ"),
    ("EY", "A"),
    ("IH", "ɪ"),
    ("IY", "i"),
    ("OW", "O"),
    ("OY", "Y"),
    ("UH", "ʊ"),
    ("UW", "u"),
    ("B", "b"),
    ("CH", "ʧ"),
    ("D", "d"),
    ("DH", "ð"),
    ("F", "f"),
    ("G", "ɡ"),
    ("HH", "h"),
    ("JH", "ʤ"),
    ("K", "k"),
    ("L", "l"),
    ("M", "m"),
    ("N", "n"),
    ("NG", "ŋ"),
    ("P", "p"),
    ("R", "ɹ"),
    ("S", "s"),
    ("SH", "ʃ"),
    ("T", "t"),
    ("TH", "θ"),
    ("V", "v"),
    ("W", "w"),
    ("Y", "j"),
    ("Z", "z"),
    ("ZH", "ʒ"),
];
/// Other letters of a vowel or consonant, by its place: unstressed vowels, a flapped t, and those of endings.
const REDUCED: [&str; 4] = ["ə", "ᵊ", "ᵻ", "ɾ"];
/// Stress, and the gap between words.
const STRESS: [&str; 2] = ["ˈ", "ˌ"];
const GAP: &str = " ";

/// Words that are said without stress. The dictionary has them as they are said alone.
const UNSTRESSED: &[&str] = words!(
    "a am an and are as at be been but by can could do for from had has have he her him his if in is it its me my of \
     on or our she should so than that the their them then they to us was we were when will with would you your i'm"
);

/// Numbers of the vocabulary.
#[derive(Clone, Debug)]
pub struct Symbols {
    numbers: BTreeMap<char, usize>,
    marks: [usize; MARKS.len()],
    gap: usize,
}

impl Symbols {
    /// Of a vocabulary, which has all symbols of English.
    ///
    /// # Errors
    /// Names the symbol that it lacks.
    pub fn new(vocabulary: &BTreeMap<String, usize>) -> Result<Self, String> {
        let number = |symbol: &str| {
            let number = vocabulary.get(symbol).copied();
            number.ok_or_else(|| format!("the vocabulary lacks {symbol:?}, which English needs"))
        };
        let mut numbers = BTreeMap::new();
        let letters = LETTERS.iter().map(|(_, letters)| *letters).chain(REDUCED).chain(STRESS);
        for letter in letters.flat_map(str::chars) {
            numbers.insert(letter, number(letter.encode_utf8(&mut [0; 4]))?);
        }
        let [comma, stop, question, exclamation] = MARKS.map(number);
        Ok(Self { numbers, marks: [comma?, stop?, question?, exclamation?], gap: number(GAP)? })
    }

    /// Of one of `, . ? !`.
    pub fn mark(&self, mark: &str) -> Option<usize> {
        MARKS.iter().position(|known| *known == mark).map(|at| self.marks[at])
    }

    /// Of the gap between words.
    pub fn gap(&self) -> usize {
        self.gap
    }

    /// Of a word with these phones.
    pub fn word(&self, word: &str, phones: &[Phone]) -> Vec<usize> {
        transcription(word, phones).chars().filter_map(|letter| self.numbers.get(&letter)).copied().collect()
    }
}

/// A phone without its stress, and the stress.
fn parts(phone: Phone) -> (&'static str, Option<u8>) {
    let name = phone.name();
    match name.as_bytes().last() {
        Some(digit @ b'0'..=b'2') => (&name[..name.len() - 1], Some(digit - b'0')),
        _ => (name, None),
    }
}

/// A word as the voices were taught it.
fn transcription(word: &str, phones: &[Phone]) -> String {
    let is_unstressed = UNSTRESSED.contains(&word);
    let at = |place: Option<usize>| place.and_then(|place| phones.get(place)).map(|phone| parts(*phone));
    let mut text = String::new();
    for (place, phone) in phones.iter().enumerate() {
        let (name, stress) = parts(*phone);
        let (before, next) = (at(place.checked_sub(1)), at(Some(place + 1)));
        let follows_consonant = matches!(before, Some((_, None)));
        let is_last = place + 2 >= phones.len();
        match stress {
            Some(1) if !is_unstressed => text.push_str(STRESS[0]),
            Some(2) if !is_unstressed => text.push_str(STRESS[1]),
            _ => {}
        }
        let letters = LETTERS.iter().find(|(known, _)| *known == name).map_or("", |(_, letters)| letters);
        text.push_str(match (name, stress, next) {
            // "people", "sudden": the vowel is hardly there.
            ("AH", Some(0), Some(("L", _))) if follows_consonant && is_last => "ᵊ",
            ("AH", Some(0), Some(("N", _))) if matches!(before, Some(("T" | "D" | "S" | "Z", _))) => "ᵊ",
            ("AH", Some(0), _) => "ə",
            ("ER", Some(0), _) => "əɹ",
            // "wanted", "roses".
            ("IH", Some(0), Some(("D" | "Z", _))) if follows_consonant && is_last => "ᵻ",
            // "water", "party"; not "button".
            ("T", _, Some((vowel, Some(0 | 2)))) if may_flap(before) && !is_syllabic(vowel, phones.get(place + 2)) => {
                "ɾ"
            }
            _ => letters,
        });
    }
    text
}

/// True behind a vowel or an R.
fn may_flap(before: Option<(&str, Option<u8>)>) -> bool {
    matches!(before, Some((_, Some(_)) | ("R", None)))
}

/// True for the vowel of "button", which a t before it keeps.
fn is_syllabic(vowel: &str, next: Option<&Phone>) -> bool {
    vowel == "AH" && next.is_some_and(|next| next.name() == "N")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::speech::{Lexicon, PHONES};

    #[test]
    fn words_are_transcribed_as_the_voices_were_taught_them() {
        // As the front end of the published package has them.
        let known = [
            ("water", "wˈɔɾəɹ"),
            ("little", "lˈɪɾᵊl"),
            ("sentence", "sˈɛntᵊns"),
            ("bird", "bˈɜɹd"),
            ("city", "sˈɪɾi"),
            ("party", "pˈɑɹɾi"),
            ("center", "sˈɛntəɹ"),
            ("and", "ənd"),
            ("abandoned", "əbˈændᵊnd"),
            ("about", "əbˈWt"),
            ("thing", "θˈɪŋ"),
            ("judge", "ʤˈʌʤ"),
            ("measure", "mˈɛʒəɹ"),
            ("roses", "ɹˈOzᵻz"),
            ("going", "ɡˈOɪŋ"),
            ("choice", "ʧˈYs"),
        ];
        for (word, expected) in known {
            let phones = Lexicon::cmudict().phones(word).unwrap();
            assert_eq!(transcription(word, &phones), expected, "{word}");
        }
    }

    #[test]
    fn every_phone_has_its_letters() {
        for name in PHONES {
            let phone = Phone::from_name(name).unwrap();
            assert!(!transcription("x", &[phone]).trim_start_matches(['ˈ', 'ˌ']).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_vocabulary_that_lacks_a_symbol_is_refused() {
        let error = Symbols::new(&BTreeMap::from([("ɑ".to_owned(), 1)])).unwrap_err();
        assert!(error.contains("lacks"), "{error}");
    }
}
