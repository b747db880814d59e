//! Phones: ARPAbet with stress, as in the CMU dictionary.

/// A phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Phone(u8);

/// All phones, in the order in which the recipe numbers them: vowels with stress, then consonants.
pub const PHONES: [&str; 69] = [
    "AA0", "AA1", "AA2", "AE0", "AE1", "AE2", "AH0", "AH1", "AH2", "AO0", "AO1", "AO2", "AW0", "AW1", "AW2", "AY0",
    "AY1", "AY2", "EH0", "EH1", "EH2", "ER0", "ER1", "ER2", "EY0", "EY1", "EY2", "IH0", "IH1", "IH2", "IY0", "IY1",
    "IY2", "OW0", "OW1", "OW2", "OY0", "OY1", "OY2", "UH0", "UH1", "UH2", "UW0", "UW1", "UW2", "B", "CH", "D", "DH",
    "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH",
];

impl Phone {
    /// The phone's symbol, as "AH0" or "TH".
    pub fn name(self) -> &'static str {
        PHONES[self.index()]
    }

    /// The phone's place in [`PHONES`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The phone with a symbol.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_index(PHONES.iter().position(|phone| *phone == name)?)
    }

    /// The phone at a place of [`PHONES`].
    pub fn from_index(index: usize) -> Option<Self> {
        (index < PHONES.len()).then_some(Self(index as u8))
    }

    /// True for a vowel.
    pub fn is_vowel(self) -> bool {
        self.name().ends_with(|end: char| end.is_ascii_digit())
    }
}

/// Reads phones that are separated by spaces; symbols that are none are left out.
pub(super) fn phones(text: &str) -> Vec<Phone> {
    text.split(' ').filter_map(Phone::from_name).collect()
}

/// The phones of a genitive's ending after a phone.
pub(super) fn genitive(last: Phone) -> Vec<Phone> {
    match last.name() {
        "S" | "Z" | "SH" | "ZH" | "CH" | "JH" => phones("IH0 Z"),
        "P" | "T" | "K" | "F" | "TH" => phones("S"),
        _ => phones("Z"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for (at, name) in PHONES.iter().enumerate() {
            let phone = Phone::from_index(at).unwrap();
            assert_eq!((phone.name(), Phone::from_name(name)), (*name, Some(phone)));
        }
        assert_eq!((Phone::from_index(69), Phone::from_name("AH"), Phone::from_name("")), (None, None, None));
        assert!(Phone::from_name("AH0").unwrap().is_vowel() && !Phone::from_name("NG").unwrap().is_vowel());
    }
}
